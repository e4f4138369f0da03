//! The tables of `halter.toml` as Rust types.
//!
//! Every struct is an ordinary literal with public fields and a `Default`, so that programs can
//! build a configuration without a file. A key that is absent in a file has the value of
//! `Default`.

mod browser;
mod exec;
mod mcp;
mod models;
mod permissions;
mod policy;
mod providers;
mod resilience;
mod sections;
mod sessions;
mod web;

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use browser::BrowserConfig;
pub use exec::{ExecBackendChoice, ExecConfig};
pub use mcp::{McpConfig, McpOAuthTable, McpServerTable, McpTransport};
pub use models::{
    ConfiguredProvider, DEFAULT_TOKENS_PER_MINUTE, ModelConfig, ModelsConfig, OFFLINE_MODEL,
};
pub use permissions::{PermissionsConfig, RuleConfig};
pub use policy::{
    LoopbackAllow, NetworkPolicyConfig, PolicyConfig, SandboxChoice, ShellEnvConfig,
    ShellPolicyConfig,
};
pub use providers::{
    ChatDialect, ModelOverride, ModelPrices, OpenRouterRouting, ProviderConfig, ProviderWire,
    ProvidersConfig,
};
pub use resilience::{
    RequestRetryConfig, RequestRetryOverride, ResilienceConfig, ResilienceOverride, TimeoutsConfig,
    TimeoutsOverride,
};
pub use sections::{
    BudgetConfig, BudgetLimits, ContextConfig, DeferralWord, DeferredTools, HooksConfig,
    PromptsConfig, ResourceRoots, ResourcesConfig, SystemPromptPreset, ToolsConfig,
};
pub use sessions::{
    RuntimeConfig, SessionBackend, SessionDurability, SessionsConfig, SubagentEventForwarding,
};
pub use web::{SearchProvider, WebSearchConfig};

/// The only version of the configuration format.
pub const CONFIG_VERSION: u32 = 1;

/// A whole configuration: what `halter.toml` says, or what a program wrote as a literal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(title = "halter.toml")]
pub struct HarnessConfig {
    /// Version of the configuration format; always 1.
    #[schemars(range(min = 1, max = 1))]
    pub version: u32,
    /// How to reach each model service.
    pub providers: ProvidersConfig,
    /// Which model plays which role.
    pub models: ModelsConfig,
    /// Where skills and plugins are found, and whether instruction files are read.
    pub resources: ResourcesConfig,
    /// Hook files.
    pub hooks: HooksConfig,
    /// The system prompt.
    pub prompts: PromptsConfig,
    /// When a long conversation is compacted.
    pub context: ContextConfig,
    /// What a session may spend.
    pub budget: BudgetConfig,
    /// Which built-in tools the model sees.
    pub tools: ToolsConfig,
    /// Where commands run.
    pub exec: ExecConfig,
    /// The browser that the tool `browser` uses.
    pub browser: BrowserConfig,
    /// What tools may read, write, run and reach.
    pub policy: PolicyConfig,
    /// What is asked, what is never asked, and what never happens.
    pub permissions: PermissionsConfig,
    /// Where sessions are kept.
    pub sessions: SessionsConfig,
    /// How sessions run.
    pub runtime: RuntimeConfig,
    /// Timeouts and retries of model requests.
    pub resilience: ResilienceConfig,
    /// Servers of the Model Context Protocol.
    pub mcp: McpConfig,
    /// The files it was read from, as absolute paths. A harness keeps its tools away from them:
    /// they may hold keys, and say where keys are sent.
    #[serde(skip)]
    pub sources: Vec<PathBuf>,
}

impl Default for HarnessConfig {
    fn default() -> Self {
        Self {
            version: CONFIG_VERSION,
            providers: ProvidersConfig::default(),
            models: ModelsConfig::default(),
            resources: ResourcesConfig::default(),
            hooks: HooksConfig::default(),
            prompts: PromptsConfig::default(),
            context: ContextConfig::default(),
            budget: BudgetConfig::default(),
            tools: ToolsConfig::default(),
            exec: ExecConfig::default(),
            browser: BrowserConfig::default(),
            policy: PolicyConfig::default(),
            permissions: PermissionsConfig::default(),
            sessions: SessionsConfig::default(),
            runtime: RuntimeConfig::default(),
            resilience: ResilienceConfig::default(),
            mcp: McpConfig::default(),
            sources: Vec::new(),
        }
    }
}

/// Writes paths as text. A path that is not UTF-8 (only the directory of a configuration file can
/// make it so) is shown with replacement characters rather than failing the whole output.
mod path_text {
    use std::path::PathBuf;

    use serde::{Serialize, Serializer};

    pub(super) fn one<S: Serializer>(
        path: &Option<PathBuf>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        path.as_ref()
            .map(|path| path.to_string_lossy())
            .serialize(serializer)
    }

    pub(super) fn many<S: Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(paths.iter().map(|path| path.to_string_lossy()))
    }
}
