//! OpenRouter's `reasoning_details` and LiteLLM's `thinking_blocks`: pieces of
//! reasoning, some encrypted or signed, that go back to the model as they came.

use serde_json::{Map, Value};

/// Members of a detail that grow from piece to piece.
const GROWING: [&str; 4] = ["text", "summary", "data", "thinking"];

/// Adds a piece to the details. A piece that goes on with the last detail
/// (same type, same index) is merged into it, as the service sends a detail
/// in many pieces and takes it back in one.
pub(super) fn merge(details: &mut Vec<Value>, piece: Value) {
    let Value::Object(piece) = piece else {
        details.push(piece);
        return;
    };
    match details.last_mut() {
        Some(Value::Object(last)) if goes_on(last, &piece) => grow(last, piece),
        _ => details.push(Value::Object(piece)),
    }
}

/// Adds a piece to the blocks. One that goes on with the last block, which is
/// not signed yet, is merged into it: blocks have no index.
pub(super) fn merge_block(blocks: &mut Vec<Value>, piece: Value) {
    let is_thinking = |block: &Value| block.get("type").is_some_and(|kind| kind == "thinking");
    let is_signed = |block: &Value| {
        block
            .get("signature")
            .is_some_and(|signed| !signed.is_null())
    };
    match (blocks.last_mut(), piece) {
        (Some(last), piece) if is_thinking(last) && is_thinking(&piece) && !is_signed(last) => {
            if let (Value::Object(last), Value::Object(piece)) = (last, piece) {
                grow(last, piece);
            }
        }
        (_, piece) => blocks.push(piece),
    }
}

fn goes_on(last: &Map<String, Value>, piece: &Map<String, Value>) -> bool {
    // A finished encrypted detail is one piece; two of them are two.
    let is_encrypted = last.get("type").and_then(Value::as_str) == Some("reasoning.encrypted");
    let same = |member: &str| last.get(member) == piece.get(member);
    let same_id = match (last.get("id"), piece.get("id")) {
        (Some(Value::String(ours)), Some(Value::String(theirs))) => ours == theirs,
        _ => true,
    };
    !is_encrypted && same("type") && piece.contains_key("index") && same("index") && same_id
}

fn grow(last: &mut Map<String, Value>, piece: Map<String, Value>) {
    for (member, value) in piece {
        match (last.get_mut(&member), value) {
            (Some(Value::String(ours)), Value::String(theirs))
                if GROWING.contains(&member.as_str()) =>
            {
                ours.push_str(&theirs);
            }
            (Some(_), Value::Null) => {}
            (_, value) => {
                last.insert(member, value);
            }
        }
    }
}

/// The text of a piece that may be shown.
pub(super) fn shown(piece: &Value) -> Option<&str> {
    let member = match piece.get("type").and_then(Value::as_str)? {
        "reasoning.text" => "text",
        "reasoning.summary" => "summary",
        "thinking" => "thinking",
        _ => return None,
    };
    piece.get(member)?.as_str().filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pieces_of_one_detail_are_merged_and_others_kept_apart() {
        let mut details = Vec::new();
        for piece in [
            json!({"type": "reasoning.text", "text": "Let", "index": 0, "format": "anthropic-claude-v1"}),
            json!({"type": "reasoning.text", "text": " me", "index": 0}),
            json!({"type": "reasoning.text", "signature": "sig", "text": null, "index": 0}),
            json!({"type": "reasoning.text", "text": "Next", "index": 1}),
            json!({"type": "reasoning.encrypted", "data": "AA", "index": 2}),
            json!({"type": "reasoning.encrypted", "data": "BB", "index": 2}),
            json!("odd"),
        ] {
            merge(&mut details, piece);
        }
        assert_eq!(
            Value::Array(details),
            json!([
                {"type": "reasoning.text", "text": "Let me", "index": 0,
                 "format": "anthropic-claude-v1", "signature": "sig"},
                {"type": "reasoning.text", "text": "Next", "index": 1},
                {"type": "reasoning.encrypted", "data": "AA", "index": 2},
                {"type": "reasoning.encrypted", "data": "BB", "index": 2},
                "odd",
            ])
        );
    }

    #[test]
    fn blocks_grow_until_they_are_signed() {
        let mut blocks = Vec::new();
        for piece in [
            json!({"type": "thinking", "thinking": "Let", "signature": null}),
            json!({"type": "thinking", "thinking": " me"}),
            json!({"type": "thinking", "thinking": "", "signature": "sig"}),
            json!({"type": "thinking", "thinking": "Next"}),
            json!({"type": "redacted_thinking", "data": "AA"}),
        ] {
            merge_block(&mut blocks, piece);
        }
        assert_eq!(
            Value::Array(blocks),
            json!([
                {"type": "thinking", "thinking": "Let me", "signature": "sig"},
                {"type": "thinking", "thinking": "Next"},
                {"type": "redacted_thinking", "data": "AA"},
            ])
        );
    }
}
