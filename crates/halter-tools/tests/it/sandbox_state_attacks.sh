# Attempts to have something run, or be chosen, outside by what the shell inside
# is or says, one per line: a name, a tab, a script. The script runs in the
# session's shell; a command of the session is let out afterwards. $OUT is a
# directory outside: an attempt that works makes $OUT/escaped, or sets TARGET.
# `everywhere TEXT` writes the text, with \0 as NUL, again and again to every
# file and pipe that the shell and the harness share.
script-in-every-file	everywhere "touch $OUT/escaped\n#complete 99999999\n" &
script-after-a-directory	everywhere "$PWD\0touch $OUT/escaped\n#complete 99999999\n" &
variables-in-every-file	everywhere "\0\0000\0000\0LD_PRELOAD=$PWD/evil.so\0BASH_ENV=$PWD/evil\0ENV=$PWD/evil\0PATH=$PWD/bin\0HOME=$PWD\0GIT_CONFIG_GLOBAL=$PWD/evil\0TARGET=$OUT\0" &
functions-in-every-file	everywhere "\0\0000\0000\0BASH_FUNC_ls%%=() { touch $OUT/escaped; }\0TARGET=x\0" &
names-that-are-code	everywhere "\0\0000\0000\0A;touch $OUT/escaped;B=1\0a[\$(touch $OUT/escaped)]=1\0TARGET=x\n\0" &
values-that-are-code	everywhere "\0\0000\0000\0TARGET=\$(touch $OUT/escaped)\0X='; touch $OUT/escaped; '\0" &
options-that-are-code	everywhere "\$(touch $OUT/escaped)\0xtrace:\`touch $OUT/escaped\`\0" &
counts-that-are-code	everywhere "\0\0a[\$(touch $OUT/escaped)]\0-1\0TARGET=x\0" &
endless-file	everywhere "$(head -c 100000 /dev/zero | tr '\0' x)" &
empty-files	everywhere "" &
remove-every-file	while :; do rm -f $EXCHANGE/*; done &
links-for-files	while :; do for file in $EXCHANGE/*; do ln -sf $OUT/kept "$file"; done; done &
pipes-for-files	while :; do for file in $EXCHANGE/*; do rm -f "$file"; mkfifo "$file"; done; done &
forged-records	bash forge.sh "$OUT" &
stolen-lines	python3 steal.py "$OUT" &
exported-path	export PATH=$PWD/bin:$PATH
exported-code	export LD_PRELOAD=$PWD/evil.so BASH_ENV=$PWD/evil ENV=$PWD/evil PROMPT_COMMAND="touch $OUT/escaped"
exported-target	export TARGET=$OUT
target-from-a-file	read -r TARGET < target; export TARGET
exported-home	export HOME=$PWD XDG_CONFIG_HOME=$PWD GIT_DIR=$PWD/evil
exported-function	ls() { touch $OUT/escaped; }; git() { ls; }; export -f ls git
alias	alias ls="touch $OUT/escaped" git="touch $OUT/escaped"
trap	trap "touch $OUT/escaped" EXIT DEBUG ERR RETURN TERM
traced	PS4='$(touch $OUT/escaped)'; export PS4 SHELLOPTS; set -x
our-names	printf() { command printf "$@"; touch $OUT/escaped; }; compgen() { echo TARGET; }; command() { touch $OUT/escaped; }; builtin() { touch $OUT/escaped; }
replaced-directory	cd sub && mv ../sub ../moved && ln -s $OUT ../sub
replaced-parent	cd sub/deep && mv ../../sub ../../moved && ln -s $OUT ../../sub
link-to-a-directory	ln -s $OUT way && cd way
