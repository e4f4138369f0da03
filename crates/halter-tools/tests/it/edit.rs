//! `edit`.

use crate::support::Workspace;
use halter_protocol::{ContentHash, ToolErrorCode};
use halter_tools::limits::EDIT_FILE_BYTES;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;

fn change(old: &str, new: &str) -> Value {
    json!({"path": "a", "old_string": old, "new_string": new})
}

#[tokio::test]
async fn one_match_is_replaced_and_the_mode_kept() {
    let workspace = Workspace::new();
    let path = workspace.put("a", "let x = 1;\nlet y = 2;\n");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let result = workspace.ok("edit", change("x = 1", "x = 3")).await;
    assert_eq!(
        result,
        json!({
            "path": "a",
            "occurrences_in_file": 1,
            "replacements_applied": 1,
            "file_hash_before": ContentHash::hex_of(b"let x = 1;\nlet y = 2;\n"),
            "file_hash_after": ContentHash::hex_of(b"let x = 3;\nlet y = 2;\n"),
        })
    );
    assert_eq!(workspace.get("a"), "let x = 3;\nlet y = 2;\n");
    assert_eq!(workspace.mode("a"), 0o755);
}

#[tokio::test]
async fn an_ambiguous_edit_lists_the_lines() {
    let workspace = Workspace::new();
    workspace.put("a", "x\ny\nx x\n");
    let message = workspace.failure("edit", change("x", "z")).await;
    assert!(
        message.contains("occurs 3 times in 'a' (lines 1, 3, 3)"),
        "{message}"
    );
    assert!(message.contains("replace_all=true"), "{message}");
    assert_eq!(workspace.get("a"), "x\ny\nx x\n");

    let mut all = change("x", "z");
    all["replace_all"] = true.into();
    let result = workspace.ok("edit", all).await;
    assert_eq!(result["replacements_applied"], 3);
    assert_eq!(workspace.get("a"), "z\ny\nz z\n");
}

#[tokio::test]
async fn text_that_is_not_there_gets_the_nearest_line() {
    let workspace = Workspace::new();
    workspace.put("a", "fn main() {\n    let answer = 42;\n}\n");
    let message = workspace
        .failure("edit", change("let anser = 42;", ""))
        .await;
    assert!(
        message.contains("line 2: `    let answer = 42;`"),
        "{message}"
    );
    let message = workspace.failure("edit", change("fn main()  {", "")).await;
    assert!(message.contains("line 1"), "{message}");
    let message = workspace.failure("edit", change("zzzzzzzz", "")).await;
    assert!(message.contains("nor anything like it"), "{message}");
}

#[tokio::test]
async fn a_change_from_elsewhere_is_noticed() {
    let workspace = Workspace::new();
    workspace.put("a", "one two\n");
    workspace.ok("read", json!({"path": "a"})).await;
    workspace.put("a", "one two three\n");
    let message = workspace.failure("edit", change("one", "1")).await;
    assert!(
        message.contains("has changed since you last read it"),
        "{message}"
    );
    assert_eq!(workspace.get("a"), "one two three\n");

    // Reading again, or knowing the hash, makes the edit possible.
    workspace.ok("read", json!({"path": "a", "limit": 1})).await;
    workspace.ok("edit", change("one", "1")).await;
    workspace.put("a", "one\n");
    let mut knowing = change("one", "1");
    knowing["expected_sha256"] = ContentHash::hex_of(b"one\n").to_uppercase().into();
    workspace.ok("edit", knowing).await;
    assert_eq!(workspace.get("a"), "1\n");
}

#[tokio::test]
async fn own_changes_are_not_stale() {
    let workspace = Workspace::new();
    workspace
        .ok("write", json!({"path": "a", "content": "one"}))
        .await;
    workspace.ok("edit", change("one", "two")).await;
    workspace.ok("edit", change("two", "three")).await;
    assert_eq!(workspace.get("a"), "three");
}

#[tokio::test]
async fn an_expected_hash_that_differs_refuses() {
    let workspace = Workspace::new();
    workspace.put("a", "one");
    let mut stale = change("one", "two");
    stale["expected_sha256"] = ContentHash::hex_of(b"zero").into();
    let message = workspace.failure("edit", stale).await;
    assert!(message.contains(&ContentHash::hex_of(b"one")), "{message}");
    assert_eq!(workspace.get("a"), "one");
}

#[tokio::test]
async fn crlf_files_stay_crlf() {
    let workspace = Workspace::new();
    workspace.put("a", "one\r\ntwo\r\n");
    workspace.ok("edit", change("one\ntwo", "1\n2\n3")).await;
    assert_eq!(workspace.get("a"), "1\r\n2\r\n3\r\n");
}

#[tokio::test]
async fn edits_that_make_no_sense_say_so() {
    let workspace = Workspace::new();
    workspace.put("a", "same");
    let message = workspace.failure("edit", change("same", "same")).await;
    assert!(message.contains("nothing to change"), "{message}");

    let mut missing = change("x", "y");
    missing["path"] = "missing".into();
    let message = workspace.failure("edit", missing).await;
    assert!(message.contains("does not exist"), "{message}");
    assert!(!workspace.dir().join("missing").exists());

    workspace.put("a", b"caf\xe9");
    let message = workspace.failure("edit", change("caf", "tea")).await;
    assert!(message.contains("is not UTF-8"), "{message}");
}

#[tokio::test]
async fn the_size_of_an_edited_file_has_a_limit() {
    let workspace = Workspace::new();
    let filler = "x".repeat(EDIT_FILE_BYTES as usize - 4);
    workspace.put("a", format!("one\n{filler}"));
    workspace.ok("edit", change("one", "two")).await;
    workspace.put("b", format!("four\n{filler}"));
    let mut other = change("four", "five");
    other["path"] = "b".into();
    let message = workspace.failure("edit", other).await;
    assert!(message.contains(&EDIT_FILE_BYTES.to_string()), "{message}");
}

#[tokio::test]
async fn a_cancelled_edit_changes_nothing() {
    let workspace = Workspace::new().cancelling_at_door_use(1);
    workspace.put("a", "one");
    workspace
        .error("edit", change("one", "two"), ToolErrorCode::Cancelled)
        .await;
    assert_eq!(workspace.get("a"), "one");
}
