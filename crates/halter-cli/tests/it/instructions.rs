//! Instruction files with the whole binary.

use crate::place::{Place, Ran, finish};
use crate::scenarios::stage::{Stage, WIRES};
use serde_json::{Value, json};
use std::path::Path;

/// The messages that told the model of instruction files.
fn told(events: &[Value]) -> Vec<String> {
    let events = events.iter().map(|event| match event.get("payload") {
        Some(payload) => payload,
        None => event,
    });
    let messages = events.filter(|event| event["kind"] == "message_item");
    let messages = messages.map(|event| &event["message"]);
    messages
        .filter(|message| message.get("instructions").is_some())
        .map(|message| message["text"].as_str().unwrap().to_owned())
        .collect()
}

fn user_file(place: &Place, name: &str, text: &str) {
    let path = place.home().join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn real(path: &Path) -> String {
    path.canonicalize().unwrap().to_str().unwrap().to_owned()
}

#[test]
fn the_model_is_shown_them_on_every_wire_and_told_what_changes() {
    for wire in WIRES {
        let stage = Stage::new(wire);
        let place = &stage.place;
        user_file(place, ".config/halter/AGENTS.md", "Mine: be brief.");
        user_file(place, ".claude/CLAUDE.md", "Mine too: be kind.");
        place.write("AGENTS.md", "Ours: use tabs.");
        let first = stage.play("read_file_roundtrip");
        first.completed();
        assert_eq!(told(&first.events), [""; 0]);
        place.write("AGENTS.md", "Ours: use spaces.");
        let second = stage.play_with("read_file_roundtrip", &["--session", &first.session()]);
        second.expect(0);
        let told = told(&second.events);
        assert_eq!(told.len(), 1);
        assert!(told[0].contains("Ours: use spaces."), "{told:?}");
        let bodies = stage.bodies();
        for (number, body) in bodies.iter().enumerate() {
            let body = body.to_string();
            for part in ["Mine: be brief.", "Mine too: be kind.", "Ours: use tabs."] {
                assert!(
                    body.contains(part),
                    "{part} in {}: {body}",
                    stage.provider()
                );
            }
            assert_eq!(body.contains("Ours: use spaces."), number >= 2);
        }
        assert!(bodies.len() > 2);
        stage.close();
    }
}

#[test]
fn a_nested_file_joins_once_when_a_file_below_is_read() {
    let place = Place::new();
    place.write("app/AGENTS.md", "App rules.");
    place.write("app/notes.txt", "the meeting is at noon\n");
    let run = |more: &[&str]| -> Ran {
        let arguments = ["run", "--streaming-json"].iter().chain(more);
        place.halter(arguments)
    };
    let first = run(&["read app/notes.txt"]);
    let events = first.expect(0).lines();
    let messages = told(&events);
    assert_eq!(messages.len(), 1);
    assert!(messages[0].contains("App rules."));
    let id = events[0]["session_id"].as_str().unwrap();
    let again = run(&["--session", id, "read app/notes.txt"]);
    assert_eq!(told(&again.expect(0).lines()), [""; 0]);
    place.write("app/AGENTS.md", "Other app rules.");
    let changed = run(&["--session", id, "hello"]);
    let messages = told(&changed.expect(0).lines());
    assert_eq!(messages.len(), 1);
    assert!(messages[0].contains("Other app rules."));
}

#[test]
fn resources_lists_them_with_origin_and_size() {
    let place = Place::new();
    user_file(&place, ".config/halter/AGENTS.md", "Mine.");
    let top = place.write("AGENTS.md", "Ours. @docs/style.md @.env");
    let style = place.write("docs/style.md", "Short names.");
    place.write(".env", "TOKEN=PRIVATE");
    place.write("CLAUDE.md", "Ours. @docs/style.md @.env");
    place.write("app/AGENTS.md", "Not yet.");
    let ran = place.halter(["resources", "--json"]);
    let shown = ran.expect(0).json();
    let files = shown["instructions"].as_array().unwrap();
    let facts = |file: &Value| json!([file["origin"], file["bytes"], file["imported_by"]]);
    let top_path = real(&top);
    assert_eq!(
        files.iter().map(facts).collect::<Vec<_>>(),
        [
            json!(["user", 5, null]),
            json!(["project", 26, null]),
            json!(["import", 12, top_path]),
        ]
    );
    assert_eq!(files[2]["path"], real(&style));
    let warning = shown["warnings"][0].as_str().unwrap();
    assert!(warning.contains("`@.env` is not loaded: "), "{warning}");
    assert!(!ran.stdout.contains("PRIVATE") && !ran.stderr.contains("PRIVATE"));

    let text = place.halter(["resources"]);
    text.expect(0);
    assert!(text.stdout.contains("instructions  3\n"), "{}", text.stdout);
    assert!(
        text.stdout
            .contains(&format!("  {top_path}  project, 26 bytes\n"))
    );
    assert!(
        text.stdout
            .contains(&format!("  imported by {top_path}, 12 bytes\n"))
    );
    assert!(
        text.stderr.contains("`@.env` is not loaded: "),
        "{}",
        text.stderr
    );
}

#[test]
fn what_a_repository_asks_for_stays_closed_and_the_session_goes_on() {
    let stage = Stage::new(&WIRES[0]);
    let place = &stage.place;
    place.write("halter.toml", "version = 1\n# PRIVATE\n");
    place.write(".env", "PRIVATE");
    place.write(
        "AGENTS.md",
        "Ours. @.env @halter.toml @../service.toml @../home/notes.md",
    );
    user_file(place, "notes.md", "PRIVATE");
    std::fs::write(place.work().join("CLAUDE.md"), b"\xff\xfe").unwrap();
    // Also where tools may go anywhere without a question.
    for mode in ["read_only", "full_access"] {
        let played = stage.play_with("streaming_text", &["--permission-mode", mode]);
        played.completed();
        let warnings = played.all("warning");
        assert_eq!(warnings.len(), 5, "{warnings:?}");
    }
    for body in stage.bodies() {
        let body = body.to_string();
        assert!(body.contains("Ours. @.env"), "{body}");
        let private = body.contains("PRIVATE") || body.contains("base_url");
        assert!(!private, "{body}");
    }
    stage.close();
}

#[test]
fn they_can_be_switched_off() {
    let place = Place::new();
    place.write("AGENTS.md", "Ours.");
    place.write("app/AGENTS.md", "App rules.");
    place.write("app/notes.txt", "noon\n");
    let off = "version = 1\n[models.default]\nprovider = \"offline\"\nmodel = \"offline\"\n\
               [resources]\ninstructions = false\n";
    std::fs::write(place.root().join("off.toml"), off).unwrap();
    let listed = |more: &[&str]| {
        let arguments = more.iter().chain(&["resources", "--json"]);
        let ran = finish(place.command(arguments).spawn().unwrap());
        ran.expect(0).json()["instructions"]
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!(listed(&[]), 1);
    assert_eq!(listed(&["--config", "../off.toml"]), 0);
    let arguments = [
        "--config",
        "../off.toml",
        "run",
        "--streaming-json",
        "read app/notes.txt",
    ];
    let ran = place.halter(arguments);
    assert_eq!(told(&ran.expect(0).lines()), [""; 0]);
}
