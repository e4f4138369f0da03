//! `[resources]`, `[hooks]`, `[prompts]`, `[context]`, `[budget]` and `[tools]`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{WebSearchConfig, path_text};
use crate::limits::MAX_BUDGET_DOLLARS;
use halter_protocol::Budget;

/// Where skills and plugins are found, and whether instruction files are read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ResourcesConfig {
    /// Whether `AGENTS.md` and `CLAUDE.md`, the user's and those from the top of the checkout
    /// down to the session's directory, are shown to the model.
    pub instructions: bool,
    /// Whether the usual folders are searched, too: `.halter`, `.claude` and `.agents` of the
    /// project and of the user, and the plugins that `halter plugin` has installed.
    pub discover: bool,
    /// Whether sessions take up resources that change while they run.
    pub watch: bool,
    /// Skills.
    pub skills: ResourceRoots,
    /// Plugins.
    pub plugins: ResourceRoots,
}

impl Default for ResourcesConfig {
    fn default() -> Self {
        Self {
            instructions: true,
            discover: true,
            watch: false,
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

/// Hook files besides those that are found by their place.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HooksConfig {
    /// Files in the public format of hooks; a relative one starts at the file that names it.
    /// Layers add up. What they say runs as the user, outside of the sandbox.
    #[serde(serialize_with = "path_text::many")]
    pub files: Vec<PathBuf>,
    /// The only hosts that HTTP hooks may name, such as `hooks.example.com` or `localhost:8080`;
    /// absent: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_http_hosts: Option<Vec<String>>,
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
    /// The output style that sessions start with, by its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_style: Option<String>,
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

/// What a session may spend in all its turns; absent: without a limit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BudgetConfig {
    /// US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = MAX_BUDGET_DOLLARS))]
    pub usd: Option<f64>,
    /// Tokens of requests, cached ones included, and of answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Requests to models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_calls: Option<u64>,
    /// Calls of tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u64>,
    /// Seconds that turns take; waiting for a person does not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_secs: Option<u64>,
    /// What each turn may spend.
    pub turn: BudgetLimits,
    /// What all sessions together may spend while the program runs.
    pub harness: BudgetLimits,
}

impl BudgetConfig {
    /// What the session itself may spend.
    pub fn session(&self) -> BudgetLimits {
        BudgetLimits {
            usd: self.usd,
            tokens: self.tokens,
            model_calls: self.model_calls,
            tool_calls: self.tool_calls,
            wall_secs: self.wall_secs,
        }
    }
}

/// What may be spent; absent: without a limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BudgetLimits {
    /// US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = MAX_BUDGET_DOLLARS))]
    pub usd: Option<f64>,
    /// Tokens of requests, cached ones included, and of answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Requests to models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_calls: Option<u64>,
    /// Calls of tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u64>,
    /// Seconds that turns take; waiting for a person does not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_secs: Option<u64>,
}

impl From<BudgetLimits> for Budget {
    /// Dollars become billionths here, once; nothing is added up as a float.
    fn from(limits: BudgetLimits) -> Self {
        let billionths = |usd: f64| (usd * 1e9).round() as u64;
        Self {
            tokens: limits.tokens,
            cost: limits.usd.map(billionths),
            model_calls: limits.model_calls,
            tool_calls: limits.tool_calls,
            wall_ms: limits.wall_secs.map(|secs| secs.saturating_mul(1_000)),
        }
    }
}

/// Which built-in tools the model sees.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ToolsConfig {
    /// Names of the tools; empty: all that are compiled in.
    pub enabled: Vec<String>,
    /// Which tools are sent only when the model asks for them: `"auto"` for those that are rarely
    /// needed, `"off"`, or a list of names.
    pub deferred: DeferredTools,
    /// The service that `web_search` asks.
    pub web_search: WebSearchConfig,
}

/// Which tools are sent only when the model asks for them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum DeferredTools {
    /// As a word.
    Word(DeferralWord),
    /// These.
    Names(Vec<String>),
}

impl Default for DeferredTools {
    fn default() -> Self {
        Self::Word(DeferralWord::Auto)
    }
}

/// Which tools are deferred, in a word.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeferralWord {
    /// Those that are rarely needed.
    #[default]
    Auto,
    /// None.
    Off,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::check;
    use crate::keys::{KeyPath, spec};
    use serde_json::json;

    #[test]
    fn dollars_become_billionths_and_have_an_end() {
        let limits = BudgetLimits {
            usd: Some(0.1),
            wall_secs: Some(2),
            ..BudgetLimits::default()
        };
        let budget = Budget::from(limits);
        assert_eq!(
            (budget.cost, budget.wall_ms),
            (Some(100_000_000), Some(2_000))
        );
        for key in ["budget.usd", "budget.turn.usd", "budget.harness.usd"] {
            let kind = &spec(&KeyPath::plain(key)).unwrap().kind;
            assert!(check(kind, &json!(MAX_BUDGET_DOLLARS)).is_ok(), "{key}");
            assert!(check(kind, &json!(MAX_BUDGET_DOLLARS + 1.0)).is_err());
            assert!(check(kind, &json!(-0.1)).is_err());
        }
    }
}
