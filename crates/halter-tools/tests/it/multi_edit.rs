//! `multi_edit`.

use crate::support::Workspace;
use halter_protocol::{Action, ContentHash, ToolErrorCode};
use halter_tools::limits::MULTI_EDITS;
use serde_json::{Value, json};

fn edits(edits: &[(&str, &str, &str)]) -> Value {
    let edits = edits
        .iter()
        .map(|(path, old, new)| json!({"path": path, "old_string": old, "new_string": new}));
    json!({"edits": edits.collect::<Vec<_>>()})
}

#[tokio::test]
async fn edits_of_several_files_are_made_in_order() {
    let workspace = Workspace::new();
    workspace.put("a", "one two\r\n");
    workspace.put("b", "x x\n");
    let mut input = edits(&[
        ("a", "one", "1\nand"),
        ("b", "x", "y"),
        ("a", "and two", "2"),
    ]);
    input["edits"][1]["replace_all"] = true.into();
    let result = workspace.ok("multi_edit", input).await;
    let sha256 = |text: &str| ContentHash::hex_of(text.as_bytes());
    assert_eq!(
        result,
        json!({
            "replacements_applied": [1, 2, 1],
            "files": [
                {"path": "a", "change": "changed", "sha256": sha256("1\r\n2\r\n")},
                {"path": "b", "change": "changed", "sha256": sha256("y y\n")},
            ],
        })
    );
    assert_eq!(workspace.get("a"), "1\r\n2\r\n");
    assert_eq!(workspace.get("b"), "y y\n");
    // What the session made itself is known to it.
    workspace
        .ok("multi_edit", edits(&[("b", "y y", "z")]))
        .await;
}

#[tokio::test]
async fn one_edit_that_fails_is_named_and_undoes_the_others() {
    let workspace = Workspace::new();
    workspace.put("a", "one\n");
    workspace.put("b", "two\ntwo\n");
    for (last, expected) in [
        (("b", "two", "2"), "occurs 2 times in 'b'"),
        (("b", "twoo", "2"), "line 1: `two`"),
        (("b", "same", "same"), "nothing to change"),
        (("missing", "x", "y"), "does not exist"),
    ] {
        let input = edits(&[("a", "one", "1"), last]);
        let message = workspace.failure("multi_edit", input).await;
        assert!(
            message.starts_with("edit 2 failed, so none was made"),
            "{message}"
        );
        assert!(message.contains(expected), "{message}");
        assert_eq!(workspace.get("a"), "one\n");
    }
    let outside = edits(&[("a", "one", "1"), ("../b", "x", "y")]);
    workspace
        .error("multi_edit", outside, ToolErrorCode::PolicyDenied)
        .await;
    workspace.ok("read", json!({"path": "b"})).await;
    workspace.put("b", "three\n");
    let stale = edits(&[("a", "one", "1"), ("b", "three", "3")]);
    let message = workspace.failure("multi_edit", stale).await;
    assert!(message.contains("has changed since"), "{message}");
    assert_eq!(workspace.get("a"), "one\n");
}

#[tokio::test]
async fn the_number_of_edits_has_a_limit() {
    let workspace = Workspace::new();
    workspace.put("a", "x".repeat(MULTI_EDITS + 1));
    let many = |count: usize| {
        let edit = json!({"path": "a", "old_string": "x", "new_string": "xy", "replace_all": true});
        json!({"edits": vec![edit; count]})
    };
    workspace
        .error(
            "multi_edit",
            many(MULTI_EDITS + 1),
            ToolErrorCode::InvalidArguments,
        )
        .await;
    workspace
        .error("multi_edit", many(0), ToolErrorCode::InvalidArguments)
        .await;
    workspace.ok("multi_edit", many(MULTI_EDITS)).await;
}

#[tokio::test]
async fn every_file_is_judged_and_shown() {
    let workspace = Workspace::new();
    workspace.put("a", "one\n");
    workspace.put("b", "two\n");
    let input = edits(&[("a", "one", "1"), ("b", "two", "2"), ("a", "1", "I")]);
    let tool = workspace.tools.get("multi_edit").unwrap();
    let write = |path: &str| Action::Write { path: path.into() };
    assert_eq!(tool.actions(&input), ["a", "b"].map(write).to_vec());
    assert_eq!(
        tool.diff(workspace.context(), &input).await.unwrap(),
        "--- a\n+++ a\n@@ -1 +1 @@\n-one\n+I\n--- b\n+++ b\n@@ -1 +1 @@\n-two\n+2\n"
    );
}

#[tokio::test]
async fn cancelled_edits_change_nothing() {
    let workspace = Workspace::new().cancelling_at_door_use(2);
    workspace.put("a", "one\n");
    let input = edits(&[("a", "one", "1")]);
    workspace
        .error("multi_edit", input, ToolErrorCode::Cancelled)
        .await;
    assert_eq!(workspace.get("a"), "one\n");
}
