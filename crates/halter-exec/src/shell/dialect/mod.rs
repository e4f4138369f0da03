//! What is said to a shell, in words the shell understands.
//!
//! The shell reads lines from the pipe on descriptor 0, answers records on
//! another, and has nothing else of ours; commands see neither. Bash runs as
//! it runs scripts, so that what ends a script ends the command; a trap turns
//! an interrupt into the end of the command. Other shells run interactively,
//! where an interrupt takes them back to reading their next line.

mod command;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

pub(super) use self::command::{Handling, Script};
use super::host::ShellLaunch;
use super::report::ShellOption;
use super::words::{quote, word};
use crate::tree::TREE_MARKER;

/// The shell languages mentioned.
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
            Self::Posix => &[Invocation::Stdin, Invocation::Script],
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
            (Self::Posix, Invocation::Stdin) => &["-i", "-s"],
            (Self::Posix, Invocation::Script) => &["-i", "/dev/stdin"],
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
    pub(super) fn prologue(
        self,
        snapshot: Option<&[u8]>,
        options: &BTreeSet<ShellOption>,
        exit_snapshot: &Path,
    ) -> Vec<u8> {
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
        if snapshot.is_none() {
            for option in options {
                let line = format!("\\command set -o {} || :\n", option.name());
                script.extend_from_slice(line.as_bytes());
            }
        }
        let mark =
            format!("case $__halter_mark in ?*) export {TREE_MARKER}=$__halter_mark;; esac\n");
        script.extend_from_slice(mark.as_bytes());
        script
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
    pub(super) fn settle_lines(self, nonce: &str) -> Vec<u8> {
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

    /// Has the shell say what it is, in a file.
    pub(super) fn report_lines(self, nonce: &str, path: &Path) -> Vec<u8> {
        let mut lines = script_line(&[b"__halter_report ", word(path).as_bytes(), b" || :\n"]);
        lines.extend(self.end_line(nonce));
        lines
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
    pub(super) fn builtin(self) -> &'static str {
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
    /// or close descriptor 0 (seen in 5.2); BusyBox reads it through stdio,
    /// and what is in that buffer is read by its applets.
    Stdin,
}

fn script_line(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_bash_is_told_that_this_is_over_before_it_is_asked() {
        let asked = |dialect: Dialect| String::from_utf8(dialect.settle_lines("n0")).unwrap();
        assert_eq!(
            asked(Dialect::Bash),
            "\n__halter_interrupted=\n__halter_end n0\n"
        );
        assert_eq!(asked(Dialect::Posix), "\n__halter_end n0 \"$?\"\n");
    }
}
