//! The lifecycle events hooks can be bound to.

use crate::error::HookError;
use crate::point::SessionStartSource;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A moment in a session's life at which hooks run.
///
/// Parsing ignores case and underscores, so `PreToolUse`, `pre_tool_use` and
/// `PRETOOLUSE` are one event:
///
/// ```
/// use halter_hooks::HookEventName;
///
/// let event: HookEventName = "pre_tool_use".parse()?;
/// assert_eq!(event, HookEventName::PreToolUse);
/// assert_eq!(event.to_string(), "PreToolUse");
/// # Ok::<(), halter_hooks::HookError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum HookEventName {
    /// A session starts or is resumed.
    SessionStart,
    /// A session is shut down.
    SessionEnd,
    /// A user's words are about to join the transcript. Blocking.
    UserPromptSubmit,
    /// A tool call is about to be judged and run. Blocking.
    PreToolUse,
    /// A person is about to be asked about a tool call. Blocking.
    PermissionRequest,
    /// A tool call was refused by the policy or by a person.
    PermissionDenied,
    /// A tool call returned a result.
    PostToolUse,
    /// A tool call failed.
    PostToolUseFailure,
    /// A notification reached the session.
    Notification,
    /// The context is about to be made smaller. A hook that errs does not
    /// keep it from that.
    PreCompact,
    /// The context was made smaller.
    PostCompact,
    /// The model has nothing more to do and the turn is about to end.
    Stop,
    /// A subagent starts.
    SubagentStart,
    /// A subagent has nothing more to do and is about to end.
    SubagentStop,
}

impl HookEventName {
    /// Every event, in the order of a session's life.
    pub const ALL: [Self; 14] = [
        Self::SessionStart,
        Self::SessionEnd,
        Self::UserPromptSubmit,
        Self::PreToolUse,
        Self::PermissionRequest,
        Self::PermissionDenied,
        Self::PostToolUse,
        Self::PostToolUseFailure,
        Self::Notification,
        Self::PreCompact,
        Self::PostCompact,
        Self::Stop,
        Self::SubagentStart,
        Self::SubagentStop,
    ];

    /// The name as it is spelled in payloads and events.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SessionStart => "SessionStart",
            Self::SessionEnd => "SessionEnd",
            Self::UserPromptSubmit => "UserPromptSubmit",
            Self::PreToolUse => "PreToolUse",
            Self::PermissionRequest => "PermissionRequest",
            Self::PermissionDenied => "PermissionDenied",
            Self::PostToolUse => "PostToolUse",
            Self::PostToolUseFailure => "PostToolUseFailure",
            Self::Notification => "Notification",
            Self::PreCompact => "PreCompact",
            Self::PostCompact => "PostCompact",
            Self::Stop => "Stop",
            Self::SubagentStart => "SubagentStart",
            Self::SubagentStop => "SubagentStop",
        }
    }

    /// True if something is about to happen that a hook may forbid. A hook
    /// that errs, panics or times out on such an event denies.
    pub const fn is_blocking(self) -> bool {
        matches!(
            self,
            Self::UserPromptSubmit | Self::PreToolUse | Self::PermissionRequest
        )
    }

    /// True for events about one call of a tool.
    pub fn is_about_a_call(self) -> bool {
        self.matcher_field() == Some("tool_name")
    }

    /// The payload field a matcher looks at, if the event has one.
    pub const fn matcher_field(self) -> Option<&'static str> {
        match self {
            Self::SessionStart => Some("source"),
            Self::SessionEnd => Some("reason"),
            Self::PreToolUse
            | Self::PermissionRequest
            | Self::PermissionDenied
            | Self::PostToolUse
            | Self::PostToolUseFailure => Some("tool_name"),
            Self::Notification => Some("notification_type"),
            Self::PreCompact | Self::PostCompact => Some("trigger"),
            Self::SubagentStart | Self::SubagentStop => Some("agent_type"),
            Self::UserPromptSubmit | Self::Stop => None,
        }
    }

    /// The values that a matcher can meet in the words of public files, where
    /// they are known.
    pub(crate) fn matcher_values(self) -> Option<Vec<&'static str>> {
        match self {
            Self::SessionStart => Some(SessionStartSource::ALL.map(|it| it.as_str()).into()),
            Self::PreCompact | Self::PostCompact => Some(vec!["manual", "auto"]),
            _ => None,
        }
    }

    /// True if a block has something to act on.
    pub(crate) const fn honours_block(self) -> bool {
        !matches!(
            self,
            Self::SessionStart
                | Self::SessionEnd
                | Self::Notification
                | Self::PermissionDenied
                | Self::PostCompact
                | Self::SubagentStart
        )
    }

    /// True if a hook has a say in whether a call may run.
    pub(crate) const fn has_call_to_permit(self) -> bool {
        matches!(self, Self::PreToolUse | Self::PermissionRequest)
    }

    /// True if there is a turn to stop.
    pub(crate) const fn honours_stop(self) -> bool {
        !matches!(self, Self::SessionEnd | Self::Notification)
    }

    pub(crate) fn list() -> String {
        Self::ALL.map(Self::as_str).join(", ")
    }
}

impl fmt::Display for HookEventName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for HookEventName {
    type Err = HookError;

    fn from_str(name: &str) -> Result<Self, HookError> {
        let plain: String = name.chars().filter(|c| *c != '_').collect();
        Self::ALL
            .into_iter()
            .find(|event| event.as_str().eq_ignore_ascii_case(&plain))
            .ok_or_else(|| HookError::UnknownEvent {
                name: name.to_owned(),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_whatever_their_case_and_underscores() {
        for event in HookEventName::ALL {
            let spelled = event.to_string();
            let snake: String = spelled
                .chars()
                .flat_map(|c| {
                    let gap = c.is_uppercase().then_some('_');
                    gap.into_iter().chain(c.to_lowercase())
                })
                .collect();
            for text in [
                spelled.clone(),
                snake.trim_start_matches('_').to_owned(),
                spelled.to_uppercase(),
                spelled.to_lowercase(),
            ] {
                assert_eq!(text.parse::<HookEventName>().unwrap(), event, "{text}");
            }
        }
    }

    #[test]
    fn an_event_that_is_not_dispatched_is_refused_with_the_list() {
        for name in ["PreModelSwitch", "", "Pre ToolUse", "PreToolUse "] {
            let error = name.parse::<HookEventName>().unwrap_err();
            assert_eq!(error.code(), "unknown_hook_event");
            assert!(error.to_string().contains("SessionStart, SessionEnd"));
        }
    }
}
