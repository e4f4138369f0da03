//! What a session does every day.

use super::stage::Stage;
use crate::place::eventually;
use crate::screen::Screen;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::process::Child;

fn ok(tools: &[&str]) -> Vec<(String, String)> {
    let ok = |tool: &&str| ((*tool).to_owned(), "ok".to_owned());
    tools.iter().map(ok).collect()
}

fn interrupt_process(child: &Child) {
    let pid = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
}

pub fn streaming_text(stage: &Stage) {
    let played = stage.play("streaming_text");
    assert_eq!(played.completed(), "Mock streaming says hello.");
    assert_eq!(played.streamed(), "Mock streaming says hello.");
    assert!(played.all("delta_item").len() >= 2);
    let bodies = stage.requests("streaming_text", &[0]);
    assert!(bodies[0].to_string().contains("please mock:streaming_text"));
    stage.assert_untouched();
}

pub fn read_file_roundtrip(stage: &Stage) {
    let played = stage.play("read_file_roundtrip");
    assert!(played.completed().contains("The file says: parity is kept"));
    assert_eq!(played.tools(), ok(&["read"]));
    let bodies = stage.requests("read_file_roundtrip", &[0, 1]);
    assert!(!bodies[0].to_string().contains("parity is kept"));
    assert!(bodies[1].to_string().contains("parity is kept"));
    stage.assert_untouched();
}

pub fn grep_chunk_assembly(stage: &Stage) {
    let played = stage.play("grep_chunk_assembly");
    assert_eq!(played.completed(), "grep found 1 matches.");
    let call = &played.one("tool_execution_started")["call"];
    let whole = json!({ "pattern": "parity", "path": "fixture.txt", "output_mode": "count" });
    assert_eq!(call["arguments"], whole);
    assert_eq!(played.tools(), ok(&["grep"]));
    stage.requests("grep_chunk_assembly", &[0, 1]);
    stage.assert_untouched();
}

pub fn write_file_allowed(stage: &Stage) {
    let played = stage.play("write_file_allowed");
    assert_eq!(played.completed(), "Wrote generated/output.txt.");
    assert_eq!(played.tools(), ok(&["write"]));
    stage.requests("write_file_allowed", &[0, 1]);
    assert_eq!(stage.read("generated/output.txt"), "created by the mock\n");
}

pub fn write_file_denied(stage: &Stage) {
    stage.configure("[policy]\nallowed_write_roots = []\n");
    let played = stage.play("write_file_denied");
    let answer = played.completed();
    assert!(answer.contains("policy_denied"), "{answer}");
    let denied = ("write".to_owned(), "policy_denied".to_owned());
    assert_eq!(played.tools(), [denied]);
    let bodies = stage.requests("write_file_denied", &[0, 1]);
    assert!(bodies[1].to_string().contains("policy_denied"));
    stage.assert_untouched();
}

pub fn multi_tool_turn_roundtrip(stage: &Stage) {
    let played = stage.play("multi_tool_turn_roundtrip");
    let answer = played.completed();
    assert!(answer.contains("parity is kept"), "{answer}");
    assert!(answer.contains("found 1."), "{answer}");
    assert_eq!(played.tools(), ok(&["read", "grep"]));
    stage.requests("multi_tool_turn_roundtrip", &[0, 1]);
    stage.assert_untouched();
}

pub fn bash_stdout_roundtrip(stage: &Stage) {
    let played = stage.play("bash_stdout_roundtrip");
    assert_eq!(played.completed(), "The shell said: alpha from shell");
    assert_eq!(played.one("tool_output")["chunk"], "alpha from shell");
    assert_eq!(played.tools(), ok(&["shell"]));
    stage.requests("bash_stdout_roundtrip", &[0, 1]);
    stage.assert_untouched();
}

pub fn background_job(stage: &Stage) {
    let played = stage.play("background_job");
    assert_eq!(played.completed(), "The job said: alpha from a job");
    assert_eq!(played.tools(), ok(&["shell", "process"]));
    stage.requests("background_job", &[0, 1, 2]);
    stage.assert_untouched();
}

/// Runs a scenario at a terminal and answers the question.
fn asked(stage: &Stage, scenario: &str, answer: &str) -> String {
    // The built-in list of programs, which asks about what is not on it.
    stage.configure("");
    let arguments = stage.arguments(scenario, "--text", &[]);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut screen = Screen::open(&stage.place, &arguments);
    screen.wait_for("tells the model why");
    screen.send(answer);
    screen.send("\r");
    let (status, shown) = screen.end();
    assert_eq!(status.code(), Some(0), "{shown}");
    shown
}

pub fn bash_permission_prompt_approved(stage: &Stage) {
    let scenario = "bash_permission_prompt_approved";
    let shown = asked(stage, scenario, "y");
    assert!(shown.contains("command: touch approved.txt"), "{shown}");
    assert!(shown.contains("Approved and run: 0"), "{shown}");
    stage.requests(scenario, &[0, 1]);
    assert!(stage.files().contains(&"approved.txt".to_owned()));
}

pub fn bash_permission_prompt_denied(stage: &Stage) {
    let scenario = "bash_permission_prompt_denied";
    let shown = asked(stage, scenario, "n not now");
    assert!(shown.contains("denied by the user: not now"), "{shown}");
    let bodies = stage.requests(scenario, &[0, 1]);
    assert!(
        bodies[1]
            .to_string()
            .contains("denied by the user: not now")
    );
    stage.assert_untouched();
}

pub fn token_cost_reporting(stage: &Stage) {
    let played = stage.play("token_cost_reporting");
    assert_eq!(played.completed(), "The meter is running.");
    let usage = &played.one("turn_completed")["usage"];
    assert_eq!(usage["input_tokens"], 1230, "{usage}");
    assert_eq!(usage["output_tokens"], 500, "{usage}");
    // Gemini does not tell what it writes to its cache.
    let (uncached, written) = match stage.provider() {
        "gemini" => (1030, 0),
        _ => (1000, 30),
    };
    let buckets = json!({
        "uncached_input": uncached, "cache_read": 200, "cache_write": written, "output": 500,
        "reasoning": 0
    });
    assert_eq!(usage["buckets"], buckets);
    // From the table, from the service, or not at all: without a price there
    // is no cost, which is not a cost of nothing.
    let cost = &usage["cost"];
    match played.one("turn_completed")["answered_by"]["model"].as_str() {
        Some("claude-sonnet-4-5" | "gpt-5") => assert_eq!(cost["price_built_in"], true, "{usage}"),
        Some("some/model") => assert_eq!(cost["price_from_provider"], true, "{usage}"),
        _ => assert!(usage.get("cost").is_none(), "{usage}"),
    }
    stage.requests("token_cost_reporting", &[0]);
}

pub fn thinking(stage: &Stage) {
    let played = stage.play("thinking");
    assert_eq!(played.completed(), "Forty-two.");
    let thoughts = played.all("thinking_delta");
    let thoughts = thoughts
        .iter()
        .filter_map(|event| event["delta"]["text"].as_str());
    assert_eq!(
        thoughts.collect::<String>(),
        "The user wants a short answer."
    );
    let usage = &played.one("turn_completed")["usage"];
    assert_eq!(usage["buckets"]["reasoning"], 9, "{usage}");
    assert_eq!(usage["buckets"]["output"], 4, "{usage}");
    stage.requests("thinking", &[0]);
}

/// The service refuses a thought that does not come back as it was.
pub fn thinking_tool(stage: &Stage) {
    let played = stage.play("thinking_tool");
    assert_eq!(played.completed(), "Both steps are done.");
    assert_eq!(played.tools(), ok(&["glob", "read"]));
    stage.requests("thinking_tool", &[0, 1, 2]);
    stage.assert_untouched();
}

pub fn parallel_tools(stage: &Stage) {
    let played = stage.play("parallel_tools");
    assert!(played.completed().contains("alpha"));
    assert_eq!(played.tools(), ok(&["read", "glob", "grep"]));
    assert_eq!(played.all("tool_execution_started").len(), 3);
    stage.requests("parallel_tools", &[0, 1]);
    stage.assert_untouched();
}

pub fn edit_roundtrip(stage: &Stage) {
    let played = stage.play("edit_roundtrip");
    assert_eq!(played.completed(), "Edited notes.txt.");
    assert_eq!(played.tools(), ok(&["read", "edit"]));
    stage.requests("edit_roundtrip", &[0, 1, 2]);
    assert_eq!(stage.read("notes.txt"), "omega\n");
}

pub fn unknown_tool(stage: &Stage) {
    let played = stage.play("unknown_tool");
    let answer = played.completed();
    assert!(answer.contains("there is no tool 'teleport'"), "{answer}");
    let unknown = ("teleport".to_owned(), "unknown_tool".to_owned());
    assert_eq!(played.tools(), [unknown]);
    assert!(played.all("tool_execution_started").is_empty());
    stage.requests("unknown_tool", &[0, 1]);
}

pub fn bad_arguments(stage: &Stage) {
    let played = stage.play("bad_arguments");
    // Gemini sends arguments as an object, and says itself that a call is no
    // such thing.
    if stage.provider() == "gemini" {
        played.failed(6, "provider_unavailable");
        let warning = played.one("warning")["message"].as_str().unwrap();
        assert!(warning.contains("MALFORMED_FUNCTION_CALL"), "{warning}");
        stage.requests("bad_arguments", &[0, 0]);
        return;
    }
    assert!(played.completed().contains("alpha"));
    let bad = ("read".to_owned(), "invalid_arguments".to_owned());
    assert_eq!(played.tools(), [vec![bad], ok(&["read"])].concat());
    played.one("tool_execution_started");
    stage.requests("bad_arguments", &[0, 1, 2]);
    stage.assert_untouched();
}

/// Two processes, one session: the second sends what the first had said.
pub fn resume(stage: &Stage) {
    let first = stage.play("resume");
    assert!(first.completed().starts_with("Turn remembered: "));
    assert!(stage.place.database().exists());
    let session = first.session();
    let second = stage.play_with("resume", &["--session", &session]);
    assert!(second.completed().starts_with("Turn remembered: "));
    assert_eq!(second.events[0]["kind"], "session_resumed");
    assert_eq!(second.session(), session);
    let bodies = stage.requests("resume", &[0, 0]);
    let answers = bodies[1].to_string().matches("Turn remembered: ").count();
    assert_eq!(answers, 1, "{}", bodies[1]);
}

pub fn cache_marks(stage: &Stage) {
    let played = stage.play("cache_marks");
    assert_eq!(played.completed(), "Read twice.");
    let buckets = &played.one("turn_completed")["usage"]["buckets"];
    assert_eq!(buckets["cache_read"], 4100);
    assert_eq!(buckets["cache_write"], 2100);
    for body in stage.requests("cache_marks", &[0, 1, 2]) {
        let marks = body.to_string().matches("\"cache_control\"").count();
        assert!((1..=4).contains(&marks), "{marks} marks in {body}");
    }
}

/// Ctrl-C in the midst of an answer: what was said is kept.
pub fn interrupt(stage: &Stage) {
    let child = stage.play_until("interrupt", "\"delta_item\"");
    interrupt_process(&child);
    let played = stage.ended(child);
    played.expect(130).one("turn_interrupted");
    assert!(played.streamed().starts_with("Working "));
    assert!(!played.streamed().contains("it."));
    stage.requests("interrupt", &[0]);
}

/// Ctrl-C in the midst of a command: it ends, and the turn with it.
pub fn interrupt_tool(stage: &Stage) {
    let child = stage.play_until("interrupt_tool", "\"tool_execution_started\"");
    eventually("the command", || {
        (!sleepers(stage).is_empty()).then_some(())
    });
    interrupt_process(&child);
    let played = stage.ended(child);
    played.expect(130).one("turn_interrupted");
    assert_eq!(sleepers(stage), Vec::<i32>::new());
    stage.requests("interrupt_tool", &[0]);
}

/// The sleeping commands of this stage.
fn sleepers(stage: &Stage) -> Vec<i32> {
    let here = |pid: &i32| {
        let directory = std::fs::read_link(format!("/proc/{pid}/cwd"));
        directory.is_ok_and(|directory| directory == stage.place.work())
    };
    let all = crate::place::processes_with("sleep 600");
    all.into_iter().filter(here).collect()
}

pub fn default(stage: &Stage) {
    let played = stage.play("default");
    assert_eq!(played.completed(), "You said: please");
    stage.requests("default", &[0]);
}

/// An answer of nothing is asked for once more, and then told.
pub fn empty(stage: &Stage) {
    let played = stage.play("empty");
    played.failed(1, "empty_answer");
    assert_eq!(played.streamed(), "");
    stage.assert_untouched();
}

pub fn redacted_thinking(stage: &Stage) {
    let played = stage.play("redacted_thinking");
    assert_eq!(played.completed(), "Read.");
    assert_eq!(played.tools(), ok(&["read"]));
    stage.requests("redacted_thinking", &[0, 1]);
}

/// A model that never ends is ended by the limit of its calls.
pub fn many_steps(stage: &Stage) {
    let played = stage.play_with("many_steps", &["--max-turns", "3"]);
    played.failed(1, "max_turns_reached");
    assert_eq!(played.tools(), ok(&["read", "read", "read"]));
    stage.requests("many_steps", &[0, 1, 2]);
    stage.assert_untouched();
}

pub fn empty_arguments(stage: &Stage) {
    stage.configure("[tools]\ndeferred = \"off\"\n");
    let played = stage.play("empty_arguments");
    let answer = played.completed();
    assert!(answer.contains("invalid_arguments"), "{answer}");
    let refused = ("task".to_owned(), "invalid_arguments".to_owned());
    assert_eq!(played.tools(), [refused]);
    stage.requests("empty_arguments", &[0, 1]);
}

pub fn wrong_type(stage: &Stage) {
    let played = stage.play("wrong_type");
    assert!(played.completed().contains("alpha"));
    let bad = ("read".to_owned(), "invalid_arguments".to_owned());
    assert_eq!(played.tools(), [vec![bad], ok(&["read"])].concat());
    stage.requests("wrong_type", &[0, 1, 2]);
}

pub fn tool_list(stage: &Stage) {
    let answer = stage.play("tool_list").completed();
    for tool in ["read", "glob", "grep", "write", "edit", "shell"] {
        assert!(answer.contains(tool), "{answer}");
    }
    stage.requests("tool_list", &[0]);
}

pub fn cached(stage: &Stage) {
    let played = stage.play("cached");
    assert_eq!(played.completed(), "Cached.");
    let usage = &played.one("turn_completed")["usage"]["buckets"];
    let buckets = json!({
        "uncached_input": 11, "cache_read": 2000, "cache_write": 340, "output": 5, "reasoning": 6
    });
    assert_eq!(*usage, buckets);
    stage.requests("cached", &[0]);
}

/// What has come is shown while the rest is still awaited.
pub fn gated(stage: &Stage) {
    let child = stage.play_until("gated", "\"Before \"");
    stage.open_gate("gated");
    let played = stage.ended(child);
    assert_eq!(played.completed(), "Before and after.");
    stage.requests("gated", &[0]);
}
