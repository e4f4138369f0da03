//! Names and ids that a service takes, and those that it does not.

use super::subject::Subject;
use crate::wire_kit::{answer, call, model, prompt, result, text_of};
use halter_protocol::{ProviderKind, ResolvedModel, ToolResult, ToolSpec};
use halter_providers::limits::{
    CHAT_CALL_ID_BYTES, CHAT_TOOL_NAME_BYTES, GEMINI_CALL_ID_BYTES, RESPONSES_CALL_ID_BYTES,
    WIRE_TOOL_NAME_BYTES,
};
use halter_providers::wire::ImageInput;
use halter_providers::wire::anthropic::limits::{CALL_ID_BYTES, TOOL_NAME_BYTES};
use serde_json::json;
use std::sync::Arc;

/// A request with a tool and a call of it that another model made.
fn body(subject: &Subject, tool: &str, id: &str) -> String {
    let ours = model("acme", ProviderKind::Custom, "m-1");
    let other = ResolvedModel {
        model: "m-2".to_owned(),
        ..ours.clone()
    };
    let spec = ToolSpec {
        name: tool.into(),
        description: "Does it.".to_owned(),
        input_schema: json!({"type": "object"}),
        concurrency: Default::default(),
        capabilities: Default::default(),
        provider_aliases: Default::default(),
    };
    let wire = (subject.wire_of)("openai");
    let mut encoder = wire.encoder(&ours, ImageInput::Taken);
    encoder.set_prefix(&prompt(), &Arc::from([spec]));
    encoder.push(&crate::support::user("go"));
    encoder.push(&answer(&other, vec![call(id, tool, json!({}), None)], None));
    encoder.push(&result(id, tool, ToolResult::text("ok")));
    text_of(encoder.as_mut())
}

pub fn names_and_ids_are_kept_up_to_their_limit(subject: &Subject) {
    let (name_bytes, id_bytes) = match subject.name {
        "chat" => (CHAT_TOOL_NAME_BYTES, CHAT_CALL_ID_BYTES),
        "gemini" => (WIRE_TOOL_NAME_BYTES, GEMINI_CALL_ID_BYTES),
        "responses" => (WIRE_TOOL_NAME_BYTES, RESPONSES_CALL_ID_BYTES),
        _ => (TOOL_NAME_BYTES, CALL_ID_BYTES),
    };
    assert_eq!(name_bytes, 64, "what the services take");
    for (bytes, kept) in [(name_bytes, true), (name_bytes + 1, false)] {
        let name = "n".repeat(bytes);
        assert_eq!(body(subject, &name, "c1").contains(&name), kept, "{bytes}");
    }
    for (bytes, kept) in [(id_bytes, true), (id_bytes + 1, false)] {
        let id = "c".repeat(bytes);
        assert_eq!(body(subject, "read", &id).contains(&id), kept, "{bytes}");
    }
}
