//! Whoever looks at files that calls have changed.

use crate::context::ToolContext;
use async_trait::async_trait;
use halter_protocol::{Action, ToolResult};
use serde_json::Value;
use std::path::PathBuf;

/// Looks at files that a call has changed, and adds to its result: what a
/// language server says of them, for one. It runs once per call, after the tool
/// and before hooks, and bounds its own time and size.
#[async_trait]
pub trait ChangeObserver: Send + Sync {
    /// What to add: the name of a field of the result, and its value.
    async fn changed(&self, context: &ToolContext, paths: &[PathBuf]) -> Option<(String, Value)>;
}

/// The files that a call says it writes, as it spells them.
pub(crate) fn written(actions: &[Action]) -> Vec<PathBuf> {
    let written = actions.iter().filter_map(|action| match action {
        Action::Write { path } => Some(path.clone()),
        _ => None,
    });
    written.collect()
}

/// The result with a field more. One that has no fields is left as it is.
pub(crate) fn with_field(result: ToolResult, name: String, value: Value) -> ToolResult {
    match result {
        ToolResult::Json {
            value: Value::Object(mut fields),
        } => {
            fields.insert(name, value);
            ToolResult::json(Value::Object(fields))
        }
        ToolResult::Text { text } => ToolResult::text(format!("{text}\n{name}: {value}")),
        other => other,
    }
}
