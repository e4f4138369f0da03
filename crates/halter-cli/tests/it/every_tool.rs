//! Every tool that this build lists, each by a call and by a model: its schema,
//! what it does, and a rule that closes it. Bounds and cancelling are tested
//! beside each tool.

use crate::place::Place;
use crate::tool_turn::tool_turn;
use halter_testkit::png;
use serde_json::{Value, json};
use std::path::Path;

/// How a tool is tried.
enum Try {
    /// With this input, and its result says this.
    Here(Value, &'static str),
    /// It needs more than files, and this test has it.
    InTest(&'static str),
}

use Try::{Here, InTest};

fn tries() -> Vec<(&'static str, Try)> {
    let edit = json!({"path": "notes.txt", "old_string": "noon", "new_string": "one"});
    let patch = "*** Begin Patch\n*** Add File: b/c.txt\n+new\n*** End Patch\n";
    let nobody = "has no subagent";
    vec![
        ("read", Here(json!({"path": "notes.txt"}), "at noon")),
        ("glob", Here(json!({"pattern": "*.txt"}), "notes.txt")),
        ("grep", Here(json!({"pattern": "noon"}), "notes.txt")),
        (
            "write",
            Here(json!({"path": "new.txt", "content": "x"}), "new.txt"),
        ),
        ("edit", Here(edit.clone(), "replacements_applied")),
        (
            "shell",
            Here(json!({"command": "cat notes.txt"}), "at noon"),
        ),
        ("process", Here(json!({"action": "list"}), "jobs")),
        ("task", Here(json!({"action": "list"}), "tasks")),
        ("apply_patch", Here(json!({"patch": patch}), "b/c.txt")),
        ("multi_edit", Here(json!({"edits": [edit]}), "notes.txt")),
        ("delete", Here(json!({"path": "notes.txt"}), "deleted")),
        (
            "rename",
            Here(json!({"from": "notes.txt", "to": "new.txt"}), "new.txt"),
        ),
        ("list", Here(json!({}), "notes.txt")),
        (
            "notebook_edit",
            Here(
                json!({"path": "n.ipynb", "cell_id": "x", "new_source": "2"}),
                "cell_id",
            ),
        ),
        ("current_time", Here(json!({}), "session_seconds")),
        (
            "ast_grep",
            Here(json!({"action": "find", "patterns": ["f($A)"]}), "a.js"),
        ),
        (
            "pty",
            Here(
                json!({"action": "start", "command": "cat notes.txt", "wait_for": "noon", "timeout_ms": 60_000}),
                "at noon",
            ),
        ),
        (
            "profile",
            Here(
                json!({"command": "cat notes.txt", "seconds": 20}),
                "sample_count",
            ),
        ),
        (
            "image",
            Here(json!({"action": "info", "path": "p.png"}), "width"),
        ),
        (
            "send_input",
            Here(json!({"target": "a", "message": "x"}), nobody),
        ),
        ("wait_agent", Here(json!({"targets": ["a"]}), nobody)),
        ("close_agent", Here(json!({"target": "a"}), nobody)),
        ("skill", Here(json!({"skill": "greet"}), "greet")),
        ("spawn_agent", InTest("subagent")),
        ("tool_search", InTest("tool_search")),
        ("ask_user", InTest("ask_user")),
        (
            "web_fetch",
            InTest("a_page_is_fetched_by_a_call_and_by_a_model"),
        ),
        (
            "web_search",
            InTest("the_web_is_searched_by_a_configured_service_and_its_key_is_not_shown"),
        ),
        (
            "browser",
            InTest("a_page_is_opened_in_a_browser_by_a_call_and_by_a_model"),
        ),
    ]
}

/// A directory with something for each tool.
fn furnished() -> Place {
    let place = Place::new();
    place.write("notes.txt", "the meeting is at noon\n");
    place.write("a.js", "f(1);\n");
    place.write(
        "n.ipynb",
        r#"{"cells":[{"cell_type":"code","id":"x","outputs":[1],"source":["1"]}],"nbformat":4,"nbformat_minor":5}"#,
    );
    std::fs::write(place.work().join("p.png"), png(64, 48)).unwrap();
    place.write(
        "skills/greet/SKILL.md",
        "---\nname: greet\ndescription: How to greet.\n---\nSay hello.\n",
    );
    place
}

fn with_skills(place: &Place) -> String {
    let root = place.work().join("skills");
    format!(
        "[resources.skills]\nroots = [{:?}]\n",
        root.to_str().unwrap()
    )
}

#[test]
fn every_tool_is_called_by_a_person_and_by_a_model() {
    let tries = tries();
    let listed = Place::new().halter(["tools", "list", "--json"]);
    let listed = listed.expect(0).json();
    for tool in listed.as_array().unwrap() {
        let name = tool["name"].as_str().unwrap();
        let is_tried = tries.iter().any(|(it, _)| *it == name);
        assert!(is_tried, "there is no row for the tool '{name}'");
    }
    let sources = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it"));
    for (tool, tried) in tries {
        let (input, says) = match tried {
            Here(input, says) => (input, says),
            InTest(name) => {
                let there = sources.contains(&format!("fn {name}("));
                assert!(there, "there is no test '{name}' for '{tool}'");
                continue;
            }
        };
        let place = furnished();
        let settings = with_skills(&place);
        place.write("own.toml", &format!("version = 1\n{settings}"));
        let call = |input: &Value, more: &[&str]| {
            let input = input.to_string();
            let arguments = ["--config", "own.toml", "tools", "call", tool, &input];
            place.halter(arguments.iter().chain(more))
        };
        let unfit = call(&json!({"no_such_parameter": 1}), &[]);
        assert_eq!(
            unfit.expect(1).json()["error"]["code"],
            "invalid_arguments",
            "{tool}"
        );
        let closed = call(&input, &["--deny", tool]);
        assert_eq!(
            closed.expect(1).json()["error"]["code"],
            "unknown_tool",
            "{tool}"
        );
        let called = call(&input, &[]);
        assert!(called.stdout.contains(says), "{tool}: {}", called.stdout);

        let place = furnished();
        let turn = tool_turn(&place, &with_skills(&place), tool, &input);
        assert_eq!(turn.ran.expect(0).stdout.trim_end(), "Done.", "{tool}");
        assert!(turn.told.contains(says), "{tool}: {}", turn.told);
    }
}

/// The text of all tests below a directory.
fn sources(directory: &Path) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => text.push_str(&sources(&path)),
            false if path.extension().is_some_and(|it| it == "rs") => {
                text.push_str(&std::fs::read_to_string(&path).unwrap());
            }
            false => {}
        }
    }
    text
}
