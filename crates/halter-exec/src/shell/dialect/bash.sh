# What is known as ours survives a command that unsets or redefines things.
\builtin declare -r __halter_mark=${HALTER_EXEC_TREE-}
BASH_ARGV0=bash
# Runs after every command: each expansion in it shows.
__halter_end() {
  builtin printf "E $1 $?${__halter_interrupted-} %s\0" "${PWD-}" >&19
}
__halter_end_with() {
  builtin printf "E $1 $2${__halter_interrupted-} %s\0" "${PWD-}" >&19
}
__halter_status() { return "$1"; }
__halter_save() {
  {
    builtin printf '%s\0' "${PWD-}"
    builtin shopt -p
    builtin umask -p
    builtin declare -p
    builtin declare -f
    builtin declare -F
    builtin alias -p
    if ((${#DIRSTACK[@]} > 1)); then
      for ((__halter_entry = ${#DIRSTACK[@]} - 1; __halter_entry > 0; __halter_entry--)); do
        builtin printf 'builtin pushd -n -- %q\n' "${DIRSTACK[__halter_entry]}"
      done
    fi
    # Where that is gone, what is left to say is where the shell is instead.
    builtin printf 'builtin cd -- %q || builtin cd -P .\n' "${PWD-}"
    case ${OLDPWD+set} in set) builtin printf 'OLDPWD=%q\n' "$OLDPWD" ;; esac
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
# As data, each field ended by NUL; nothing of it is ever evaluated.
__halter_report() {
  local IFS=$'\n' __halter_name
  local __halter_functions=($(builtin declare -F)) __halter_own=($(builtin compgen -A function __halter_))
  {
    builtin printf '%s\0' "$-" "$SHELLOPTS" \
      "$((${#__halter_functions[@]} - ${#__halter_own[@]}))" "${#BASH_ALIASES[@]}"
    for __halter_name in $(builtin compgen -e); do
      builtin printf '%s=%s\0' "$__halter_name" "${!__halter_name-}"
    done
  } >"$1"
} 2>/dev/null

# An interrupt must end the whole command, not only the program that runs:
# from now on every command is skipped and every loop left, until one of our
# own tells that the command is over. At the head of a `for` the loop must be
# entered to be left; a `read` goes on after the trap, and must find its end.
__halter_interrupt() {
  __halter_interrupted='!'
  exec </dev/null
  builtin shopt -s extdebug
  builtin trap 'case $BASH_COMMAND in
    __halter_*) \builtin trap - DEBUG; \builtin eval "$__halter_debug" ;;
    for\ * | select\ * | "(("*) \builtin break 9999 2>/dev/null ;;
    *) ! \builtin break 9999 2>/dev/null ;;
  esac' DEBUG
}

# The EXIT trap. Ours writes the state down. One that a command sets runs when
# that command ends: the shell then exits, and is followed by another.
\builtin declare -r \
  __halter_own_exit='{ __halter_save exit "$__halter_exit_file" "$@" || :; } 2>/dev/null' \
  __halter_user_exit='if __halter_keep "$@"; then \eval "$__halter_exit"
    else __halter_status $? || \eval "$__halter_exit"; fi'
__halter_keep() {
  local __halter_result=$?
  __halter_save exit "$__halter_exit_file" "$@"
  return "$__halter_result"
}
# Errors go to descriptor 18 meanwhile: `set -x` is not to show this.
__halter_over() {
  __halter_code=$1
  builtin unset -f trap
  builtin trap -p EXIT >"$__halter_exit_file"
  IFS= builtin read -r -d '' __halter_text <"$__halter_exit_file" || :
  : >"$__halter_exit_file"
  case $__halter_text in
    *__halter_save\ exit*) ;;
    '' | "trap -- '' EXIT"?) builtin trap -- "$__halter_own_exit" EXIT ;;
    *)
      __halter_save exit "$__halter_exit_file" "${@:2}"
      builtin set +x
      exec 2>&18 18>&-
      case ${__halter_interrupted-} in '') builtin exit "$1" ;; esac
      builtin exit 130
      ;;
  esac
}
# While a command that speaks of traps runs, `trap` is this: an EXIT trap of
# its own does not keep the state from being written down, and ours do not
# show. A function cannot reset ERR, DEBUG and RETURN traps for its caller, and
# `set -x` shows what it does, so commands that speak of these do without.
__halter_watch() {
  __halter_code=
  case $1$- in no* | *x*) builtin return 0 ;; esac
  builtin declare -F trap >/dev/null && builtin return 0
  trap() {
    local IFS=' '
    if ((BASH_SUBSHELL > 0)); then
      builtin trap "$@"
      builtin return
    fi
    case ${1--p} in
      --) builtin shift ;;
      -p)
        __halter_show_traps "${@:2}"
        builtin return
        ;;
    esac
    if (($# > 1)) && [[ -n $1 && $1 != -* && " ${*:2} " == *\ @(EXIT|SIGEXIT|0)\ * ]]; then
      __halter_exit=$1
      builtin trap -- "$__halter_user_exit" EXIT
      local __halter_signal
      for __halter_signal in "${@:2}"; do
        case $__halter_signal in
          EXIT | SIGEXIT | 0) ;;
          *) builtin trap -- "$1" "$__halter_signal" || builtin return ;;
        esac
      done
    else
      builtin trap "$@"
    fi
  }
}
__halter_show_traps() {
  local __halter_line __halter_shown
  __halter_shown=$(builtin trap -p "$@" && builtin printf x) || builtin return
  __halter_shown=${__halter_shown%x}
  local __halter_quote="'\\''"
  __halter_line="trap -- '${__halter_own_exit//\'/$__halter_quote}' EXIT"$'\n'
  __halter_shown=${__halter_shown/"$__halter_line"/}
  __halter_line="trap -- '${__halter_own_interrupt//\'/$__halter_quote}' SIGINT"$'\n'
  __halter_shown=${__halter_shown/"$__halter_line"/}
  __halter_line="trap -- '${__halter_user_exit//\'/$__halter_quote}' EXIT"$'\n'
  local __halter_own="trap -- '${__halter_exit//\'/$__halter_quote}' EXIT"$'\n'
  builtin printf %s "${__halter_shown/"$__halter_line"/"$__halter_own"}"
}
# The state is written down first: a shell that has to be killed after all
# then leaves what it had when it was interrupted.
\builtin declare -r __halter_own_interrupt="$__halter_own_exit
__halter_debug=\$(\\builtin trap -p DEBUG; \\builtin shopt -p extdebug); __halter_interrupt"
\builtin readonly -f __halter_end __halter_end_with __halter_status __halter_save __halter_report \
  __halter_interrupt \
  __halter_keep __halter_over __halter_watch __halter_show_traps
