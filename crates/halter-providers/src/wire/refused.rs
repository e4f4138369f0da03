//! Which setting a service refused, from its error.

use super::{ErrorResponse, RefusedSetting};
use serde_json::Value;

/// Names of settings as services spell them in `param` and in their words.
const NAMES: [(&str, RefusedSetting); 14] = [
    ("temperature", RefusedSetting::Temperature),
    ("reasoning_effort", RefusedSetting::Reasoning),
    ("reasoning", RefusedSetting::Reasoning),
    ("thinking", RefusedSetting::Reasoning),
    ("effort", RefusedSetting::Reasoning),
    ("thinkingconfig", RefusedSetting::Reasoning),
    ("chat_template_kwargs", RefusedSetting::Reasoning),
    ("enable_thinking", RefusedSetting::Reasoning),
    ("response_format", RefusedSetting::Output),
    ("output_config", RefusedSetting::Output),
    ("output_format", RefusedSetting::Output),
    ("defer_loading", RefusedSetting::LateTools),
    ("tool_reference", RefusedSetting::LateTools),
    ("additional_tools", RefusedSetting::LateTools),
];

/// How services name a schema of the answer in their words, whatever they have
/// against it.
const OUTPUT_NAMES: [&str; 6] = [
    "output_config.format",
    "output_format",
    "response_format",
    "response mime type",
    "response_json_schema",
    "responsejsonschema",
];

/// Words that refuse a setting rather than complain about its value's form.
const REFUSALS: [&str; 8] = [
    "unsupported",
    "not supported",
    "does not support",
    "doesn't support",
    "not permitted",
    "unrecognized",
    "unknown",
    "not allowed",
];

/// How services say that a model takes no images at all. Words about one image
/// are not among them: another may be fine.
const NO_IMAGES: [&str; 13] = [
    // Ollama, and gateways like it.
    "not support image",
    "not support images",
    "missing data required for image input",
    // llama.cpp.
    "image input is not supported",
    // vLLM.
    "is not a multimodal model",
    "at most 0 image(s) may be provided",
    // OpenRouter.
    "no endpoints found that support image input",
    // OpenAI.
    "image_url is only supported by certain models",
    "image input is only supported by certain models",
    // Servers that know no other part than text.
    "unknown variant `image_url`",
    "unknown variant 'image_url'",
    "not support vision",
    // Gemini.
    "image input modality is not enabled",
];

/// The setting that a response refuses.
pub(super) fn setting_in(response: &ErrorResponse<'_>) -> Option<RefusedSetting> {
    if refuses_images(response) {
        return Some(RefusedSetting::Images);
    }
    if !matches!(response.status, 400 | 422) {
        return None;
    }
    let body: Value = serde_json::from_slice(response.body).ok()?;
    let error = body.get("error").unwrap_or(&body);
    if let Some(param) = error.get("param").and_then(Value::as_str) {
        if param.starts_with("text.") {
            return Some(RefusedSetting::Output);
        }
        // The last name is the closest: `output_config.effort`.
        return param.rsplit(['.', '[']).find_map(named);
    }
    let message = match error {
        Value::String(message) => message,
        error => error.get("message")?.as_str()?,
    };
    let message = message.to_ascii_lowercase();
    if OUTPUT_NAMES.iter().any(|name| message.contains(name)) {
        return Some(RefusedSetting::Output);
    }
    if !REFUSALS.iter().any(|words| message.contains(words)) {
        return None;
    }
    message
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .find_map(named)
}

/// Servers do not agree on a status for it.
fn refuses_images(response: &ErrorResponse<'_>) -> bool {
    matches!(response.status, 400 | 404 | 415 | 422 | 500 | 501) && {
        let words = String::from_utf8_lossy(response.body).to_ascii_lowercase();
        NO_IMAGES.iter().any(|refusal| words.contains(refusal))
    }
}

fn named(word: &str) -> Option<RefusedSetting> {
    NAMES
        .iter()
        .find(|(name, _)| *name == word)
        .map(|(_, setting)| *setting)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::ResponseHeaders;

    fn refused(status: u16, body: &str) -> Option<RefusedSetting> {
        setting_in(&ErrorResponse {
            status,
            headers: &ResponseHeaders::default(),
            body: body.as_bytes(),
        })
    }

    #[test]
    fn the_words_of_services_are_understood() {
        use RefusedSetting::{LateTools, Output, Reasoning, Temperature};
        for (body, setting) in [
            (
                r#"{"error":{"message":"Unsupported value: 'temperature' does not support 0.7 with this model.","type":"invalid_request_error","param":"temperature","code":"unsupported_value"}}"#,
                Some(Temperature),
            ),
            (
                r#"{"error":{"message":"Unsupported parameter","param":"reasoning.effort","code":"unsupported_parameter"}}"#,
                Some(Reasoning),
            ),
            (
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"temperature: Extra inputs are not permitted"}}"#,
                Some(Temperature),
            ),
            (
                r#"{"error":"\"llama3.2\" does not support thinking"}"#,
                Some(Reasoning),
            ),
            (
                r#"{"error":{"message":"Invalid schema for response_format 'final_output'","param":"text.format.schema","code":"invalid_json_schema"}}"#,
                Some(Output),
            ),
            (
                r#"{"error":{"message":"Unsupported value","param":"output_config.effort"}}"#,
                Some(Reasoning),
            ),
            (
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"output_config.format.schema: the schema is too complex"}}"#,
                Some(Output),
            ),
            (
                r#"{"error":{"code":400,"message":"Function calling with a response mime type: 'application/json' is unsupported","status":"INVALID_ARGUMENT"}}"#,
                Some(Output),
            ),
            (
                r#"{"error":{"message":"messages.1: temperature is a nice word","type":"x"}}"#,
                None,
            ),
            (
                r#"{"error":{"message":"Unknown model 'x'","param":"model"}}"#,
                None,
            ),
            (
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"tools.7.custom.defer_loading: Extra inputs are not permitted"}}"#,
                Some(LateTools),
            ),
            (
                r#"{"error":{"message":"input[4]: the item type 'additional_tools' is not supported with this model"}}"#,
                Some(LateTools),
            ),
            ("not json", None),
        ] {
            assert_eq!(refused(400, body), setting, "{body}");
        }
    }

    #[test]
    fn a_model_that_takes_no_images_is_recognised_whatever_the_status() {
        for (status, body) in [
            (
                400,
                r#"{"error":{"message":"this model does not support image input (ref: x)"}}"#,
            ),
            (
                404,
                r#"{"error":{"code":404,"message":"No endpoints found that support image input"}}"#,
            ),
            (
                500,
                r#"{"error":{"code":500,"message":"image input is not supported - hint: if this is unexpected, you may need to provide the mmproj","type":"server_error"}}"#,
            ),
            (
                400,
                r#"{"object":"error","message":"some/model is not a multimodal model"}"#,
            ),
            (
                400,
                r#"{"error":{"message":"Invalid content type. image_url is only supported by certain models.","param":"messages.[1].content.[0].type"}}"#,
            ),
            (
                422,
                "Failed to deserialize the JSON body: messages[1]: unknown variant `image_url`, expected `text`",
            ),
        ] {
            assert_eq!(
                refused(status, body),
                Some(RefusedSetting::Images),
                "{body}"
            );
        }
        for (status, body) in [
            (
                400,
                r#"{"error":{"message":"You uploaded an unsupported image."}}"#,
            ),
            (
                429,
                r#"{"error":{"message":"this model does not support image input"}}"#,
            ),
        ] {
            assert_eq!(refused(status, body), None, "{body}");
        }
    }

    #[test]
    fn only_a_refused_request_is_looked_at() {
        let body = r#"{"error":{"message":"x","param":"temperature"}}"#;
        assert_eq!(refused(500, body), None);
        assert_eq!(refused(422, body), Some(RefusedSetting::Temperature));
    }
}
