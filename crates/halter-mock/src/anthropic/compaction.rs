//! Compaction on demand: a signed summary in place of an answer, which opens
//! the conversation from then on.

use crate::codec::{ModelRequest, Problem};
use crate::fields;
use crate::signing;
use serde_json::{Value, json};

/// The beta that requests for a compaction, and with one, must name.
const BETA: &str = "compact-2026-09-04";

/// Characters of a summary's own instructions.
const MAX_INSTRUCTIONS: usize = 16_384;

/// Tokens that a summary is said to have.
const SUMMARY_TOKENS: u64 = 40;

pub(super) fn is_block(block: &Value) -> bool {
    fields::kind(block) == "compaction"
}

/// Whether the conversation begins with a compaction.
pub(super) fn opens(messages: &[Value]) -> bool {
    let first = messages.first();
    first
        .and_then(|message| fields::items(message, "content").first())
        .is_some_and(is_block)
}

pub(super) fn check(request: &ModelRequest<'_>) -> Result<(), Problem> {
    let body = request.body;
    let asked = fields::present(body, "compaction");
    let messages = fields::items(body, "messages");
    let blocks: Vec<&Value> = messages
        .iter()
        .flat_map(|message| fields::items(message, "content"))
        .filter(|block| is_block(block))
        .collect();
    let betas = request.header("anthropic-beta").unwrap_or_default();
    // Compactions at a threshold have a beta and rules of their own.
    let of_threshold = betas.contains("compact-2026-01-12");
    let has_beta = betas.split(',').any(|beta| beta.trim() == BETA);
    if !has_beta && (asked.is_some() || (!blocks.is_empty() && !of_threshold)) {
        return Err(Problem::invalid(format!(
            "compaction requires the `{BETA}` value of the `anthropic-beta` header"
        )));
    }
    if let Some(asked) = asked {
        check_wish(asked, body)?;
    }
    if has_beta {
        check_blocks(&blocks, messages, request)?;
    }
    Ok(())
}

fn check_wish(asked: &Value, body: &Value) -> Result<(), Problem> {
    if fields::kind(asked) != "summarize" {
        return Err(Problem::invalid(
            "compaction.type: Input should be 'summarize'",
        ));
    }
    let instructions = fields::present(asked, "instructions");
    let too_long = |text: &str| text.chars().count() > MAX_INSTRUCTIONS;
    if instructions.is_some_and(|text| text.as_str().is_none_or(too_long)) {
        return Err(Problem::invalid(format!(
            "compaction.instructions: Input should be a string of at most {MAX_INSTRUCTIONS} characters"
        )));
    }
    if let Some(field) = fields::object(asked)?
        .keys()
        .find(|field| !fields::is_word(field, "type instructions"))
    {
        return Err(Problem::invalid(format!(
            "compaction.{field}: Extra inputs are not permitted"
        )));
    }
    let forced = body
        .get("tool_choice")
        .is_some_and(|choice| matches!(fields::kind(choice), "any" | "tool"));
    let format = body
        .get("output_config")
        .is_some_and(|config| fields::present(config, "format").is_some());
    let beside = [
        (
            "context_management",
            fields::present(body, "context_management").is_some(),
        ),
        (
            "stop_sequences",
            !fields::items(body, "stop_sequences").is_empty(),
        ),
        ("tool_choice", forced),
        ("output_config.format", format),
    ];
    match beside.iter().find(|(_, there)| *there) {
        Some((field, _)) => Err(Problem::invalid(format!(
            "compaction: cannot be combined with `{field}`"
        ))),
        None => Ok(()),
    }
}

fn check_blocks(
    blocks: &[&Value],
    messages: &[Value],
    request: &ModelRequest<'_>,
) -> Result<(), Problem> {
    let Some(block) = blocks.first() else {
        return Ok(());
    };
    if blocks.len() > 1 || !opens(messages) {
        return Err(Problem::invalid(
            "messages: one compaction block is allowed, as the first block of the first message",
        )
        .with_code("compaction_block_misplaced"));
    }
    let model = fields::text(request.body, "model").unwrap_or_default();
    let content = fields::text(block, "content").unwrap_or_default();
    let signature = fields::text(block, "signature").unwrap_or_default();
    let is_own = signing::is_signed(signature, model, &["compaction", content]);
    match is_own || (!request.strict && !signature.is_empty()) {
        true => Ok(()),
        false => Err(Problem::invalid(
            "messages.0.content.0: Invalid `signature` in `compaction` block",
        )),
    }
}

pub(super) fn compacted(body: &Value, input_tokens: u64) -> Value {
    let model = fields::text(body, "model").unwrap_or_default();
    let messages = fields::items(body, "messages");
    let first = messages
        .iter()
        .find(|message| fields::text(message, "role") == Some("user"))
        .map(|message| fields::content(message.get("content")).0)
        .unwrap_or_default();
    let first: String = first.chars().take(200).collect();
    let content = format!(
        "Summary of the conversation: {} messages. It began with: {first}",
        messages.len()
    );
    let digest = signing::digest(&[&Value::from(messages.to_vec()).to_string()]);
    let signature = signing::sign(model, &["compaction", &content]);
    json!({
        "id": format!("msg_{}", digest.get(..16).unwrap_or_default()),
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [{"type": "compaction", "content": content, "signature": signature}],
        "stop_reason": "compaction",
        "stop_sequence": null,
        "usage": {
            "input_tokens": 0,
            "output_tokens": 0,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "iterations": [{
                "type": "compaction",
                "input_tokens": input_tokens,
                "output_tokens": SUMMARY_TOKENS,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0,
            }],
        },
    })
}
