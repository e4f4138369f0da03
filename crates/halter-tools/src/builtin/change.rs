//! Changing one file: what the tools that write files have in common.

use super::file_views::{file_seen, last_seen};
use super::support::{blocking, shown, spelled};
use crate::context::{ToolContext, cancelled};
use crate::limits::{DIFF_TIME, EDIT_FILE_BYTES, WRITE_BYTES};
use crate::path_locks::PathLockGuard;
use anyhow::bail;
use halter_policy::{Precondition, WriteTicket, Written};
use halter_protocol::{ContentHash, ToolResult};
use serde_json::Value;
use similar::TextDiff;
use std::path::PathBuf;
use std::sync::Arc;

/// A file that nobody else of this process changes meanwhile.
pub(super) struct FileChange {
    /// The path as the model spelled it.
    pub(super) target: PathBuf,
    /// The path as results show it.
    pub(super) path: String,
    /// The hash of the content this session last saw.
    pub(super) seen: Option<String>,
    pub(super) ticket: WriteTicket,
    context: ToolContext,
}

impl FileChange {
    /// Puts the content in place and remembers it as seen. Returns its hash.
    pub(super) fn commit(
        self,
        content: impl AsRef<[u8]>,
        precondition: Precondition,
    ) -> anyhow::Result<(Written, String)> {
        let content = content.as_ref();
        check_size(content.len())?;
        let resolved = self.ticket.resolved().to_owned();
        let written = self.ticket.commit(content, precondition)?;
        let sha256 = ContentHash::hex_of(content);
        self.context.remember(file_seen(&resolved, &sha256));
        Ok((written, sha256))
    }
}

/// Waits for the file that `path` leads to, then changes it on a thread for
/// blocking work.
pub(super) async fn change_file(
    context: ToolContext,
    path: &str,
    change: impl FnOnce(FileChange) -> anyhow::Result<Value> + Send + 'static,
) -> anyhow::Result<ToolResult> {
    let target = spelled(path);
    let guard = lock_file(&context, target.clone()).await?;
    blocking(move || {
        let _guard = guard;
        context.check_cancelled()?;
        let door = context.policy.door();
        let ticket = door.prepare_write(&target)?;
        let file = FileChange {
            path: shown(door, ticket.resolved()),
            seen: last_seen(&context.memory, ticket.resolved()),
            target,
            ticket,
            context: context.clone(),
        };
        Ok(ToolResult::json(change(file)?))
    })
    .await
}

/// Waits for the file a path leads to and holds it.
async fn lock_file(context: &ToolContext, target: PathBuf) -> anyhow::Result<PathLockGuard> {
    let resolved = resolve_file(context, target).await?;
    lock_path(context, resolved).await
}

/// Where the file is or would be, free of links.
pub(super) async fn resolve_file(
    context: &ToolContext,
    target: PathBuf,
) -> anyhow::Result<PathBuf> {
    let policy = Arc::clone(&context.policy);
    let scratch = Arc::clone(context.tool_sessions.scratch());
    blocking(move || {
        // The scratch directory has a mode of its own, so it is made by its
        // owner, not as some missing parent.
        if target.starts_with(scratch.path()) {
            scratch.create()?;
        }
        let ticket = policy.door().prepare_write(&target)?;
        Ok(ticket.resolved().to_owned())
    })
    .await
}

/// Waits for a resolved path and holds it.
pub(super) async fn lock_path(
    context: &ToolContext,
    resolved: PathBuf,
) -> anyhow::Result<PathLockGuard> {
    tokio::select! {
        biased;
        () = context.cancel.cancelled() => Err(cancelled().into()),
        guard = context.path_locks.lock(resolved) => Ok(guard),
    }
}

/// The change that `after` makes of a file's text, as a unified diff. Nothing
/// where the file cannot be read as text, or stays as it is.
pub(super) async fn diff_file(
    context: ToolContext,
    path: &str,
    after: impl FnOnce(&str) -> Option<String> + Send + 'static,
) -> Option<String> {
    let target = spelled(path);
    let diff = blocking(move || {
        let door = context.policy.door();
        let ticket = door.prepare_write(&target)?;
        let before = match ticket.existing()? {
            Some(mut file) => String::from_utf8(file.read_bounded(EDIT_FILE_BYTES)?)?,
            None => String::new(),
        };
        let Some(after) = after(&before) else {
            return Ok(None);
        };
        let name = shown(door, ticket.resolved());
        Ok(unified_diff(&name, &name, &before, &after))
    });
    diff.await.ok().flatten()
}

/// What changes between two texts; none if nothing does.
pub(super) fn unified_diff(
    old_name: &str,
    new_name: &str,
    before: &str,
    after: &str,
) -> Option<String> {
    let diff = TextDiff::configure()
        .timeout(DIFF_TIME)
        .diff_lines(before, after);
    let text = diff.unified_diff().header(old_name, new_name).to_string();
    (!text.is_empty()).then_some(text)
}

fn check_size(bytes: usize) -> anyhow::Result<()> {
    if bytes > WRITE_BYTES {
        bail!("the content has {bytes} bytes, over the limit of {WRITE_BYTES}; write it in parts");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_change_is_shown_with_its_surroundings() {
        let before = "1\n2\n3\n4\n5\n6\n";
        assert_eq!(
            unified_diff("a.txt", "a.txt", before, &before.replace('5', "five")).unwrap(),
            "--- a.txt\n+++ a.txt\n@@ -2,5 +2,5 @@\n 2\n 3\n 4\n-5\n+five\n 6\n"
        );
        assert_eq!(unified_diff("a.txt", "a.txt", before, before), None);
    }

    /// However large and different two texts are, the comparison ends.
    #[test]
    fn a_comparison_takes_so_long_and_then_gets_coarse() {
        let lines = |start: usize| -> String {
            (start..start + 60_000).map(|n| format!("{n}\n")).collect()
        };
        let (before, after) = (lines(0), lines(1_000_000));
        let started = Instant::now();
        assert!(unified_diff("a", "a", &before, &after).is_some());
        assert!(
            started.elapsed() < DIFF_TIME * 25,
            "{:?}",
            started.elapsed()
        );
    }
}
