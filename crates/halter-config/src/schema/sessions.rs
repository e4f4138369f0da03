//! `[sessions]` and `[runtime]`: where sessions are kept and how they run.

use std::path::PathBuf;

pub use halter_protocol::SubagentEventForwarding;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::path_text;

/// Where sessions are kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SessionsConfig {
    /// What keeps them.
    pub backend: SessionBackend,
    /// The database file, for `backend = "sqlite"`; a relative one starts at the file that names
    /// it; absent: `halter/sessions.db` in the user's data directory.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "path_text::one"
    )]
    #[schemars(extend("format" = "path"))]
    pub sqlite_path: Option<PathBuf>,
    /// What a committed event survives.
    pub durability: SessionDurability,
}

/// What keeps sessions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SessionBackend {
    /// Memory: sessions end with the process.
    #[default]
    Memory,
    /// A SQLite file; needs the cargo feature `sqlite`.
    Sqlite,
}

/// What a committed event survives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SessionDurability {
    /// The death of the process.
    #[default]
    Process,
    /// Loss of power too, at the price of waiting for the disk.
    Power,
}

/// How sessions run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RuntimeConfig {
    /// Directory of sessions that name none; a relative one starts at the file that names it;
    /// absent: the current directory.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "path_text::one"
    )]
    #[schemars(extend("format" = "path"))]
    pub working_dir: Option<PathBuf>,
    /// Directory for one live trace file per root session; absent: no traces.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "path_text::one"
    )]
    #[schemars(extend("format" = "path"))]
    pub traces_dir: Option<PathBuf>,
    /// Whether a parent's event stream carries the events of its subagents.
    pub subagent_event_forwarding: SubagentEventForwarding,
    /// How many events of subagents one turn forwards before it only counts them; 0: no limit.
    pub subagent_event_forwarding_cap: u64,
}

impl Default for RuntimeConfig {
    fn default() -> Self {
        Self {
            working_dir: None,
            traces_dir: None,
            subagent_event_forwarding: SubagentEventForwarding::Off,
            subagent_event_forwarding_cap: 100_000,
        }
    }
}
