//! OpenAI Responses, without state at the service: nothing is stored there,
//! every request carries the whole conversation, and what the model said goes
//! back as the service wrote it, encrypted reasoning included.
//!
//! - Levels of `reasoning` go out under their own names, with a wish for
//!   summaries; to `gpt-3.5…`, `gpt-4…`, `chatgpt-4o…` and `gpt-5…-chat…`, which
//!   do not reason, none does. A level or a temperature that the
//!   [catalog](crate::catalog) knows a model to refuse, or that it refuses, is
//!   left out with a warning.
//! - Tools are functions, strict where their schema allows.
//! - A structured answer is asked for with `text.format`, strict where the
//!   schema allows; of models from before `gpt-4o` with a tool.
//! - Images (PNG, JPEG, WebP, GIF), PDFs and text documents go along in user
//!   messages and in the output of calls, which is then a list of parts; for
//!   other types the model reads a line that says what was left out.
//! - A conversation is compacted by `/responses/compact`. Its output, an
//!   encrypted item and what the service keeps beside it, goes back as it came.

mod decode;
mod encode;
mod events;
mod items;
mod open_item;
mod tools;
mod usage;

use super::{
    ConversationEncoder, Decoder, ErrorResponse, HeaderLookup, ImageInput, RateLimitHints, Wire,
    address,
};
use crate::wire::attachment::Intake;
use crate::wire::common::{bearer, stream_headers};
use crate::wire::error_report;
use crate::wire::failure::openai_rate_limit;
use halter_protocol::limits::ATTACHMENTS_BYTES;
use halter_protocol::{MediaLimits, ProviderError, ResolvedModel};

/// The name that opaque parts of this wire carry.
const NAME: &str = "responses";

/// The variable that usually holds the key.
const KEY_VARIABLE: &str = "OPENAI_API_KEY";

/// OpenAI Responses.
#[derive(Debug, Clone, Copy, Default)]
pub struct ResponsesWire;

impl Wire for ResponsesWire {
    fn name(&self) -> &'static str {
        NAME
    }

    fn url(&self, base_url: &str, _model: &ResolvedModel) -> String {
        format!("{}/responses", address::versioned(base_url, "v1"))
    }

    fn compacting_host(&self) -> Option<&'static str> {
        Some("api.openai.com")
    }

    fn loading_host(&self) -> Option<&'static str> {
        Some("api.openai.com")
    }

    fn compaction_url(&self, base_url: &str, model: &ResolvedModel) -> String {
        format!("{}/compact", self.url(base_url, model))
    }

    fn models_url(&self, base_url: &str) -> Option<String> {
        Some(format!("{}/models", address::versioned(base_url, "v1")))
    }

    fn headers(&self, api_key: Option<&str>) -> Vec<(String, String)> {
        stream_headers(api_key.map(bearer))
    }

    fn media_limits(&self) -> MediaLimits {
        // The service limits a request as a whole and scales images down.
        MediaLimits {
            image_bytes: ATTACHMENTS_BYTES,
            ..MediaLimits::default()
        }
    }

    fn encoder(&self, model: &ResolvedModel, images: ImageInput) -> Box<dyn ConversationEncoder> {
        Box::new(encode::ResponsesEncoder::new(
            model,
            Intake::new(self.media_limits(), images),
        ))
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(decode::ResponsesDecoder::default())
    }

    fn error(&self, response: &ErrorResponse<'_>) -> ProviderError {
        error_report::of_response(response, Some(KEY_VARIABLE))
    }

    fn rate_limit(&self, headers: &dyn HeaderLookup) -> RateLimitHints {
        openai_rate_limit(headers)
    }
}
