//! Contents: parts that are something, calls answered at once and in order,
//! signatures returned as they were.

use crate::codec::Problem;
use crate::fields;
use crate::gemini::encode::{call_signature, signs};
use crate::gemini::{is_response, media_of, role};
use crate::media::{self, MediaFault};
use crate::signing;
use serde_json::Value;

/// What a client puts on calls that no model made.
const SKIP_VALIDATION: &str = "skip_thought_signature_validator";

/// Types of bytes in a part, besides sound, film and text.
const INLINE: [&str; 6] = [
    "image/png",
    "image/jpeg",
    "image/webp",
    "image/heic",
    "image/heif",
    media::PDF,
];

/// Types of bytes in a response, besides text.
const IN_RESPONSES: [&str; 4] = ["image/png", "image/jpeg", "image/webp", media::PDF];

/// What a part may be.
const DATA: &str = "text functionCall functionResponse inlineData fileData executableCode \
    codeExecutionResult toolCall toolResponse mediaResolution";

/// What describes the data of a part.
const DESCRIPTIONS: &str = "thought thoughtSignature videoMetadata";

pub(super) fn check(contents: &[Value], model: &str, strict: bool) -> Result<(), Problem> {
    if contents.is_empty() {
        return Err(Problem::invalid(
            "* GenerateContentRequest.contents: contents is not specified",
        ));
    }
    for (index, content) in contents.iter().enumerate() {
        check_parts(index, content, model)?;
        if strict {
            check_signatures(index, content, model)?;
        }
    }
    if contents.last().map(role) == Some("model") {
        return Err(Problem::invalid(
            "Please ensure that single turn requests end with a user role or the last content is from the user.",
        ));
    }
    check_pairs(contents)?;
    check_signatures_kept(contents, model)
}

fn check_parts(index: usize, content: &Value, model: &str) -> Result<(), Problem> {
    if !["user", "model"].contains(&role(content)) {
        return Err(Problem::invalid("Please use a valid role: user, model."));
    }
    let parts = fields::items(content, "parts");
    if parts.is_empty() {
        return Err(Problem::invalid(format!(
            "* GenerateContentRequest.contents[{index}].parts: contents.parts must not be empty."
        )));
    }
    for (place, part) in parts.iter().enumerate() {
        let at = format!("contents[{index}].parts[{place}]");
        check_part(part, &at, role(content))?;
        check_media(part, &at, model)?;
    }
    Ok(())
}

/// Every signature that is there is this service's and belongs to its part.
fn check_signatures(index: usize, content: &Value, model: &str) -> Result<(), Problem> {
    for (place, part) in fields::items(content, "parts").iter().enumerate() {
        if !has_own_signature(part, model) {
            return Err(Problem::invalid(format!(
                "Invalid thought signature at contents[{index}].parts[{place}]."
            )));
        }
    }
    Ok(())
}

fn check_part(part: &Value, at: &str, role: &str) -> Result<(), Problem> {
    let data = DATA
        .split_ascii_whitespace()
        .filter(|kind| fields::present(part, kind).is_some())
        .count();
    let is_known = |key: &str| fields::is_word(key, DATA) || fields::is_word(key, DESCRIPTIONS);
    // A new kind of part that the service sent comes back in a model's turn.
    let novel = role == "model"
        && part
            .as_object()
            .is_some_and(|part| part.keys().any(|key| !is_known(key)));
    if data == 0 && !novel {
        return Err(Problem::invalid(format!(
            "* GenerateContentRequest.{at}.data: required oneof field 'data' must have one initialized field"
        )));
    }
    if data > 1 {
        return Err(Problem::invalid(format!(
            "Invalid value at '{at}' (oneof), oneof field 'data' is already set."
        )));
    }
    let misplaced = match role {
        "model" => is_response(part),
        _ => fields::present(part, "functionCall").is_some(),
    };
    if misplaced {
        return Err(Problem::invalid(format!(
            "Please ensure that function calls are in model turns and function responses in user turns ({at})."
        )));
    }
    check_function_shapes(part, at)
}

/// Bytes in the request, beside or inside a response.
fn check_media(part: &Value, at: &str, model: &str) -> Result<(), Problem> {
    check_inline(part, at, model, &INLINE)?;
    let inside = part
        .get("functionResponse")
        .map_or(&[][..], |response| fields::items(response, "parts"));
    if !inside.is_empty() && !signs(model) {
        return Err(Problem::invalid(
            "Multimodal function responses are not supported for this model.",
        ));
    }
    for (place, part) in inside.iter().enumerate() {
        let at = format!("{at}.function_response.parts[{place}]");
        if media_of(part).is_none() {
            return Err(Problem::invalid(format!(
                "* GenerateContentRequest.{at}.data: required oneof field 'data' must have one initialized field"
            )));
        }
        check_inline(part, &at, model, &IN_RESPONSES)?;
    }
    Ok(())
}

fn check_inline(part: &Value, at: &str, model: &str, taken: &[&str]) -> Result<(), Problem> {
    let Some(inline) = fields::present(part, "inlineData") else {
        return Ok(());
    };
    let media_type = fields::text(inline, "mimeType").unwrap_or_default();
    if media_type.starts_with("image/") && media::is_text_only(model) {
        return Err(Problem::invalid(format!(
            "Image input modality is not enabled for models/{model}"
        )));
    }
    if ["audio/", "video/", "text/"]
        .iter()
        .any(|kind| media_type.starts_with(kind))
    {
        return Ok(());
    }
    // Both alphabets of base64 are the same bytes.
    let data = fields::text(inline, "data").unwrap_or_default();
    let data = data.replace('-', "+").replace('_', "/");
    media::check(media_type, &data, taken).map_err(|fault| match fault {
        MediaFault::Type => Problem::invalid(format!("Unsupported MIME type: {media_type}")),
        MediaFault::Encoding => Problem::invalid(format!(
            "Invalid value at '{at}.inline_data.data' (TYPE_BYTES), Base64 decoding failed"
        )),
        MediaFault::Unreadable | MediaFault::Mismatch { .. } => Problem::invalid(
            "Unable to process input image. Please retry or report in https://developers.generativeai.google/guide/troubleshooting",
        ),
    })
}

fn check_function_shapes(part: &Value, at: &str) -> Result<(), Problem> {
    for (key, field) in [("functionCall", "args"), ("functionResponse", "response")] {
        let Some(function) = fields::present(part, key) else {
            continue;
        };
        if fields::text(function, "name").is_none_or(str::is_empty) {
            return Err(Problem::invalid(format!(
                "* GenerateContentRequest.{at}.{key}.name: Name cannot be empty."
            )));
        }
        let value = fields::present(function, field);
        let absent_is_fine = key == "functionCall";
        if !value.map_or(absent_is_fine, Value::is_object) {
            return Err(Problem::invalid(format!(
                "Invalid value at '{at}.{key}.{field}' (type.googleapis.com/google.protobuf.Struct)"
            )));
        }
    }
    Ok(())
}

fn has_own_signature(part: &Value, model: &str) -> bool {
    let Some(signature) = fields::text(part, "thoughtSignature") else {
        return true;
    };
    let skipped = signature == SKIP_VALIDATION;
    // Both alphabets of base64 are the same bytes.
    let signature = signature.replace('-', "+").replace('_', "/");
    match fields::present(part, "functionCall") {
        _ if skipped => true,
        Some(call) => {
            let empty = Value::Object(serde_json::Map::new());
            let args = fields::present(call, "args").unwrap_or(&empty);
            let name = fields::text(call, "name").unwrap_or_default();
            signature == call_signature(model, name, args)
        }
        None => signing::is_opaque(&signature, model),
    }
}

fn functions<'a>(content: &'a Value, key: &str) -> Vec<&'a Value> {
    fields::items(content, "parts")
        .iter()
        .filter_map(|part| fields::present(part, key))
        .collect()
}

fn check_pairs(contents: &[Value]) -> Result<(), Problem> {
    let mut open: Vec<&Value> = Vec::new();
    for content in contents {
        let responses = functions(content, "functionResponse");
        if open.is_empty() && !responses.is_empty() {
            return Err(Problem::invalid(
                "Please ensure that function response turn comes immediately after a function call turn.",
            ));
        }
        if open.len() != responses.len() {
            return Err(unequal());
        }
        // Results without ids belong to the calls in their order.
        let by_id = responses
            .iter()
            .any(|response| fields::text(response, "id").is_some());
        for (call, response) in open.iter().zip(&responses) {
            let matches = |key: &str| call.get(key) == response.get(key);
            if !matches("name") || (by_id && !matches("id")) {
                return Err(Problem::invalid(
                    "Please ensure that the function responses are in the order of the function calls, with the same ids and names.",
                ));
            }
        }
        let lead = fields::items(content, "parts")
            .iter()
            .take(responses.len())
            .all(is_response);
        if !lead {
            return Err(Problem::invalid(
                "Please ensure that function response parts come before other parts of their turn.",
            ));
        }
        open = functions(content, "functionCall");
    }
    if open.is_empty() {
        Ok(())
    } else {
        Err(unequal())
    }
}

fn unequal() -> Problem {
    Problem::invalid(
        "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.",
    )
}

/// In the current turn the first call of every step has its signature.
fn check_signatures_kept(contents: &[Value], model: &str) -> Result<(), Problem> {
    if !signs(model) {
        return Ok(());
    }
    let turn_start = contents
        .iter()
        .rposition(|content| {
            role(content) == "user" && functions(content, "functionResponse").is_empty()
        })
        .unwrap_or(0);
    for (index, content) in contents.iter().enumerate().skip(turn_start) {
        let first = fields::items(content, "parts")
            .iter()
            .enumerate()
            .find(|(_, part)| fields::present(part, "functionCall").is_some());
        if let Some((place, part)) = first
            && fields::text(part, "thoughtSignature").is_none()
        {
            let name = part
                .get("functionCall")
                .and_then(|call| fields::text(call, "name"))
                .unwrap_or_default();
            return Err(Problem::invalid(format!(
                "Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, and missing thought_signature may lead to degraded model performance. Function call `{name}`, position {place} of content {index}."
            )));
        }
    }
    Ok(())
}
