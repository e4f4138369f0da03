\builtin declare -r __halter_mark=${HALTER_EXEC_TREE-}
__halter_end() {
  builtin printf 'E %s %d %s\0' "$1" "${__halter_interrupted:-$2}" "$PWD" >&9
  __halter_interrupted=
}
__halter_status() { return "$1"; }
__halter_save() {
  {
    builtin printf '%s\0' "$PWD"
    builtin shopt -p
    builtin umask -p
    builtin declare -p
    builtin declare -f
    builtin declare -F
    builtin alias -p
    builtin printf 'builtin cd -- %q\n' "$PWD"
    if (($# > 2)); then
      builtin printf 'set --'
      builtin printf ' %q' "${@:3}"
      builtin printf '\n'
    fi
    builtin trap -p
    builtin set +o
    builtin printf '#complete %s\n' "$1"
  } >"$2" 2>/dev/null
}
# An interrupt must end the whole command, not only the program that runs:
# from now on every command is skipped and every loop left, until descriptor
# 9, which commands do not have, tells that the command is over. At the head
# of a `for` the loop must be entered to be left.
__halter_interrupt() {
  __halter_interrupted=130
  builtin shopt -s extdebug
  builtin trap 'if { : >&9; } 2>/dev/null; then
    \builtin trap - DEBUG; \builtin shopt -u extdebug
  else
    case $BASH_COMMAND in
      for\ * | select\ * | "(("*) \builtin break 9999 2>/dev/null ;;
      *) ! \builtin break 9999 2>/dev/null ;;
    esac
  fi' DEBUG
}
__halter_leave() { builtin exit 143; }
