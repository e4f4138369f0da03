//! The table of reasoning levels in the README is what is sent, by the catalog
//! and the encoders.

use crate::support::user;
use crate::wire_kit::model;
use halter_protocol::ReasoningEffort::{self, High, Low, Max, Medium, Minimal, None as Off, XHigh};
use halter_protocol::{ProviderKind, ResolvedModel};
use halter_providers::catalog::Catalog;
use halter_providers::wire::anthropic::Anthropic;
use halter_providers::wire::chat::{Chat, Dialect};
use halter_providers::wire::gemini::GeminiWire;
use halter_providers::wire::responses::ResponsesWire;
use halter_providers::wire::{ImageInput, RequestSettings, Wire};
use serde_json::Value;

const LEVELS: [ReasoningEffort; 7] = [Off, Minimal, Low, Medium, High, XHigh, Max];

/// Where bodies say how hard to think.
const PLACES: [&str; 9] = [
    "/thinking/type",
    "/thinking/budget_tokens",
    "/output_config/effort",
    "/reasoning/effort",
    "/reasoning_effort",
    "/chat_template_kwargs/enable_thinking",
    "/chat_template_kwargs/reasoning_effort",
    "/generationConfig/thinkingConfig/thinkingLevel",
    "/generationConfig/thinkingConfig/thinkingBudget",
];

/// A model, what stands for it in the table, and the members that are sent.
struct Row {
    wire: Box<dyn Wire>,
    model: &'static str,
    shown: &'static str,
}

fn rows() -> Vec<Row> {
    let row = |wire: Box<dyn Wire>, model, shown| Row { wire, model, shown };
    let anthropic = |model, shown| row(Box::new(Anthropic::new()), model, shown);
    let responses = |model, shown| row(Box::new(ResponsesWire), model, shown);
    let gemini = |model, shown| row(Box::new(GeminiWire), model, shown);
    let chat = |dialect, shown| row(Box::new(Chat::new(dialect)), "some-model", shown);
    vec![
        anthropic("claude-fable-5", "Anthropic: Fable, Mythos"),
        anthropic("claude-opus-5", "Anthropic: Opus, Sonnet, Haiku from 5"),
        anthropic("claude-opus-4-8", "Anthropic: Opus from 4.7"),
        anthropic("claude-sonnet-4-6", "Anthropic: Opus and Sonnet 4.6"),
        anthropic("claude-sonnet-4-5", "Anthropic: 3.7 to 4.5"),
        anthropic("claude-3-5-sonnet-latest", "Anthropic: before 3.7"),
        responses("gpt-4o", "Responses: `gpt-4…`"),
        responses("o3", "Responses: `o3`, `o4-mini`, `gpt-5-codex`"),
        responses("gpt-5", "Responses: `gpt-5`, `-mini`, `-nano`"),
        responses("gpt-5.1", "Responses: `gpt-5.1`"),
        responses("gpt-5.2", "Responses: `gpt-5.2`, `gpt-5.4`"),
        responses("gpt-6", "Responses: any other"),
        chat(Dialect::OPENAI, "Chat: `openai`"),
        chat(Dialect::OPENROUTER, "Chat: `openrouter`"),
        chat(Dialect::GENERIC, "Chat: `ollama`, `lmstudio`, `generic`"),
        chat(Dialect::VLLM, "Chat: `vllm`, `llamacpp`"),
        gemini("gemini-3-flash-preview", "Gemini: 3 Flash and later"),
        gemini("gemini-3.1-pro-preview", "Gemini: Pro from 3.1, 3.8 Flash"),
        gemini("gemini-3-pro-preview", "Gemini: 3 Pro"),
        gemini("gemini-2.5-flash", "Gemini: 2.5 Flash"),
        gemini("gemini-2.5-pro", "Gemini: 2.5 Pro"),
        gemini("gemini-2.0-flash", "Gemini: older, Gemma"),
    ]
}

/// What is sent for a level: its values, and whether the user is warned.
fn cell(row: &Row, level: ReasoningEffort) -> String {
    let model = ResolvedModel {
        reasoning: Some(level),
        ..model("acme", ProviderKind::Custom, row.model)
    };
    if !Catalog::new().takes_reasoning(&model) {
        return "left out".to_owned();
    }
    let mut encoder = row.wire.encoder(&model, ImageInput::Taken);
    encoder.push(&user("hello"));
    let encoded = encoder.body(&RequestSettings::default()).unwrap();
    let body: Value = serde_json::from_slice(&encoded.json).unwrap();
    let mut words: Vec<String> = PLACES
        .iter()
        .filter_map(|place| body.pointer(place))
        .map(|value| match value {
            Value::String(text) => format!("`{text}`"),
            other => format!("`{other}`"),
        })
        .collect();
    if !encoded.warnings.is_empty() {
        words.push("left out".to_owned());
    }
    match words.is_empty() {
        true => "nothing".to_owned(),
        false => words.join(" "),
    }
}

fn table() -> String {
    let mut lines = vec![
        format!(
            "| | {} |",
            LEVELS
                .map(|level| format!("`{}`", level.as_str()))
                .join(" | ")
        ),
        format!("|---|{}", "---|".repeat(LEVELS.len())),
    ];
    for row in rows() {
        let cells: Vec<String> = LEVELS.iter().map(|level| cell(&row, *level)).collect();
        lines.push(format!("| {} | {} |", row.shown, cells.join(" | ")));
    }
    lines.join("\n") + "\n"
}

#[test]
fn the_table_of_the_readme_is_what_is_sent() {
    let readme = include_str!("../../README.md");
    let table = table();
    assert!(
        readme.contains(&table),
        "the README needs this table:\n{table}"
    );
}
