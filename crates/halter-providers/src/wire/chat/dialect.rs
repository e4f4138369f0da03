//! What differs between servers that speak Chat Completions.

use halter_protocol::ReasoningEffort;
use serde_json::{Value, json};

/// How one kind of server speaks the wire.
///
/// ```
/// use halter_providers::wire::chat::Dialect;
///
/// assert_eq!(Dialect::named("vllm"), Some(Dialect::VLLM));
/// assert_eq!(Dialect::named("unheard-of"), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Dialect {
    /// The name, as configuration spells it.
    pub name: &'static str,
    /// The member that bounds the output.
    pub output_limit: OutputLimit,
    /// How a level of reasoning is asked for.
    pub reasoning: ReasoningRequest,
    /// True if usage must be asked for.
    pub asks_for_usage: bool,
    /// Members that take the name of a cache of prompts that belong together.
    pub cache_key_members: &'static [&'static str],
    /// True if text parts and the body may carry cache marks.
    pub cache_marks: bool,
    /// The role of what the harness says in the middle of a conversation.
    pub harness_role: HarnessRole,
    /// True if PDF documents are taken as `file` parts.
    pub files: bool,
    /// True if models may show reasoning in `<think>` tags.
    pub think_tags: bool,
    /// True if an answer may be kept to a schema although there are tools.
    /// Other servers would keep the model from calling any.
    pub schema_beside_tools: bool,
}

/// The member that bounds the output of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutputLimit {
    /// `max_completion_tokens`.
    MaxCompletionTokens,
    /// `max_tokens`.
    MaxTokens,
}

impl OutputLimit {
    /// The member's name.
    pub fn member(self) -> &'static str {
        match self {
            Self::MaxCompletionTokens => "max_completion_tokens",
            Self::MaxTokens => "max_tokens",
        }
    }
}

/// How a level of reasoning is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReasoningRequest {
    /// `reasoning_effort` with all levels of OpenAI.
    Effort,
    /// `reasoning_effort` with `none`, `low`, `medium` and `high`.
    PlainEffort,
    /// `reasoning` with an `effort`, as OpenRouter has it.
    Object,
    /// `chat_template_kwargs` with `enable_thinking` and `reasoning_effort`;
    /// a template reads the one it knows.
    TemplateArguments,
}

impl ReasoningRequest {
    /// The member of the body that asks for a level.
    pub fn member(self, level: ReasoningEffort) -> (&'static str, Value) {
        match self {
            Self::Effort => ("reasoning_effort", json!(all_levels(level))),
            Self::PlainEffort => ("reasoning_effort", json!(plain_levels(level))),
            Self::Object => ("reasoning", json!({ "effort": all_levels(level) })),
            Self::TemplateArguments => (
                "chat_template_kwargs",
                match level {
                    ReasoningEffort::None => json!({ "enable_thinking": false }),
                    level => json!({
                        "enable_thinking": true,
                        "reasoning_effort": plain_levels(level),
                    }),
                },
            ),
        }
    }
}

fn all_levels(level: ReasoningEffort) -> &'static str {
    match level {
        ReasoningEffort::Max => ReasoningEffort::XHigh.as_str(),
        level => level.as_str(),
    }
}

fn plain_levels(level: ReasoningEffort) -> &'static str {
    match level {
        ReasoningEffort::Minimal => ReasoningEffort::Low.as_str(),
        ReasoningEffort::XHigh | ReasoningEffort::Max => ReasoningEffort::High.as_str(),
        level => level.as_str(),
    }
}

/// The role of what the harness says in the middle of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HarnessRole {
    /// `system`.
    System,
    /// `user`, for servers whose templates take a system message only at the
    /// start.
    User,
}

impl Dialect {
    /// OpenAI's own service.
    pub const OPENAI: Self = Self {
        name: "openai",
        output_limit: OutputLimit::MaxCompletionTokens,
        reasoning: ReasoningRequest::Effort,
        asks_for_usage: true,
        cache_key_members: &["prompt_cache_key"],
        cache_marks: false,
        harness_role: HarnessRole::System,
        files: true,
        think_tags: false,
        schema_beside_tools: true,
    };

    /// OpenRouter.
    pub const OPENROUTER: Self = Self {
        name: "openrouter",
        output_limit: OutputLimit::MaxTokens,
        reasoning: ReasoningRequest::Object,
        asks_for_usage: false,
        cache_key_members: &["prompt_cache_key", "session_id"],
        cache_marks: true,
        harness_role: HarnessRole::System,
        files: true,
        think_tags: false,
        schema_beside_tools: true,
    };

    /// A server nothing is known of.
    pub const GENERIC: Self = Self {
        name: "generic",
        output_limit: OutputLimit::MaxTokens,
        reasoning: ReasoningRequest::PlainEffort,
        asks_for_usage: true,
        cache_key_members: &[],
        cache_marks: false,
        harness_role: HarnessRole::User,
        files: false,
        think_tags: true,
        schema_beside_tools: false,
    };

    /// Ollama.
    pub const OLLAMA: Self = Self {
        name: "ollama",
        ..Self::GENERIC
    };

    /// LM Studio.
    pub const LM_STUDIO: Self = Self {
        name: "lmstudio",
        ..Self::GENERIC
    };

    /// vLLM.
    pub const VLLM: Self = Self {
        name: "vllm",
        reasoning: ReasoningRequest::TemplateArguments,
        ..Self::GENERIC
    };

    /// The server of llama.cpp.
    pub const LLAMA_CPP: Self = Self {
        name: "llamacpp",
        reasoning: ReasoningRequest::TemplateArguments,
        ..Self::GENERIC
    };

    /// Every dialect.
    pub const ALL: [Self; 7] = [
        Self::OPENAI,
        Self::OPENROUTER,
        Self::OLLAMA,
        Self::VLLM,
        Self::LLAMA_CPP,
        Self::LM_STUDIO,
        Self::GENERIC,
    ];

    /// The dialect of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dialect| dialect.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dialect_is_found_by_its_name() {
        for dialect in Dialect::ALL {
            assert_eq!(Dialect::named(dialect.name), Some(dialect));
        }
    }

    #[test]
    fn levels_follow_the_documented_table() {
        use ReasoningEffort::{High, Low, Max, Medium, Minimal, None, XHigh};
        let levels = [None, Minimal, Low, Medium, High, XHigh, Max];
        let asked = |request: ReasoningRequest| -> Vec<String> {
            levels
                .iter()
                .map(|level| {
                    let (member, value) = request.member(*level);
                    format!("{member}={value}")
                })
                .collect()
        };
        assert_eq!(
            asked(ReasoningRequest::Effort),
            ["none", "minimal", "low", "medium", "high", "xhigh", "xhigh"]
                .map(|level| format!("reasoning_effort=\"{level}\""))
        );
        assert_eq!(
            asked(ReasoningRequest::PlainEffort),
            ["none", "low", "low", "medium", "high", "high", "high"]
                .map(|level| format!("reasoning_effort=\"{level}\""))
        );
        assert_eq!(
            asked(ReasoningRequest::Object),
            ["none", "minimal", "low", "medium", "high", "xhigh", "xhigh"]
                .map(|level| format!("reasoning={{\"effort\":\"{level}\"}}"))
        );
        assert_eq!(
            asked(ReasoningRequest::TemplateArguments),
            ["none", "low", "low", "medium", "high", "high", "high"].map(|level| match level {
                "none" => "chat_template_kwargs={\"enable_thinking\":false}".to_owned(),
                level => format!(
                    "chat_template_kwargs={{\"enable_thinking\":true,\"reasoning_effort\":\"{level}\"}}"
                ),
            })
        );
    }
}
