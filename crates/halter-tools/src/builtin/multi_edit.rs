//! `multi_edit`: several replacements in one or several files, all or nothing.

use super::edit::{Replacement, replace_in};
use super::file_set::{FileSet, change_files, diff_files};
use super::support::{CHANGES, spelled};
use crate::context::ToolContext;
use crate::limits::MULTI_EDITS;
use crate::typed::TypedTool;
use anyhow::Context as _;
use async_trait::async_trait;
use halter_protocol::{Action, ToolCapabilities, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// Replace text in several places, of one file or several; all edits are made,
/// or none. Each sees what the ones before it made. Otherwise as `edit`.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct MultiEditInput {
    /// The edits, in order.
    #[schemars(length(min = 1, max = MULTI_EDITS))]
    edits: Vec<OneEdit>,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
struct OneEdit {
    /// The file.
    #[schemars(length(min = 1))]
    path: String,
    /// The text to replace, with its whitespace.
    #[schemars(length(min = 1))]
    old_string: String,
    /// The text to put in its place; may be empty.
    new_string: String,
    /// Replace every occurrence.
    #[serde(default)]
    replace_all: bool,
}

pub(crate) struct MultiEditTool;

#[async_trait]
impl TypedTool for MultiEditTool {
    type Input = MultiEditInput;
    const NAME: &'static str = "multi_edit";
    const SUMMARY: Option<&'static str> = Some("several edits at once");
    const RARE: bool = true;

    fn capabilities(&self) -> ToolCapabilities {
        CHANGES
    }

    fn actions(&self, input: &Value) -> Vec<Action> {
        let edits = input.get("edits").and_then(Value::as_array);
        let named = edits.into_iter().flatten().filter_map(|edit| {
            let path = spelled(edit.get("path")?.as_str()?);
            Some(Action::Write { path })
        });
        let mut actions = Vec::new();
        for action in named {
            if !actions.contains(&action) {
                actions.push(action);
            }
        }
        actions
    }

    async fn diff(&self, context: ToolContext, input: MultiEditInput) -> Option<String> {
        diff_files(context, move |files| plan(files, &input.edits).map(drop)).await
    }

    async fn run(&self, context: ToolContext, input: MultiEditInput) -> anyhow::Result<ToolResult> {
        let paths = input.edits.iter().map(|edit| edit.path.clone()).collect();
        let (replacements, files) =
            change_files(context, paths, move |files| plan(files, &input.edits)).await?;
        Ok(ToolResult::json(json!({
            "replacements_applied": replacements,
            "files": files,
        })))
    }
}

/// Makes all edits in memory. Gives how many replacements each took.
fn plan(files: &mut FileSet, edits: &[OneEdit]) -> anyhow::Result<Vec<usize>> {
    let mut replacements = Vec::new();
    for (index, edit) in edits.iter().enumerate() {
        let count = one_edit(files, edit)
            .with_context(|| format!("edit {} failed, so none was made", index + 1))?;
        replacements.push(count);
    }
    Ok(replacements)
}

fn one_edit(files: &mut FileSet, edit: &OneEdit) -> anyhow::Result<usize> {
    let key = files.open(&edit.path)?;
    let path = files.shown(&key);
    let wanted = Replacement {
        old: &edit.old_string,
        new: &edit.new_string,
        all: edit.replace_all,
    };
    let (text, count) = replace_in(&path, files.text(&key)?, &wanted)?;
    files.put(&key, text)?;
    Ok(count)
}
