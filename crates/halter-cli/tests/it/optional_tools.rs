//! The tools that are built in by cargo features.

use crate::place::Place;
use crate::tool_turn::tool_turn;
use halter_testkit::png;
use serde_json::json;

#[test]
fn an_image_is_cut_for_a_person_and_for_a_model() {
    let place = Place::new();
    std::fs::write(place.work().join("picture.png"), png(64, 48)).unwrap();
    let cut = json!({
        "action": "crop", "path": "picture.png", "x": 4, "width": 10, "height": 6,
    });
    let ran = place.halter(["tools", "call", "image", &cut.to_string()]);
    let parts = ran.expect(0).json();
    assert_eq!(parts[1]["media_type"], "image/png");
    let facts = parts[0]["text"].as_str().unwrap();
    assert!(facts.contains(r#""width":10,"height":6"#), "{facts}");

    let turn = tool_turn(&place, "", "image", &cut);
    assert_eq!(turn.ran.expect(0).stdout.trim_end(), "Done.");
    assert!(turn.told.contains("\"image/png\""), "{}", turn.told);

    let outside = json!({
        "action": "convert", "path": "picture.png", "output_path": "../picture.gif",
    });
    let refused = place.halter(["tools", "call", "image", &outside.to_string()]);
    assert_eq!(refused.expect(3).json()["error"]["code"], "policy_denied");
    assert!(!place.root().join("picture.gif").exists());
}

#[test]
fn code_is_rewritten_for_a_person_and_for_a_model() {
    let place = Place::new();
    place.write("src/a.ts", "old(1);\n");
    let rewrite = |from: &str, to: &str| {
        json!({
            "action": "replace", "rewrites": {format!("{from}($A)"): format!("{to}($A)")},
            "dry_run": false,
        })
    };
    let find = json!({"action": "find", "patterns": ["old($A)"]});
    let ran = place.halter(["tools", "call", "ast_grep", &find.to_string()]);
    assert_eq!(ran.expect(0).json()["matches"][0]["path"], "src/a.ts");
    let called = rewrite("old", "newer").to_string();
    let ran = place.halter(["tools", "call", "ast_grep", &called]);
    assert_eq!(ran.expect(0).json()["total_replacements"], 1);

    let turn = tool_turn(&place, "", "ast_grep", &rewrite("newer", "newest"));
    assert_eq!(turn.ran.expect(0).stdout.trim_end(), "Done.");
    assert!(turn.told.contains("newest(1)"), "{}", turn.told);
    let text = std::fs::read_to_string(place.work().join("src/a.ts")).unwrap();
    assert_eq!(text, "newest(1);\n");
}

#[test]
fn a_screen_is_shown_to_a_person_and_to_a_model() {
    let place = Place::new();
    place.write("notes.txt", "the meeting is at noon\n");
    let follow = json!({
        "action": "start", "command": "tail -f notes.txt",
        "wait_for": "at noon", "timeout_ms": 60_000,
    });
    let ran = place.halter(["tools", "call", "pty", &follow.to_string()]);
    let shown = ran.expect(0).json();
    assert_eq!(shown["terminal_id"], "pty_1");
    assert_eq!(shown["state"], "running");
    assert_eq!(shown["screen"], "the meeting is at noon");
    assert_eq!(shown["cursor"], json!({"row": 2, "column": 1}));

    let turn = tool_turn(&place, "", "pty", &follow);
    assert_eq!(turn.ran.expect(0).stdout.trim_end(), "Done.");
    assert!(
        turn.told.contains("the meeting is at noon"),
        "{}",
        turn.told
    );

    let unlisted = json!({"action": "start", "command": "curl localhost"});
    let refused = place.halter(["tools", "call", "pty", &unlisted.to_string()]);
    assert_eq!(refused.expect(3).json()["error"]["code"], "policy_denied");
    let input = follow.to_string();
    let refused = place.halter(["tools", "call", "pty", &input, "--deny", "Bash"]);
    let message = refused.expect(1).json()["error"]["message"].to_string();
    assert!(message.contains("deny rule"), "{message}");
}

#[test]
fn a_command_is_sampled_for_a_person_and_for_a_model() {
    let place = Place::new();
    // Enough to do for any machine to be seen at it.
    let numbers: Vec<String> = (0..1_000_000_u64)
        .map(|it| (it * 7_919 % 1_000_003).to_string())
        .collect();
    place.write("numbers.txt", &numbers.join("\n"));
    let sample = json!({"command": "sort -n numbers.txt | tail -n 1", "seconds": 120});
    let ran = place.halter(["tools", "call", "profile", &sample.to_string()]);
    let found = ran.expect(0).json();
    assert_eq!(found["exit_code"], 0, "{found}");
    assert_eq!(found["output"], "1000002\n");
    assert!(found["svg"].as_str().unwrap().ends_with(".svg"), "{found}");
    let hottest = found["summary"][0]["function"].as_str();
    assert!(hottest.is_some_and(|name| !name.is_empty()), "{found}");

    let mut kept = sample.clone();
    kept["output_path"] = "graph.svg".into();
    let turn = tool_turn(&place, "", "profile", &kept);
    assert_eq!(turn.ran.expect(0).stdout.trim_end(), "Done.");
    assert!(turn.told.contains("sample_count"), "{}", turn.told);
    let graph = std::fs::read_to_string(place.work().join("graph.svg")).unwrap();
    assert!(graph.contains("<svg"), "{graph}");

    let unlisted = json!({"command": "curl localhost"});
    let refused = place.halter(["tools", "call", "profile", &unlisted.to_string()]);
    assert_eq!(refused.expect(3).json()["error"]["code"], "policy_denied");
    let closed = "[permissions]\ndeny = [\"Bash\"]\n";
    let turn = tool_turn(&place, closed, "profile", &sample);
    assert!(turn.told.contains("deny rule"), "{}", turn.told);
}
