//! Answers as messages and as events.

use crate::codec::{Frame, Place};
use crate::fields;
use crate::model_answer::{AnswerPart, ModelAnswer, StopKind};
use crate::scenario::UnknownKind;
use crate::signing;
use serde_json::{Value, json};

/// A content block: whole, and as it is streamed.
struct Block {
    whole: Value,
    start: Value,
    deltas: Vec<Value>,
}

pub(super) fn whole(answer: &ModelAnswer, body: &Value) -> Value {
    let content: Vec<_> = blocks(answer, body)
        .into_iter()
        .map(|block| block.whole)
        .collect();
    let mut message = json!({
        "id": answer.id("msg_"),
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": content,
        "stop_reason": stop_reason(&answer.stop),
        "stop_sequence": stop_sequence(answer, body),
        "usage": usage(answer, answer.usage.total_output()),
    });
    add_stop_details(&answer.stop, &mut message);
    answer.add_unknown_field(&mut message);
    message
}

pub(super) fn frames(answer: &ModelAnswer, body: &Value) -> Vec<Frame> {
    let mut message = json!({
        "id": answer.id("msg_"),
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
        "usage": usage(answer, 1),
    });
    answer.add_unknown_field(&mut message);
    let mut frames = vec![frame(
        json!({"type": "message_start", "message": message}),
        Place::Opening,
    )];
    if answer.has_unknown(UnknownKind::Event) {
        let novelty = json!({"type": "weather_report", "sky": "clear"});
        frames.push(frame(novelty, Place::Opening));
    }
    for (index, block) in blocks(answer, body).into_iter().enumerate() {
        block_frames(answer, index, block, &mut frames);
    }
    let mut delta = json!({
        "stop_reason": stop_reason(&answer.stop),
        "stop_sequence": stop_sequence(answer, body),
    });
    add_stop_details(&answer.stop, &mut delta);
    frames.push(frame(
        json!({
            "type": "message_delta",
            "delta": delta,
            "usage": usage(answer, answer.usage.total_output()),
        }),
        Place::Closing,
    ));
    frames.push(frame(json!({"type": "message_stop"}), Place::Last));
    frames
}

fn block_frames(answer: &ModelAnswer, index: usize, block: Block, frames: &mut Vec<Frame>) {
    frames.push(frame(
        json!({"type": "content_block_start", "index": index, "content_block": block.start}),
        Place::Between,
    ));
    for mut delta in block.deltas {
        answer.add_unknown_field(&mut delta);
        frames.push(frame(
            json!({"type": "content_block_delta", "index": index, "delta": delta}),
            Place::Delta,
        ));
    }
    frames.push(frame(
        json!({"type": "content_block_stop", "index": index}),
        Place::Between,
    ));
}

fn frame(data: Value, place: Place) -> Frame {
    Frame::named(fields::kind(&data), &data, place)
}

fn blocks(answer: &ModelAnswer, body: &Value) -> Vec<Block> {
    let omitted = body
        .get("thinking")
        .and_then(|thinking| fields::text(thinking, "display"))
        == Some("omitted");
    let mut thought: Option<String> = None;
    let mut blocks = Vec::new();
    for (number, part) in answer.parts.iter().enumerate() {
        blocks.push(match part {
            AnswerPart::Text(pieces) => text_block(pieces),
            AnswerPart::Thinking(pieces) => {
                let shown = if omitted { &[][..] } else { pieces.as_slice() };
                let signature = signing::sign(&answer.model, &["thinking", &shown.concat()]);
                thought.get_or_insert_default().push_str(&signature);
                thinking_block(shown, &signature)
            }
            AnswerPart::Redacted => {
                let data = signing::opaque(&answer.model, &format!("redacted {number}"));
                thought.get_or_insert_default().push_str(&data);
                let whole = json!({"type": "redacted_thinking", "data": data});
                Block {
                    start: whole.clone(),
                    whole,
                    deltas: Vec::new(),
                }
            }
            AnswerPart::Call(call) => {
                let id = signing::call_id(
                    "toolu_",
                    &answer.model,
                    thought.as_deref(),
                    &answer.request,
                    call.number,
                );
                call_block(call, &id)
            }
        });
    }
    if answer.stop == StopKind::Pause {
        blocks.push(server_call_block(answer));
    }
    if answer.has_unknown(UnknownKind::Block) {
        blocks.push(Block {
            whole: json!({"type": "hologram", "light": "green"}),
            start: json!({"type": "hologram", "light": ""}),
            deltas: vec![json!({"type": "hologram_delta", "light": "green"})],
        });
    }
    blocks
}

fn text_block(pieces: &[String]) -> Block {
    Block {
        whole: json!({"type": "text", "text": pieces.concat()}),
        start: json!({"type": "text", "text": ""}),
        deltas: pieces
            .iter()
            .map(|piece| json!({"type": "text_delta", "text": piece}))
            .collect(),
    }
}

fn thinking_block(pieces: &[String], signature: &str) -> Block {
    let mut deltas: Vec<_> = pieces
        .iter()
        .map(|piece| json!({"type": "thinking_delta", "thinking": piece}))
        .collect();
    deltas.push(json!({"type": "signature_delta", "signature": signature}));
    Block {
        whole: json!({"type": "thinking", "thinking": pieces.concat(), "signature": signature}),
        start: json!({"type": "thinking", "thinking": "", "signature": ""}),
        deltas,
    }
}

fn call_block(call: &crate::model_answer::AnswerCall, id: &str) -> Block {
    let input = call.input.clone().unwrap_or_default();
    // The first fragment is empty, as the real service sends it.
    let fragments = std::iter::once("").chain(call.pieces.iter().map(String::as_str));
    let no_arguments = call.input.as_ref().is_some_and(serde_json::Map::is_empty);
    Block {
        whole: json!({"type": "tool_use", "id": id, "name": call.name, "input": input}),
        start: json!({"type": "tool_use", "id": id, "name": call.name, "input": {}}),
        deltas: fragments
            .take(if no_arguments { 1 } else { usize::MAX })
            .map(|piece| json!({"type": "input_json_delta", "partial_json": piece}))
            .collect(),
    }
}

/// A pause happens while the vendor runs a tool of its own.
fn server_call_block(answer: &ModelAnswer) -> Block {
    let call = |input: Value| json!({"type": "server_tool_use", "id": answer.id("srvtoolu_"), "name": "web_search", "input": input});
    Block {
        whole: call(json!({"query": "mock"})),
        start: call(json!({})),
        deltas: vec![json!({"type": "input_json_delta", "partial_json": "{\"query\":\"mock\"}"})],
    }
}

fn usage(answer: &ModelAnswer, output: u64) -> Value {
    let usage = &answer.usage;
    let mut value = json!({
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_writes(),
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": usage.cache_write,
            "ephemeral_1h_input_tokens": usage.cache_write_long,
        },
        "output_tokens": output,
        "output_tokens_details": {"thinking_tokens": usage.reasoning.min(output)},
        "service_tier": "standard",
    });
    if answer.has_unknown(UnknownKind::Usage) {
        fields::set(&mut value, "dream_tokens", json!(7));
    }
    value
}

fn stop_reason(stop: &StopKind) -> &str {
    match stop {
        StopKind::End => "end_turn",
        StopKind::ToolUse => "tool_use",
        StopKind::MaxTokens => "max_tokens",
        StopKind::Sequence => "stop_sequence",
        StopKind::Refusal | StopKind::ContentFilter => "refusal",
        StopKind::ContextWindow => "model_context_window_exceeded",
        StopKind::Pause => "pause_turn",
        StopKind::Other(word) => word,
    }
}

fn add_stop_details(stop: &StopKind, target: &mut Value) {
    if matches!(stop, StopKind::Refusal | StopKind::ContentFilter) {
        let details = json!({"type": "refusal", "category": "general_harms", "explanation": "The mock declines."});
        fields::set(target, "stop_details", details);
    }
}

fn stop_sequence(answer: &ModelAnswer, body: &Value) -> Value {
    match answer.stop {
        StopKind::Sequence => fields::items(body, "stop_sequences")
            .first()
            .cloned()
            .unwrap_or(Value::Null),
        _ => Value::Null,
    }
}
