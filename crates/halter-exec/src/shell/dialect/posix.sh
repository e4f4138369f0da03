# An interactive BusyBox reads our lines through stdio. Its applets are forks of
# the shell that inherit what is in the buffer, and read that first: the first of
# them would print our next line. Such a shell leaves, and is started another way.
__halter_reads_ahead() {
  # Below a root without it there is no other way.
  [ -e /dev/stdin ] || return 0
  case $(head -n 1 </dev/null 2>/dev/null) in ?*) exit 97 ;; esac
}
case ${0##*/} in
  ash | hush) __halter_reads_ahead ;;
  sh) if [ -e /bin/busybox ] || [ -e /usr/bin/busybox ]; then __halter_reads_ahead; fi ;;
esac
# Zsh has its own ideas of builtins, traps and prompts, also when it is asked
# to do as others do.
case ${ZSH_VERSION-} in
  ?*)
    setopt posix_builtins posix_traps interactive_comments
    unsetopt prompt_sp prompt_cr bang_hist zle monitor
    ;;
esac
PS1= PS2=
__halter_mark=${HALTER_EXEC_TREE-}
export PWD
__halter_end() {
  exec >/dev/null 2>&1
  printf 'E %s %d %s\000' "$1" "$2" "$PWD" >&9
}
__halter_status() { return "$1"; }
# Zsh also lists options that cannot be set, and fails at them.
__halter_options() {
  case ${ZSH_VERSION-} in '')
    set +o
    return
    ;;
  esac
  set +o | while IFS= read -r __halter_line; do
    case ${__halter_line##* } in
      interactive | login | monitor | privileged | restricted | shinstdin | singlecommand | zle) ;;
      *) printf '%s\n' "$__halter_line" ;;
    esac
  done
}
__halter_save() {
  {
    printf '%s\000' "$PWD"
    export -p
    printf 'cd -- "$PWD" || cd -P .\numask '
    umask
    trap
    __halter_options
    printf '#complete %s\n' "$1"
  } >"$2" 2>/dev/null
}
# As data, each field ended by NUL; nothing of it is ever evaluated.
__halter_report() {
  {
    printf '%s\000\0000\0000\000' "$-"
    command env -0
  } >"$1" 2>/dev/null
}
# The EXIT trap. Ours writes the state down; one that a command sets runs when
# that command ends.
__halter_own_exit='{ __halter_save exit "$__halter_exit_file" || :; } 2>/dev/null'
__halter_watch() { __halter_code=; }
__halter_over() {
  __halter_code=$1
  trap >"$__halter_exit_file"
  __halter_trap= __halter_action=
  while IFS= read -r __halter_line; do
    __halter_action=$__halter_action$__halter_line
    case $__halter_line in
      *"' EXIT")
        __halter_trap=found
        break
        ;;
    esac
    __halter_action="$__halter_action
"
  done <"$__halter_exit_file"
  : >"$__halter_exit_file"
  case $__halter_trap$__halter_action in
    found*'__halter_save exit'*) return 0 ;;
  esac
  trap -- "$__halter_own_exit" EXIT
  case $__halter_trap in found) ;; *) return 0 ;; esac
  __halter_action=${__halter_action#trap -- }
  eval "__halter_action=${__halter_action% EXIT}"
  case $1 in
    0) eval "$__halter_action" 2>&8 8>&- ;;
    *) __halter_status "$1" || eval "$__halter_action" 2>&8 8>&- ;;
  esac
}
__halter_leave() { exit 143; }
