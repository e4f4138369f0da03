//! What a command is told about its sandbox.

use super::{SandboxStatus, SessionSandbox, WatchedChanges};
use crate::exec::FinishedCommand;
use halter_protocol::encoding::escape_path;
use std::path::PathBuf;

const NETWORK_OFF: &str = "the network is off; policy.network opens hosts, and so do rules \
                           WebFetch(domain:…) in permissions.allow";

/// Words by which programs report what the kernel refused, and what that is.
const SIGNS: &[(&str, &str)] = &[
    (
        "Read-only file system",
        "only the workspace, `/tmp` and caches of tools can be written",
    ),
    (
        "EROFS",
        "only the workspace, `/tmp` and caches of tools can be written",
    ),
    (
        "Permission denied",
        "sensitive files cannot be read, unlisted programs not executed",
    ),
    (
        "Operation not permitted",
        "mounts, name spaces, tracing and raw sockets are refused",
    ),
    ("Network is unreachable", NETWORK_OFF),
    ("Could not resolve host", NETWORK_OFF),
    ("Temporary failure in name resolution", NETWORK_OFF),
    ("ENOTFOUND", NETWORK_OFF),
    ("EAI_AGAIN", NETWORK_OFF),
];

/// How a command gets out of the sandbox.
const OUTSIDE_ADVICE: &str =
    "call again with \"outside_sandbox\": true to ask the user to let it run outside";

/// Characters of a program's message that are repeated.
const LINE_CHARS: usize = 200;

impl SessionSandbox {
    /// What is worth saying after a command: what was refused, what changed
    /// that should not have, and that there is no sandbox where one was wanted.
    pub(crate) async fn note(&mut self, finished: &FinishedCommand) -> Option<String> {
        let changes = self.changes().await;
        note(&self.status, finished, &changes)
    }
}

impl SessionSandbox {
    /// What holds for every command, whatever becomes of it.
    pub(crate) fn standing_note(&self) -> Option<String> {
        standing(&self.status)
    }
}

fn note(
    status: &SandboxStatus,
    finished: &FinishedCommand,
    changes: &WatchedChanges,
) -> Option<String> {
    let mut parts = Vec::new();
    if let Some(rung) = status.active {
        parts.extend(refusal_note(rung, status.requested != "require", finished));
    }
    parts.extend(standing(status));
    let listed = |paths: &[PathBuf]| {
        let paths: Vec<String> = paths.iter().map(|path| escape_path(path)).collect();
        paths.join(", ")
    };
    let WatchedChanges { changed, made } = changes;
    if !changed.is_empty() {
        parts.push(format!(
            "protected files were changed by this command: {}",
            listed(changed)
        ));
    }
    if !made.is_empty() {
        parts.push(format!(
            "this command made repositories, whose hooks and settings are not protected before \
             the next session: {}",
            listed(made)
        ));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// What a command is told that a sandbox of this name seems to have refused
/// something, and that it may ask to leave it, if it may.
#[must_use]
pub fn refusal_note(sandbox: &str, may_leave: bool, finished: &FinishedCommand) -> Option<String> {
    let (line, rule) = refusal(finished)?;
    let advice = match may_leave {
        true => format!("; {OUTSIDE_ADVICE}"),
        false => String::new(),
    };
    Some(format!(
        "this ran in a sandbox ({sandbox}), which may have refused it: {line}: {rule}{advice}"
    ))
}

/// That there is no sandbox where one was wanted, or what it does not hold.
fn standing(status: &SandboxStatus) -> Option<String> {
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
        Some(rung) if !status.not_held.is_empty() && rung != "namespaces" => {
            let missing = status.not_held.join(", ");
            Some(format!("the sandbox ({rung}) does not hold: {missing}"))
        }
        Some(_) => None,
    }
}

fn refusal(finished: &FinishedCommand) -> Option<(String, &'static str)> {
    if finished.status.success() {
        return None;
    }
    let output = [&finished.stderr.text, &finished.stdout.text];
    SIGNS.iter().find_map(|(sign, rule)| {
        let mut lines = output.iter().flat_map(|text| text.lines());
        let line = lines.find(|line| line.contains(sign))?;
        Some((line.chars().take(LINE_CHARS).collect(), *rule))
    })
}
