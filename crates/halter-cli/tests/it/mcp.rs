//! `halter mcp`, and sessions with servers.

use crate::mcp_fixture::processes_with_variable;
use crate::place::{Place, eventually};
use serde_json::Value;

/// How this test program is started as a server.
pub fn fixture() -> (String, Vec<String>) {
    let program = std::env::current_exe().unwrap();
    let arguments = crate::mcp_fixture::arguments("mcp_fixture");
    let arguments = arguments.into_iter().map(|it| it.into_string().unwrap());
    (program.to_str().unwrap().to_owned(), arguments.collect())
}

/// A place whose user has the fixture as a server `x`, which behaves like this.
pub fn with_fixture(behaviour: &str) -> Place {
    let place = Place::new();
    let (program, arguments) = fixture();
    let variable = format!("MCP_FIXTURE={behaviour}");
    let mut line = vec!["mcp", "add", "x", "--env", &variable, "--", &program];
    line.extend(arguments.iter().map(String::as_str));
    place.halter(line).expect(0);
    place
}

#[test]
fn a_server_is_added_listed_tried_and_removed() {
    let place = with_fixture("plain");
    let listed = place.halter(["mcp", "list"]);
    let listed = &listed.expect(0).stdout;
    assert!(listed.starts_with("x  /"), "{listed}");
    assert!(!listed.contains("plain"), "{listed}");
    let tested = place.halter(["mcp", "test"]);
    let tested = &tested.expect(0).stdout;
    assert_eq!(
        tested,
        "ok      x: 9 tools, fixture 1.0, protocol 2025-11-25 (settings)\n"
    );
    let tools = place.halter(["mcp", "tools", "x"]);
    let tools = &tools.expect(0).stdout;
    assert!(
        tools.contains("mcp__x__echo         The tool echo"),
        "{tools}"
    );
    place.halter(["mcp", "remove", "x"]).expect(0);
    let listed = place.halter(["mcp", "list", "--json"]);
    assert_eq!(listed.expect(0).stdout.trim(), "[]");
    let gone = place.halter(["mcp", "remove", "x"]);
    assert!(gone.expect(2).stderr.contains("has no MCP server `x`"));
}

#[test]
fn a_tool_of_a_server_is_called_under_the_rules() {
    let place = with_fixture("plain");
    let call = ["tools", "call", "mcp__x__echo", "{\"text\":\"hello\"}"];
    place.halter(call).expect(3);
    let mut allowed = call.to_vec();
    allowed.extend(["--allow", "mcp__x__echo"]);
    let called = place.halter(allowed);
    assert_eq!(called.expect(0).stdout.trim(), "\"hello\"");
}

#[test]
fn a_server_that_cannot_be_used_is_told_and_blocks_nothing() {
    let place = with_fixture("dies_at_start");
    let tested = place.halter(["mcp", "test", "--json"]);
    let told: Value = serde_json::from_str(&tested.expect(1).stdout).unwrap();
    let message = told[0]["error"]["message"].as_str().unwrap();
    assert!(message.contains("no such database"), "{message}");
    let ran = place.halter(["run", "--text", "hello"]);
    assert!(
        ran.expect(0).stderr.contains("no such database"),
        "{}",
        ran.stderr
    );
    let doctor = place.halter(["doctor"]);
    assert!(
        doctor
            .expect(0)
            .stdout
            .contains("failed  x: MCP server `x`")
    );
}

#[test]
fn a_required_server_that_fails_fails_the_run_with_its_last_words() {
    let place = with_fixture("dies_at_start");
    let file = place.root().join("required.toml");
    std::fs::write(&file, "version = 1\n[mcp.servers.x]\nrequired = true\n").unwrap();
    let ran = place.halter(["--config", file.to_str().unwrap(), "run", "--text", "hello"]);
    assert_ne!(ran.code, Some(0));
    assert!(ran.stderr.contains("no such database"), "{}", ran.stderr);
}

#[test]
fn bad_input_to_add_is_refused() {
    let place = Place::new();
    for (line, said) in [
        (
            vec!["mcp", "add", "a__b", "--", "x"],
            "is no name for an MCP server",
        ),
        (
            vec!["mcp", "add", "a", "--env", "K", "--", "x"],
            "a --env has no name or no value",
        ),
        (
            vec!["mcp", "add", "a", "https://x.example/mcp"],
            "write --transport http",
        ),
        (vec!["mcp", "tools", "a"], "there is no MCP server `a`"),
    ] {
        let refused = place.halter(line);
        assert!(
            refused.expect(2).stderr.contains(said),
            "{}",
            refused.stderr
        );
    }
}

#[test]
fn no_server_outlives_a_halter_that_was_killed() {
    let place = Place::new();
    let (program, arguments) = fixture();
    let mark = place.root().to_str().unwrap();
    let variable = format!("MCP_FIXTURE_PLACE={mark}");
    let mut line = vec!["mcp", "add", "x", "--env", "MCP_FIXTURE=stays"];
    line.extend(["--env", &variable, "--", &program]);
    line.extend(arguments.iter().map(String::as_str));
    place.halter(line).expect(0);
    let call = [
        "tools",
        "call",
        "mcp__x__echo",
        "{\"text\":\"wait\"}",
        "--allow",
        "mcp__x__echo",
    ];
    for round in 0..10 {
        let mut halter = place.command(call).spawn().unwrap();
        // Now while the server starts, now in the midst of a call, for which it has started a
        // program of its own.
        let wanted = 1 + round % 2;
        eventually("the server", || {
            let found = processes_with_variable("MCP_FIXTURE_PLACE", mark);
            (found.len() >= wanted).then_some(())
        });
        // By SIGKILL.
        halter.kill().unwrap();
        halter.wait().unwrap();
        eventually("the end of the server", || {
            let left = processes_with_variable("MCP_FIXTURE_PLACE", mark);
            left.is_empty().then_some(())
        });
    }
}

/// One that has nothing of the environment it was started with, and so no mark.
#[test]
fn no_server_that_clears_its_environment_outlives_a_halter_that_was_killed() {
    let place = Place::new();
    let (program, arguments) = fixture();
    let mark = place.root().to_str().unwrap();
    let variable = format!("MCP_FIXTURE_PLACE={mark}");
    let mut line = vec!["mcp", "add", "x", "--", "env", "-i", "PATH=/usr/bin:/bin"];
    line.extend(["MCP_FIXTURE=stays", &variable, &program]);
    line.extend(arguments.iter().map(String::as_str));
    place.halter(line).expect(0);
    let wait = "{\"text\":\"wait\"}";
    let call = ["tools", "call", "mcp__x__echo", wait, "--allow", "mcp__x"];
    for _ in 0..3 {
        let mut halter = place.command(call).spawn().unwrap();
        // In the midst of a call, for which it has started a program of its own.
        eventually("the server", || {
            let found = processes_with_variable("MCP_FIXTURE_PLACE", mark);
            (found.len() >= 2).then_some(())
        });
        halter.kill().unwrap();
        halter.wait().unwrap();
        eventually("the end of the server", || {
            let left = processes_with_variable("MCP_FIXTURE_PLACE", mark);
            left.is_empty().then_some(())
        });
    }
}
