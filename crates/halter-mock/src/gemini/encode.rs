//! Answers as candidates, whole or in chunks.

use crate::codec::{Frame, Place};
use crate::fields;
use crate::model_answer::{AnswerPart, ModelAnswer, StopKind};
use crate::scenario::UnknownKind;
use crate::signing;
use serde_json::{Value, json};

/// Names of the models that do not sign their calls.
const UNSIGNED: [&str; 2] = ["gemini-1", "gemini-2"];

/// Whether a model signs its calls.
pub(super) fn signs(model: &str) -> bool {
    !UNSIGNED.iter().any(|name| model.starts_with(name))
}

/// The signature on the first call of a step.
pub(super) fn call_signature(model: &str, name: &str, args: &Value) -> String {
    signing::sign(model, &["call", name, &args.to_string()])
}

pub(super) fn whole(answer: &ModelAnswer, body: &Value) -> Value {
    if let Some(blocked) = blocked(answer) {
        return blocked;
    }
    let mut parts: Vec<Value> = Vec::new();
    for (part, _) in parts_of(answer, body, Merge::Yes) {
        parts.push(part);
    }
    let candidate = json!({
        "content": {"role": "model", "parts": parts},
        "finishReason": finish_reason(answer),
        "index": 0,
    });
    envelope(answer, Some(candidate), answer.usage.output)
}

pub(super) fn frames(answer: &ModelAnswer, body: &Value) -> Vec<Frame> {
    if let Some(blocked) = blocked(answer) {
        return vec![Frame::data(&blocked, Place::Closing)];
    }
    let mut frames = Vec::new();
    if answer.has_unknown(UnknownKind::Event) {
        frames.push(Frame::data(
            &json!({"weatherReport": {"sky": "clear"}}),
            Place::Opening,
        ));
    }
    for (part, place) in parts_of(answer, body, Merge::No) {
        let candidate = json!({"content": {"role": "model", "parts": [part]}, "index": 0});
        frames.push(Frame::data(&envelope(answer, Some(candidate), 1), place));
    }
    // The end comes on an empty text, as the real service often sends it.
    let candidate = json!({
        "content": {"role": "model", "parts": [{"text": ""}]},
        "finishReason": finish_reason(answer),
        "index": 0,
    });
    frames.push(Frame::data(
        &envelope(answer, Some(candidate), answer.usage.output),
        Place::Closing,
    ));
    frames
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Merge {
    Yes,
    No,
}

fn parts_of(answer: &ModelAnswer, body: &Value, merge: Merge) -> Vec<(Value, Place)> {
    let shows_thoughts = body
        .get("generationConfig")
        .and_then(|config| config.get("thinkingConfig"))
        .is_none_or(|config| fields::flag(config, "includeThoughts"));
    let mut parts = Vec::new();
    for (number, part) in answer.parts.iter().enumerate() {
        match part {
            AnswerPart::Text(pieces) => {
                for piece in merged(pieces, merge) {
                    let mut part = json!({"text": piece});
                    answer.add_unknown_field(&mut part);
                    parts.push((part, Place::Delta));
                }
            }
            AnswerPart::Thinking(pieces) if shows_thoughts => {
                for piece in merged(pieces, merge) {
                    parts.push((json!({"text": piece, "thought": true}), Place::Delta));
                }
            }
            AnswerPart::Thinking(_) => {}
            AnswerPart::Redacted => {
                let signature = signing::opaque(&answer.model, &format!("thought {number}"));
                parts.push((
                    json!({"text": "", "thoughtSignature": signature}),
                    Place::Delta,
                ));
            }
            AnswerPart::Call(call) => {
                // Arguments never come in pieces here: a cut or broken call
                // is no part at all, and the finish reason tells.
                if let Some(input) = &call.input {
                    parts.push((
                        call_part(answer, call.number, &call.name, json!(input)),
                        Place::Delta,
                    ));
                }
            }
        }
    }
    if answer.has_unknown(UnknownKind::Block) {
        parts.push((json!({"hologram": {"light": "green"}}), Place::Delta));
    }
    parts
}

fn call_part(answer: &ModelAnswer, number: usize, name: &str, args: Value) -> Value {
    let signature =
        (number == 0 && signs(&answer.model)).then(|| call_signature(&answer.model, name, &args));
    let id = signing::call_id("", &answer.model, None, &answer.request, number);
    let mut part = json!({"functionCall": {"id": id, "name": name, "args": args}});
    if let Some(signature) = signature {
        fields::set(&mut part, "thoughtSignature", json!(signature));
    }
    part
}

fn merged(pieces: &[String], merge: Merge) -> Vec<String> {
    match merge {
        Merge::Yes => vec![pieces.concat()],
        Merge::No => pieces.to_vec(),
    }
}

fn envelope(answer: &ModelAnswer, candidate: Option<Value>, output: u64) -> Value {
    let usage = &answer.usage;
    let reasoning = usage.reasoning;
    let mut metadata = json!({
        "promptTokenCount": usage.total_input(),
        "candidatesTokenCount": output,
        "totalTokenCount": usage.total_input().saturating_add(output).saturating_add(reasoning),
    });
    if usage.cache_read > 0 {
        fields::set(
            &mut metadata,
            "cachedContentTokenCount",
            json!(usage.cache_read),
        );
    }
    if reasoning > 0 {
        fields::set(&mut metadata, "thoughtsTokenCount", json!(reasoning));
    }
    if answer.has_unknown(UnknownKind::Usage) {
        fields::set(&mut metadata, "dreamTokenCount", json!(7));
    }
    let mut response = json!({
        "candidates": candidate.into_iter().collect::<Vec<_>>(),
        "usageMetadata": metadata,
        "modelVersion": answer.model,
        "responseId": answer.id(""),
    });
    answer.add_unknown_field(&mut response);
    response
}

/// A prompt that is refused has no candidate at all.
fn blocked(answer: &ModelAnswer) -> Option<Value> {
    (answer.stop == StopKind::ContentFilter && answer.parts.is_empty()).then(|| {
        let mut response = envelope(answer, None, 0);
        if let Some(object) = response.as_object_mut() {
            object.remove("candidates");
            object.insert(
                "promptFeedback".to_owned(),
                json!({"blockReason": "SAFETY"}),
            );
        }
        response
    })
}

fn finish_reason(answer: &ModelAnswer) -> &str {
    let broken = answer.calls().any(|call| call.input.is_none());
    match &answer.stop {
        StopKind::ToolUse if broken => "MALFORMED_FUNCTION_CALL",
        StopKind::End | StopKind::ToolUse | StopKind::Sequence | StopKind::Pause => "STOP",
        StopKind::MaxTokens | StopKind::ContextWindow => "MAX_TOKENS",
        StopKind::Refusal => "PROHIBITED_CONTENT",
        StopKind::ContentFilter => "SAFETY",
        StopKind::Other(word) => word,
    }
}
