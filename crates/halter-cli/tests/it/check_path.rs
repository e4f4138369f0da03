//! `halter policy check-path`, as a security engineer uses it.

use crate::place::Place;
use serde_json::{Value, json};
use std::os::unix::fs::symlink;

fn check(place: &Place, lines: &[Value]) -> Vec<Value> {
    let input: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let ran = place.halter_with_stdin(["policy", "check-path", "--jsonl"], &input);
    ran.expect(0);
    assert_eq!(ran.lines().len(), lines.len());
    ran.lines()
}

#[test]
fn each_path_is_judged_by_the_roots_of_its_line_and_nothing_is_touched() {
    let place = Place::new();
    let work = place.work();
    place.write("a.txt", "12345");
    place.write("sub/b.txt", "b");
    place.write(".env", "key");
    std::fs::write(place.root().join("outside.txt"), "o").unwrap();
    symlink("../outside.txt", work.join("link")).unwrap();
    let here = work.to_str().unwrap();
    let sub = work.join("sub");
    let long = "x/".repeat(3000);
    let cases = [
        (json!({"op": "read", "path": "a.txt"}), None),
        (
            json!({"op": "read", "path": "a.txt", "max_read_bytes": 5}),
            None,
        ),
        (
            json!({"op": "read", "path": "a.txt", "max_read_bytes": 4}),
            Some("read_too_large"),
        ),
        (json!({"op": "read", "path": "missing"}), Some("not_found")),
        (json!({"op": "read", "path": "sub"}), Some("not_a_file")),
        (
            json!({"op": "read", "path": ".env"}),
            Some("sensitive_path"),
        ),
        (
            json!({"op": "read", "path": "link"}),
            Some("symlink_escape"),
        ),
        (json!({"op": "read", "path": ""}), Some("invalid_path")),
        (
            json!({"op": "read", "path": "a\u{0}b"}),
            Some("invalid_path"),
        ),
        (json!({"op": "read", "path": long}), Some("invalid_path")),
        (
            json!({"op": "read", "path": "/etc/hostname"}),
            Some("not_in_root"),
        ),
        (
            json!({"op": "read", "path": "a.txt", "read_roots": [], "write_roots": []}),
            Some("not_in_root"),
        ),
        (
            json!({"op": "read", "path": "a.txt", "read_roots": [], "write_roots": ["."]}),
            None,
        ),
        (
            json!({"op": "read", "path": "a.txt", "read_roots": ["."], "write_roots": []}),
            None,
        ),
        (
            json!({"op": "write", "path": "a.txt", "read_roots": ["."], "write_roots": []}),
            Some("not_in_root"),
        ),
        (
            json!({"op": "read", "path": "a.txt", "read_roots": []}),
            Some("not_in_root"),
        ),
        (
            json!({"op": "write", "path": "a.txt", "read_roots": ["."]}),
            Some("not_in_root"),
        ),
        (
            json!({"op": "read", "path": "a.txt", "write_roots": ["sub"]}),
            Some("not_in_root"),
        ),
        (json!({"op": "write", "path": "new/deep/file"}), None),
        (
            json!({"op": "write", "path": "/tmp/halter-check-path"}),
            Some("not_in_root"),
        ),
        (json!({"op": "write", "path": "sub"}), Some("not_a_file")),
        (json!({"op": "delete", "path": "a.txt"}), None),
        (
            json!({"op": "delete", "path": "missing"}),
            Some("not_found"),
        ),
        (
            json!({"op": "delete", "path": "link"}),
            Some("symlink_escape"),
        ),
        (json!({"op": "delete", "path": "."}), Some("invalid_path")),
        (json!({"op": "list", "path": "sub"}), None),
        (
            json!({"op": "list", "path": "a.txt"}),
            Some("not_a_directory"),
        ),
        (
            json!({"op": "list", "path": ".."}),
            Some("parent_traversal"),
        ),
        // Relative roots start at the session's directory, not where the call stands.
        (
            json!({"op": "read", "path": "b.txt", "cwd": sub, "session_cwd": here, "read_roots": ["sub"], "write_roots": []}),
            None,
        ),
        (
            json!({"op": "read", "path": "../a.txt", "cwd": sub, "session_cwd": here, "read_roots": ["."], "write_roots": []}),
            None,
        ),
        (
            json!({"op": "read", "path": "../a.txt", "cwd": sub, "read_roots": ["."], "write_roots": []}),
            Some("parent_traversal"),
        ),
        (
            json!({"op": "read", "path": "a.txt", "cwd": "/nowhere"}),
            Some("nonexistent_root"),
        ),
    ];
    let lines: Vec<Value> = cases
        .iter()
        .map(|(line, _)| {
            let mut line = line.clone();
            if line.get("cwd").is_none() {
                line["cwd"] = here.into();
            }
            line
        })
        .collect();
    for ((line, rule), answer) in cases.iter().zip(check(&place, &lines)) {
        match rule {
            None => assert_eq!(answer, json!({"decision": "allow"}), "{line}"),
            Some(rule) => {
                assert_eq!(answer["decision"], "deny", "{line}");
                assert_eq!(answer["rule"], *rule, "{line}: {answer}");
                assert_eq!(answer["fragment"], line["path"]);
                assert!(answer["message"].is_string());
            }
        }
    }
    assert_eq!(std::fs::read(work.join("a.txt")).unwrap(), b"12345");
    assert!(!work.join("new").exists());
}

#[test]
fn a_line_that_cannot_be_read_gets_an_error_in_its_place() {
    let place = Place::new();
    place.write("a.txt", "x");
    let fine = json!({"op": "read", "path": "a.txt", "cwd": place.work()}).to_string();
    let input =
        format!("{fine}\nnot json\n{{\"op\":\"chown\",\"path\":\"a\",\"cwd\":\"/\"}}\n\n{fine}\n");
    let ran = place.halter_with_stdin(["policy", "check-path", "--jsonl"], &input);
    ran.expect(2);
    let lines = ran.lines();
    assert_eq!(lines.len(), 4);
    assert_eq!(lines[0]["decision"], "allow");
    assert_eq!(lines[1]["error"]["code"], "usage");
    assert_eq!(lines[2]["error"]["code"], "usage");
    assert_eq!(lines[3]["decision"], "allow");
}
