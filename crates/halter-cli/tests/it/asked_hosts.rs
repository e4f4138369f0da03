//! Hosts that a command of a model would reach: the whole binary asks while the
//! connection waits. Nothing here leaves loopback.

use crate::approvals::Talk;
use crate::place::{eventually, processes_with};
use crate::sandbox::{greeter, works};
use crate::scenarios::stage::{ANTHROPIC, Stage};
use crate::screen::Screen;
use halter_mock::{Scenario, Step};
use serde_json::{Value, json};

const SCENARIO: &str = "reaches";

/// A model that has a program reach a server of the test once, and its rest of
/// settings; absent where no sandbox has a proxy.
fn stage() -> Option<(Stage, u16)> {
    let port = greeter();
    let command = format!("curl -sS --max-time 600 --noproxy '' http://127.0.0.1:{port}/");
    let input = json!({"command": command, "timeout_ms": 5000});
    let steps = vec![
        Step::call("shell", input.as_object().unwrap().clone()),
        Step::text("done"),
    ];
    let scenario = Scenario::new("Has a program reach a host.", steps);
    let stage = Stage::with_scenario(&ANTHROPIC[0], SCENARIO, scenario);
    stage.configure("[policy.shell]\nallow = [\"curl\"]\n");
    let has_curl = std::process::Command::new("curl").arg("-V").output();
    if has_curl.is_err() {
        crate::place::skipped("curl");
        return None;
    }
    works(&stage.place).then_some((stage, port))
}

fn talk(stage: &Stage, more: &[&str]) -> Talk {
    let more = [&["--approvals", "stdin"], more].concat();
    let arguments = stage.arguments(SCENARIO, "--streaming-json", &more);
    Talk::start_with(&stage.place, &arguments)
}

/// The request names what would be reached and by which rule it is refused.
#[track_caller]
fn assert_names(request: &Value, port: u16) {
    let host = format!("127.0.0.1:{port}");
    assert_eq!(request["objection"]["rule"], "network.loopback");
    assert_eq!(request["objection"]["fragment"], host);
    assert_eq!(request["actions"], json!([{"kind": "reach", "host": host}]));
    assert_eq!(request["asked_by"], "running_call");
}

#[test]
fn a_program_decides_about_a_host_that_a_command_waits_for() {
    let Some((stage, port)) = stage() else {
        return;
    };
    for (choice, expected) in [("once", "greeted"), ("deny", "network_refused")] {
        let mut talk = talk(&stage, &[]);
        let request = talk.until("approval_requested");
        assert_names(&request, port);
        talk.send(&json!({"approval_id": request["approval_id"], "choice": choice}));
        let resolved = talk.until("approval_resolved");
        assert_eq!(resolved["choice"], choice);
        if choice == "deny" {
            let refused = talk.until("network_refused");
            assert_eq!(refused["host"], format!("127.0.0.1:{port}"));
            assert_eq!(refused["rule"], "network.loopback");
        }
        let done = talk.until("tool_execution_completed").to_string();
        assert!(done.contains(expected), "{done}");
        talk.until("turn_completed");
        assert_eq!(talk.end(), Some(0));
    }
    stage.close();
}

#[test]
fn a_person_is_shown_host_port_and_rule() {
    let Some((stage, port)) = stage() else {
        return;
    };
    let arguments = stage.arguments(SCENARIO, "--text", &[]);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut screen = Screen::open(&stage.place, &arguments);
    screen.wait_for("tells the model why");
    screen.send("y");
    screen.send("\r");
    let (status, shown) = screen.end();
    assert_eq!(status.code(), Some(0), "{shown}");
    let host = format!("127.0.0.1:{port}");
    for part in [host.as_str(), "network.loopback", "done"] {
        assert!(shown.contains(part), "no {part:?} in {shown}");
    }
    stage.close();
}

#[test]
fn a_question_about_a_host_that_halter_was_killed_with_is_answered_no() {
    let Some((stage, port)) = stage() else {
        return;
    };
    let mut killed = talk(&stage, &[]);
    let session = killed.next_event()["session_id"].clone();
    let session = session.as_str().unwrap();
    let request = killed.until("approval_requested");
    assert_names(&request, port);
    killed.kill();
    let curl = format!("curl -sS --max-time 600 --noproxy  http://127.0.0.1:{port}/");
    eventually("the end of the command", || {
        processes_with(&curl).is_empty().then_some(())
    });

    let mut resumed = talk(&stage, &["--session", session]);
    let resolved = resumed.until("approval_resolved");
    assert_eq!(resolved["approval_id"], request["approval_id"]);
    assert_eq!(resolved["choice"], "deny");
    // The next turn is as any other.
    let again = resumed.until("approval_requested");
    assert_ne!(again["approval_id"], request["approval_id"]);
    assert_names(&again, port);
    resumed.send(&json!({"approval_id": again["approval_id"], "choice": "once"}));
    let done = resumed.until("tool_execution_completed").to_string();
    assert!(done.contains("greeted"), "{done}");
    resumed.until("turn_completed");
    assert_eq!(resumed.end(), Some(0));
    stage.close();
}
