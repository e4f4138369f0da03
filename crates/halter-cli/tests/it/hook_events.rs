//! A command hook at every event, in turns of the whole binary.

use crate::hook_files::EVENTS;
use crate::place::Place;
use crate::screen::Screen;
use crate::tool_turn::played;
use serde_json::{Value, json};
use std::path::Path;

const ENTER: &str = "\r";

/// A hook at each event that keeps what it was told.
fn keep_everything(place: &Place) {
    let kept = place.root().join("kept");
    std::fs::create_dir(&kept).unwrap();
    let line = format!("cat > {}/$$.json", kept.display());
    let groups = json!([{"hooks": [{"type": "command", "command": line}]}]);
    let events = EVENTS.map(|event| (event.to_owned(), groups.clone()));
    let events: serde_json::Map<String, Value> = events.into_iter().collect();
    let directory = place.home().join(".config/halter");
    std::fs::create_dir_all(&directory).unwrap();
    let file = json!({"hooks": events}).to_string();
    std::fs::write(directory.join("hooks.json"), file).unwrap();
}

fn kept(place: &Place) -> Vec<Value> {
    let files = std::fs::read_dir(place.root().join("kept")).unwrap();
    let texts = files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
    texts
        .map(|text| serde_json::from_str(&text).unwrap())
        .collect()
}

#[track_caller]
fn the_one<'a>(told: &'a [Value], event: &str, is_it: impl Fn(&Value) -> bool) -> &'a Value {
    let mut found = told
        .iter()
        .filter(|it| it["hook_event_name"] == event && is_it(it));
    let one = found
        .next()
        .unwrap_or_else(|| panic!("no {event} in {told:#?}"));
    assert!(found.next().is_none(), "{event} twice in {told:#?}");
    one
}

const TURN: &str = r#"
[scenarios.turn]
description = "Starts a child, fails, is refused, and succeeds."
steps = [
  { parts = [{ type = "call", tool = "spawn_agent", input = { message = "mock:kid look around", agent_type = "explore", wait = true } }] },
  { parts = [{ type = "call", tool = "read", input = { path = "gone.txt" } }] },
  { parts = [{ type = "call", tool = "shell", input = { command = "touch made.txt", timeout_ms = 300000 } }] },
  { parts = [{ type = "call", tool = "read", input = { path = "a.txt" } }] },
  { parts = [{ type = "text", text = "Done." }] },
]
[scenarios.kid]
description = "The child."
steps = [
  { parts = [{ type = "call", tool = "glob", input = { pattern = "*" } }] },
  { parts = [{ type = "text", text = "I looked." }] },
]
"#;

/// Runs the turn at a terminal, where the one question is answered with no.
fn run_the_turn(place: &Place) {
    let (runtime, service, file) = played(place, TURN, "");
    let arguments = ["--config", file.to_str().unwrap(), "run", "go on"];
    let mut screen = Screen::open(place, &arguments);
    screen.wait_for("tells the model why");
    screen.send("n not now");
    screen.send(ENTER);
    let (status, shown) = screen.end();
    assert_eq!(status.code(), Some(0), "{shown}");
    runtime.block_on(service.stop());
}

/// Talks with the offline model until its context is made smaller.
fn fill_a_context(place: &Place) {
    place.write(
        "small.toml",
        "version = 1\n[models.default]\nprovider = \"offline\"\nmodel = \"offline\"\n\
         max_input_tokens = 10000\n",
    );
    let lines: String = (0..900).map(|line| format!("the line {line}\n")).collect();
    place.write("long.txt", &lines);
    let mut screen = Screen::open(place, &["--config", "small.toml", "chat"]);
    for prompt in 1..=4 {
        screen.wait_for_prompt(prompt);
        screen.send("read long.txt");
        screen.send(ENTER);
    }
    screen.wait_for("context compacted,");
    screen.wait_for_prompt(5);
    screen.send("/exit");
    screen.send(ENTER);
    assert_eq!(screen.end().0.code(), Some(0));
}

#[test]
fn commands_hear_of_every_event_of_a_session_and_of_its_subagent() {
    let place = Place::new();
    keep_everything(&place);
    place.write("a.txt", "x");
    run_the_turn(&place);
    let told = kept(&place);
    let of_root = |it: &Value| it.get("agent_id").is_none();
    let of_child = |it: &Value| it["agent_type"] == "explore" && it["agent_id"] == it["session_id"];
    for it in &told {
        for field in ["session_id", "cwd", "permission_mode", "transcript_path"] {
            assert!(it[field].is_string(), "{field} in {it}");
        }
    }
    for event in ["SessionStart", "SessionEnd", "UserPromptSubmit"] {
        the_one(&told, event, of_root);
        the_one(&told, event, of_child);
    }
    let by = |tool: &'static str| move |it: &Value| it["tool_name"] == tool;
    let looked = the_one(&told, "PreToolUse", by("Glob"));
    assert!(of_child(looked), "{looked}");
    assert!(the_one(&told, "PostToolUse", by("Glob"))["duration_ms"].is_u64());
    let read = |path: &'static str| {
        move |it: &Value| {
            let named = it["tool_input"]["file_path"].as_str();
            named.is_some_and(|it| Path::new(it).ends_with(path))
        }
    };
    the_one(&told, "PostToolUse", read("a.txt"));
    let failed = the_one(&told, "PostToolUseFailure", read("gone.txt"));
    assert!(failed["error"].is_string() && failed["duration_ms"].is_u64());
    the_one(&told, "PermissionRequest", by("Bash"));
    let denied = the_one(&told, "PermissionDenied", by("Bash"));
    assert!(
        denied["reason"].as_str().unwrap().contains("not now"),
        "{denied}"
    );
    let notified = the_one(&told, "Notification", of_root);
    assert_eq!(notified["notification_type"], "permission_prompt");
    assert!(notified["message"].as_str().unwrap().contains("Bash"));
    assert_eq!(
        the_one(&told, "Stop", of_root)["last_assistant_message"],
        "Done."
    );
    the_one(&told, "SubagentStart", of_child);
    let ended = the_one(&told, "SubagentStop", of_child);
    assert_eq!(ended["last_assistant_message"], "I looked.");
    assert_eq!(ended["agent_transcript_path"], ended["transcript_path"]);

    fill_a_context(&place);
    let told = kept(&place);
    let auto = |it: &Value| it["trigger"] == "auto";
    assert!(
        told.iter()
            .any(|it| it["hook_event_name"] == "PreCompact" && auto(it))
    );
    assert!(
        told.iter()
            .any(|it| it["hook_event_name"] == "PostCompact" && auto(it))
    );
    let sources: Vec<_> = told.iter().filter_map(|it| it["source"].as_str()).collect();
    assert!(sources.contains(&"compact"), "{sources:?}");
    for event in EVENTS {
        assert!(
            told.iter().any(|it| it["hook_event_name"] == event),
            "{event}"
        );
    }
}
