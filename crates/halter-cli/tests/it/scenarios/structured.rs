//! Answers of a given form.

use super::stage::{Played, Stage};
use serde_json::{Value, json};

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": { "answer": { "type": "string" } },
        "required": ["answer"],
        "additionalProperties": false
    })
}

fn schema_file(stage: &Stage) -> String {
    let file = stage.place.root().join("schema.json");
    std::fs::write(&file, schema().to_string()).unwrap();
    file.to_str().unwrap().to_owned()
}

fn play(stage: &Stage, scenario: &str) -> Played {
    stage.play_with(scenario, &["--output-schema", &schema_file(stage)])
}

/// Where a request has the schema, by wire.
fn sent_schema(body: &Value) -> Option<&Value> {
    [
        "/output_config/format/schema",
        "/text/format/schema",
        "/response_format/json_schema/schema",
        "/generationConfig/responseJsonSchema",
    ]
    .iter()
    .find_map(|place| body.pointer(place))
}

pub fn structured(stage: &Stage) {
    let played = play(stage, "structured");
    assert_eq!(played.completed(), r#"{"answer":"yes"}"#);
    let completed = played.one("turn_completed");
    assert_eq!(completed["structured_output"], json!({ "answer": "yes" }));
    assert_eq!(played.one("turn_started")["response_schema"], schema());
    let bodies = stage.requests("structured", &[0]);
    assert_eq!(sent_schema(&bodies[0]), Some(&schema()));
}

/// The value alone as text, and beside the message as a result.
pub fn structured_modes(stage: &Stage) {
    let file = schema_file(stage);
    let schema = ["--output-schema", &file];
    let text = stage.print("structured_repair", "--text", &schema);
    assert_eq!(text.expect(0).stdout, "{\"answer\":\"yes\"}\n");
    let result = stage.print("structured", "--json-result", &schema).json();
    assert_eq!(result["structured_output"], json!({ "answer": "yes" }));
    assert_eq!(result["parts"][0]["text"], r#"{"answer":"yes"}"#);
}

/// The second request says what was wrong with the first answer.
pub fn structured_repair(stage: &Stage) {
    let played = play(stage, "structured_repair");
    let completed = played.expect(0).one("turn_completed");
    assert_eq!(completed["structured_output"], json!({ "answer": "yes" }));
    let bodies = stage.requests("structured_repair", &[0, 1]);
    assert!(bodies[1].to_string().contains("it is not JSON"));
}

pub fn structured_tool(stage: &Stage) {
    let played = play(stage, "structured_tool");
    let completed = played.expect(0).one("turn_completed");
    assert_eq!(completed["structured_output"], json!({ "answer": "yes" }));
    let tools: Vec<String> = played.tools().into_iter().map(|(name, _)| name).collect();
    assert_eq!(tools, ["read", "final_output"]);
    stage.requests("structured_tool", &[0, 1]);
    stage.assert_untouched();
}

pub fn structured_hopeless(stage: &Stage) {
    let played = play(stage, "structured_hopeless");
    played.failed(1, "structured_output_invalid");
    stage.requests("structured_hopeless", &[0, 1, 2]);
}
