//! The Anthropic Messages wire, version [`API_VERSION`].
//!
//! This module owns the shape of requests, answers and errors of
//! `POST /v1/messages`. It never talks to a server, keeps no key, and knows no
//! tool.
//!
//! # What a conversation looks like
//!
//! The body is `model`, `max_tokens`, `stream`, reasoning, `tools`, `system`
//! and last `messages`; elements are only ever appended.
//!
//! | Halter | wire |
//! |---|---|
//! | static, then dynamic prompt segments | text blocks of `system`; the boundary is the place of a cache mark, never a text |
//! | user message | blocks of a user message; neighbours share one |
//! | system message | a text block of a user message: `<system-note>`, the text, `</system-note>`, each on its own lines |
//! | assistant message | its own blocks byte for byte if this wire and the same model wrote them, else text and calls without reasoning |
//! | tool messages of a step | the first blocks of the next user message |
//! | PDF and text documents, JPEG, PNG, GIF and WebP images | `document` and `image` blocks with the data inside, in user messages and in `tool_result` |
//! | other documents and images, images that are too large | a text block that says what was left out |
//!
//! A note of the harness is a block of a user message for every model. Some
//! models take messages of the role `system`, but only after a user turn and
//! before an answer. Whether an answer follows is not known when the note is
//! sent, and what was sent must not change afterwards.
//!
//! Left out because the service refuses them: blank texts, reasoning without
//! a signature, and reasoning at the end of an assistant message, as a broken
//! stream leaves it.
//!
//! # Cache marks
//!
//! At most four: on the last tool, on the last static block of the system
//! prompt, on the last block that may carry one, and, when what came since
//! the previous request is [`limits::CACHE_LOOKBACK_BLOCKS`] blocks or more,
//! where that request ended. Marks follow from the conversation alone, so a
//! resumed session sends the same bytes.
//!
//! # Structured answers
//!
//! Models from 4.5 on are sent the schema as `output_config.format`, with every
//! object closed and without bounds, which the service does not take. Where it
//! cannot be said so (free-form objects, recursion, `allOf` and the like), and
//! for other models, the answer is asked for with a tool.
//!
//! # Compaction
//!
//! A request with `compaction` and the beta [`COMPACTION_BETA`] is answered
//! with one signed block that holds a summary. It goes back byte for byte as
//! the first block of the conversation, and the beta with it. Other models
//! read the summary as text.
//!
//! # Reasoning
//!
//! Without a configured level nothing is sent and the model's default holds,
//! except that models which think by default and do not show it (Fable, Mythos,
//! and all from 5 on) are asked to: `display` is `summarized`, as it is with a
//! level for all models from 4.7 on.
//!
//! | model | `none` | `minimal`, `low` | `medium`, `high` | `xhigh` | `max` |
//! |---|---|---|---|---|---|
//! | Fable, Mythos | dropped: they always think | adaptive, effort `low` | adaptive, that effort | adaptive, `xhigh` | adaptive, `max` |
//! | Opus, Sonnet, Haiku from 5 | disabled | adaptive, `low` | adaptive, that effort | adaptive, `xhigh` | adaptive, `max` |
//! | Opus from 4.7 | nothing sent: off by default | adaptive, `low` | adaptive, that effort | adaptive, `xhigh` | adaptive, `max` |
//! | Opus and Sonnet 4.6 | nothing sent: off by default | adaptive, `low` | adaptive, that effort | adaptive; the effort is dropped | adaptive, `max` |
//! | 3.7 to 4.5, models that are not Claude | nothing sent: off by default | budget of 1,024 (`minimal`) or 4,096 tokens | 10,240 (`medium`) or 20,480 tokens | 32,768 tokens | three quarters of `max_tokens` |
//! | before 3.7 | nothing sent | dropped | dropped | dropped | dropped |
//!
//! A budget is never more than three quarters of `max_tokens`; where that is
//! less than the service's minimum of 1,024 tokens it is dropped. Each drop is
//! a warning, said once per conversation. `temperature` does not exist in this
//! version of the wire and is always dropped.

mod decode;
mod encode;
mod headers;
pub mod limits;
mod model;

use super::address::versioned;
use super::error_report;
use super::{
    ConversationEncoder, Decoder, ErrorResponse, HeaderLookup, ImageInput, RateLimitHints, Wire,
};
use crate::wire::attachment::Intake;
use halter_protocol::{ProviderError, ResolvedModel};

/// The wire's name, as opaque parts carry it.
pub const NAME: &str = "anthropic";

/// The variable that usually holds the key.
const KEY_VARIABLE: &str = "ANTHROPIC_API_KEY";

/// The version of the service's interface that requests ask for.
pub const API_VERSION: &str = "2026-10-21";

/// The beta of compactions, as requests for one and with one name it.
pub const COMPACTION_BETA: &str = "compact-2026-09-04";

/// The Anthropic Messages wire.
///
/// ```
/// use halter_providers::wire::{Wire, anthropic::Anthropic};
///
/// let headers = Anthropic::new().headers(Some("key"));
/// assert!(headers.contains(&("x-api-key".to_owned(), "key".to_owned())));
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Anthropic {
    auth: KeyHeader,
}

#[derive(Debug, Clone, Copy, Default)]
enum KeyHeader {
    #[default]
    ApiKey,
    Bearer,
}

impl Anthropic {
    /// The wire with the key in `x-api-key`.
    pub const fn new() -> Self {
        Self {
            auth: KeyHeader::ApiKey,
        }
    }

    /// The wire with the key as a bearer token, for gateways that read no
    /// `x-api-key`.
    pub const fn with_bearer_token() -> Self {
        Self {
            auth: KeyHeader::Bearer,
        }
    }
}

impl Wire for Anthropic {
    fn name(&self) -> &'static str {
        NAME
    }

    fn url(&self, base_url: &str, _model: &ResolvedModel) -> String {
        format!("{}/messages", versioned(base_url, "v1"))
    }

    fn compacting_host(&self) -> Option<&'static str> {
        Some("api.anthropic.com")
    }

    fn loading_host(&self) -> Option<&'static str> {
        Some("api.anthropic.com")
    }

    fn compacts(&self, model: &ResolvedModel) -> bool {
        model::ModelTraits::of(&model.model).compacts
    }

    fn headers(&self, api_key: Option<&str>) -> Vec<(String, String)> {
        let mut headers = vec![
            ("anthropic-version".to_owned(), API_VERSION.to_owned()),
            ("content-type".to_owned(), "application/json".to_owned()),
        ];
        match (api_key, self.auth) {
            (None, _) => {}
            (Some(key), KeyHeader::ApiKey) => {
                headers.push(("x-api-key".to_owned(), key.to_owned()));
            }
            (Some(key), KeyHeader::Bearer) => {
                headers.push(("authorization".to_owned(), format!("Bearer {key}")));
            }
        }
        headers
    }

    fn encoder(&self, model: &ResolvedModel, images: ImageInput) -> Box<dyn ConversationEncoder> {
        Box::new(encode::MessagesEncoder::new(
            model,
            Intake::new(self.media_limits(), images),
        ))
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(decode::MessagesDecoder::default())
    }

    fn error(&self, response: &ErrorResponse<'_>) -> ProviderError {
        error_report::of_response(response, Some(KEY_VARIABLE))
    }

    fn rate_limit(&self, headers: &dyn HeaderLookup) -> RateLimitHints {
        headers::rate_limit(headers)
    }

    fn models_url(&self, base_url: &str) -> Option<String> {
        Some(format!("{}/models", versioned(base_url, "v1")))
    }
}
