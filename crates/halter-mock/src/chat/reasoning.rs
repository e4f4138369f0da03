//! Where a Chat server puts its reasoning, and what must be returned to it.

use crate::fields;
use crate::model_answer::{AnswerPart, ModelAnswer};
use crate::scenario::ChatQuirk;
use crate::signing;
use crate::wire::Dialect;
use serde_json::{Value, json};

/// The field reasoning travels in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Content,
    Plain,
    Text,
    Details,
    Tags,
}

/// The style of an answer: scripted, else the default of the dialect.
pub(super) fn style(answer: &ModelAnswer, dialect: Dialect) -> Style {
    let scripted = [
        (ChatQuirk::ReasoningContent, Style::Content),
        (ChatQuirk::Reasoning, Style::Plain),
        (ChatQuirk::ReasoningText, Style::Text),
        (ChatQuirk::ReasoningDetails, Style::Details),
        (ChatQuirk::ThinkTags, Style::Tags),
    ];
    scripted
        .into_iter()
        .find(|(quirk, _)| answer.has(*quirk))
        .map_or(
            match dialect {
                Dialect::OpenRouter => Style::Details,
                Dialect::Vendor | Dialect::Local => Style::Content,
            },
            |(_, style)| style,
        )
}

/// The deltas, or with one piece the message fields, of a piece of reasoning.
pub(super) fn fields(style: Style, pieces: &[String], model: &str) -> Vec<Value> {
    let mut deltas: Vec<Value> = pieces
        .iter()
        .map(|piece| match style {
            Style::Content => json!({"reasoning_content": piece}),
            Style::Plain => json!({"reasoning": piece}),
            Style::Text => json!({"reasoning_text": piece}),
            Style::Details => json!({"reasoning": piece, "reasoning_details": [{
                "type": "reasoning.text", "text": piece, "format": "anthropic-claude-v1", "index": 0,
            }]}),
            Style::Tags => json!({"content": piece}),
        })
        .collect();
    match style {
        Style::Details => deltas.push(json!({"reasoning_details": [{
            "type": "reasoning.text", "signature": signature(model, pieces),
            "format": "anthropic-claude-v1", "index": 0,
        }]})),
        Style::Text => deltas.push(json!({"reasoning_opaque": signature(model, pieces)})),
        Style::Tags => {
            deltas.insert(0, json!({"content": "<think>"}));
            deltas.push(json!({"content": "</think>\n\n"}));
        }
        Style::Content | Style::Plain => {}
    }
    deltas
}

fn signature(model: &str, pieces: &[String]) -> String {
    signing::sign(model, &["reasoning", &pieces.concat()])
}

/// What a later request must bring back with the calls of this answer.
pub(super) fn to_return(answer: &ModelAnswer, style: Style) -> Option<String> {
    let thought: Vec<String> = answer
        .parts
        .iter()
        .filter_map(|part| match part {
            AnswerPart::Thinking(pieces) => Some(pieces.concat()),
            _ => None,
        })
        .collect();
    if thought.is_empty() {
        return None;
    }
    let text = thought.concat();
    match style {
        Style::Details => {
            let signatures: String = thought
                .iter()
                .map(|piece| signature(&answer.model, std::slice::from_ref(piece)))
                .collect();
            Some(format!("{text}{signatures}"))
        }
        _ => answer.has(ChatQuirk::EchoReasoning).then_some(text),
    }
}

/// Whether the call's id asks for reasoning that the message does not have.
pub(super) fn lacks(message: &Value, call_id: &str, model: &str) -> bool {
    let details = fields::items(message, "reasoning_details");
    let joined = |key: &str| -> String {
        details
            .iter()
            .filter_map(|detail| fields::text(detail, key))
            .collect()
    };
    let candidates = [
        fields::text(message, "reasoning_content").map(str::to_owned),
        fields::text(message, "reasoning").map(str::to_owned),
        (!details.is_empty()).then(|| format!("{}{}", joined("text"), joined("signature"))),
        None,
    ];
    candidates
        .iter()
        .all(|candidate| signing::lacks_reasoning(call_id, model, candidate.as_deref()))
}
