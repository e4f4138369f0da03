//! Questions of a model to the user: at a terminal, by lines of JSON, and where
//! nobody can be asked.

use super::stage::Stage;
use crate::screen::Screen;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

/// Somebody at a terminal answers both questions.
pub fn ask_user(stage: &Stage) {
    let arguments = stage.arguments("ask_user", "--text", &[]);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut screen = Screen::open(&stage.place, &arguments);
    screen.wait_for("1 of 2: Which one?");
    screen.send("3\r");
    screen.wait_for("there are 2 options");
    screen.send("2\r");
    screen.wait_for("2 of 2: Why?");
    screen.send("it is the newer one\r");
    let (status, shown) = screen.end();
    assert_eq!(status.code(), Some(0), "{shown}");
    assert!(shown.contains("The user said: "), "{shown}");
    let last = stage.bodies().last().unwrap().to_string();
    for told in ["new", "it is the newer one"] {
        assert!(last.contains(told), "no {told:?} in {last}");
    }

    answered_by_lines(stage);
    unattended(stage);
}

/// A program answers the event.
fn answered_by_lines(stage: &Stage) {
    let more = ["--approvals", "stdin"];
    let arguments = stage.arguments("ask_user", "--streaming-json", &more);
    let mut command = stage.place.command(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut kinds = Vec::new();
    for line in lines {
        let event: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
        let payload = &event["payload"];
        let kind = payload["kind"].as_str().unwrap_or("error").to_owned();
        if kind == "questions_asked" {
            let id = payload["question_id"].as_str().unwrap();
            let unfit = format!("{{\"question_id\":\"{id}\",\"responses\":[]}}\n");
            input.write_all(unfit.as_bytes()).unwrap();
            let fit = format!(
                "{{\"question_id\":\"{id}\",\"responses\":[{{\"selected_option_ids\":[\"old\"]}},\
                 {{\"skipped\":true}}]}}\n"
            );
            input.write_all(fit.as_bytes()).unwrap();
        }
        if kind == "questions_answered" {
            assert_eq!(payload["by"], "user");
            assert_eq!(payload["responses"][1]["skipped"], true);
        }
        kinds.push(kind);
    }
    drop(input);
    assert!(child.wait().unwrap().success());
    assert!(
        kinds.contains(&"questions_answered".to_owned()),
        "{kinds:?}"
    );
}

/// Nobody is there: the tool is not offered, and `tools list` says why.
fn unattended(stage: &Stage) {
    let listed = stage.place.halter(["tools", "list"]);
    let line = listed
        .expect(0)
        .stdout
        .lines()
        .find(|line| line.starts_with("ask_user"));
    let line = line.unwrap();
    assert!(
        line.contains("[unavailable: nobody can be asked here; decide yourself"),
        "{line}"
    );
    let called = stage.place.halter([
        "tools",
        "call",
        "ask_user",
        r#"{"questions":[{"question":"Which?"}]}"#,
    ]);
    let error = &called.expect(1).json()["error"];
    assert_eq!(error["code"], "unknown_tool");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("nobody can be asked here"), "{message}");
}
