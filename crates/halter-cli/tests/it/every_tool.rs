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
    /// With this input, and its result, which is no error, says this.
    Here(Value, &'static str),
    /// It needs more than files, and this test has it.
    InTest(&'static str),
}

use Try::{Here, InTest};

fn tries() -> Vec<(&'static str, Try)> {
    let edit = json!({"path": "notes.txt", "old_string": "noon", "new_string": "one"});
    let patch = "*** Begin Patch\n*** Add File: b/c.txt\n+new\n*** End Patch\n";
    let told_more = "a_child_goes_on_when_it_is_told_more";
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
            InTest("a_command_is_sampled_for_a_person_and_for_a_model"),
        ),
        (
            "image",
            Here(json!({"action": "info", "path": "p.png"}), "width"),
        ),
        ("send_input", InTest(told_more)),
        ("wait_agent", InTest(told_more)),
        ("close_agent", InTest(told_more)),
        ("skill", Here(json!({"skill": "greet"}), "greet")),
        ("spawn_agent", InTest("subagent")),
        (
            "tool_search",
            InTest("the_tool_that_loads_others_is_called_by_its_name"),
        ),
        (
            "ask_user",
            InTest("a_tool_that_asks_is_offered_and_can_be_called"),
        ),
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

/// Settings under which the tools of the web are of use.
const WITH_WEB: &str = "[policy.network]\nenabled = true\nallowed_hosts = [\"example.com\"]\n\
    [tools.web_search]\nprovider = \"searxng\"\nurl = \"http://127.0.0.1:1\"\n\
    [browser]\ncdp_url = \"ws://127.0.0.1:1\"\n";

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
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let tests = ["halter-cli", "halter-runtime"].map(|it| crates.join(it).join("tests/it"));
    let sources: String = tests.iter().map(|it| sources(it)).collect();
    for (tool, tried) in tries {
        let place = furnished();
        let settings = with_skills(&place);
        place.write("own.toml", &format!("version = 1\n{settings}"));
        place.write("web.toml", &format!("version = 1\n{settings}{WITH_WEB}"));
        let call = |config: &str, input: &Value, more: &[&str]| {
            let input = input.to_string();
            let arguments = ["--config", config, "tools", "call", tool, &input];
            place.halter(arguments.iter().chain(more))
        };
        // Nobody can be asked here: it is tried at a terminal.
        if tool != "ask_user" {
            let unfit = call("web.toml", &json!({"no_such_parameter": 1}), &[]);
            assert_eq!(
                unfit.expect(1).json()["error"]["code"],
                "invalid_arguments",
                "{tool}"
            );
            // The one that tells of others is still there, and refused.
            let (input, exit, code) = match tool {
                "tool_search" => (json!({"query": "x"}), 3, "policy_denied"),
                _ => (json!({}), 1, "unknown_tool"),
            };
            let closed = call("web.toml", &input, &["--deny", tool]);
            assert_eq!(closed.expect(exit).json()["error"]["code"], code, "{tool}");
        }
        let (input, says) = match tried {
            Here(input, says) => (input, says),
            InTest(name) => {
                let there = sources.contains(&format!("fn {name}("));
                assert!(there, "there is no test '{name}' for '{tool}'");
                continue;
            }
        };
        let called = call("own.toml", &input, &[]);
        called.expect(0);
        assert!(called.stdout.contains(says), "{tool}: {}", called.stdout);

        let place = furnished();
        let turn = tool_turn(&place, &with_skills(&place), tool, &input);
        assert_eq!(turn.ran.expect(0).stdout.trim_end(), "Done.", "{tool}");
        assert!(turn.told.contains(says), "{tool}: {}", turn.told);
        assert!(
            !turn.told.contains("\"is_error\":true"),
            "{tool}: {}",
            turn.told
        );
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
