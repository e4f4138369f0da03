//! Servers that others wrote, end to end: those of npm, one on the official SDK
//! for Python, one on the SDK for Rust. `HALTER_MCP_NPM` and `HALTER_MCP_VENV`
//! name where `.ci/run` has installed them.

use crate::place::{Place, Ran};
use crate::scenarios::stage::{ANTHROPIC, Stage};
use halter_mock::{Scenario, Step};
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// A directory that `.ci/run` names.
fn installed(variable: &str) -> Option<PathBuf> {
    let found = std::env::var_os(variable).map(PathBuf::from);
    if found.is_none() {
        // Not through a macro, whose output a passing test would swallow.
        let mut errors = std::io::stderr();
        writeln!(errors, "skipped: needs {variable}, which .ci/run sets").unwrap();
    }
    found
}

/// A server of npm as an entry of `.mcp.json`.
fn npm_server(npm: &Path, name: &str, more: &[&str]) -> Value {
    let modules = npm.join("node_modules");
    let package = format!("@modelcontextprotocol/{name}/dist/index.js");
    let mut arguments = vec![modules.join(package).to_str().unwrap().to_owned()];
    arguments.extend(more.iter().map(|&it| it.to_owned()));
    json!({"command": modules.join(".bin/node"), "args": arguments})
}

fn step(tool: &str, input: &Value) -> Step {
    Step::call(tool, input.as_object().unwrap().clone())
}

/// A project whose trusted file describes this server under the name `real`.
fn project(place: &Place, server: &Value) {
    let file = json!({"mcpServers": {"real": server}});
    place.write(".mcp.json", &file.to_string());
    place.halter(["trust", ".mcp.json", "--yes"]).expect(0);
}

fn call(place: &Place, tool: &str, input: &Value) -> Ran {
    let (tool, input) = (format!("mcp__real__{tool}"), input.to_string());
    place.halter(["tools", "call", &tool, &input, "--allow", "mcp__real"])
}

#[test]
fn the_server_everything_of_npm_works() {
    let Some(npm) = installed("HALTER_MCP_NPM") else {
        return;
    };
    let place = Place::new();
    project(&place, &npm_server(&npm, "server-everything", &[]));
    let echoed = call(&place, "echo", &json!({"message": "hello"}))
        .expect(0)
        .json();
    assert_eq!(echoed, "Echo: hello");
    let sum = call(&place, "get-sum", &json!({"a": 2, "b": 40}))
        .expect(0)
        .json();
    assert!(sum.as_str().unwrap().contains("42"), "{sum}");
    let structured = call(
        &place,
        "get-structured-content",
        &json!({"location": "Chicago"}),
    );
    let structured = structured.expect(0).json().to_string();
    assert!(structured.contains("temperature"), "{structured}");
    let image = call(&place, "get-tiny-image", &json!({}))
        .expect(0)
        .json()
        .to_string();
    assert!(image.contains("image/png"), "{image}");
    let roots = call(&place, "get-roots-list", &json!({}))
        .expect(0)
        .json()
        .to_string();
    assert!(roots.contains(place.work().to_str().unwrap()), "{roots}");
    let slow = json!({"duration": 0.2, "steps": 2});
    call(&place, "trigger-long-running-operation", &slow).expect(0);
    // What it must not see it does not see.
    let mut command = place.command([
        "tools",
        "call",
        "mcp__real__get-env",
        "{}",
        "--allow",
        "mcp__real",
    ]);
    let ran = crate::place::finish(
        command
            .env("OPENAI_API_KEY", "sk-not-for-servers")
            .spawn()
            .unwrap(),
    );
    let seen = ran.expect(0);
    assert!(seen.stdout.contains("HOME") && !seen.stdout.contains("sk-not-for-servers"));
}

#[test]
fn a_model_uses_a_real_server_of_a_trusted_project() {
    let Some(npm) = installed("HALTER_MCP_NPM") else {
        return;
    };
    let tool = "mcp__real__get-sum";
    let scenario = Scenario::new(
        "Adds two numbers.",
        vec![
            step("tool_search", &json!({"query": format!("select:{tool}")})),
            step(tool, &json!({"a": 2, "b": 40})),
            Step::text("It said: {{result}}"),
        ],
    );
    let stage = Stage::with_scenario(&ANTHROPIC[0], "adds", scenario);
    stage.configure("[permissions]\nallow = [\"mcp__real\"]\n");
    project(&stage.place, &npm_server(&npm, "server-everything", &[]));
    let played = stage.play("adds");
    let answer = played.completed();
    assert!(answer.contains("42"), "{answer}");
    stage.requests("adds", &[0, 1, 2]);
    stage.close();
}

#[test]
fn the_server_filesystem_of_npm_works() {
    let Some(npm) = installed("HALTER_MCP_NPM") else {
        return;
    };
    let place = Place::new();
    // It starts in the session's directory.
    project(&place, &npm_server(&npm, "server-filesystem", &["."]));
    let file = json!({"path": "a.txt", "content": "written by a server"});
    call(&place, "write_file", &file).expect(0);
    let written = std::fs::read_to_string(place.work().join("a.txt")).unwrap();
    assert_eq!(written, "written by a server");
    let read = call(&place, "read_text_file", &json!({"path": "a.txt"}));
    let read = read.expect(0).json().to_string();
    assert!(read.contains("written by a server"), "{read}");
    let outside = call(&place, "read_text_file", &json!({"path": "/etc/hostname"}));
    assert!(
        outside.expect(1).stdout.contains("denied"),
        "{}",
        outside.stdout
    );
}

#[test]
fn the_server_memory_of_npm_remembers_from_one_session_to_the_next() {
    let Some(npm) = installed("HALTER_MCP_NPM") else {
        return;
    };
    let place = Place::new();
    let mut server = npm_server(&npm, "server-memory", &[]);
    server["env"] = json!({"MEMORY_FILE_PATH": "${HOME}/memory.jsonl"});
    project(&place, &server);
    let entity =
        json!({"name": "Ada", "entityType": "person", "observations": ["writes programs"]});
    call(&place, "create_entities", &json!({"entities": [entity]})).expect(0);
    let graph = call(&place, "read_graph", &json!({}))
        .expect(0)
        .json()
        .to_string();
    assert!(graph.contains("writes programs"), "{graph}");
}

#[test]
fn a_server_on_the_sdk_for_python_works() {
    let Some(venv) = installed("HALTER_MCP_VENV") else {
        return;
    };
    let place = Place::new();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp/notes_server.py");
    project(
        &place,
        &json!({"command": venv.join("bin/python"), "args": [script]}),
    );
    let added = call(&place, "add_note", &json!({"text": "one"}))
        .expect(0)
        .json();
    assert!(added.to_string().contains("1 notes"), "{added}");
    let failed = call(&place, "fail", &json!({}));
    assert!(
        failed
            .expect(1)
            .stdout
            .contains("Error executing tool fail"),
        "{}",
        failed.stdout
    );
    let tested = place.halter(["mcp", "test"]);
    assert!(
        tested
            .expect(0)
            .stdout
            .contains("ok      real: 2 tools, notes"),
        "{}",
        tested.stdout
    );
}

#[test]
fn a_server_on_the_sdk_for_rust_works() {
    let place = Place::new();
    let server = json!({
        "command": std::env::current_exe().unwrap(),
        "args": ["--exact", "mcp_rust_server::serves", "--nocapture", "--test-threads=1"],
        "env": {crate::mcp_rust_server::VARIABLE: "1"},
    });
    project(&place, &server);
    let shouted = call(&place, "shout", &json!({"text": "hello"}))
        .expect(0)
        .json();
    assert_eq!(shouted, "HELLO");
    let tested = place.halter(["mcp", "test"]);
    let told = &tested.expect(0).stdout;
    assert!(
        told.contains("ok      real: 1 tool, shouting 1.0, protocol 2026-07-28"),
        "{told}"
    );
    // What does not fit its schema does not reach it.
    call(&place, "shout", &json!({})).expect(1);
}
