//! What is said to a shell, in words the shell understands.
//!
//! The shell reads lines on descriptor 0, answers records on descriptor 9,
//! and has nothing else of ours; commands see neither descriptor. Bash runs as
//! it runs scripts, so that what ends a script ends the command; a trap turns
//! an interrupt into the end of the command. Other shells run interactively,
//! where an interrupt takes them back to reading their next line.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use super::host::{CommandStreams, ShellLaunch};
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

    pub(super) fn arguments(self) -> Vec<OsString> {
        let arguments: &[&str] = match self {
            Self::Bash => &["--noprofile", "--norc", "-s"],
            Self::Posix => &["-i", "-s"],
        };
        arguments.iter().map(OsString::from).collect()
    }

    /// The script that prepares a new shell: our functions, then the state
    /// of its predecessor if there is one, then our traps, which that state
    /// may have replaced.
    pub(super) fn prologue(self, snapshot: Option<&[u8]>, exit_snapshot: &Path) -> Vec<u8> {
        let mut script = match self {
            Self::Bash => include_str!("bash.sh"),
            Self::Posix => include_str!("posix.sh"),
        }
        .as_bytes()
        .to_vec();
        match (snapshot, self) {
            (Some(snapshot), _) => {
                script.extend_from_slice(snapshot);
                script.push(b'\n');
            }
            (None, Self::Bash) => script.extend_from_slice(b"\\builtin shopt -s expand_aliases\n"),
            (None, Self::Posix) => {}
        }
        let save = script_line(&[
            b"{ __halter_save exit ",
            word(exit_snapshot).as_bytes(),
            b" \"$@\" || :; } 2>/dev/null",
        ]);
        if self == Self::Bash {
            // The state is written down first: a shell that has to be killed
            // after all then leaves what it had when it was interrupted.
            let interrupt = [save.as_slice(), b"; __halter_interrupt"].concat();
            self.add_trap(&mut script, &OsString::from_vec(interrupt), "INT");
        }
        self.add_trap(&mut script, &OsString::from_vec(save), "EXIT");
        self.add_trap(&mut script, OsStr::new("__halter_leave"), "TERM");
        let mark =
            format!("case $__halter_mark in ?*) export {TREE_MARKER}=$__halter_mark;; esac\n");
        script.extend_from_slice(mark.as_bytes());
        script
    }

    fn add_trap(self, script: &mut Vec<u8>, action: &OsStr, signal: &str) {
        script.extend(script_line(&[
            b"\\",
            self.builtin().as_bytes(),
            b"trap ",
            quote(action).as_bytes(),
            b" ",
            signal.as_bytes(),
            b"\n",
        ]));
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
        last_status: i32,
    ) -> Vec<u8> {
        let mut lines = Vec::with_capacity(256);
        if let (Self::Bash, Script::Mailbox(path)) = (self, script) {
            lines.extend_from_slice(b"IFS= \\builtin read -r -d '' __halter_text <");
            lines.extend_from_slice(word(path).as_bytes());
            lines.extend_from_slice(b" || :; ");
        }
        if last_status != 0 {
            // What stands before `||` may fail without consequences.
            lines.extend_from_slice(format!("__halter_status {last_status} || ").as_bytes());
        }
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
        for (operator, path) in [
            (" <", streams.stdin),
            (" >", streams.stdout),
            (" 2>", streams.stderr),
        ] {
            lines.extend_from_slice(operator.as_bytes());
            lines.extend_from_slice(word(path).as_bytes());
        }
        lines.extend_from_slice(format!(" {}>&-\n", ShellLaunch::RECORD_FD).as_bytes());
        lines.extend(self.end_line(nonce));
        lines
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

    pub(super) fn end_line(self, nonce: &str) -> Vec<u8> {
        format!("__halter_end {nonce} $?\n").into_bytes()
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

    pub(super) fn prologue_lines(self, nonce: &str, script: &Path) -> Vec<u8> {
        let mut lines = script_line(&[
            b"\\. ",
            word(script).as_bytes(),
            b" </dev/null >/dev/null 2>&1\n",
        ]);
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

fn script_line(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// A path as one word of the shell's language; most need no quotes.
fn word(path: &Path) -> Cow<'_, OsStr> {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-".contains(byte);
    let path = path.as_os_str();
    if path.as_bytes().iter().all(plain) {
        Cow::Borrowed(path)
    } else {
        Cow::Owned(quote(path))
    }
}

/// In single quotes, where only the single quote itself means anything.
pub(super) fn quote(value: &OsStr) -> OsString {
    let mut quoted = vec![b'\''];
    for byte in value.as_bytes() {
        match byte {
            b'\'' => quoted.extend_from_slice(b"'\\''"),
            other => quoted.push(*other),
        }
    }
    quoted.push(b'\'');
    OsString::from_vec(quoted)
}

fn check_name(name: &OsStr) -> Result<(), ExecError> {
    let bytes = name.as_bytes();
    let letter = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'_';
    let fine = bytes.first().is_some_and(letter)
        && bytes
            .iter()
            .all(|byte| letter(byte) || byte.is_ascii_digit());
    if fine {
        Ok(())
    } else {
        Err(ExecError::invalid(
            format!("environment variable `{}`", name.display()),
            "a shell variable's name has only letters, digits and `_`, and starts with no digit",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoting_leaves_nothing_to_the_shell() {
        assert_eq!(quote(OsStr::new("a'b $c\n`d`")), "'a'\\''b $c\n`d`'");
    }

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

    fn lines(dialect: Dialect, script: &Script<'_>, last_status: i32) -> String {
        let streams = CommandStreams {
            stdin: Path::new("/dev/null"),
            stdout: Path::new("/proc/7/fd/3"),
            stderr: Path::new("/with space/e"),
        };
        String::from_utf8(dialect.command_lines("n0", script, &streams, last_status)).unwrap()
    }

    #[test]
    fn a_command_is_one_line_and_its_end_another() {
        let streams = "</dev/null >/proc/7/fd/3 2>'/with space/e' 9>&-\n__halter_end n0 $?\n";
        let inline = Script::Inline(b"a'b");
        let mailbox = Script::Mailbox(Path::new("/m"));
        for (dialect, script, last_status, line) in [
            (Dialect::Bash, &inline, 0, r"\eval 'a'\''b'"),
            (
                Dialect::Bash,
                &inline,
                3,
                r"__halter_status 3 || \eval 'a'\''b'",
            ),
            (
                Dialect::Bash,
                &mailbox,
                0,
                r#"IFS= \builtin read -r -d '' __halter_text </m || :; \eval "$__halter_text""#,
            ),
            (Dialect::Posix, &inline, 0, r"\command eval 'a'\''b'"),
            (
                Dialect::Posix,
                &mailbox,
                1,
                r"__halter_status 1 || \command . /m",
            ),
        ] {
            assert_eq!(
                lines(dialect, script, last_status),
                format!("{line} {streams}")
            );
        }
    }
}
