//! `write`: a whole file at once.

use super::file_views::{FileViews, file_views};
use super::support::{blocking, hex, shown, spelled};
use crate::context::ToolContext;
use crate::limits::WRITE_BYTES;
use crate::path_locks::PathLockGuard;
use crate::typed::TypedTool;
use anyhow::bail;
use async_trait::async_trait;
use halter_policy::{PolicyError, Precondition, ReadHandle, WriteTicket, sha256_hex};
use halter_protocol::{ToolCapabilities, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest, Sha256};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Create a file or replace all of it. Missing directories are made. To change
/// a part of a file use `edit`.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct WriteInput {
    /// The file, absolute or relative to the working directory.
    #[schemars(length(min = 1))]
    path: String,
    /// The whole new content.
    content: String,
}

pub(crate) struct WriteTool;

#[async_trait]
impl TypedTool for WriteTool {
    type Input = WriteInput;
    const NAME: &'static str = "write";

    fn capabilities(&self) -> ToolCapabilities {
        ToolCapabilities {
            mutating: true,
            ..ToolCapabilities::default()
        }
    }

    async fn run(&self, context: ToolContext, input: WriteInput) -> anyhow::Result<ToolResult> {
        check_size(input.content.len())?;
        let views = file_views(&context.tool_sessions)?;
        let target = spelled(&input.path);
        let guard = lock_file(&context, target.clone()).await?;
        blocking(move || write(&context, target, &input.content, &views, guard)).await
    }
}

fn write(
    context: &ToolContext,
    target: PathBuf,
    content: &str,
    views: &Arc<FileViews>,
    _guard: PathLockGuard,
) -> anyhow::Result<ToolResult> {
    let door = context.policy.door();
    let ticket = door.prepare_write(&target)?;
    let resolved = ticket.resolved().to_owned();
    let path = shown(door, &resolved);
    let precondition = precondition(&ticket, &path, views.last(&resolved))?;
    let written = ticket.commit(content.as_bytes(), precondition)?;
    let sha256 = sha256_hex(content.as_bytes());
    views.record(&resolved, &sha256);
    Ok(ToolResult::json(json!({
        "path": path,
        "created": written.created,
        "bytes": content.len(),
        "sha256": sha256,
    })))
}

/// A file this session has seen is replaced only while it is as seen. One that
/// is gone may be made anew.
fn precondition(
    ticket: &WriteTicket,
    path: &str,
    seen: Option<String>,
) -> anyhow::Result<Precondition> {
    let Some(seen) = seen else {
        return Ok(Precondition::None);
    };
    match ticket.existing()?.map(hash_of).transpose()? {
        None => Ok(Precondition::None),
        Some(now) if now == seen => Ok(Precondition::Unchanged(seen)),
        Some(_) => bail!(
            "'{path}' has changed since you last read it, and writing it now would undo that \
             change; read it again, then write or edit it"
        ),
    }
}

/// Waits for the file a path leads to and holds it.
pub(crate) async fn lock_file(
    context: &ToolContext,
    target: PathBuf,
) -> anyhow::Result<PathLockGuard> {
    let policy = Arc::clone(&context.policy);
    let scratch = Arc::clone(context.tool_sessions.scratch());
    let resolved = blocking(move || {
        // The scratch directory has a mode of its own, so it is made by its
        // owner, not as some missing parent.
        if target.starts_with(scratch.path()) {
            scratch.create()?;
        }
        let ticket = policy.door().prepare_write(&target)?;
        Ok(ticket.resolved().to_owned())
    })
    .await?;
    tokio::select! {
        biased;
        () = context.cancel.cancelled() => Err(crate::context::cancelled().into()),
        guard = context.path_locks.lock(resolved) => Ok(guard),
    }
}

pub(crate) fn check_size(bytes: usize) -> anyhow::Result<()> {
    if bytes > WRITE_BYTES {
        bail!("the content has {bytes} bytes, over the limit of {WRITE_BYTES}; write it in parts");
    }
    Ok(())
}

fn hash_of(handle: ReadHandle) -> anyhow::Result<String> {
    let resolved = handle.resolved().to_owned();
    let mut hash = Sha256::new();
    let mut file = handle.into_file();
    io::copy(&mut file, &mut HashWriter(&mut hash)).map_err(|source| PolicyError::Io {
        operation: "read",
        path: resolved,
        source,
    })?;
    Ok(hex(&hash.finalize()))
}

struct HashWriter<'a>(&'a mut Sha256);

impl io::Write for HashWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
