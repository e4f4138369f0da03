//! Gemini `streamGenerateContent`.
//!
//! - What the model said goes back part by part as it came, thought
//!   signatures included: to the same model of the same provider only. A call
//!   that another model made carries the value that the service documents for
//!   it in the place of a signature.
//! - All results of a step go out in one content, in the order of the calls,
//!   as `{"output": …}` or `{"error": …}`. What the harness says goes out as
//!   text of the user, for the service knows no other speaker.
//! - `reasoning` becomes a level or a budget of tokens:
//!
//!   | level | `gemini-3…` and later | `gemini-2.5…` | older, Gemma |
//!   |---|---|---|---|
//!   | none | left out | 0; left out for Pro | nothing to say |
//!   | minimal | `MINIMAL`; left out for Pro and 3.8 Flash | 1,024 | left out |
//!   | low | `LOW` | 4,096 | left out |
//!   | medium | `MEDIUM`; left out for 3 Pro | 8,192 | left out |
//!   | high | `HIGH` | 16,384 | left out |
//!   | xhigh, max | `HIGH` | 24,576 | left out |
//!
//!   What is left out is told in a warning. Thoughts are always asked for
//!   where the model has them.
//! - A structured answer is asked for with `responseJsonSchema`; of models
//!   before the third generation, which take that or tools, with a tool if
//!   there are others.
//! - Images (PNG, JPEG, WebP, HEIC, HEIF), PDFs and text documents go along in
//!   user messages; for other types the model reads a line that says what was
//!   left out.
//! - What a tool returns besides text is named in the `output` and goes, for
//!   models from the third generation on, into `functionResponse.parts` (PNG,
//!   JPEG, WebP, PDF); the rest, and everything for older models, stands behind
//!   the responses of the step, in the same content.

mod chunk;
mod content;
mod decode;
mod encode;
mod errors;
mod thinking;

use super::{
    ConversationEncoder, Decoder, ErrorResponse, HeaderLookup, ImageInput, RateLimitHints, Wire,
    address,
};
use crate::wire::attachment::Intake;
use crate::wire::common::stream_headers;
use crate::wire::error_report;
use halter_protocol::{MediaLimits, ProviderError, ResolvedModel};

/// The name that opaque parts of this wire carry.
const NAME: &str = "gemini";

/// The variable that usually holds the key.
const KEY_VARIABLE: &str = "GEMINI_API_KEY";

/// Models that the service is asked to list at once: the most it lists.
const MODELS_LISTED: usize = 1_000;

/// Gemini `streamGenerateContent`.
#[derive(Debug, Clone, Copy, Default)]
pub struct GeminiWire;

impl Wire for GeminiWire {
    fn name(&self) -> &'static str {
        NAME
    }

    fn url(&self, base_url: &str, model: &ResolvedModel) -> String {
        let name = model.model.strip_prefix("models/").unwrap_or(&model.model);
        format!(
            "{}/models/{}:streamGenerateContent?alt=sse",
            address::versioned(base_url, "v1beta"),
            address::path_segment(name)
        )
    }

    fn models_url(&self, base_url: &str) -> Option<String> {
        let base = address::versioned(base_url, "v1beta");
        Some(format!("{base}/models?pageSize={MODELS_LISTED}"))
    }

    fn headers(&self, api_key: Option<&str>) -> Vec<(String, String)> {
        stream_headers(api_key.map(|key| ("x-goog-api-key", key.to_owned())))
    }

    fn media_limits(&self) -> MediaLimits {
        MediaLimits {
            media_types: content::MEDIA_TYPES
                .iter()
                .map(|known| (*known).into())
                .collect(),
            ..MediaLimits::default()
        }
    }

    fn encoder(&self, model: &ResolvedModel, images: ImageInput) -> Box<dyn ConversationEncoder> {
        Box::new(encode::GeminiEncoder::new(
            model,
            Intake::new(self.media_limits(), images),
        ))
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(decode::GeminiDecoder::new())
    }

    fn error(&self, response: &ErrorResponse<'_>) -> ProviderError {
        error_report::of_response(response, Some(KEY_VARIABLE))
    }

    /// The service says nothing about rates in headers.
    fn rate_limit(&self, _headers: &dyn HeaderLookup) -> RateLimitHints {
        RateLimitHints::default()
    }
}
