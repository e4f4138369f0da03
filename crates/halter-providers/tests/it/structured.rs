//! What each wire sends for a structured answer.

use halter_protocol::{
    AssembledPrompt, Message, ProviderKind, ReasoningEffort, ResolvedModel, ResponseSchema,
    ToolCapabilities, ToolConcurrency, ToolSpec, UserMessage,
};
use halter_providers::wire::anthropic::Anthropic;
use halter_providers::wire::chat::{Chat, Dialect};
use halter_providers::wire::gemini::GeminiWire;
use halter_providers::wire::responses::ResponsesWire;
use halter_providers::wire::{ImageInput, OutputWay, RequestSettings, WantedOutput, Wire};
use indexmap::IndexMap;
use serde_json::{Value, json};
use std::sync::Arc;

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": 1}},
        "required": ["n"],
        "additionalProperties": false,
    })
}

fn read() -> ToolSpec {
    ToolSpec {
        name: "read".into(),
        description: "Read a file.".to_owned(),
        input_schema: json!({"type": "object", "properties": {}}),
        concurrency: ToolConcurrency::ReadOnly,
        capabilities: ToolCapabilities::default(),
        provider_aliases: IndexMap::new(),
    }
}

fn body(wire: &dyn Wire, model: &str, tools: &[ToolSpec], schema: Value, way: OutputWay) -> Value {
    let model = ResolvedModel {
        id: "default".into(),
        provider: "acme".into(),
        provider_kind: ProviderKind::Custom,
        model: model.to_owned(),
        max_input_tokens: None,
        max_output_tokens: None,
        reasoning: Some(ReasoningEffort::Low),
        tokens_per_minute: None,
    };
    let mut encoder = wire.encoder(&model, ImageInput::Taken);
    encoder.set_prefix(&AssembledPrompt::default(), &Arc::from(tools));
    encoder.push(&Message::User(UserMessage::text("how many?")));
    let output = Some(WantedOutput {
        schema: ResponseSchema::new(schema),
        way,
    });
    let settings = RequestSettings {
        output,
        ..RequestSettings::default()
    };
    serde_json::from_slice(&encoder.body(&settings).unwrap().json).unwrap()
}

fn native(wire: &dyn Wire, model: &str, tools: &[ToolSpec]) -> Value {
    body(wire, model, tools, schema(), OutputWay::Native)
}

/// The names of the tools, wherever the wire has them.
fn tools(body: &Value) -> Vec<String> {
    let name = |tool: &Value| {
        let name = tool.pointer("/function/name").or_else(|| tool.get("name"));
        name.and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let gemini = body.pointer("/tools/0/functionDeclarations");
    let all = gemini.or_else(|| body.get("tools"));
    let all = all.and_then(Value::as_array);
    all.into_iter().flatten().map(name).collect()
}

#[test]
fn anthropic_sends_a_closed_schema_beside_the_effort() {
    let body = native(&Anthropic::new(), "claude-opus-5", &[read()]);
    assert_eq!(
        body["output_config"],
        json!({
            "effort": "low",
            "format": {"type": "json_schema", "schema": {
                "type": "object",
                "properties": {"n": {"type": "integer"}},
                "required": ["n"],
                "additionalProperties": false,
            }},
        })
    );
    assert_eq!(tools(&body), ["read"]);
}

#[test]
fn anthropic_sends_a_tool_for_older_models_and_open_schemas() {
    let older = native(&Anthropic::new(), "claude-opus-4-1", &[read()]);
    assert_eq!(older.get("output_config"), None);
    assert_eq!(tools(&older), ["read", "final_output"]);
    assert_eq!(older["tools"][1]["input_schema"], schema());
    assert!(older["tools"][0].get("cache_control").is_some());
    assert_eq!(older["tools"][1].get("cache_control"), None);

    let open = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let body = body(
        &Anthropic::new(),
        "claude-opus-5",
        &[],
        open.clone(),
        OutputWay::Native,
    );
    assert_eq!(tools(&body), ["final_output"]);
    assert_eq!(body["output_config"], json!({"effort": "low"}));
}

#[test]
fn responses_sends_a_text_format() {
    let sent = native(&ResponsesWire, "gpt-5", &[read()]);
    assert_eq!(
        sent["text"]["format"],
        json!({"type": "json_schema", "name": "final_output", "schema": schema(), "strict": true})
    );
    assert_eq!(tools(&sent), ["read"]);
    let loose = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let sent = body(&ResponsesWire, "gpt-5", &[], loose, OutputWay::Native);
    assert_eq!(sent["text"]["format"]["strict"], false);
    let older = native(&ResponsesWire, "gpt-4-turbo", &[read()]);
    assert_eq!(older.get("text"), None);
    assert_eq!(tools(&older), ["read", "final_output"]);
}

#[test]
fn chat_sends_a_response_format_where_the_dialect_takes_it() {
    for dialect in Dialect::ALL {
        let wire = Chat::new(dialect);
        let alone = native(&wire, "some/model", &[]);
        assert_eq!(
            alone["response_format"],
            json!({"type": "json_schema", "json_schema": {
                "name": "final_output", "schema": schema(), "strict": true,
            }}),
            "{}",
            dialect.name
        );
        let beside = native(&wire, "some/model", &[read()]);
        let takes_both = matches!(dialect.name, "openai" | "openrouter");
        assert_eq!(beside.get("response_format").is_some(), takes_both);
        assert_eq!(tools(&beside).len(), if takes_both { 1 } else { 2 });
    }
}

#[test]
fn gemini_sends_a_response_schema_where_the_generation_takes_it() {
    let sent = native(&GeminiWire, "gemini-3-flash-preview", &[read()]);
    assert_eq!(
        sent["generationConfig"]["responseMimeType"],
        "application/json"
    );
    assert_eq!(sent["generationConfig"]["responseJsonSchema"], schema());
    assert_eq!(tools(&sent), ["read"]);
    let older = native(&GeminiWire, "gemini-2.5-flash", &[read()]);
    assert_eq!(older["generationConfig"].get("responseJsonSchema"), None);
    assert_eq!(tools(&older), ["read", "final_output"]);
    let alone = native(&GeminiWire, "gemini-2.5-flash", &[]);
    assert_eq!(alone["generationConfig"]["responseJsonSchema"], schema());
}

#[test]
fn every_wire_can_ask_with_a_tool() {
    let wires: [(&dyn Wire, &str); 4] = [
        (&Anthropic::new(), "claude-opus-5"),
        (&ResponsesWire, "gpt-5"),
        (&Chat::new(Dialect::OPENAI), "gpt-5"),
        (&GeminiWire, "gemini-3-flash-preview"),
    ];
    for (wire, model) in wires {
        let body = body(
            wire,
            model,
            &[read()],
            json!({"type": "string"}),
            OutputWay::Tool,
        );
        assert_eq!(tools(&body), ["read", "final_output"], "{}", wire.name());
        let text = body.to_string();
        for native in ["json_schema", "responseMimeType"] {
            assert!(!text.contains(native), "{text}");
        }
        assert!(text.contains(r#""required":["output"]"#), "{text}");
    }
}
