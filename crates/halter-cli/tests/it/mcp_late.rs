//! Servers that take their time, and lists that change, on every wire.

use crate::mcp_sources::entry;
use crate::scenarios::stage::{Stage, WIRES, Wire};
use halter_mock::{Scenario, Step};
use serde_json::{Value, json};

pub fn step(tool: &str, input: Value) -> Step {
    Step::call(tool, input.as_object().unwrap().clone())
}

pub fn select(tool: &str) -> Step {
    step("tool_search", json!({"query": format!("select:{tool}")}))
}

/// Ten servers that are ready when the gate opens, which is after the first
/// request was answered: had anybody waited for one, none would have come. Then
/// a list changes, and each request begins as the one before.
fn ten_slow_servers(wire: &'static Wire) {
    let scenario = Scenario::new(
        "Uses one of ten servers that are slow.",
        vec![
            select("mcp__s3__echo,mcp__s3__add"),
            step("mcp__s3__echo", json!({"text": "hello"})),
            step("mcp__s3__add", json!({})),
            step("mcp__s3__add", json!({})),
            select("mcp__s3__added"),
            Step::text("It said: {{result}}"),
        ],
    );
    let stage = Stage::with_scenario(wire, "slow", scenario);
    stage.configure("[permissions]\nallow = [\"mcp__s3\"]\n");
    let gate = stage.place.root().join("gate");
    let mut slow = entry("waits_for_gate");
    slow["env"]["MCP_FIXTURE_GATE"] = json!(gate);
    let servers: Value = (0..10).map(|n| (format!("s{n}"), slow.clone())).collect();
    let file = json!({ "mcpServers": servers });
    stage.place.write(".mcp.json", &file.to_string());
    stage
        .place
        .halter(["trust", ".mcp.json", "--yes"])
        .expect(0);
    let child = stage.play_until("slow", "tool_execution_started");
    std::fs::write(&gate, "").unwrap();
    let played = stage.ended(child);
    let answer = played.completed();
    assert!(answer.contains("mcp__s3__added"), "{answer}");
    // All of them extend each other.
    stage.requests("slow", &[0, 1, 2, 3, 4, 5]);
    stage.close();
}

#[test]
fn ten_slow_servers_do_not_delay_the_first_request_on_anthropic() {
    ten_slow_servers(&WIRES[0]);
}

#[test]
fn ten_slow_servers_do_not_delay_the_first_request_on_openai() {
    ten_slow_servers(&WIRES[1]);
}

#[test]
fn ten_slow_servers_do_not_delay_the_first_request_on_chat_completions() {
    ten_slow_servers(&WIRES[2]);
}

#[test]
fn ten_slow_servers_do_not_delay_the_first_request_on_gemini() {
    ten_slow_servers(&WIRES[3]);
}

/// Tools whose schemas services refuse are made fit or left out, on every wire:
/// the turn goes on.
#[test]
fn odd_schemas_of_a_server_end_no_turn() {
    for wire in WIRES {
        let steps = vec![
            select("mcp__x__choice,mcp__x__echo,mcp__x__sometimes"),
            step("mcp__x__choice", json!({"a": 1})),
            step("mcp__x__echo", json!({"te_xt": "hello"})),
            Step::text("It said: {{result}}"),
        ];
        let scenario = Scenario::new("Uses tools with odd schemas.", steps);
        let stage = Stage::with_scenario(wire, "odd", scenario);
        stage.configure("[permissions]\nallow = [\"mcp__x\"]\n");
        let file = json!({"mcpServers": {"x": entry("odd_schemas")}});
        stage.place.write(".mcp.json", &file.to_string());
        let trust = ["trust", ".mcp.json", "--yes"];
        stage.place.halter(trust).expect(0);
        let played = stage.play("odd");
        let answer = played.completed();
        assert!(answer.contains("te xt"), "{answer}");
        let told = &played.ran.stderr;
        assert!(told.contains("its tool `sometimes` is left out"), "{told}");
        stage.close();
    }
}
