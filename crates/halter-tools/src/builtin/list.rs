//! `list`: the names in a directory.

use super::support::{LOOKS, blocking, path_in, shown, spelled};
use crate::context::ToolContext;
use crate::limits::{LIST_DEFAULT_ENTRIES, LIST_MAX_ENTRIES};
use crate::typed::TypedTool;
use async_trait::async_trait;
use halter_protocol::encoding::escape_path;
use halter_protocol::{Action, ToolCapabilities, ToolConcurrency, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::Path;

/// List the names in one directory, hidden and ignored ones too. To find files
/// further down use `glob`.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct ListInput {
    /// The directory; the working directory if left out.
    #[schemars(length(min = 1))]
    path: Option<String>,
    /// How many names to return at most.
    #[serde(default = "default_entries")]
    #[schemars(range(min = 1, max = LIST_MAX_ENTRIES))]
    max_results: usize,
}

fn default_entries() -> usize {
    LIST_DEFAULT_ENTRIES
}

pub(crate) struct ListTool;

#[async_trait]
impl TypedTool for ListTool {
    type Input = ListInput;
    const NAME: &'static str = "list";
    const SUMMARY: Option<&'static str> = Some("list a directory");
    const RARE: bool = true;

    fn concurrency(&self) -> ToolConcurrency {
        ToolConcurrency::ReadOnly
    }

    fn capabilities(&self) -> ToolCapabilities {
        LOOKS
    }

    fn actions(&self, input: &Value) -> Vec<Action> {
        let path = path_in(input, "path").unwrap_or_else(|| ".".into());
        vec![Action::Read { path }]
    }

    async fn run(&self, context: ToolContext, input: ListInput) -> anyhow::Result<ToolResult> {
        blocking(move || {
            context.check_cancelled()?;
            let door = context.policy.door();
            let target = spelled(input.path.as_deref().unwrap_or("."));
            let directory = door.open_dir(&target)?;
            let listing = directory.entries(input.max_results)?;
            let names = |kind: &str| -> Vec<String> {
                let found = listing.entries.iter().filter(|entry| entry.kind == kind);
                found
                    .map(|entry| escape_path(Path::new(&entry.name)))
                    .collect()
            };
            let mut result = json!({
                "path": shown(door, directory.path()),
                "directories": names("directory"),
                "files": names("file"),
            });
            if let Some(object) = result.as_object_mut() {
                for (key, kind) in [("links", "link"), ("others", "other")] {
                    let names = names(kind);
                    if !names.is_empty() {
                        object.insert(key.to_owned(), json!(names));
                    }
                }
                object.insert("truncated".to_owned(), json!(listing.truncated));
            }
            Ok(ToolResult::json(result))
        })
        .await
    }
}
