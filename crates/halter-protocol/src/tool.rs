//! Tools as data: specs, calls, results and errors.

use crate::content::{ContentPart, attachments};
use crate::ids::{Revision, ToolAlias, ToolCallId, ToolName};
use crate::memory::MemoryChange;
use crate::model::ProviderKind;
use crate::open_enum::open_enum;
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// The name of the tool that loads deferred ones.
pub const TOOL_SEARCH: &str = "tool_search";

/// The name under which models call tools that were loaded in the course of a
/// conversation, where their service takes none there. The provider offers it and
/// takes its calls apart: everyone else sees the tool that is meant.
pub const CALL_TOOL: &str = "call_tool";

/// Which calls of a step may run side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolConcurrency {
    /// Runs alone; calls before it finish first, calls after it wait.
    #[default]
    Exclusive,
    /// Runs beside other reads.
    ReadOnly,
    /// Runs beside any other call that is not exclusive.
    ParallelSafe,
}

/// What the harness must know about a tool to run it well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ToolCapabilities {
    /// It writes or has effects outside the session: its start is durable
    /// before it runs.
    pub mutating: bool,
    /// The harness or a hook should mediate the risk of running it.
    pub requires_approval: bool,
    /// It stops by its cancellation token. Others are abandoned after a grace,
    /// with an unknown outcome.
    pub cancellable: bool,
    /// It may take long: no default deadline applies.
    pub long_running: bool,
}

/// Everything about a tool except how it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolSpec {
    /// The name a model calls it by.
    pub name: ToolName,
    /// What it does, in words a model acts on.
    pub description: String,
    /// The JSON Schema of its input.
    pub input_schema: Value,
    /// Which calls it may run beside.
    #[serde(default)]
    pub concurrency: ToolConcurrency,
    /// What the harness must know to run it.
    #[serde(default)]
    pub capabilities: ToolCapabilities,
    /// Names to use instead on particular providers.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub provider_aliases: IndexMap<ProviderKind, ToolAlias>,
}

/// A tool that joined a session after it had started, as a model is told of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToldTool {
    /// The name a model calls it by.
    pub name: ToolName,
    /// What it does, in one line. None: it is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Names its definition: another one if that changes.
    pub revision: Revision,
    /// The definition, if the model had loaded another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<Arc<ToolSpec>>,
}

/// A model's wish to run a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolCall {
    /// Pairs the call with its result.
    pub id: ToolCallId,
    /// The tool.
    pub name: ToolName,
    /// The input, an object for every well-formed call.
    pub arguments: Value,
}

/// What a tool returned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolResult {
    /// Nothing to say.
    Empty,
    /// Text for the model to read.
    Text {
        /// The text.
        text: String,
    },
    /// Structured data.
    Json {
        /// The value.
        value: Value,
    },
    /// Text, images and documents, in this order. A model service that takes
    /// no images in results gets them another way, or their description.
    Parts {
        /// The parts.
        parts: Vec<ContentPart>,
    },
}

impl ToolResult {
    /// A text result.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// A structured result.
    pub fn json(value: Value) -> Self {
        Self::Json { value }
    }

    /// A result that is more than text.
    ///
    /// ```
    /// use halter_protocol::{ContentPart, ToolResult};
    ///
    /// # let screenshot = Vec::new();
    /// let result = ToolResult::parts([
    ///     ContentPart::text("the page after the click"),
    ///     ContentPart::image("image/png", screenshot),
    /// ]);
    /// assert_eq!(result.attachments().count(), 1);
    /// ```
    pub fn parts(parts: impl IntoIterator<Item = ContentPart>) -> Self {
        Self::Parts {
            parts: parts.into_iter().collect(),
        }
    }

    /// The images and documents in it, in order.
    pub fn attachments(&self) -> impl Iterator<Item = &ContentPart> {
        let parts: &[ContentPart] = match self {
            Self::Parts { parts } => parts,
            _ => &[],
        };
        attachments(parts)
    }

    /// The result as the text a model reads; images and documents are named
    /// by type and size.
    pub fn to_model_text(&self) -> String {
        match self {
            Self::Empty => String::new(),
            Self::Text { text } => text.clone(),
            Self::Json { value } => value.to_string(),
            Self::Parts { parts } => {
                let parts: Vec<String> = parts.iter().map(ContentPart::describe).collect();
                parts.join("\n")
            }
        }
    }
}

open_enum! {
    /// Why a call has no result. Stable, for programs to match on.
    pub enum ToolErrorCode {
        /// The tool ran and failed.
        Failed = "tool_failed",
        /// No tool of that name is available.
        UnknownTool = "unknown_tool",
        /// The tool was not loaded; it is now.
        NotLoaded = "tool_not_loaded",
        /// The arguments are not JSON or do not fit the schema.
        InvalidArguments = "invalid_arguments",
        /// Policy forbids it.
        PolicyDenied = "policy_denied",
        /// A hook blocked it.
        HookBlocked = "hook_blocked",
        /// The process or the system has no descriptor left: the turn ends.
        OutOfDescriptors = "out_of_descriptors",
        /// A budget has no room for the call.
        BudgetExceeded = "budget_exceeded",
        /// The turn was cancelled before or while it ran.
        Cancelled = "cancelled",
        /// Its deadline passed.
        TimedOut = "timed_out",
        /// It had started and its end was not seen: it may or may not have
        /// taken effect.
        OutcomeUnknown = "outcome_unknown",
    }
}

/// A call that has no result, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[error("{message}")]
pub struct ToolError {
    /// The stable reason.
    pub code: ToolErrorCode,
    /// What happened, for a model and a person to read.
    pub message: String,
}

impl ToolError {
    /// An error with a stable reason and an explanation.
    pub fn new(code: ToolErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolExecutionOutcome {
    /// The call.
    pub call: ToolCall,
    /// `{"ok": …}` or `{"error": {"code", "message"}}`.
    #[serde(with = "ok_or_error")]
    #[schemars(with = "ok_or_error::OkOrError")]
    pub result: Result<Arc<ToolResult>, ToolError>,
    /// What the session remembers of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remembered: Vec<MemoryChange>,
}

impl ToolExecutionOutcome {
    /// How a call ended that leaves nothing to remember.
    pub fn new(call: ToolCall, result: Result<Arc<ToolResult>, ToolError>) -> Self {
        Self {
            call,
            result,
            remembered: Vec::new(),
        }
    }

    /// The tools that the call loaded.
    pub fn loaded_tools(&self) -> Vec<ToolName> {
        let loaded = self.remembered.iter().filter_map(|change| match change {
            MemoryChange::ToolLoaded { spec } => Some(spec.name.clone()),
            _ => None,
        });
        loaded.collect()
    }
}

mod ok_or_error {
    use super::{ToolError, ToolResult};
    use schemars::JsonSchema;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::sync::Arc;

    #[derive(Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    #[schemars(rename = "ToolOkOrError")]
    pub enum OkOrError {
        Ok(ToolResult),
        Error(ToolError),
    }

    #[derive(Serialize)]
    #[serde(rename_all = "snake_case")]
    enum WireRef<'a> {
        Ok(&'a ToolResult),
        Error(&'a ToolError),
    }

    pub fn serialize<S: Serializer>(
        result: &Result<Arc<ToolResult>, ToolError>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match result {
            Ok(value) => WireRef::Ok(value),
            Err(error) => WireRef::Error(error),
        }
        .serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Result<Arc<ToolResult>, ToolError>, D::Error> {
        Ok(match OkOrError::deserialize(deserializer)? {
            OkOrError::Ok(value) => Ok(Arc::new(value)),
            OkOrError::Error(error) => Err(error),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn parts_read_as_text_and_descriptions() {
        let result = ToolResult::parts([
            ContentPart::text("a picture"),
            ContentPart::image("image/png", [1, 2, 3]),
            ContentPart::document("application/pdf", [4]),
        ]);
        assert_eq!(result.attachments().count(), 2);
        assert_eq!(
            result.to_model_text(),
            "a picture\n[image of type image/png, 3 bytes]\n\
             [document of type application/pdf, 1 bytes]"
        );
        let json = serde_json::to_value(&result).unwrap();
        assert_eq!(
            json.pointer("/parts/1"),
            Some(&json!({"kind": "image", "media_type": "image/png", "data": "AQID"}))
        );
    }

    #[test]
    fn outcomes_are_ok_or_error_objects() {
        let call = ToolCall {
            id: "call_1".into(),
            name: "read".into(),
            arguments: json!({"path": "a"}),
        };
        let fine = ToolExecutionOutcome::new(call.clone(), Ok(ToolResult::text("hello").into()));
        let denied = ToolError::new(ToolErrorCode::PolicyDenied, "no");
        let bad = ToolExecutionOutcome::new(call, Err(denied));
        assert_eq!(
            serde_json::to_value(&fine).unwrap()["result"],
            json!({"ok": {"kind": "text", "text": "hello"}})
        );
        assert_eq!(
            serde_json::to_value(&bad).unwrap()["result"],
            json!({"error": {"code": "policy_denied", "message": "no"}})
        );
        for outcome in [fine, bad] {
            let text = serde_json::to_string(&outcome).unwrap();
            assert_eq!(
                serde_json::from_str::<ToolExecutionOutcome>(&text).unwrap(),
                outcome
            );
        }
    }

    #[test]
    fn an_unknown_error_code_round_trips() {
        let text = r#"{"code":"quantum_noise","message":"?"}"#;
        let error: ToolError = serde_json::from_str(text).unwrap();
        assert_eq!(error.code, ToolErrorCode::Unknown("quantum_noise".into()));
        assert_eq!(serde_json::to_string(&error).unwrap(), text);
    }
}
