//! What sessions say of servers that fail late, and what servers ask in them.

use crate::mcp::fixture;
use crate::mcp_late::{select, step};
use crate::mcp_sources::entry;
use crate::scenarios::stage::{ANTHROPIC, Stage};
use halter_mock::{Scenario, Step};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

/// Settings with the fixture as the server `x`, whose tools may be used.
fn settings(behaviour: &str) -> String {
    let (program, arguments) = fixture();
    format!(
        "[permissions]\nallow = [\"mcp__x\"]\n[mcp.servers.x]\ncommand = {program:?}\n\
         args = {arguments:?}\nrequired = true\nenv = {{ MCP_FIXTURE = {behaviour:?} }}\n"
    )
}

#[test]
fn a_server_that_dies_after_the_first_request_is_reported() {
    let steps = vec![select("mcp__x__echo"), Step::text("It said: {{result}}")];
    let scenario = Scenario::new("Looks for a tool of a server that dies.", steps);
    let stage = Stage::with_scenario(&ANTHROPIC[0], "dies", scenario);
    let gate = stage.place.root().join("gate");
    let mut server = entry("dies_at_gate");
    server["env"]["MCP_FIXTURE_GATE"] = json!(gate);
    // How long a search waits for it.
    server["startTimeoutSecs"] = json!(12);
    let file = json!({"mcpServers": {"x": server}});
    stage.place.write(".mcp.json", &file.to_string());
    let trust = ["trust", ".mcp.json", "--yes"];
    stage.place.halter(trust).expect(0);
    let child = stage.play_until("dies", "tool_execution_started");
    std::fs::write(&gate, "").unwrap();
    let played = stage.ended(child);
    let answer = played.completed();
    assert!(
        answer.contains("Tools may be missing: MCP server `x`"),
        "{answer}"
    );
    assert!(answer.contains("no such database"), "{answer}");
    let warnings = played.all("warning");
    let said = |it: &&&Value| it.to_string().contains("no such database");
    assert_eq!(warnings.iter().filter(said).count(), 1, "{warnings:?}");
    stage.close();
}

#[test]
fn a_form_of_a_server_is_answered_by_lines_of_json() {
    let form = json!({"method": "elicitation/create", "params": {
        "message": "How shall it be called?",
        "requestedSchema": {"type": "object", "required": ["name"], "properties": {
            "name": {"type": "string"}, "size": {"type": "string", "enum": ["s", "m"]},
        }},
    }});
    let steps = vec![
        select("mcp__x__echo"),
        step("mcp__x__echo", json!({"text": form.to_string()})),
        Step::text("It said: {{result}}"),
    ];
    let scenario = Scenario::new("Calls a tool that asks the user.", steps);
    let stage = Stage::with_scenario(&ANTHROPIC[0], "asks", scenario);
    stage.configure(&settings("requests"));
    let arguments = stage.arguments("asks", "--streaming-json", &["--approvals", "stdin"]);
    let mut command = stage.place.command(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let (mut asked, mut answer) = (0, String::new());
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let event: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let payload = &event["payload"];
        if payload["kind"] == "questions_asked" {
            asked += 1;
            let questions = payload["questions"].to_string();
            assert!(questions.contains("`x`"), "{questions}");
            let responses = json!([
                {"freeform_response": "Ada"}, {"selected_option_ids": [
                    payload["questions"][1]["options"][1]["id"]]},
            ]);
            let line = json!({"question_id": payload["question_id"], "responses": responses});
            writeln!(input, "{line}").unwrap();
        }
        if payload["kind"] == "message_item" {
            answer = payload["message"].to_string();
        }
    }
    drop(input);
    assert!(child.wait().unwrap().success(), "{answer}");
    assert_eq!(asked, 1);
    for part in ["accept", "Ada", "size"] {
        assert!(answer.contains(part), "{part}: {answer}");
    }
    stage.close();
}
