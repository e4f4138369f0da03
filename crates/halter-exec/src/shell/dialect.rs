//! What is said to a shell, in words the shell understands.
//!
//! The shell reads lines from the pipe on descriptor 0, answers records on
//! another, and has nothing else of ours; commands see neither. Bash runs as
//! it runs scripts, so that what ends a script ends the command; a trap turns
//! an interrupt into the end of the command. Other shells run interactively,
//! where an interrupt takes them back to reading their next line.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::host::{CommandStreams, ShellLaunch};
use super::traps::TrapWatch;
use super::words::{check_name, quote, word};
use crate::environment::Environment;
use crate::error::ExecError;
use crate::tree::TREE_MARKER;

/// The shell languages spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// GNU Bash: all state survives a restart.
    Bash,
    /// Any POSIX shell: directory, exported variables, options, traps and
    /// umask survive a restart.
    Posix,
}

impl Dialect {
    pub(super) fn of(program: &Path) -> Self {
        if program.file_name() == Some(OsStr::new("bash")) {
            Self::Bash
        } else {
            Self::Posix
        }
    }

    /// The ways to start it, best first: another is tried if a shell exits
    /// at once.
    pub(super) fn invocations(self) -> &'static [Invocation] {
        match self {
            Self::Bash => &[Invocation::Script, Invocation::Stdin],
            Self::Posix => &[Invocation::Stdin],
        }
    }

    pub(super) fn arguments(self, program: &Path, invocation: Invocation) -> Vec<OsString> {
        let arguments: &[&str] = match (self, invocation) {
            // It would read the files of whoever types at it.
            (Self::Posix, _) if program.file_name() == Some(OsStr::new("zsh")) => {
                &["-f", "-i", "-s"]
            }
            (Self::Bash, Invocation::Script) => &["--noprofile", "--norc", "/dev/stdin"],
            (Self::Bash, Invocation::Stdin) => &["--noprofile", "--norc", "-s"],
            (Self::Posix, _) => &["-i", "-s"],
        };
        arguments.iter().map(OsString::from).collect()
    }

    /// The descriptor the shell answers on. Scripts like to take 9 for
    /// themselves; only Bash can count further.
    fn record_fd(self) -> i32 {
        match self {
            Self::Bash => 19,
            Self::Posix => ShellLaunch::RECORD_FD,
        }
    }

    /// The script that prepares a new shell: our functions, then the state
    /// of its predecessor if there is one, then our traps, which that state
    /// may have replaced.
    pub(super) fn prologue(self, snapshot: Option<&[u8]>, exit_snapshot: &Path) -> Vec<u8> {
        let exit_file = quote(exit_snapshot.as_os_str());
        let mut script = script_line(&[b"__halter_exit_file=", exit_file.as_bytes(), b"\n"]);
        script.extend_from_slice(match self {
            Self::Bash => include_bytes!("bash.sh"),
            Self::Posix => include_bytes!("posix.sh"),
        });
        if self == Self::Bash {
            script.extend_from_slice(b"\\builtin readonly __halter_exit_file\n");
        }
        match (snapshot, self) {
            (Some(snapshot), _) => {
                script.extend_from_slice(snapshot);
                script.push(b'\n');
            }
            (None, Self::Bash) => script.extend_from_slice(b"\\builtin shopt -s expand_aliases\n"),
            (None, Self::Posix) => {}
        }
        script.extend_from_slice(match self {
            // Bash runs its EXIT trap for every signal that ends it; others
            // have to be told.
            Self::Bash => {
                b"\\builtin trap -- \"$__halter_own_interrupt\" INT\n\
                  \\builtin trap -- \"$__halter_own_exit\" EXIT\n\
                  __halter_interrupted= __halter_exit=\n"
            }
            Self::Posix => b"\\command trap -- __halter_leave TERM\n\
                  \\command trap -- \"$__halter_own_exit\" EXIT\n"
                .as_slice(),
        });
        let mark =
            format!("case $__halter_mark in ?*) export {TREE_MARKER}=$__halter_mark;; esac\n");
        script.extend_from_slice(mark.as_bytes());
        script
    }

    /// The script of one command: where, with what for this once, and what.
    pub(super) fn command_script<'a>(
        self,
        text: &'a str,
        cwd: Option<&Path>,
        overrides: &Environment,
    ) -> Result<Cow<'a, [u8]>, ExecError> {
        if cwd.is_none() && overrides.is_empty() {
            return Ok(Cow::Borrowed(text.as_bytes()));
        }
        let mut script = Vec::with_capacity(text.len() + 64);
        if let Some(cwd) = cwd {
            script.extend(script_line(&[
                b"\\",
                self.builtin().as_bytes(),
                b"cd -- ",
                quote(cwd.as_os_str()).as_bytes(),
                b" && ",
            ]));
        }
        for (name, value) in overrides.iter() {
            check_name(name)?;
            script.extend_from_slice(name.as_bytes());
            script.push(b'=');
            script.extend_from_slice(quote(value).as_bytes());
            script.push(b' ');
        }
        script.extend_from_slice(self.eval());
        script.extend_from_slice(quote(OsStr::new(text)).as_bytes());
        Ok(Cow::Owned(script))
    }

    /// The lines that run one command and report its end. The end is a line
    /// of its own, so that an interrupt or an error, which drop the rest of
    /// the line they hit, do not drop it.
    pub(super) fn command_lines(
        self,
        nonce: &str,
        script: &Script<'_>,
        streams: &CommandStreams<'_>,
        command: &Handling,
    ) -> Vec<u8> {
        let mut lines = Vec::with_capacity(256);
        self.push_preparation(&mut lines, script, streams);
        match command.traps {
            TrapWatch::None => {}
            TrapWatch::End => lines.extend_from_slice(b"__halter_watch no; { "),
            TrapWatch::Always => lines.extend_from_slice(b"__halter_watch yes; { "),
        }
        if command.last_status != 0 {
            // What stands before `||` may fail without consequences.
            let status = format!("__halter_status {} || ", command.last_status);
            lines.extend_from_slice(status.as_bytes());
        }
        self.push_evaluation(&mut lines, script);
        if command.traps != TrapWatch::None {
            let look = format!(
                "; {{ __halter_over \"$?\" \"$@\"; }} {}>&2 2>/dev/null; }}",
                self.record_fd() - 1
            );
            lines.extend_from_slice(look.as_bytes());
        }
        self.push_redirections(&mut lines, streams, command.needs);
        lines.push(b'\n');
        lines.extend(match command.traps {
            TrapWatch::None => self.end_line(nonce),
            _ => self.end_line_with(nonce),
        });
        lines
    }

    /// What the shell does before the command.
    fn push_preparation(
        self,
        lines: &mut Vec<u8>,
        script: &Script<'_>,
        streams: &CommandStreams<'_>,
    ) {
        match (self, script) {
            (Self::Bash, Script::Inline(_)) => {}
            (Self::Bash, Script::Mailbox(path)) => {
                lines.extend_from_slice(b"IFS= \\builtin read -r -d '' __halter_text <");
                lines.extend_from_slice(word(path).as_bytes());
                lines.extend_from_slice(b" || :; ");
            }
            // Other shells take back what stands behind a command before they
            // run an EXIT trap.
            (Self::Posix, _) => {
                push_stream(lines, "\\command exec >", streams.stdout);
                push_stream(lines, " 2>", streams.stderr);
                lines.extend_from_slice(b"; ");
            }
        }
    }

    /// The command itself.
    fn push_evaluation(self, lines: &mut Vec<u8>, script: &Script<'_>) {
        match (self, script) {
            (_, Script::Inline(text)) => {
                lines.extend_from_slice(self.eval());
                lines.extend_from_slice(quote(OsStr::from_bytes(text)).as_bytes());
            }
            (Self::Bash, Script::Mailbox(_)) => {
                lines.extend_from_slice(b"\\eval \"$__halter_text\"");
            }
            (Self::Posix, Script::Mailbox(path)) => {
                lines.extend_from_slice(b"\\command . ");
                lines.extend_from_slice(word(path).as_bytes());
            }
        }
    }

    /// What stands behind the command: its streams, and none of ours.
    fn push_redirections(self, lines: &mut Vec<u8>, streams: &CommandStreams<'_>, needs: Needs) {
        if !needs.own_input {
            push_stream(lines, " <", streams.stdin);
        }
        if self == Self::Bash {
            push_stream(lines, " >", streams.stdout);
            push_stream(lines, " 2>", streams.stderr);
        }
        if needs.hides_records {
            lines.extend_from_slice(format!(" {}>&-", self.record_fd()).as_bytes());
        }
    }

    /// What evaluates its argument here and now, and survives it.
    fn eval(self) -> &'static [u8] {
        match self {
            Self::Bash => b"\\eval ",
            // As a special builtin it would end the shell on an error, and
            // keep assignments that stand before it.
            Self::Posix => b"\\command eval ",
        }
    }

    /// As [`end_line`](Self::end_line), behind a command whose status was
    /// noted.
    fn end_line_with(self, nonce: &str) -> Vec<u8> {
        let name = match self {
            Self::Bash => "__halter_end_with",
            Self::Posix => "__halter_end",
        };
        format!("{name} {nonce} \"${{__halter_code:-$?}}\"\n").into_bytes()
    }

    /// Asks a shell that was interrupted to say so once it is over that.
    pub(super) fn calm_lines(self, nonce: &str) -> Vec<u8> {
        let over: &[u8] = match self {
            Self::Bash => b"\n__halter_interrupted=\n",
            Self::Posix => b"\n",
        };
        [over, &self.end_line(nonce)].concat()
    }

    pub(super) fn end_line(self, nonce: &str) -> Vec<u8> {
        match self {
            Self::Bash => format!("__halter_end {nonce}\n"),
            Self::Posix => format!("__halter_end {nonce} \"$?\"\n"),
        }
        .into_bytes()
    }

    pub(super) fn save_line(self, turn: u64, path: &Path) -> Vec<u8> {
        script_line(&[
            b"__halter_save ",
            turn.to_string().as_bytes(),
            b" ",
            word(path).as_bytes(),
            b" \"$@\" || :\n",
        ])
    }

    pub(super) fn prologue_lines(
        self,
        nonce: &str,
        script: &Path,
        invocation: Invocation,
    ) -> Vec<u8> {
        let mut lines = Vec::new();
        if self == Self::Bash {
            // A shell that reads a script has it open elsewhere.
            let stdin = match invocation {
                Invocation::Script => " </dev/null",
                Invocation::Stdin => "",
            };
            let (ours, given) = (self.record_fd(), ShellLaunch::RECORD_FD);
            let line = format!("\\exec {ours}>&{given} {given}>&-{stdin}\n");
            lines.extend_from_slice(line.as_bytes());
        }
        lines.extend(script_line(&[
            b"\\. ",
            word(script).as_bytes(),
            b" </dev/null >/dev/null 2>&1\n",
        ]));
        lines.extend(self.end_line(nonce));
        lines
    }

    pub(super) fn exit_line(self) -> Vec<u8> {
        format!("\\{}exit\n", self.builtin()).into_bytes()
    }

    /// What keeps a user's function of the same name from being called.
    fn builtin(self) -> &'static str {
        match self {
            Self::Bash => "builtin ",
            Self::Posix => "command ",
        }
    }
}

/// How the shell is made to read our lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Invocation {
    /// As a script: it opens the pipe on descriptor 0 by its name, which
    /// leaves 0 to the commands. Needs `/proc`, and a pipe of its own user.
    Script,
    /// On its standard input. Bash then crashes in commands that duplicate
    /// or close descriptor 0 (seen in 5.2).
    Stdin,
}

/// How one command is to be treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Handling {
    /// What it finds in `$?`.
    pub last_status: i32,
    pub traps: TrapWatch,
    pub needs: Needs,
}

/// What a command must be given or kept from. Every redirection costs the
/// shell ten system calls, and every byte of it one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Needs {
    /// Whether the shell's own input, which is empty, will do.
    pub own_input: bool,
    /// Whether it could see the descriptor the shell answers on.
    pub hides_records: bool,
}

impl Needs {
    /// A command that may do anything.
    pub(super) const ALL: Self = Self {
        own_input: false,
        hides_records: true,
    };
}

/// Where the shell finds what it is to run.
pub(super) enum Script<'a> {
    /// In the line itself. Shells read lines byte by byte, so this is for
    /// short ones.
    Inline(&'a [u8]),
    /// In the file at this path.
    Mailbox(&'a Path),
}

impl Script<'_> {
    /// Longer scripts are quicker read from a file.
    pub(super) const MAX_INLINE_BYTES: usize = 128;
}

fn push_stream(lines: &mut Vec<u8>, operator: &str, path: &Path) {
    lines.extend_from_slice(operator.as_bytes());
    lines.extend_from_slice(word(path).as_bytes());
}

fn script_line(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_stand_before_the_command_and_names_are_checked() {
        let once = Environment::new().with("A", "x y");
        let script = Dialect::Bash
            .command_script("echo $A", Some(Path::new("/tmp")), &once)
            .unwrap();
        assert_eq!(
            String::from_utf8(script.into_owned()).unwrap(),
            "\\builtin cd -- '/tmp' && A='x y' \\eval 'echo $A'"
        );
        for name in ["", "1A", "A-B", "A B", "A;reboot"] {
            let bad = Environment::new().with(name, "s3cret");
            let error = Dialect::Bash.command_script("", None, &bad).unwrap_err();
            assert_eq!(error.code(), "invalid_input", "{name:?}");
            assert!(!error.to_string().contains("s3cret"));
        }
    }

    fn lines(dialect: Dialect, script: &Script<'_>, last_status: i32, traps: TrapWatch) -> String {
        let streams = CommandStreams {
            stdin: Path::new("/dev/null"),
            stdout: Path::new("/proc/7/fd/3"),
            stderr: Path::new("/with space/e"),
        };
        let handling = Handling {
            last_status,
            traps,
            needs: Needs::ALL,
        };
        String::from_utf8(dialect.command_lines("n0", script, &streams, &handling)).unwrap()
    }

    #[test]
    fn a_command_is_one_line_and_its_end_another() {
        let streams = "</dev/null >/proc/7/fd/3 2>'/with space/e'";
        let end = "__halter_end n0\n";
        let inline = Script::Inline(b"a'b");
        let mailbox = Script::Mailbox(Path::new("/m"));
        let bash = |script, status| lines(Dialect::Bash, script, status, TrapWatch::None);
        let posix = |script, status| lines(Dialect::Posix, script, status, TrapWatch::None);
        assert_eq!(
            bash(&inline, 0),
            format!("\\eval 'a'\\''b' {streams} 19>&-\n{end}")
        );
        assert_eq!(
            bash(&inline, 3),
            format!("__halter_status 3 || \\eval 'a'\\''b' {streams} 19>&-\n{end}")
        );
        assert_eq!(
            bash(&mailbox, 0),
            format!(
                "IFS= \\builtin read -r -d '' __halter_text </m || :; \
                 \\eval \"$__halter_text\" {streams} 19>&-\n{end}"
            )
        );
        let streams = "\\command exec >/proc/7/fd/3 2>'/with space/e';";
        let end = "__halter_end n0 \"$?\"\n";
        assert_eq!(
            posix(&inline, 0),
            format!("{streams} \\command eval 'a'\\''b' </dev/null 9>&-\n{end}")
        );
        assert_eq!(
            posix(&mailbox, 1),
            format!("{streams} __halter_status 1 || \\command . /m </dev/null 9>&-\n{end}")
        );
    }

    #[test]
    fn an_interrupted_bash_is_told_that_this_is_over_before_it_is_asked() {
        let asked = |dialect: Dialect| String::from_utf8(dialect.calm_lines("n0")).unwrap();
        assert_eq!(
            asked(Dialect::Bash),
            "\n__halter_interrupted=\n__halter_end n0\n"
        );
        assert_eq!(asked(Dialect::Posix), "\n__halter_end n0 \"$?\"\n");
    }

    #[test]
    fn what_cannot_do_harm_is_given_less() {
        let streams = CommandStreams {
            stdin: Path::new("/dev/null"),
            stdout: Path::new("/proc/7/fd/3"),
            stderr: Path::new("/proc/7/fd/4"),
        };
        let lines = |own_input, hides_records| {
            let handling = Handling {
                last_status: 0,
                traps: TrapWatch::None,
                needs: Needs {
                    own_input,
                    hides_records,
                },
            };
            let script = Script::Inline(b"x");
            let lines = Dialect::Bash.command_lines("n0", &script, &streams, &handling);
            String::from_utf8(lines).unwrap()
        };
        assert_eq!(
            lines(true, true),
            "\\eval 'x' >/proc/7/fd/3 2>/proc/7/fd/4 19>&-\n__halter_end n0\n"
        );
        assert_eq!(
            lines(true, false),
            "\\eval 'x' >/proc/7/fd/3 2>/proc/7/fd/4\n__halter_end n0\n"
        );
    }

    #[test]
    fn a_command_that_speaks_of_traps_is_looked_after() {
        assert_eq!(
            lines(Dialect::Bash, &Script::Inline(b"x"), 2, TrapWatch::Always),
            "__halter_watch yes; { __halter_status 2 || \\eval 'x'; \
             { __halter_over \"$?\" \"$@\"; } 18>&2 2>/dev/null; } \
             </dev/null >/proc/7/fd/3 2>'/with space/e' 19>&-\n\
             __halter_end_with n0 \"${__halter_code:-$?}\"\n"
        );
    }
}
