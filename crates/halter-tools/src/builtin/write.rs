//! `write`: a whole file at once.

use super::change::{FileChange, change_file, diff_file};
use super::support::{CHANGES, path_in};
use crate::context::ToolContext;
use crate::typed::TypedTool;
use anyhow::bail;
use async_trait::async_trait;
use halter_policy::Precondition;
use halter_protocol::{Action, ToolCapabilities, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// Create a file or replace all of it; missing directories are made. To change a
/// part use `edit`.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct WriteInput {
    /// Absolute, or from the working directory.
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
        CHANGES
    }

    fn actions(&self, input: &Value) -> Vec<Action> {
        let path = path_in(input, "path").into_iter();
        path.map(|path| Action::Write { path }).collect()
    }

    async fn diff(&self, context: ToolContext, input: WriteInput) -> Option<String> {
        let WriteInput { path, content } = input;
        diff_file(context, &path, move |_| Some(content)).await
    }

    async fn run(&self, context: ToolContext, input: WriteInput) -> anyhow::Result<ToolResult> {
        let WriteInput { path, content } = input;
        change_file(context, &path, move |file| write(file, &content)).await
    }
}

fn write(file: FileChange, content: &str) -> anyhow::Result<Value> {
    let path = file.path.clone();
    let precondition = unless_changed(&file)?;
    let (written, sha256) = file.commit(content, precondition)?;
    Ok(json!({
        "path": path,
        "created": written.created,
        "bytes": content.len(),
        "sha256": sha256,
    }))
}

/// A file this session has seen is replaced only while it is as seen. One that
/// is gone may be created again.
pub(super) fn unless_changed(file: &FileChange) -> anyhow::Result<Precondition> {
    let Some(seen) = &file.seen else {
        return Ok(Precondition::None);
    };
    let existing = file.ticket.existing()?;
    match existing.map(|mut file| file.sha256()).transpose()? {
        None => Ok(Precondition::None),
        Some(now) if now == *seen => Ok(Precondition::Unchanged(now)),
        Some(_) => bail!(
            "'{}' has changed since you last read it, and writing it now would undo that \
             change; read it again, then write or edit it",
            file.path
        ),
    }
}
