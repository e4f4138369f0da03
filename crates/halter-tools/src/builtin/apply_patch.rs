//! `apply_patch`: several changes of several files, in the public patch format.

mod grammar;
mod place;

use super::file_set::{FileKey, FileSet, change_files, diff_files};
use super::support::{CHANGES, spelled};
use crate::context::ToolContext;
use crate::typed::TypedTool;
use anyhow::{Context as _, bail};
use async_trait::async_trait;
use grammar::{Hunk, PatchedFile};
use halter_protocol::{Action, ToolCapabilities, ToolResult};
use place::PlacedHunk;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Change several files at once; all of the patch is applied, or nothing.
/// Between `*** Begin Patch` and `*** End Patch`, name each file:
/// `*** Add File: path` and its lines, each after `+`; `*** Delete File: path`;
/// `*** Update File: path`, optionally `*** Move to: path`, and hunks. A hunk
/// starts with `@@`, or `@@ line above it` to say where, and has lines after
/// ` ` (kept), `-` (removed) or `+` (added); quote about three kept lines
/// around a change.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct ApplyPatchInput {
    /// The patch.
    patch: String,
}

pub(crate) struct ApplyPatchTool;

#[async_trait]
impl TypedTool for ApplyPatchTool {
    type Input = ApplyPatchInput;
    const NAME: &'static str = "apply_patch";
    const SUMMARY: Option<&'static str> = Some("patch several files");
    const RARE: bool = true;

    fn capabilities(&self) -> ToolCapabilities {
        CHANGES
    }

    /// Every path the patch names. One that cannot be read, or is too large,
    /// names none and changes nothing.
    fn actions(&self, input: &Value) -> Vec<Action> {
        let patch = input.get("patch").and_then(Value::as_str);
        let parsed = patch.and_then(|patch| grammar::parse(patch).ok());
        let paths = parsed.into_iter().flat_map(|patch| patch.paths);
        let write = |path: &str| Action::Write {
            path: spelled(path),
        };
        paths.map(write).collect()
    }

    async fn diff(&self, context: ToolContext, input: ApplyPatchInput) -> Option<String> {
        diff_files(context, move |files| plan(files, &input.patch).map(drop)).await
    }

    async fn run(
        &self,
        context: ToolContext,
        input: ApplyPatchInput,
    ) -> anyhow::Result<ToolResult> {
        let patch = input.patch;
        let paths = grammar::parse(&patch)?.paths;
        let paths = paths.into_iter().map(str::to_owned).collect();
        let (placed, changed) =
            change_files(context, paths, move |files| plan(files, &patch)).await?;
        let files: Vec<Value> = changed
            .into_iter()
            .map(|file| {
                let hunks = placed.get(&file.path);
                let mut value = json!(file);
                if let (Some(hunks), Some(object)) = (hunks, value.as_object_mut()) {
                    object.insert("hunks".to_owned(), json!(hunks));
                }
                value
            })
            .collect();
        Ok(ToolResult::json(json!({ "files": files })))
    }
}

/// Where the hunks of each file went, by the path it has in the end.
type Placed = BTreeMap<String, Vec<PlacedHunk>>;

fn plan(files: &mut FileSet, patch: &str) -> anyhow::Result<Placed> {
    let mut placed = Placed::new();
    for file in grammar::parse(patch)?.files {
        let key = files.open(file.path)?;
        match file.change {
            PatchedFile::Add(lines) => {
                if files.exists(&key) {
                    bail!(
                        "'{}' exists already, so it is not added; use `*** Update File`, or \
                         `*** Delete File` before it to replace all of it",
                        files.shown(&key)
                    );
                }
                let text = lines.iter().flat_map(|line| [*line, "\n"]).collect();
                files.put(&key, text)?;
            }
            PatchedFile::Delete => files.remove(&key)?,
            PatchedFile::Update { move_to, hunks } => {
                let mut at = update(files, &key, &hunks)?;
                let mut name = files.shown(&key);
                if let Some(target) = move_to {
                    let target = files.open(target)?;
                    files.rename(&key, &target)?;
                    at.splice(0..0, placed.remove(&name).unwrap_or_default());
                    name = files.shown(&target);
                }
                placed.entry(name).or_default().extend(at);
            }
        }
    }
    Ok(placed)
}

fn update(
    files: &mut FileSet,
    key: &FileKey,
    hunks: &[Hunk<'_>],
) -> anyhow::Result<Vec<PlacedHunk>> {
    let text = files.text(key)?;
    if hunks.is_empty() {
        return Ok(Vec::new());
    }
    let applied = place::apply(text, hunks);
    let (text, placed) = applied.with_context(|| {
        format!(
            "'{}' does not take the patch; nothing was changed",
            files.shown(key)
        )
    })?;
    files.put(key, text)?;
    Ok(placed)
}
