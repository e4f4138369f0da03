//! What the engine must know about tools and hooks to schedule them.

use super::input::HookPointKind;
use halter_protocol::{ToolCall, ToolCapabilities, ToolConcurrency, ToolError, ToolErrorCode};

/// The part of the world the engine asks without effects: pure look-ups.
pub trait Catalog: Send + Sync {
    /// How calls of a tool are scheduled; none for an unknown tool.
    fn traits_of(&self, tool: &str) -> Option<ToolTraits>;

    /// Checks a call's arguments against the schema of its tool.
    fn validate(&self, call: &ToolCall) -> Result<(), ToolError>;

    /// True if repeating this very call is how one waits.
    fn is_polling(&self, call: &ToolCall) -> bool;

    /// True if any hook listens at the point.
    fn has_hooks(&self, point: HookPointKind) -> bool;
}

/// How calls of a tool are scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolTraits {
    /// Which calls it may run beside.
    pub concurrency: ToolConcurrency,
    /// What the harness must know to run it.
    pub capabilities: ToolCapabilities,
}

impl ToolTraits {
    /// How a call nobody knows is scheduled: alone, so that it hides nothing.
    pub const UNKNOWN: Self = Self {
        concurrency: ToolConcurrency::Exclusive,
        capabilities: ToolCapabilities {
            mutating: false,
            requires_approval: false,
            cancellable: false,
            long_running: false,
        },
    };

    /// True if the call may start before the assistant message is committed.
    pub fn may_start_early(&self) -> bool {
        !self.capabilities.mutating && self.concurrency != ToolConcurrency::Exclusive
    }
}

/// The error of a call whose arguments are not a JSON object.
pub(crate) fn malformed_arguments(call: &ToolCall, written: &str) -> ToolError {
    let problem = match serde_json::from_str::<serde_json::Value>(written) {
        Ok(_) => "they are not a JSON object".to_owned(),
        Err(error) => error.to_string(),
    };
    ToolError::new(
        ToolErrorCode::InvalidArguments,
        format!(
            "the arguments of '{}' are not valid: {problem}. Send one JSON object that fits the tool's schema.",
            call.name
        ),
    )
}
