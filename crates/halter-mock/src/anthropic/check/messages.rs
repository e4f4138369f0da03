//! Messages: roles in order, blocks where they belong, calls answered at once,
//! thinking blocks returned as they were.

use super::{STRICT_VERSION, required};
use crate::anthropic::compaction;
use crate::codec::{ModelRequest, Problem};
use crate::fields;
use crate::limits::{MAX_IMAGE_CHARS, MAX_MESSAGES};
use crate::media::{self, MediaFault};
use crate::signing;
use serde_json::Value;
use std::collections::HashSet;

/// What a request asks for, as far as its blocks depend on it.
#[derive(Clone, Copy)]
struct Asked<'a> {
    version: &'a str,
    model: &'a str,
}

pub(super) fn check(request: &ModelRequest<'_>, version: &str) -> Result<(), Problem> {
    let body = request.body;
    let messages = body
        .get("messages")
        .ok_or_else(|| required("messages"))?
        .as_array()
        .ok_or_else(|| Problem::invalid("messages: Input should be a valid list"))?;
    if messages.is_empty() {
        return Err(Problem::invalid(
            "messages: at least one message is required",
        ));
    }
    if messages.len() > MAX_MESSAGES {
        return Err(Problem::invalid(format!(
            "messages: at most {MAX_MESSAGES} messages are allowed"
        )));
    }
    let model = fields::text(body, "model").unwrap_or_default();
    check_roles(messages, model, may_end_in_answer(body))?;
    for (index, message) in messages.iter().enumerate() {
        check_content(index, message, Asked { version, model })?;
        check_thinking_blocks(index, message, request)?;
    }
    check_pairing(messages)?;
    check_thinking_kept(messages, model)
}

fn role(message: &Value) -> &str {
    fields::text(message, "role").unwrap_or_default()
}

/// A conversation that is to be compacted need not want an answer.
fn may_end_in_answer(body: &Value) -> bool {
    fields::present(body, "compaction").is_some()
}

fn check_roles(messages: &[Value], model: &str, ends_in_answer: bool) -> Result<(), Problem> {
    let opens_compacted = compaction::opens(messages);
    for (index, message) in messages.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|at| messages.get(at));
        let after = messages.get(index + 1).map(role);
        match (role(message), before) {
            ("user", _) | ("assistant", Some(_)) => {}
            ("assistant", None) if opens_compacted => {}
            ("assistant" | "system", None) => {
                return Err(Problem::invalid(
                    "messages: first message must use the \"user\" role",
                ));
            }
            ("system", Some(before)) => {
                let follows_well = role(before) == "user" || ends_in_server_result(before);
                if !follows_well || !matches!(after, None | Some("assistant")) {
                    return Err(Problem::invalid(format!(
                        "messages.{index}: a system message must directly follow a user message and be last or be followed by an assistant message"
                    )));
                }
            }
            _ => {
                return Err(Problem::invalid(format!(
                    "messages.{index}.role: Input should be 'user', 'assistant' or 'system'"
                )));
            }
        }
    }
    // A paused answer is sent back as it is, to be gone on with.
    let is_paused = |message: &Value| {
        fields::items(message, "content").last().map(fields::kind) == Some("server_tool_use")
    };
    let prefilled = messages
        .last()
        .is_some_and(|last| role(last) == "assistant" && !is_paused(last));
    if prefilled && !ends_in_answer && !model.contains("-4-5") {
        return Err(Problem::invalid(
            "This model does not support assistant message prefill. The conversation must end with a user message.",
        ));
    }
    Ok(())
}

fn ends_in_server_result(message: &Value) -> bool {
    fields::items(message, "content")
        .last()
        .is_some_and(|block| {
            fields::kind(block).ends_with("_tool_result") && fields::kind(block) != "tool_result"
        })
}

fn check_content(index: usize, message: &Value, asked: Asked<'_>) -> Result<(), Problem> {
    match message.get("content") {
        Some(Value::String(text)) if !text.trim().is_empty() => Ok(()),
        Some(Value::Array(blocks)) if !blocks.is_empty() => {
            for (place, block) in blocks.iter().enumerate() {
                check_block(role(message), block, asked).map_err(|reason| {
                    Problem::invalid(format!("messages.{index}.content.{place}{reason}"))
                })?;
            }
            Ok(())
        }
        Some(Value::String(_) | Value::Array(_)) => Err(Problem::invalid(format!(
            "messages.{index}: all messages must have non-empty content"
        ))),
        Some(_) => Err(Problem::invalid(format!(
            "messages.{index}.content: Input should be a string or a list"
        ))),
        None => Err(required(&format!("messages.{index}.content"))),
    }
}

/// The error is what follows the block's place.
fn check_block(role: &str, block: &Value, asked: Asked<'_>) -> Result<(), String> {
    let Asked { version, model } = asked;
    match (fields::kind(block), role) {
        ("", _) => Err(".type: Field required".to_owned()),
        ("text", _) => {
            if fields::text(block, "text").is_none_or(|text| text.trim().is_empty()) {
                return Err(": text content blocks must be non-empty".to_owned());
            }
            let cites = !fields::items(block, "citations").is_empty();
            if cites && role == "user" && version == STRICT_VERSION {
                return Err(".citations: Extra inputs are not permitted".to_owned());
            }
            Ok(())
        }
        ("image", "user") => check_image(block, model),
        ("document", "user") => check_document(block),
        ("document", "assistant") if version == STRICT_VERSION => {
            Err(".type: document blocks are not permitted in assistant messages".to_owned())
        }
        ("tool_use", "assistant") => {
            let named = fields::text(block, "id").is_some_and(|id| fields::is_name(id, 256, ""))
                && fields::text(block, "name").is_some_and(|name| fields::is_name(name, 64, ""));
            match block.get("input") {
                Some(Value::Object(_)) if named => Ok(()),
                Some(Value::Object(_)) => {
                    Err(".tool_use: id and name should match pattern '^[a-zA-Z0-9_-]+$'".to_owned())
                }
                _ => Err(".tool_use.input: Input should be a valid dictionary".to_owned()),
            }
        }
        ("tool_result", "user") => check_result(block, model),
        ("thinking" | "redacted_thinking", "assistant") | ("search_result", "user") => Ok(()),
        ("tool_use" | "tool_result" | "thinking" | "redacted_thinking" | "image", role) => {
            Err(format!(
                ".type: `{}` blocks are not allowed in {role} messages",
                fields::kind(block)
            ))
        }
        // What the service sent comes back, new kinds included.
        (_, "assistant" | "system") => Ok(()),
        (kind, _) => Err(format!(
            ": Input tag '{kind}' does not match any of the expected tags"
        )),
    }
}

/// The error is what follows the block's place.
fn check_image(block: &Value, model: &str) -> Result<(), String> {
    if media::is_text_only(model) {
        return Err(": this model does not support image input".to_owned());
    }
    let source = block.get("source").unwrap_or(&Value::Null);
    if fields::kind(source) != "base64" {
        return match fields::kind(source) {
            "url" | "file" => Ok(()),
            _ => Err(".image.source.type: Input should be 'base64', 'url' or 'file'".to_owned()),
        };
    }
    let data = fields::text(source, "data").unwrap_or_default();
    if data.len() > MAX_IMAGE_CHARS {
        return Err(format!(
            ".image.source.base64: image exceeds 5 MB maximum: {} bytes > {MAX_IMAGE_CHARS} bytes",
            data.len()
        ));
    }
    check_base64(source, &media::IMAGES).map_err(|reason| format!(".image.source.base64{reason}"))
}

fn check_document(block: &Value) -> Result<(), String> {
    let source = block.get("source").unwrap_or(&Value::Null);
    match fields::kind(source) {
        "base64" => check_base64(source, &[media::PDF])
            .map_err(|reason| format!(".document.source.base64{reason}")),
        "text" if fields::text(source, "media_type") != Some("text/plain") => {
            Err(".document.source.text.media_type: Input should be 'text/plain'".to_owned())
        }
        "text" if fields::text(source, "data").is_none_or(|text| text.trim().is_empty()) => {
            Err(".document.source.text.data: document content must be non-empty".to_owned())
        }
        "text" | "content" | "url" | "file" => Ok(()),
        _ => Err(
            ".document.source.type: Input should be 'base64', 'text', 'content', 'url' or 'file'"
                .to_owned(),
        ),
    }
}

fn check_base64(source: &Value, taken: &[&str]) -> Result<(), String> {
    let media_type = fields::text(source, "media_type").unwrap_or_default();
    let data = fields::text(source, "data").unwrap_or_default();
    media::check(media_type, data, taken).map_err(|fault| match fault {
        MediaFault::Type => format!(".media_type: Input should be one of {}", taken.join(", ")),
        MediaFault::Encoding => ".data: Input should be valid base64".to_owned(),
        MediaFault::Unreadable => ".data: Could not process the content".to_owned(),
        MediaFault::Mismatch { found } => format!(
            ".data: The content was specified using the {media_type} media type, but it appears to be {found}"
        ),
    })
}

fn check_result(block: &Value, model: &str) -> Result<(), String> {
    if fields::text(block, "tool_use_id").is_none() {
        return Err(".tool_result.tool_use_id: Field required".to_owned());
    }
    match block.get("content") {
        None | Some(Value::String(_)) => Ok(()),
        Some(Value::Array(parts)) => {
            let refers = |part: &Value| fields::kind(part) == "tool_reference";
            if parts.iter().any(refers) && !parts.iter().all(refers) {
                return Err(
                    ".tool_result.content: tool_reference blocks cannot be mixed with others"
                        .to_owned(),
                );
            }
            for (place, part) in parts.iter().enumerate() {
                let checked = match fields::kind(part) {
                    "text" if fields::text(part, "text").is_some_and(|text| !text.is_empty()) => {
                        Ok(())
                    }
                    "text" => Err(": text content blocks must be non-empty".to_owned()),
                    "image" => check_image(part, model),
                    "document" => check_document(part),
                    "search_result" | "tool_reference" | "browser_state" => Ok(()),
                    kind => Err(format!(
                        ": Input tag '{kind}' is not allowed in a tool_result"
                    )),
                };
                checked.map_err(|reason| format!(".tool_result.content.{place}{reason}"))?;
            }
            Ok(())
        }
        Some(_) => Err(".tool_result.content: Input should be a string or a list".to_owned()),
    }
}

/// Every thinking block is signed: where the service is strict, by this service,
/// for this model and this text.
fn check_thinking_blocks(
    index: usize,
    message: &Value,
    request: &ModelRequest<'_>,
) -> Result<(), Problem> {
    let model = fields::text(request.body, "model").unwrap_or_default();
    let is_foreign = |seal: &str| !request.strict && !seal.is_empty();
    for (place, block) in fields::items(message, "content").iter().enumerate() {
        let kind = fields::kind(block);
        let valid = match kind {
            "thinking" => {
                let text = fields::text(block, "thinking").unwrap_or_default();
                let signature = fields::text(block, "signature").unwrap_or_default();
                signing::is_signed(signature, model, &["thinking", text]) || is_foreign(signature)
            }
            "redacted_thinking" => {
                let data = fields::text(block, "data").unwrap_or_default();
                signing::is_opaque(data, model) || is_foreign(data)
            }
            _ => true,
        };
        if !valid {
            let field = if kind == "thinking" {
                "signature"
            } else {
                "data"
            };
            return Err(Problem::invalid(format!(
                "messages.{index}.content.{place}: Invalid `{field}` in `{kind}` block"
            )));
        }
    }
    Ok(())
}

fn ids_of<'a>(message: &'a Value, kind: &str, key: &str) -> Vec<&'a str> {
    fields::items(message, "content")
        .iter()
        .filter(|block| fields::kind(block) == kind)
        .filter_map(|block| fields::text(block, key))
        .collect()
}

fn check_pairing(messages: &[Value]) -> Result<(), Problem> {
    let mut seen = HashSet::new();
    let mut open: Vec<&str> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let results = ids_of(message, "tool_result", "tool_use_id");
        check_results(index, message, &open, &results)?;
        open = ids_of(message, "tool_use", "id");
        if let Some(id) = open.iter().find(|id| !seen.insert(**id)) {
            return Err(Problem::invalid(format!(
                "messages.{index}: `tool_use` ids must be unique ({id})"
            )));
        }
    }
    if open.is_empty() {
        Ok(())
    } else {
        Err(unanswered(messages.len().saturating_sub(1), &open))
    }
}

fn check_results(
    index: usize,
    message: &Value,
    open: &[&str],
    results: &[&str],
) -> Result<(), Problem> {
    let missing: Vec<_> = open
        .iter()
        .copied()
        .filter(|id| !results.contains(id))
        .collect();
    if !missing.is_empty() {
        return Err(unanswered(index.saturating_sub(1), &missing));
    }
    let mut once = HashSet::new();
    for id in results {
        if !open.contains(id) {
            return Err(Problem::invalid(format!(
                "messages.{index}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
            )));
        }
        if !once.insert(id) {
            return Err(Problem::invalid(format!(
                "messages.{index}: each tool_use must have a single result. Found multiple `tool_result` blocks with id: {id}"
            )));
        }
    }
    let results_lead = fields::items(message, "content")
        .iter()
        .take(results.len())
        .all(|block| fields::kind(block) == "tool_result");
    if results_lead {
        Ok(())
    } else {
        Err(unanswered(index.saturating_sub(1), open))
    }
}

fn unanswered(index: usize, ids: &[&str]) -> Problem {
    Problem::invalid(format!(
        "messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. Each `tool_use` block must have a corresponding `tool_result` block in the next message.",
        ids.join(", ")
    ))
}

/// In the current turn no thinking block before a call was dropped or reordered.
fn check_thinking_kept(messages: &[Value], model: &str) -> Result<(), Problem> {
    let turn_start = messages
        .iter()
        .rposition(|message| {
            role(message) == "user" && ids_of(message, "tool_result", "tool_use_id").is_empty()
        })
        .unwrap_or(0);
    for (index, message) in messages.iter().enumerate().skip(turn_start) {
        let mut thought: Option<String> = None;
        for (place, block) in fields::items(message, "content").iter().enumerate() {
            let seal = match fields::kind(block) {
                "thinking" => fields::text(block, "signature"),
                "redacted_thinking" => fields::text(block, "data"),
                _ => None,
            };
            if let Some(seal) = seal {
                thought.get_or_insert_default().push_str(seal);
            }
            let id = fields::text(block, "id").unwrap_or_default();
            if fields::kind(block) == "tool_use"
                && signing::lacks_reasoning(id, model, thought.as_deref())
            {
                return Err(Problem::invalid(format!(
                    "messages.{index}.content.{place}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These blocks must remain as they were in the original response."
                )));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::limits::MAX_MESSAGES;
    use serde_json::json;

    #[test]
    fn the_number_of_messages_is_bounded() {
        let checked = |count: usize| {
            let message = json!({"role": "user", "content": "x"});
            let body = json!({"model": "m", "max_tokens": 1, "messages": vec![message; count]});
            crate::check_body(crate::MockWire::Anthropic, "m", &body)
        };
        assert_eq!(checked(MAX_MESSAGES), Ok(()));
        let refused = checked(MAX_MESSAGES + 1).unwrap_err();
        assert!(refused.contains("at most"), "{refused}");
    }
}
