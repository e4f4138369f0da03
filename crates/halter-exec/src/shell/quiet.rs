//! What a command may change, judged by its text alone.
//!
//! Judged narrowly. A command that is wrongly taken for one that changes
//! state costs a snapshot; the other mistake would cost the state.

/// What a command may do besides its output, as long as its words mean what
/// they usually mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Effects {
    /// The shell's state is afterwards what it was.
    pub keeps_state: bool,
    /// Functions or aliases may be others afterwards.
    pub defines_code: bool,
    /// Something may be left running.
    pub starts_processes: bool,
    /// It may be a syntax error that Bash does not survive for long: after
    /// an unclosed substitution its memory is damaged (seen in 5.2).
    pub may_damage: bool,
}

impl Effects {
    /// Lists of programs and harmless builtins with plain words keep the
    /// state; a single harmless builtin starts nothing either.
    pub(super) fn of(text: &str) -> Self {
        // Every place where a command could stand is looked at; that some of
        // them are within quotes or here-documents does no harm.
        let joined = text.replace("2>&1", "").replace(">&2", "");
        let separators = |text: &str| text.replace("&&", ";").replace("||", ";");
        let parts = separators(joined.trim_end_matches([' ', '\n']));
        let mut kinds = parts.split([';', '|', '\n']).map(Kind::of);
        let plain = is_plain(&joined);
        let keeps_state = plain
            && kinds
                .clone()
                .all(|kind| matches!(kind, Kind::Harmless | Kind::Program));
        Self {
            keeps_state,
            defines_code: !plain || kinds.clone().any(|kind| kind == Kind::Anything),
            starts_processes: !(keeps_state
                && kinds.next() == Some(Kind::Harmless)
                && kinds.next().is_none()),
            may_damage: has_unclosed_substitution(text),
        }
    }
}

/// Whether the text has nothing in it but words, quotes, variables,
/// separators and redirections to files.
fn is_plain(text: &str) -> bool {
    let mut bytes = text.bytes().peekable();
    while let Some(byte) = bytes.next() {
        let plain = match byte {
            // Not `$(`, `${` or `$'`, which may do anything.
            b'$' => bytes
                .peek()
                .is_some_and(|next| next.is_ascii_alphanumeric() || b"_?#@*".contains(next)),
            other => other.is_ascii_alphanumeric() || b" -_./,:@%+='\"|&;<>\n?#*".contains(&other),
        };
        if !plain {
            return false;
        }
    }
    true
}

/// True if a substitution may lack its end; quotes are not looked at.
fn has_unclosed_substitution(text: &str) -> bool {
    let count = |byte: char| text.matches(byte).count();
    (text.contains("$(") || text.contains("<(") || text.contains(">(")) && count('(') > count(')')
}

/// What one simple command may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A builtin that changes nothing.
    Harmless,
    /// A program, which cannot reach the shell.
    Program,
    /// A builtin that changes the state, but defines no code.
    Change,
    /// Anything else.
    Anything,
}

impl Kind {
    fn of(part: &str) -> Self {
        let mut words = part.split(' ').filter(|word| !word.is_empty());
        let Some(first) = words.next() else {
            return Self::Anything;
        };
        if is_assignment(first) && words.next().is_none() && !part.contains('&') {
            return Self::Change;
        }
        // A lone `&` would start a job; a first word that is quoted, assigns,
        // redirects or is a variable is not worth understanding.
        if part.contains('&') || first.contains(['=', '\'', '"', '$', '<', '>', '*', '?']) {
            return Self::Anything;
        }
        if HARMLESS_BUILTINS.contains(&first) {
            return Self::Harmless;
        }
        if CHANGING_BUILTINS.contains(&first) {
            return Self::Change;
        }
        let known = SHELL_WORDS.contains(&first) || OTHER_SHELLS_WORDS.contains(&first);
        if first.contains('/') || !known {
            return Self::Program;
        }
        Self::Anything
    }
}

/// Whether a word gives a variable a value.
fn is_assignment(word: &str) -> bool {
    let name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    word.split_once('=').is_some_and(|(before, _)| {
        !before.is_empty()
            && before.bytes().all(name)
            && !before.starts_with(|first: char| first.is_ascii_digit())
    })
}

/// Builtins that change nothing, whatever plain words follow.
const HARMLESS_BUILTINS: &[&str] = &[":", "[", "echo", "false", "pwd", "test", "true"];

/// Builtins that change only directory, variables and such.
const CHANGING_BUILTINS: &[&str] = &["cd", "chdir", "export", "umask"];

/// True if the state holds something that could run instead of, or besides, a
/// program: functions, aliases, traps of the user's own.
pub(super) fn defines_code(snapshot: &[u8]) -> bool {
    snapshot.split(|byte| *byte == b'\n').any(|line| {
        let own = |rest: &[u8]| rest.windows(9).any(|window| window == b"__halter_");
        line.starts_with(b"alias ")
            || (line.starts_with(b"declare -f") && !own(line))
            || (line.starts_with(b"trap -- ") && !own(line))
    })
}

/// Builtins and keywords of other shells that may change their state, and that
/// Bash does not have.
const OTHER_SHELLS_WORDS: &[&str] = &[
    "-",
    "array",
    "autoload",
    "bindkey",
    "bye",
    "chdir",
    "emulate",
    "end",
    "float",
    "foreach",
    "functions",
    "global",
    "integer",
    "limit",
    "nameref",
    "nocorrect",
    "noglob",
    "print",
    "private",
    "r",
    "rehash",
    "rename",
    "repeat",
    "sched",
    "setopt",
    "ttyctl",
    "unfunction",
    "unhash",
    "unlimit",
    "unsetopt",
    "vared",
    "whence",
    "zcompile",
    "zle",
    "zmodload",
    "zstyle",
];

/// Bash's builtins and keywords: what `compgen -b; compgen -k` lists.
const SHELL_WORDS: &[&str] = &[
    ".",
    ":",
    "[",
    "alias",
    "bg",
    "bind",
    "break",
    "builtin",
    "caller",
    "case",
    "cd",
    "command",
    "compgen",
    "complete",
    "compopt",
    "continue",
    "coproc",
    "declare",
    "dirs",
    "disown",
    "do",
    "done",
    "echo",
    "elif",
    "else",
    "enable",
    "esac",
    "eval",
    "exec",
    "exit",
    "export",
    "false",
    "fc",
    "fg",
    "fi",
    "for",
    "function",
    "getopts",
    "hash",
    "help",
    "history",
    "if",
    "in",
    "jobs",
    "kill",
    "let",
    "local",
    "logout",
    "mapfile",
    "popd",
    "printf",
    "pushd",
    "pwd",
    "read",
    "readarray",
    "readonly",
    "return",
    "select",
    "set",
    "shift",
    "shopt",
    "source",
    "suspend",
    "test",
    "then",
    "time",
    "times",
    "trap",
    "true",
    "type",
    "typeset",
    "ulimit",
    "umask",
    "unalias",
    "unset",
    "until",
    "wait",
    "while",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_with_plain_arguments_change_nothing() {
        for text in [
            "ls",
            "ls -la src",
            "git log --oneline -n 5",
            "cargo test -p x --features=a,b",
            "rg 'some text' src | head -n 3",
            "/bin/true && /usr/bin/env A=1 make",
            "make -j4 2>&1 | tail -n 5",
            "grep -rn $pattern src; ls *.rs > files",
            "make test || cat log",
            "cat file\nls\n",
            "ls > $a",
            "ls # x",
        ] {
            assert!(Effects::of(text).keeps_state, "{text}");
            assert!(Effects::of(text).starts_processes, "{text}");
            assert!(!Effects::of(text).defines_code, "{text}");
        }
    }

    #[test]
    fn what_changes_the_state_need_not_define_code() {
        for text in [
            "cd /tmp",
            "cd src && make",
            "chdir src",
            "export A=1; umask 022",
            "A=1",
            "A=$b; make",
        ] {
            let effects = Effects::of(text);
            assert!(!effects.keeps_state && !effects.defines_code, "{text}");
        }
        for text in [
            "alias ls=cd",
            "f() { :; }",
            "function f { :; }",
            "eval x",
            ". file",
            "autoload f",
            "trap 'alias ls=cd' EXIT",
            "cd src; alias ls=cd",
            "A=1 eval x",
            "A=1&alias ls=cd",
            "1=2",
            "set -e",
            "$command",
        ] {
            assert!(Effects::of(text).defines_code, "{text}");
        }
    }

    #[test]
    fn a_harmless_builtin_alone_starts_nothing() {
        for text in ["true", ":", "echo a 'b c'", "test -e /tmp", "pwd -P"] {
            let effects = Effects::of(text);
            assert!(effects.keeps_state && !effects.starts_processes, "{text}");
        }
        for text in ["echo a | cat", "true && make", "echo a | true"] {
            let effects = Effects::of(text);
            assert!(effects.keeps_state && effects.starts_processes, "{text}");
        }
    }

    #[test]
    fn an_unclosed_substitution_is_seen() {
        for (text, unclosed) in [
            ("echo $(echo a", true),
            ("cat <(echo a", true),
            ("echo $(echo $(echo a)", true),
            ("echo $(echo a)", false),
            ("(echo a", false),
            ("echo a", false),
        ] {
            assert_eq!(Effects::of(text).may_damage, unclosed, "{text}");
        }
    }

    #[test]
    fn anything_else_might() {
        for text in [
            "",
            "cd src",
            "export A=1",
            "A=1",
            "A=1 ls",
            "ls; cd src",
            "ls\ncd src",
            "ls\n\ncd src",
            "ls || cd src",
            "$command src",
            ">file",
            "ls &",
            "ls & ls",
            "ls 2>&1 & cd src",
            "echo ${a:=1}",
            "echo $((a=1))",
            "echo $'\\n'",
            "ls;",
            "ls && cd src",
            "ls | read a",
            "ls &",
            "ls & cd src",
            "echo $((a=1))",
            "ls ${a:=1}",
            "f() { :; }",
            "'cd' src",
            "\\cd src",
            "! ls",
            "ls || cd src",
        ] {
            assert!(!Effects::of(text).keeps_state, "{text}");
            assert!(Effects::of(text).starts_processes, "{text}");
        }
    }

    #[test]
    fn code_of_the_users_own_could_run_instead() {
        for state in [
            "alias ls='cd /'\n",
            "declare -f ls\n",
            "trap -- 'a=1' DEBUG\n",
        ] {
            assert!(defines_code(state.as_bytes()), "{state}");
        }
        let ours = b"declare -f __halter_save\ntrap -- '__halter_leave' SIGTERM\nA=1\n";
        assert!(!defines_code(ours));
    }
}
