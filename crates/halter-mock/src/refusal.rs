//! Refusals that do not depend on what the request says, in the words of each
//! wire.

use crate::codec::Problem;
use crate::model_answer::tokens;
use crate::wire::{Dialect, MockWire};

/// The key is not the one that is accepted.
pub(crate) fn wrong_key(wire: MockWire) -> Problem {
    match wire {
        MockWire::Anthropic => Problem::new(401, "invalid x-api-key"),
        MockWire::Responses | MockWire::Chat => {
            Problem::new(401, "Incorrect API key provided.").with_code("invalid_api_key")
        }
        MockWire::Gemini => Problem::invalid("API key not valid. Please pass a valid API key.")
            .with_code("API_KEY_INVALID"),
    }
}

/// There is no such model.
pub(crate) fn unknown_model(model: &str) -> Problem {
    Problem::new(
        404,
        format!("The model `{model}` does not exist or you do not have access to it."),
    )
    .at("model")
    .with_code("model_not_found")
}

/// The body is larger than the service takes.
pub(crate) fn too_large(wire: MockWire, max_bytes: usize) -> Problem {
    let message = format!("Request exceeds the maximum size of {max_bytes} bytes");
    match wire {
        MockWire::Gemini => Problem::invalid(message),
        MockWire::Anthropic | MockWire::Responses | MockWire::Chat => Problem::new(413, message),
    }
}

/// The prompt does not fit into the scripted context.
pub(crate) fn too_long(
    wire: MockWire,
    dialect: Dialect,
    bytes: usize,
    max_bytes: usize,
) -> Problem {
    let (seen, max) = (tokens(bytes), tokens(max_bytes));
    match (wire, dialect) {
        (MockWire::Anthropic, _) => {
            Problem::invalid(format!("prompt is too long: {seen} tokens > {max} maximum"))
        }
        (MockWire::Responses, _) => Problem::invalid(
            "Your input exceeds the context window of this model. Please adjust your input and try again.",
        )
        .at("input")
        .with_code("context_length_exceeded"),
        // As llama.cpp says it.
        (MockWire::Chat, Dialect::Local) => Problem {
            kind: Some("exceed_context_size_error".into()),
            ..Problem::invalid(format!(
                "request ({seen} tokens) exceeds the available context size ({max} tokens), try increasing it"
            ))
        },
        (MockWire::Chat, Dialect::OpenRouter) => Problem::invalid(format!(
            "This endpoint's maximum context length is {max} tokens. However, you requested about {seen} tokens. Please reduce the length of either one, or use the \"middle-out\" transform to compress your prompt automatically."
        )),
        (MockWire::Chat, Dialect::Vendor) => Problem::invalid(format!(
            "This model's maximum context length is {max} tokens. However, your messages resulted in {seen} tokens. Please reduce the length of the messages."
        ))
        .at("messages")
        .with_code("context_length_exceeded"),
        (MockWire::Gemini, _) => Problem::invalid(format!(
            "The input token count ({seen}) exceeds the maximum number of tokens allowed ({max})."
        )),
    }
}
