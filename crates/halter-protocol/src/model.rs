//! Models, roles and providers as data.

use crate::ids::{ModelId, ProviderName};
use crate::open_enum::open_enum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How hard a model should think.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReasoningEffort {
    /// No reasoning.
    None,
    /// As little as the model allows.
    Minimal,
    /// Little.
    Low,
    /// A balance.
    Medium,
    /// Much.
    High,
    /// Very much. Also written `x_high`.
    #[serde(rename = "xhigh", alias = "x_high")]
    XHigh,
    /// As much as the model allows.
    Max,
}

impl ReasoningEffort {
    /// The value as it is spelled in configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::XHigh => "xhigh",
            Self::Max => "max",
        }
    }
}

/// What a configured model is used for.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ModelRole {
    /// The model of ordinary turns.
    Default,
    /// A cheaper model for small jobs.
    Small,
    /// The model of child sessions.
    Subagent,
}

impl ModelRole {
    /// Every role, in the order they are documented.
    pub const ALL: [ModelRole; 3] = [Self::Default, Self::Small, Self::Subagent];

    /// The registered model id of the role.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Small => "small",
            Self::Subagent => "subagent",
        }
    }
}

open_enum! {
    /// The family of services a provider belongs to.
    pub enum ProviderKind {
        /// OpenAI.
        OpenAi = "openai",
        /// Anthropic.
        Anthropic = "anthropic",
        /// OpenRouter.
        OpenRouter = "openrouter",
        /// Gemini.
        Gemini = "gemini",
        /// The built-in offline model.
        Offline = "offline",
        /// A service of the user's own, or a provider of the embedding program.
        Custom = "custom",
    }
}

/// A model id resolved to everything a provider needs to serve it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResolvedModel {
    /// The registered id: `default`, `small`, `subagent` or a custom one.
    pub id: ModelId,
    /// The name of the provider that serves it.
    pub provider: ProviderName,
    /// The family of that provider.
    pub provider_kind: ProviderKind,
    /// The provider's own name of the model.
    pub model: String,
    /// The largest input to send, if configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_input_tokens: Option<u32>,
    /// The largest output to ask for, if configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u32>,
    /// How hard to think, if configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<ReasoningEffort>,
    /// The rate to stay under, if configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_minute: Option<u32>,
}
