//! `delete`: a file, a link, or a directory with all it holds.

use super::change::lock_path;
use super::file_set::diff_files;
use super::file_views::last_seen;
use super::support::{CHANGES, blocking, path_in, shown, spelled};
use crate::context::ToolContext;
use crate::limits::DELETE_ENTRIES;
use crate::typed::TypedTool;
use anyhow::bail;
use async_trait::async_trait;
use halter_policy::{DeleteTicket, FileDoor};
use halter_protocol::{Action, ToolCapabilities, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Delete a file, or a directory with all it holds.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct DeleteInput {
    /// What to delete. A link is deleted itself.
    #[schemars(length(min = 1))]
    path: String,
    /// Needed for a directory.
    #[serde(default)]
    recursive: bool,
}

pub(crate) struct DeleteTool;

#[async_trait]
impl TypedTool for DeleteTool {
    type Input = DeleteInput;
    const NAME: &'static str = "delete";
    const SUMMARY: Option<&'static str> = Some("delete files or directories");
    const RARE: bool = true;

    fn capabilities(&self) -> ToolCapabilities {
        CHANGES
    }

    fn actions(&self, input: &Value) -> Vec<Action> {
        let path = path_in(input, "path").into_iter();
        path.map(|path| Action::Write { path }).collect()
    }

    async fn diff(&self, context: ToolContext, input: DeleteInput) -> Option<String> {
        let target = spelled(&input.path);
        let policy = context.policy.clone();
        let tree = blocking(move || {
            let ticket = policy.door().prepare_delete(&target)?;
            if !ticket.is_directory() {
                return Ok(None);
            }
            let names = ticket.check_tree(DELETE_ENTRIES)?;
            let path = shown(policy.door(), ticket.resolved());
            Ok(Some(format!("deleted {path}/ and {names} names in it\n")))
        });
        match tree.await.ok()? {
            Some(tree) => Some(tree),
            None => {
                let path = input.path;
                diff_files(context, move |files| {
                    let file = files.open(&path)?;
                    files.remove(&file)
                })
                .await
            }
        }
    }

    async fn run(&self, context: ToolContext, input: DeleteInput) -> anyhow::Result<ToolResult> {
        let target = spelled(&input.path);
        let policy = context.policy.clone();
        let named = target.clone();
        let resolved = blocking(move || {
            let ticket = policy.door().prepare_delete(&named)?;
            Ok(ticket.resolved().to_owned())
        })
        .await?;
        let guard = lock_path(&context, resolved).await?;
        blocking(move || {
            let _guard = guard;
            context.check_cancelled()?;
            let result = delete(&context, target, input.recursive)?;
            Ok(ToolResult::json(result))
        })
        .await
    }
}

fn delete(context: &ToolContext, target: PathBuf, recursive: bool) -> anyhow::Result<Value> {
    let door = context.policy.door();
    let ticket = door.prepare_delete(&target)?;
    let path = shown(door, ticket.resolved());
    if !ticket.is_directory() {
        refuse_stale(context, door, &ticket, &path)?;
        ticket.commit()?;
        return Ok(json!({ "path": path, "deleted": 1 }));
    }
    if !recursive {
        bail!("'{path}' is a directory; set recursive=true to delete it with all it holds");
    }
    let names = ticket.check_tree(DELETE_ENTRIES)?;
    // One step for all of it; what cannot be removed then comes back.
    ticket.set_aside()?.discard()?;
    Ok(json!({ "path": path, "deleted": names + 1 }))
}

/// A file this session has seen is deleted only while it is as seen.
fn refuse_stale(
    context: &ToolContext,
    door: &FileDoor,
    ticket: &DeleteTicket,
    path: &str,
) -> anyhow::Result<()> {
    let Some(seen) = last_seen(&context.memory, ticket.resolved()) else {
        return Ok(());
    };
    let file = door.prepare_write(ticket.resolved())?.existing()?;
    let now = file.map(|mut file| file.sha256()).transpose()?;
    if now.is_some_and(|now| now != seen) {
        bail!("'{path}' has changed since you last read it; read it again before you delete it");
    }
    Ok(())
}
