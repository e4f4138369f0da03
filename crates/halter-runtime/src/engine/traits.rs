//! How calls of a tool are scheduled.

use halter_protocol::{
    ToolCall, ToolCapabilities, ToolConcurrency, ToolError, ToolErrorCode, ToolSpec,
};

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

    /// Those of the tool a call names, if there is such a tool.
    pub fn of(specs: &[ToolSpec], name: &str) -> Option<Self> {
        let spec = specs.iter().find(|spec| spec.name.as_str() == name)?;
        Some(Self::from(spec))
    }

    /// True if two calls may run at the same time: neither is exclusive, and
    /// what only reads does not run beside what changes something.
    pub fn runs_beside(&self, other: &Self) -> bool {
        use ToolConcurrency::{Exclusive, ReadOnly};
        let disturbs = |reader: &Self, changer: &Self| {
            reader.concurrency == ReadOnly && changer.capabilities.mutating
        };
        self.concurrency != Exclusive
            && other.concurrency != Exclusive
            && !disturbs(self, other)
            && !disturbs(other, self)
    }

    /// True if the call may start before the assistant message is committed.
    pub fn may_start_early(&self) -> bool {
        !self.capabilities.mutating && self.concurrency != ToolConcurrency::Exclusive
    }
}

impl From<&ToolSpec> for ToolTraits {
    fn from(spec: &ToolSpec) -> Self {
        Self {
            concurrency: spec.concurrency,
            capabilities: spec.capabilities,
        }
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
