//! The Chat Completions wire, as OpenAI and most other servers speak it.
//!
//! This module owns the shape of requests, answers and errors of
//! `POST …/v1/chat/completions` and what differs between servers, as data: a
//! [`Dialect`]. It never talks to a server, keeps no key, and knows no tool.
//!
//! # What a conversation looks like
//!
//! The body is `model`, settings, `tools` and last `messages`; elements are
//! only ever appended.
//!
//! | Halter | wire |
//! |---|---|
//! | prompt segments | one `system` message, static segments first; where the dialect has cache marks, text parts with a mark on the last static one |
//! | user message | a `user` message: a string, or parts when it has more than text |
//! | system message | a `system` message, or, where a server takes that role only at the start, a `user` message: `<system-note>`, the text, `</system-note>` |
//! | assistant message | text and `tool_calls`; for the model that wrote it also its own arguments text, reasoning and unknown members of calls |
//! | tool message | a `tool` message with text |
//! | PNG, JPEG, WebP and GIF images | `image_url` parts with the data inside |
//! | PDF documents | `file` parts where the dialect takes them, else a text that says what was left out |
//! | text documents | text parts |
//! | other images and documents | a text that says what was left out |
//!
//! A `tool` message holds text alone on this wire. Images and documents that
//! the tools of a step return follow all its results in one `user` message,
//! which says of each from which call it is; the results name them in their
//! place.
//!
//! # Structured answers
//!
//! | dialect | without tools | with tools |
//! |---|---|---|
//! | `openai`, `openrouter` | `response_format`, strict where the schema allows | the same |
//! | all others | the same | a tool: kept to a schema, a model could call no other |
//!
//! Models of OpenAI from before `gpt-4o`, and those whose server refuses the
//! member, are asked with a tool.
//!
//! # Reasoning
//!
//! Without a configured level nothing is sent and the model's default holds.
//!
//! | dialect | `none` | `minimal` | `low` to `high` | `xhigh` | `max` |
//! |---|---|---|---|---|---|
//! | `openai` | `reasoning_effort` `none` | `minimal` | the same | `xhigh` | `xhigh` |
//! | `openrouter` | `reasoning.effort` `none` | `minimal` | the same | `xhigh` | `xhigh` |
//! | `ollama`, `lmstudio`, `generic` | `reasoning_effort` `none` | `low` | the same | `high` | `high` |
//! | `vllm`, `llamacpp` | `chat_template_kwargs` with `enable_thinking` false | true, with `reasoning_effort` `low` | true, the same | true, `high` | true, `high` |
//!
//! What a model shows of its reasoning is read from `reasoning_content`,
//! `reasoning`, `reasoning_text` or `reasoning_details`, or from `<think>`
//! tags at the start of the text where the dialect has them. It goes back
//! only to the model it came from: details with every message, a text under
//! the name it came with on messages with tool calls.

mod calls;
mod content;
mod decode;
mod details;
mod dialect;
mod encode;
mod kept;
mod message;
mod think_tags;
mod usage;

pub use dialect::{Dialect, HarnessRole, OutputLimit, ReasoningRequest};

use super::{
    ConversationEncoder, Decoder, ErrorResponse, HeaderLookup, ImageInput, RateLimitHints, Wire,
};
use crate::wire::attachment::Intake;
use crate::wire::common::{bearer, stream_headers};
use crate::wire::error_report;
use crate::wire::failure::openai_rate_limit;
use halter_protocol::{MediaLimits, ProviderError, ResolvedModel};

/// The wire's name, as opaque parts carry it.
pub const NAME: &str = "chat";

/// What stands before the path of an address when it is split at slashes:
/// the scheme, nothing, and the host.
const HOST_SEGMENTS: usize = 3;

/// The Chat Completions wire in one dialect.
///
/// ```
/// use halter_providers::wire::{Wire, chat::{Chat, Dialect}};
///
/// let wire = Chat::new(Dialect::OLLAMA);
/// assert_eq!(wire.headers(None).len(), 2);
/// ```
#[derive(Debug, Clone)]
pub struct Chat {
    dialect: Dialect,
}

impl Chat {
    /// The wire as a server speaks it.
    pub const fn new(dialect: Dialect) -> Self {
        Self { dialect }
    }
}

impl Wire for Chat {
    fn name(&self) -> &'static str {
        NAME
    }

    fn url(&self, base_url: &str, _model: &ResolvedModel) -> String {
        address(base_url, "/chat/completions")
    }

    fn models_url(&self, base_url: &str) -> Option<String> {
        Some(address(base_url, "/models"))
    }

    fn is_self_hosted(&self) -> bool {
        ![Dialect::OPENAI, Dialect::OPENROUTER].contains(&self.dialect)
    }

    fn headers(&self, api_key: Option<&str>) -> Vec<(String, String)> {
        stream_headers(api_key.map(bearer))
    }

    fn media_limits(&self) -> MediaLimits {
        let mut limits = MediaLimits::default();
        if !self.dialect.files {
            limits
                .media_types
                .retain(|known| known.starts_with("image/"));
        }
        limits
    }

    fn encoder(&self, model: &ResolvedModel, images: ImageInput) -> Box<dyn ConversationEncoder> {
        Box::new(encode::ChatEncoder::new(
            self.dialect,
            model.clone(),
            Intake::new(self.media_limits(), images),
        ))
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(decode::ChatDecoder::new(self.dialect))
    }

    fn error(&self, response: &ErrorResponse<'_>) -> ProviderError {
        error_report::of_response(response, None)
    }

    fn rate_limit(&self, headers: &dyn HeaderLookup) -> RateLimitHints {
        openai_rate_limit(headers)
    }
}

/// The address of an endpoint. People write the base with the version, without
/// it, or as the whole address of a chat completion.
fn address(base_url: &str, endpoint: &str) -> String {
    let base = base_url.trim_end_matches('/');
    if let Some(base) = base.strip_suffix("/chat/completions") {
        return format!("{base}{endpoint}");
    }
    match base.split('/').skip(HOST_SEGMENTS).any(is_version) {
        true => format!("{base}{endpoint}"),
        false => format!("{base}/v1{endpoint}"),
    }
}

/// A path segment such as `v1` or `v1beta`.
fn is_version(segment: &str) -> bool {
    segment
        .strip_prefix('v')
        .is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_found_from_any_base() {
        let model = crate::test_model::model("m");
        for (base, url) in [
            (
                "https://api.openai.com",
                "https://api.openai.com/v1/chat/completions",
            ),
            (
                "https://api.openai.com/v1",
                "https://api.openai.com/v1/chat/completions",
            ),
            (
                "https://openrouter.ai/api/",
                "https://openrouter.ai/api/v1/chat/completions",
            ),
            (
                "http://127.0.0.1:11434/v1/",
                "http://127.0.0.1:11434/v1/chat/completions",
            ),
            (
                "https://x.test/v1beta/openai",
                "https://x.test/v1beta/openai/chat/completions",
            ),
            (
                "https://x.test/api/v4",
                "https://x.test/api/v4/chat/completions",
            ),
            (
                "https://x.test/y/chat/completions",
                "https://x.test/y/chat/completions",
            ),
        ] {
            assert_eq!(Chat::new(Dialect::GENERIC).url(base, &model), url);
        }
    }
}
