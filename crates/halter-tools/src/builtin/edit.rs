//! `edit`: replaces text in a file, or says exactly why it does not.

use super::change::{FileChange, change_file, diff_file};
use super::find_text::{FileText, line_list, nearest_lines};
use super::support::{CHANGES, path_in};
use crate::context::ToolContext;
use crate::limits::EDIT_FILE_BYTES;
use crate::typed::TypedTool;
use anyhow::{anyhow, bail};
use async_trait::async_trait;
use halter_policy::{PolicyError, Precondition};
use halter_protocol::{Action, ContentHash, ToolCapabilities, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// Replace text in a file. `old_string` must occur exactly once, so quote
/// enough of its surroundings, exactly as `read` shows them; or set
/// `replace_all`.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct EditInput {
    /// Absolute, or from the working directory.
    #[schemars(length(min = 1))]
    path: String,
    /// The text to replace, with its whitespace.
    #[schemars(length(min = 1))]
    old_string: String,
    /// The text to put in its place; may be empty.
    new_string: String,
    /// Only if the file still has this hash, as `read` reported it.
    #[schemars(regex(pattern = "^[0-9a-fA-F]{64}$"), extend("unsent" = true))]
    expected_sha256: Option<String>,
    /// Replace every occurrence.
    #[serde(default)]
    replace_all: bool,
}

pub(crate) struct EditTool;

#[async_trait]
impl TypedTool for EditTool {
    type Input = EditInput;
    const NAME: &'static str = "edit";

    fn capabilities(&self) -> ToolCapabilities {
        CHANGES
    }

    fn actions(&self, input: &Value) -> Vec<Action> {
        let path = path_in(input, "path").into_iter();
        path.map(|path| Action::Write { path }).collect()
    }

    async fn diff(&self, context: ToolContext, input: EditInput) -> Option<String> {
        let path = input.path.clone();
        let after = move |before: &str| {
            let wanted = Replacement {
                old: &input.old_string,
                new: &input.new_string,
                all: input.replace_all,
            };
            let replaced = replace_in(&input.path, before, &wanted).ok()?;
            Some(replaced.0)
        };
        diff_file(context, &path, after).await
    }

    async fn run(&self, context: ToolContext, input: EditInput) -> anyhow::Result<ToolResult> {
        let path = input.path.clone();
        change_file(context, &path, move |file| edit(file, &input)).await
    }
}

fn edit(file: FileChange, input: &EditInput) -> anyhow::Result<Value> {
    let path = file.path.clone();
    let Some(mut existing) = file.ticket.existing()? else {
        return Err(PolicyError::NotFound { path: file.target }.into());
    };
    let size = existing.metadata().len();
    if size > EDIT_FILE_BYTES {
        bail!(
            "'{path}' has {size} bytes, over the {EDIT_FILE_BYTES} that can be edited; \
             change it with a program"
        );
    }
    let bytes = existing.read_bounded(EDIT_FILE_BYTES)?;
    let hash_before = ContentHash::hex_of(&bytes);
    refuse_stale(input, file.seen.as_deref(), &path, &hash_before)?;
    let content = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        anyhow!("'{path}' is not UTF-8 text (first bad byte at offset {at}) and cannot be edited")
    })?;

    let wanted = Replacement {
        old: &input.old_string,
        new: &input.new_string,
        all: input.replace_all,
    };
    let (new_content, count) = replace_in(&path, &content, &wanted)?;
    let unchanged = Precondition::Unchanged(hash_before.clone());
    let (_, hash_after) = file.commit(&new_content, unchanged)?;
    Ok(json!({
        "path": path,
        "occurrences_in_file": count,
        "replacements_applied": count,
        "file_hash_before": hash_before,
        "file_hash_after": hash_after,
    }))
}

/// Text to put in the place of another.
pub(super) struct Replacement<'a> {
    pub(super) old: &'a str,
    pub(super) new: &'a str,
    /// Every occurrence; otherwise there must be one.
    pub(super) all: bool,
}

/// The content with the replacement made, and how often it was.
pub(super) fn replace_in(
    path: &str,
    content: &str,
    wanted: &Replacement<'_>,
) -> anyhow::Result<(String, usize)> {
    if wanted.old == wanted.new {
        bail!("`old_string` and `new_string` are the same: there is nothing to change");
    }
    let text = FileText::new(content);
    let matches = text.find(wanted.old);
    match matches.as_slice() {
        [] => bail!(no_match(path, &text, wanted.old)),
        [_] => {}
        _ if wanted.all => {}
        many => bail!(
            "`old_string` occurs {} times in '{path}' (lines {}); quote more of the surroundings \
             of the one you mean, or set replace_all=true",
            many.len(),
            line_list(&text, many)
        ),
    }
    Ok((text.replace(&matches, wanted.new), matches.len()))
}

fn refuse_stale(
    input: &EditInput,
    seen: Option<&str>,
    path: &str,
    now: &str,
) -> anyhow::Result<()> {
    if let Some(expected) = &input.expected_sha256
        && !expected.eq_ignore_ascii_case(now)
    {
        bail!(
            "'{path}' has the hash {now}, not the `expected_sha256` {expected}: it has changed; \
             read it again, then repeat the edit"
        );
    }
    // A hash the caller gives is newer knowledge than a remembered view.
    if input.expected_sha256.is_none() && seen.is_some_and(|seen| seen != now) {
        bail!("'{path}' has changed since you last read it; read it again, then repeat the edit");
    }
    Ok(())
}

fn no_match(path: &str, text: &FileText<'_>, wanted: &str) -> String {
    let near = nearest_lines(text, wanted);
    match near.is_empty() {
        true => format!(
            "`old_string` does not occur in '{path}', nor anything like it; read the file and \
             quote it exactly"
        ),
        false => format!(
            "`old_string` does not occur in '{path}'. Nearest: {}. Quote the text exactly, \
             whitespace included",
            near.join("; ")
        ),
    }
}
