//! `[resources]`, `[prompts]`, `[context]` and `[tools]`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::path_text;

/// Where skills and plugins are found, and whether instruction files are read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ResourcesConfig {
    /// Whether `AGENTS.md` and `CLAUDE.md`, the user's and those from the top of the checkout
    /// down to the session's directory, are shown to the model.
    pub instructions: bool,
    /// Skills.
    pub skills: ResourceRoots,
    /// Plugins.
    pub plugins: ResourceRoots,
}

impl Default for ResourcesConfig {
    fn default() -> Self {
        Self {
            instructions: true,
            skills: ResourceRoots::default(),
            plugins: ResourceRoots::default(),
        }
    }
}

/// Directories that are searched for one kind of resource.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ResourceRoots {
    /// The directories; a relative one starts at the file that names it. Layers add up.
    #[serde(serialize_with = "path_text::many")]
    pub roots: Vec<PathBuf>,
}

/// The system prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PromptsConfig {
    /// Which built-in guidance to use.
    pub preset: SystemPromptPreset,
    /// Text that replaces the built-in guidance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// Text that follows the guidance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub append_system_prompt: Option<String>,
}

/// A built-in guidance text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SystemPromptPreset {
    /// For any kind of work.
    #[default]
    General,
    /// For work on source code.
    Coding,
}

/// When a long conversation is compacted, in tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ContextConfig {
    /// A conversation this long is compacted; absent: at 80 % of the model's window. There is
    /// room for an answer in any case.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub compaction_threshold: Option<u64>,
    /// How short it should be afterwards, less than `compaction_threshold`; absent: half of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub pre_compaction_target: Option<u64>,
}

/// Which built-in tools the model sees.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ToolsConfig {
    /// Names of the tools; empty: all that are compiled in.
    pub enabled: Vec<String>,
}
