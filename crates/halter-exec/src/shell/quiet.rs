//! Which commands leave a shell's state as it was, so that it need not be
//! written down again: programs with plain arguments, and nothing else.
//!
//! Judged narrowly. A command that is wrongly taken for one that changes
//! state costs a snapshot; the other mistake would cost the state.

/// True if the text is a list of pipelines of programs with plain words.
pub(super) fn runs_only_programs(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b" -_./,:@%+='\"|&".contains(&byte);
    text.bytes().all(plain)
        && text
            .split("&&")
            .flat_map(|part| part.split('|'))
            .all(is_program_with_arguments)
}

fn is_program_with_arguments(part: &str) -> bool {
    let mut words = part.split(' ').filter(|word| !word.is_empty());
    let Some(program) = words.next() else {
        return false;
    };
    // A lone `&` would start a job; a quoted or assigning first word is not
    // worth understanding.
    !part.contains('&')
        && !program.contains(['=', '\'', '"'])
        && (program.contains('/') || !SHELL_WORDS.contains(&program))
}

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
        ] {
            assert!(runs_only_programs(text), "{text}");
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
            "ls && cd src",
            "ls | read a",
            "ls &",
            "ls & cd src",
            "echo $((a=1))",
            "ls ${a:=1}",
            "f() { :; }",
            "'cd' src",
            "\\cd src",
            "ls > $a",
            "ls # x",
            "! ls",
            "ls || cd src",
        ] {
            assert!(!runs_only_programs(text), "{text}");
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
