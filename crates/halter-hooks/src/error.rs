//! What can be wrong with a hook before it ever runs.

use crate::event::HookEventName;
use crate::limits::{MAX_HOOKS, MAX_TIMEOUT};
use std::time::Duration;

/// A hook that cannot be registered, an event that does not exist, or a
/// payload that is not what a handler expected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HookError {
    /// The matcher is not a regular expression.
    #[error(
        "hook `{hook_id}`: the matcher `{pattern}` is not a regular expression: {source}; \
         correct it, or leave the matcher out to match everything"
    )]
    InvalidMatcher {
        /// The hook.
        hook_id: String,
        /// What was given.
        pattern: String,
        /// What is wrong with it.
        source: Box<regex::Error>,
    },
    /// A matcher on an event that has nothing to match.
    #[error(
        "hook `{hook_id}`: {event} has nothing a matcher could look at; \
         remove `with_matcher` and decide in the handler"
    )]
    MatcherWithoutSubject {
        /// The hook.
        hook_id: String,
        /// Its event.
        event: HookEventName,
    },
    /// The condition cannot be used.
    #[error(
        "hook `{hook_id}`: the condition `{condition}` cannot be used: {reason}; \
         write `tool` or `tool(input)`, or leave it out"
    )]
    InvalidCondition {
        /// The hook.
        hook_id: String,
        /// What was given.
        condition: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A timeout of zero or beyond the limit.
    #[error(
        "hook `{hook_id}`: a timeout of {timeout:?} is out of range; \
         use more than zero and at most {MAX_TIMEOUT:?}"
    )]
    TimeoutOutOfRange {
        /// The hook.
        hook_id: String,
        /// What was given.
        timeout: Duration,
    },
    /// The registry is full.
    #[error(
        "hook `{hook_id}`: no more than {MAX_HOOKS} hooks can be registered; \
         let one handler do the work of several"
    )]
    TooManyHooks {
        /// The hook that did not fit.
        hook_id: String,
    },
    /// No event of that name is dispatched.
    #[error(
        "no hook event is called `{name}`; the events are {}",
        HookEventName::list()
    )]
    UnknownEvent {
        /// What was given.
        name: String,
    },
    /// The payload does not fit the type it was decoded into.
    #[error("the payload of {event} does not decode: {source}; compare it with the event's fields")]
    Payload {
        /// The event.
        event: HookEventName,
        /// What does not fit.
        source: serde_json::Error,
    },
}

impl HookError {
    /// Stable, for programs to match on.
    pub fn code(&self) -> &'static str {
        match self {
            Self::InvalidMatcher { .. } => "hook_matcher_invalid",
            Self::MatcherWithoutSubject { .. } => "hook_matcher_unused",
            Self::InvalidCondition { .. } => "hook_condition_invalid",
            Self::TimeoutOutOfRange { .. } => "hook_timeout_out_of_range",
            Self::TooManyHooks { .. } => "too_many_hooks",
            Self::UnknownEvent { .. } => "unknown_hook_event",
            Self::Payload { .. } => "hook_payload_mismatch",
        }
    }
}
