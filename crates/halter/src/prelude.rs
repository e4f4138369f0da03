//! What most programs use: `use halter::prelude::*;`.

pub use crate::prompts;
pub use crate::providers;
pub use crate::providers::{
    DefaultProviderErrorClassifier, ProviderErrorClassifier, ProviderErrorKind, ProviderTimeouts,
    ResiliencePolicy, RetryPolicy,
};
pub use crate::{Halter, HalterBuilder, PluginLoader, ResourceCompiler, SkillLoader};
pub use halter_config::{HarnessConfig, PromptsConfig, SystemPromptPreset};
pub use halter_protocol::{
    Message, ResourceSnapshot, SessionEvent, SessionEventPayload, SessionId,
    SubagentEventForwarding, Turn,
};
pub use halter_runtime::{HalterSession, SessionInit, SessionRuntime};
