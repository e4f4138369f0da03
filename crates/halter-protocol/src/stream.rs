//! What a provider emits while a model answers.

use crate::ids::{BlockId, MessageId, ToolCallId, ToolName};
use crate::message::{OpaquePart, StopReason};
use crate::open_enum::open_enum;
use crate::usage::Usage;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// One normalized event of a model's answer.
///
/// An answer is a `MessageStart`, blocks that each start, grow and end, and a
/// `MessageEnd`. Blocks keep the order of their starts. A stream that ends
/// without `MessageEnd` was cut off.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum StreamEvent {
    /// The answer begins.
    MessageStart {
        /// Names the answer.
        id: MessageId,
    },
    /// A text block begins.
    TextStart {
        /// Names the block.
        id: BlockId,
    },
    /// A text block grows.
    TextDelta {
        /// The block.
        id: BlockId,
        /// The new text.
        delta: String,
    },
    /// A text block is complete.
    TextEnd {
        /// The block.
        id: BlockId,
        /// The provider's own form of the block.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        opaque: Option<OpaquePart>,
    },
    /// A reasoning block begins.
    ThinkingStart {
        /// Names the block.
        id: BlockId,
    },
    /// A reasoning block grows.
    ThinkingDelta {
        /// The block.
        id: BlockId,
        /// The new text.
        delta: String,
    },
    /// A reasoning block is complete.
    ThinkingEnd {
        /// The block.
        id: BlockId,
        /// The provider's own form of the block, signatures included.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        opaque: Option<OpaquePart>,
    },
    /// A tool call begins.
    ToolCallStart {
        /// Names the block.
        id: BlockId,
        /// Pairs the call with its result.
        tool_call_id: ToolCallId,
        /// The tool.
        name: ToolName,
    },
    /// The arguments of a tool call grow.
    ToolArgsDelta {
        /// The block.
        id: BlockId,
        /// More of the arguments' JSON text.
        delta: String,
    },
    /// A tool call is complete.
    ToolCallEnd {
        /// The block.
        id: BlockId,
        /// The provider's own form of the block.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        opaque: Option<OpaquePart>,
    },
    /// What the call has used so far, replacing earlier updates.
    UsageUpdate {
        /// The usage.
        usage: Usage,
    },
    /// The answer is complete.
    MessageEnd {
        /// The answer.
        id: MessageId,
        /// Why the model stopped.
        stop_reason: StopReason,
    },
    /// Something the user should know that does not stop the answer.
    ProviderWarning {
        /// What it is.
        message: String,
    },
}

open_enum! {
    /// What a caller can do about a provider's failure.
    pub enum ProviderErrorKind {
        /// It may pass: try again.
        Transient = "transient",
        /// Too many requests: try again later.
        RateLimited = "rate_limited",
        /// The credentials are missing or refused.
        Authentication = "authentication",
        /// The conversation is longer than the model takes.
        ContextOverflow = "context_overflow",
        /// The request cannot succeed as it is.
        Fatal = "fatal",
        /// The caller cancelled.
        Cancelled = "cancelled",
    }
}

/// A failure of a provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct ProviderError {
    /// What happened and what to do.
    pub message: String,
    /// What a caller can do about it.
    pub kind: ProviderErrorKind,
    /// How long the server asked to wait.
    pub backoff_hint: Option<Duration>,
    /// The HTTP status, if a server answered.
    pub status: Option<u16>,
    /// The server's name of the request, to ask its operator about.
    pub request_id: Option<String>,
    /// What to do next.
    pub hint: Option<String>,
}

/// Whether the same request may succeed later, as a kind.
impl From<bool> for ProviderErrorKind {
    fn from(retryable: bool) -> Self {
        if retryable {
            Self::Transient
        } else {
            Self::Fatal
        }
    }
}

impl ProviderError {
    /// A failure of a kind, or of one that may be retried (`true`) or not.
    pub fn new(message: impl Into<String>, kind: impl Into<ProviderErrorKind>) -> Self {
        Self {
            message: message.into(),
            kind: kind.into(),
            backoff_hint: None,
            status: None,
            request_id: None,
            hint: None,
        }
    }

    /// Replaces the kind.
    #[must_use]
    pub fn with_kind(mut self, kind: ProviderErrorKind) -> Self {
        self.kind = kind;
        self
    }

    /// Adds the HTTP status.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }

    /// Adds the server's name of the request.
    #[must_use]
    pub fn with_request_id(mut self, request_id: impl Into<String>) -> Self {
        self.request_id = Some(request_id.into());
        self
    }

    /// Adds what to do next.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds the server's wish to wait.
    pub fn with_backoff_hint(mut self, wait: Duration) -> Self {
        self.backoff_hint = Some(wait);
        self
    }

    /// The failure of a caller that cancelled.
    pub fn cancelled() -> Self {
        Self::new("the request was cancelled", ProviderErrorKind::Cancelled)
    }

    /// True if the same request may succeed later.
    pub fn retryable(&self) -> bool {
        matches!(
            self.kind,
            ProviderErrorKind::Transient | ProviderErrorKind::RateLimited
        )
    }

    /// True if the caller cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.kind == ProviderErrorKind::Cancelled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_made_from_its_kind_or_from_whether_it_may_be_retried() {
        assert!(ProviderError::new("busy", true).retryable());
        assert!(!ProviderError::new("no", false).retryable());
        let limited = ProviderError::new("busy", false).with_kind(ProviderErrorKind::RateLimited);
        assert!(limited.retryable());
    }
}
