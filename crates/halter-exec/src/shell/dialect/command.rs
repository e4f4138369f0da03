//! The lines that have a shell run one command.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::{Dialect, script_line};
use crate::environment::Environment;
use crate::error::ExecError;
use crate::shell::host::CommandStreams;
use crate::shell::traps::TrapWatch;
use crate::shell::words::{check_name, quote, word};

/// How one command is to be treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::shell) struct Handling {
    /// What it finds in `$?`.
    pub last_status: i32,
    pub traps: TrapWatch,
}

/// Where the shell finds what it is to run.
pub(in crate::shell) enum Script<'a> {
    /// In the line itself. Shells read lines byte by byte, so this is for
    /// short ones.
    Inline(&'a [u8]),
    /// In the file at this path.
    Mailbox(&'a Path),
}

impl Script<'_> {
    /// Longer scripts are quicker read from a file.
    pub(in crate::shell) const MAX_INLINE_BYTES: usize = 128;
}

impl Dialect {
    /// The script of one command: where, with what for this once, and what.
    pub(in crate::shell) fn command_script<'a>(
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
    pub(in crate::shell) fn command_lines(
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
        self.push_redirections(&mut lines, streams);
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
    fn push_redirections(self, lines: &mut Vec<u8>, streams: &CommandStreams<'_>) {
        push_stream(lines, " <", streams.stdin);
        if self == Self::Bash {
            push_stream(lines, " >", streams.stdout);
            push_stream(lines, " 2>", streams.stderr);
        }
        lines.extend_from_slice(format!(" {}>&-", self.record_fd()).as_bytes());
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
}

fn push_stream(lines: &mut Vec<u8>, operator: &str, path: &Path) {
    lines.extend_from_slice(operator.as_bytes());
    lines.extend_from_slice(word(path).as_bytes());
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
        let handling = Handling { last_status, traps };
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
