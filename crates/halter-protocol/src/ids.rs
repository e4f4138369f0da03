//! Identifiers: opaque strings, time-ordered, with a prefix that says what
//! they name.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};
use uuid::Uuid;

/// Where new identifiers come from. Injected, so that a simulated or replayed
/// session mints the ids it minted before.
pub trait IdSource: Send + Sync {
    /// A fresh uuid, version 7, for something that happens at `at`.
    fn uuid(&self, at: Timestamp) -> Uuid;
}

/// Random, time-ordered ids of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemIds;

impl IdSource for SystemIds {
    fn uuid(&self, at: Timestamp) -> Uuid {
        let millis = u64::try_from(at.as_millisecond()).unwrap_or(0);
        let nanos = u32::try_from(at.subsec_nanosecond().max(0)).unwrap_or(0);
        Uuid::new_v7(uuid::Timestamp::from_unix(
            uuid::NoContext,
            millis / 1000,
            nanos,
        ))
    }
}

/// Ids that follow from a seed and a counter: the same seed gives the same ids.
#[derive(Debug)]
pub struct SeededIds {
    seed: u64,
    next: AtomicU64,
}

impl SeededIds {
    /// A source whose ids depend on nothing but `seed`, order of calls and time.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            next: AtomicU64::new(0),
        }
    }
}

impl IdSource for SeededIds {
    fn uuid(&self, at: Timestamp) -> Uuid {
        let counter = self.next.fetch_add(1, Ordering::Relaxed);
        let mut random = [0u8; 10];
        let high = self.seed.rotate_left(17) ^ counter.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let words = high
            .to_be_bytes()
            .into_iter()
            .chain((counter as u16).to_be_bytes());
        for (slot, byte) in random.iter_mut().zip(words) {
            *slot = byte;
        }
        let millis = u64::try_from(at.as_millisecond()).unwrap_or(0);
        uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid()
    }
}

macro_rules! string_newtype {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(
            Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
        )]
        #[serde(transparent)]
        pub struct $name(pub String);

        impl $name {
            /// The text of the value.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(value: &str) -> Self {
                Self(value.to_owned())
            }
        }

        impl From<String> for $name {
            fn from(value: String) -> Self {
                Self(value)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

macro_rules! id {
    ($(#[$meta:meta])* $name:ident, $prefix:literal) => {
        string_newtype!($(#[$meta])* $name);

        impl $name {
            /// A fresh id from the system's clock and randomness.
            #[allow(clippy::new_without_default)]
            pub fn new() -> Self {
                Self::mint(&SystemIds, Timestamp::now())
            }

            /// A fresh id from an injected source, for something at `at`.
            pub fn mint(source: &dyn IdSource, at: Timestamp) -> Self {
                Self(format!(concat!($prefix, "_{}"), source.uuid(at).simple()))
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }
    };
}

macro_rules! name {
    ($(#[$meta:meta])* $name:ident) => {
        string_newtype!($(#[$meta])* $name);

        impl Default for $name {
            fn default() -> Self {
                Self(String::new())
            }
        }
    };
}

id!(/// Names a message of a transcript.
    MessageId, "msg");
id!(/// Names a block of a message while it streams.
    BlockId, "blk");
id!(/// Names a tool call; the provider's own id where it gave one.
    ToolCallId, "call");
id!(/// Names a segment of the system prompt.
    PromptSegmentId, "seg");
id!(/// Names a session.
    SessionId, "ses");
id!(/// Names a submitted turn.
    TurnId, "turn");
id!(/// Names a skill.
    SkillId, "skl");
id!(/// Names a plugin, or the owner of an in-process hook.
    PluginId, "plg");
id!(/// Names one run of a hook.
    HookRunId, "hrun");
id!(
    /// Questions of a call to a person.
    QuestionId, "ask");
id!(/// Names a request for a person's approval.
    ApprovalId, "apr");

name!(/// A content revision of compiled resources.
    Revision);
name!(/// A registered model id: `default`, `small`, `subagent`, or a custom one.
    ModelId);
name!(/// Names a subagent among the children of its parent.
    AgentId);
name!(/// The name a model calls a tool by.
    ToolName);
name!(/// A provider-specific alias of a tool.
    ToolAlias);
name!(/// The name of a skill.
    SkillName);
name!(/// The name of an agent: `reviewer`, or `demo:reviewer` of a plugin.
    AgentName);
name!(/// The name of a provider.
    ProviderName);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_carry_their_kind_and_sort_by_time() {
        let source = SystemIds;
        let early = SessionId::mint(&source, Timestamp::from_second(1_000).unwrap());
        let late = SessionId::mint(&source, Timestamp::from_second(2_000).unwrap());
        assert!(early.as_str().starts_with("ses_"));
        assert!(early < late);
    }

    #[test]
    fn seeded_ids_repeat() {
        let at = Timestamp::from_second(5).unwrap();
        let mint = || {
            let source = SeededIds::new(7);
            [MessageId::mint(&source, at), MessageId::mint(&source, at)]
        };
        let (first, second) = (mint(), mint());
        assert_eq!(first, second);
        assert_ne!(first[0], first[1]);
    }
}
