//! What a command is told about its sandbox.

use super::{SandboxStatus, SessionSandbox, WatchedChanges};
use crate::exec::FinishedCommand;
use crate::limits::{WATCHED_DEPTH, WATCHED_DIRECTORIES};
use halter_exec::{ContainmentRung, ExitStatus};
use halter_protocol::encoding::escape_path;
use std::borrow::Cow;
use std::path::PathBuf;

const NETWORK_OFF: &str = "the network is off; policy.network opens hosts, and so do rules \
                           WebFetch(domain:…) in permissions.allow";

/// What the kernel refuses in a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refused {
    Write,
    Replacement,
    Access,
    Call,
    Connection,
}

/// How programs report that, in their own words or by the name of the error.
struct Sign {
    refused: Refused,
    /// In lower case, as some languages have them.
    phrases: &'static [&'static str],
    errors: &'static [&'static str],
}

const SIGNS: &[Sign] = &[
    Sign {
        refused: Refused::Write,
        phrases: &["read-only file system"],
        errors: &["EROFS"],
    },
    // What is mounted on protected paths.
    Sign {
        refused: Refused::Replacement,
        phrases: &["resource busy"],
        errors: &["EBUSY"],
    },
    Sign {
        refused: Refused::Access,
        phrases: &["permission denied"],
        errors: &["EACCES"],
    },
    Sign {
        refused: Refused::Call,
        phrases: &["operation not permitted"],
        errors: &["EPERM"],
    },
    Sign {
        refused: Refused::Connection,
        phrases: &[
            "network is unreachable",
            "network unreachable",
            "could not resolve host",
            "temporary failure in name resolution",
        ],
        errors: &["ENETUNREACH", "ENOTFOUND", "EAI_AGAIN"],
    },
];

impl Sign {
    fn is_in(&self, line: &str) -> bool {
        let lower = line.to_ascii_lowercase();
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let mut words = line.split(|c| !is_part(c));
        self.phrases.iter().any(|phrase| lower.contains(phrase))
            || words.any(|word| self.errors.contains(&word))
    }
}

impl Refused {
    /// What a sandbox of this name refuses in such a way.
    fn rule(self, sandbox: &str) -> &'static str {
        let by_mounts = sandbox != ContainmentRung::Landlock.name();
        match self {
            Self::Write => "only the workspace, `/tmp` and caches of tools can be written",
            Self::Replacement => {
                "the settings and hooks of git, editors and agents cannot be changed, replaced or \
                 moved"
            }
            Self::Access if by_mounts => {
                "sensitive files cannot be read, unlisted programs not executed"
            }
            // Landlock refuses everything in the same way.
            Self::Access => {
                "only the workspace, `/tmp` and caches of tools can be written, sensitive files \
                 cannot be read, unlisted programs not executed"
            }
            Self::Call if by_mounts => "mounts, name spaces, tracing and raw sockets are refused",
            Self::Call => {
                "mounts, name spaces, tracing and raw sockets are refused, and all connections \
                 while the network is off"
            }
            Self::Connection => NETWORK_OFF,
        }
    }
}

/// How a command gets out of the sandbox.
const OUTSIDE_ADVICE: &str =
    "call again with \"outside_sandbox\": true to ask the user to let it run outside";

/// Characters of a program's message that are repeated.
const LINE_CHARS: usize = 200;

/// A sandbox by its name, as failed commands are told about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedSandbox {
    /// The name of what holds it.
    pub name: &'static str,
    /// Whether a command may ask to leave it.
    pub may_leave: bool,
}

impl NamedSandbox {
    /// What a failed command is told that the sandbox seems to have refused.
    #[must_use]
    pub fn refusal_note(self, status: ExitStatus, output: &[&str]) -> Option<String> {
        if status.success() {
            return None;
        }
        let (line, refused) = refusal(output)?;
        let rule = refused.rule(self.name);
        let advice = match self.may_leave {
            true => format!("; {OUTSIDE_ADVICE}"),
            false => String::new(),
        };
        Some(format!(
            "this ran in a sandbox ({}), which may have refused it: {line}: {rule}{advice}",
            self.name
        ))
    }
}

impl SessionSandbox {
    /// What is worth saying after a command: what was refused, what changed
    /// that should not have, and that there is no sandbox where one was wanted.
    pub(crate) async fn note(&mut self, finished: &FinishedCommand) -> Option<String> {
        let changes = self.changes().await;
        let output = [finished.stderr.text.as_str(), &finished.stdout.text];
        let refused = self.named();
        let refused = refused.and_then(|it| it.refusal_note(finished.status, &output));
        let notes = refused.into_iter().chain(self.standing_note());
        let notes = notes
            .chain(of_changes(&changes))
            .chain(self.first_note.take());
        let notes: Vec<String> = notes.collect();
        (!notes.is_empty()).then(|| notes.join("; "))
    }

    /// What holds for every command, whatever becomes of it.
    pub(crate) fn standing_note(&self) -> Option<String> {
        self.standing_note.clone()
    }

    /// The sandbox, if there is one, as failed commands are told about it.
    pub(crate) fn named(&self) -> Option<NamedSandbox> {
        self.status.active.map(|name| NamedSandbox {
            name,
            may_leave: self.status.requested != "require",
        })
    }
}

/// What a command changed that should not have changed.
pub(super) fn of_changes(changes: &WatchedChanges) -> Vec<String> {
    let mut parts = Vec::new();
    let listed = |paths: &[PathBuf]| {
        let paths: Vec<String> = paths.iter().map(|path| escape_path(path)).collect();
        paths.join(", ")
    };
    let WatchedChanges {
        changed,
        made,
        left_open,
        outgrown,
        ..
    } = changes;
    let is_covered = |git: &&PathBuf| !left_open.contains(git);
    let covered: Vec<PathBuf> = made.iter().filter(is_covered).cloned().collect();
    if !changed.is_empty() {
        parts.push(format!(
            "protected files were changed, by this command, one in the background since the last \
             one, or another program: {}",
            listed(changed)
        ));
    }
    if !covered.is_empty() {
        parts.push(format!(
            "this command made repositories, whose hooks and settings are protected for the next \
             one: {}",
            listed(&covered)
        ));
    }
    if !left_open.is_empty() {
        parts.push(format!(
            "this command made repositories, whose hooks and settings are not protected before \
             the next session: {}",
            listed(left_open)
        ));
    }
    if *outgrown {
        parts.push(format!(
            "the workspace now has more than {WATCHED_DIRECTORIES} directories, or some more than \
             {WATCHED_DEPTH} deep: a repository that a command makes there may go unnoticed, and \
             its hooks and settings unprotected"
        ));
    }
    parts
}

/// That there is no sandbox where one was wanted, or what it does not hold.
pub(super) fn standing(status: &SandboxStatus) -> Option<String> {
    match status.active {
        None if status.requested == "off" => None,
        None => {
            let reasons = status
                .rungs
                .iter()
                .filter_map(|rung| rung.reason.as_deref());
            let reasons: Vec<&str> = reasons.collect();
            Some(format!(
                "no sandbox: commands run with the user's rights ({})",
                reasons.join("; ")
            ))
        }
        Some(rung) if !status.not_held.is_empty() => {
            Some(missing(rung, &status.not_held.join(", ")))
        }
        Some(_) => None,
    }
}

/// That a sandbox does not hold something.
pub(super) fn missing(rung: &str, what: &str) -> String {
    format!("the sandbox ({rung}) does not hold: {what}")
}

/// The first line that reports a refusal, cut, and of what.
fn refusal(output: &[&str]) -> Option<(String, Refused)> {
    SIGNS.iter().find_map(|sign| {
        let lines = output.iter().flat_map(|text| text.split(['\n', '\r']));
        let mut lines = lines.map(without_control_sequences);
        let line = lines.find(|line| sign.is_in(line))?;
        Some((line.chars().take(LINE_CHARS).collect(), sign.refused))
    })
}

/// The text of a line that a program coloured or moved about a terminal.
fn without_control_sequences(line: &str) -> Cow<'_, str> {
    if !line.contains('\x1b') {
        return line.into();
    }
    let mut text = String::new();
    let mut rest = line.chars();
    while let Some(next) = rest.next() {
        if next != '\x1b' {
            text.push(next);
        } else if rest.next() == Some('[') {
            // Parameters, then a letter.
            let _ = rest.find(|it| ('@'..='~').contains(it));
        }
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_programs_say_of_a_refusal_is_understood() {
        use Refused::{Access, Call, Connection, Replacement, Write};
        for (said, expected) in [
            ("touch: cannot touch '/etc/x': Read-only file system", Write),
            ("open /etc/x: read-only file system", Write),
            ("Error: EROFS: read-only file system, open '/etc/x'", Write),
            ("code: 'EROFS',", Write),
            (
                "error: could not write config file .git/config: Device or resource busy",
                Replacement,
            ),
            (
                "mv: cannot move '.git' to 'g2': Device or resource busy",
                Replacement,
            ),
            ("rm: can't remove '.git/config': Resource busy", Replacement),
            ("remove .git/config: device or resource busy", Replacement),
            ("npm ERR! code EBUSY", Replacement),
            ("cat: .env: Permission denied", Access),
            ("fork/exec /usr/bin/perl: permission denied", Access),
            ("npm error errno: 'EACCES'", Access),
            ("mount: /mnt: Operation not permitted", Call),
            ("Error: EPERM: syscall", Call),
            ("connect: Network is unreachable", Connection),
            (
                "dial tcp 192.0.2.1:80: connect: network is unreachable",
                Connection,
            ),
            ("connect ENETUNREACH 192.0.2.1:80", Connection),
            ("ping: Network unreachable", Connection),
            ("curl: (6) Could not resolve host: a.test", Connection),
            ("getaddrinfo EAI_AGAIN a.test", Connection),
        ] {
            for output in [[said, ""], ["", said]] {
                let found = refusal(&output);
                assert_eq!(found, Some((said.to_owned(), expected)), "{said}");
            }
        }
        for said in [
            "error: not found",
            "NOTEACCES",
            "EPERMIT",
            "the printer is busy",
        ] {
            assert_eq!(refusal(&[said]), None, "{said}");
        }
        let coloured = "working\r\x1b[1;31mcat: x: Permission\x1b[0m denied\r\nbye";
        let plain = "cat: x: Permission denied".to_owned();
        assert_eq!(refusal(&[coloured]), Some((plain, Access)));
        let long = format!("permission denied{}", "x".repeat(LINE_CHARS));
        let (line, _) = refusal(&[&long]).unwrap();
        assert_eq!(line.chars().count(), LINE_CHARS);
    }

    #[test]
    fn the_rule_is_that_of_the_rung() {
        let [mounts, landlock] = [ContainmentRung::Namespaces, ContainmentRung::Landlock];
        for (refused, rung, part) in [
            (Refused::Write, mounts, "can be written"),
            (Refused::Replacement, mounts, "settings and hooks of git"),
            (Refused::Access, mounts, "sensitive files cannot be read"),
            (
                Refused::Access,
                landlock,
                "only the workspace, `/tmp` and caches",
            ),
            (Refused::Access, landlock, "sensitive files cannot be read"),
            (Refused::Call, landlock, "the network is off"),
            (Refused::Connection, landlock, "policy.network"),
        ] {
            let rule = refused.rule(rung.name());
            assert!(rule.contains(part), "{refused:?} {rung:?}: {rule}");
        }
        assert!(!Refused::Access.rule(mounts.name()).contains("written"));
    }
}
