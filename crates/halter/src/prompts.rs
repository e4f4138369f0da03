//! The built-in guidance, and segments of one's own.

use halter_protocol::{PromptSegment, PromptSegmentKind};
use halter_runtime::context::DEFAULT_COMPACTION_PROMPT;
use halter_runtime::prompt::{CODING_GUIDANCE, GENERAL_GUIDANCE};

pub use halter_config::SystemPromptPreset;

/// The guidance for work of any kind.
pub fn default_system_prompt() -> &'static str {
    GENERAL_GUIDANCE
}

/// The guidance for work on code.
pub fn default_coding_agent_prompt() -> &'static str {
    CODING_GUIDANCE
}

/// What a model is told that summarises a long conversation.
pub fn default_compaction_prompt() -> &'static str {
    DEFAULT_COMPACTION_PROMPT
}

/// [`default_system_prompt`] as a segment.
pub fn default_system_prompt_segment() -> PromptSegment {
    system_prompt_segment(GENERAL_GUIDANCE)
}

/// [`default_coding_agent_prompt`] as a segment.
pub fn coding_agent_prompt_segment() -> PromptSegment {
    system_prompt_segment(CODING_GUIDANCE)
}

/// Guidance of one's own.
pub fn system_prompt_segment(text: &str) -> PromptSegment {
    PromptSegment::new(PromptSegmentKind::System, text)
}

/// An addition to the guidance.
pub fn appended_system_prompt_segment(text: &str) -> PromptSegment {
    PromptSegment::new(PromptSegmentKind::Append, text)
}
