//! `rename`: gives a file another name.

use super::change::{lock_path, resolve_file};
use super::file_views::{file_seen, last_seen};
use super::support::{CHANGES, blocking, path_in, shown, spelled};
use crate::context::ToolContext;
use crate::typed::TypedTool;
use async_trait::async_trait;
use halter_policy::PolicyError;
use halter_protocol::{Action, ToolCapabilities, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Rename or move a file. The new name must be free; missing directories are
/// made.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct RenameInput {
    /// The file. A link is renamed itself.
    #[schemars(length(min = 1))]
    from: String,
    /// Its new path.
    #[schemars(length(min = 1))]
    to: String,
}

pub(crate) struct RenameTool;

#[async_trait]
impl TypedTool for RenameTool {
    type Input = RenameInput;
    const NAME: &'static str = "rename";
    const SUMMARY: Option<&'static str> = Some("rename or move a file");
    const RARE: bool = true;

    fn capabilities(&self) -> ToolCapabilities {
        CHANGES
    }

    fn actions(&self, input: &Value) -> Vec<Action> {
        let paths = ["from", "to"].into_iter();
        let paths = paths.filter_map(|field| path_in(input, field));
        paths.map(|path| Action::Write { path }).collect()
    }

    async fn diff(&self, _: ToolContext, input: RenameInput) -> Option<String> {
        Some(format!("moved {} to {}\n", input.from, input.to))
    }

    async fn run(&self, context: ToolContext, input: RenameInput) -> anyhow::Result<ToolResult> {
        let policy = context.policy.clone();
        let (from, to) = (spelled(&input.from), spelled(&input.to));
        let named = from.clone();
        let source = blocking(move || {
            let ticket = policy.door().prepare_delete(&named)?;
            Ok(ticket.resolved().to_owned())
        })
        .await?;
        let target = resolve_file(&context, to.clone()).await.map_err(explain)?;
        // In one order for all, so that two calls never wait for each other.
        let mut guards = Vec::new();
        for path in BTreeSet::from([source, target]) {
            guards.push(lock_path(&context, path).await?);
        }
        blocking(move || {
            let _guards = guards;
            context.check_cancelled()?;
            let door = context.policy.door();
            let ticket = door.prepare_rename(&from, &to);
            let ticket = ticket.map_err(|error| explain(error.into()))?;
            let (from, to) = (ticket.from().to_owned(), ticket.to());
            ticket.commit_new()?;
            if let Some(sha256) = last_seen(&context.memory, &from) {
                context.remember(file_seen(&to, &sha256));
            }
            let result = json!({ "from": shown(door, &from), "to": shown(door, &to) });
            Ok(ToolResult::json(result))
        })
        .await
    }
}

fn explain(error: anyhow::Error) -> anyhow::Error {
    let refused = error.downcast_ref::<PolicyError>();
    match matches!(refused, Some(PolicyError::NotAFile { .. })) {
        true => error.context(
            "only files are renamed; name the new file in full, and move the files of a directory \
             one by one, with `apply_patch`, or with `shell`",
        ),
        false => error,
    }
}
