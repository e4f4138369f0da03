//! `delete`, `rename` and `list`.

use crate::support::{Workspace, is_root, skipped};
use halter_protocol::{Action, ToolErrorCode};
use halter_tools::limits::{DELETE_ENTRIES, LIST_DEFAULT_ENTRIES, LIST_MAX_ENTRIES};
use serde_json::{Value, json};
use std::os::unix::fs::{PermissionsExt, symlink};

fn delete(path: &str) -> Value {
    json!({"path": path})
}

fn delete_all(path: &str) -> Value {
    json!({"path": path, "recursive": true})
}

fn rename(from: &str, to: &str) -> Value {
    json!({"from": from, "to": to})
}

#[tokio::test]
async fn a_file_and_a_link_are_deleted_by_name() {
    let workspace = Workspace::new();
    workspace.put("a", "x");
    symlink("a", workspace.dir().join("link")).unwrap();
    let result = workspace.ok("delete", delete("link")).await;
    assert_eq!(result, json!({"path": "link", "deleted": 1}));
    assert_eq!(workspace.get("a"), "x");
    workspace.ok("delete", delete("a")).await;
    assert!(!workspace.dir().join("a").exists());
    let message = workspace.failure("delete", delete("a")).await;
    assert!(message.contains("does not exist"), "{message}");
}

#[tokio::test]
async fn a_directory_is_deleted_only_with_recursive_and_links_in_it_are_not_followed() {
    let workspace = Workspace::new();
    workspace.put("keep/file", "kept");
    workspace.put("d/e/file", "x");
    symlink("../keep", workspace.dir().join("d/link")).unwrap();
    let message = workspace.failure("delete", delete("d")).await;
    assert!(message.contains("recursive=true"), "{message}");
    assert_eq!(workspace.get("d/e/file"), "x");
    let result = workspace.ok("delete", delete_all("d")).await;
    assert_eq!(result, json!({"path": "d", "deleted": 4}));
    assert_eq!(workspace.get("keep/file"), "kept");
    let names: Vec<_> = std::fs::read_dir(workspace.dir()).unwrap().collect();
    assert_eq!(names.len(), 1, "{names:?}");
}

#[tokio::test]
async fn a_directory_that_holds_what_is_closed_stays_whole() {
    let workspace = Workspace::new();
    workspace.put("d/a", "x");
    workspace.put("d/e/.env", "KEY=1");
    let message = workspace
        .error("delete", delete_all("d"), ToolErrorCode::PolicyDenied)
        .await;
    assert!(message.contains(".env"), "{message}");
    assert_eq!(workspace.get("d/a"), "x");
    for path in [".", "..", "/etc", "d/e/.env"] {
        let result = workspace.call("delete", delete_all(path)).await;
        assert!(result.is_err(), "{path}: {result:?}");
    }
    assert_eq!(workspace.get("d/a"), "x");
}

#[tokio::test]
async fn a_directory_that_the_system_would_not_empty_stays_whole() {
    if is_root() {
        return skipped("a user who is not root");
    }
    let workspace = Workspace::new();
    workspace.put("d/a", "x");
    workspace.put("d/locked/b", "y");
    let locked = workspace.dir().join("d/locked");
    std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(0o500)).unwrap();
    let message = workspace.failure("delete", delete_all("d")).await;
    assert!(message.contains("locked"), "{message}");
    assert_eq!(workspace.get("d/a"), "x");
    std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(0o700)).unwrap();
}

#[tokio::test]
async fn a_delete_takes_so_many_names_and_no_more() {
    let workspace = Workspace::new();
    let directory = workspace.dir().join("d");
    std::fs::create_dir(&directory).unwrap();
    for n in 0..=DELETE_ENTRIES {
        std::fs::hard_link(workspace.put("one", ""), directory.join(n.to_string())).unwrap();
    }
    let message = workspace.failure("delete", delete_all("d")).await;
    assert!(message.contains("too much to delete at once"), "{message}");
    std::fs::remove_file(directory.join("0")).unwrap();
    let result = workspace.ok("delete", delete_all("d")).await;
    assert_eq!(result["deleted"], DELETE_ENTRIES + 1);
}

#[tokio::test]
async fn a_file_that_changed_after_it_was_read_is_not_deleted() {
    let workspace = Workspace::new();
    workspace.put("a", "one");
    workspace.ok("read", json!({"path": "a"})).await;
    workspace.put("a", "two");
    let message = workspace.failure("delete", delete("a")).await;
    assert!(message.contains("has changed since"), "{message}");
    workspace.ok("read", json!({"path": "a"})).await;
    workspace.ok("delete", delete("a")).await;
}

#[tokio::test]
async fn a_file_is_renamed_to_a_free_name_and_stays_known() {
    let workspace = Workspace::new();
    let path = workspace.put("a", "one");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    workspace.ok("read", json!({"path": "a"})).await;
    let result = workspace.ok("rename", rename("a", "new/b")).await;
    assert_eq!(result, json!({"from": "a", "to": "new/b"}));
    assert_eq!(workspace.mode("new/b"), 0o755);
    assert!(!workspace.dir().join("a").exists());
    // The session knows the file by its new name: a change is noticed.
    workspace.put("new/b", "two");
    let edit = json!({"path": "new/b", "old_string": "two", "new_string": "2"});
    let message = workspace.failure("edit", edit).await;
    assert!(message.contains("has changed since"), "{message}");
}

#[tokio::test]
async fn a_rename_that_cannot_be_says_why_and_changes_nothing() {
    let workspace = Workspace::new();
    workspace.put("a", "a");
    workspace.put("b", "b");
    workspace.put("d/c", "c");
    for (from, to, expected) in [
        ("a", "b", "exists already"),
        ("a", "a", "exists already"),
        ("missing", "c", "does not exist"),
        ("a", "d", "only files are renamed"),
        ("d", "e", "only files are renamed"),
    ] {
        let message = workspace.failure("rename", rename(from, to)).await;
        assert!(message.contains(expected), "{from} {to}: {message}");
    }
    for (from, to) in [("a", "../a"), ("../x", "x"), ("a", ".env")] {
        let input = rename(from, to);
        workspace
            .error("rename", input, ToolErrorCode::PolicyDenied)
            .await;
    }
    assert_eq!(
        (workspace.get("a"), workspace.get("b")),
        ("a".into(), "b".into())
    );
}

#[tokio::test]
async fn a_directory_is_listed_in_order_by_kind() {
    let workspace = Workspace::new();
    workspace.put("d/b", "");
    workspace.put("d/a", "");
    workspace.put("d/.hidden", "");
    workspace.put("d/sub/c", "");
    symlink("a", workspace.dir().join("d/link")).unwrap();
    let result = workspace.ok("list", json!({"path": "d"})).await;
    let all = json!({
        "path": "d",
        "directories": ["sub"],
        "files": [".hidden", "a", "b"],
        "links": ["link"],
        "truncated": false,
    });
    assert_eq!(result, all);
    let some = workspace
        .ok("list", json!({"path": "d", "max_results": 2}))
        .await;
    assert_eq!(
        (&some["files"], &some["truncated"]),
        (&json!([".hidden", "a"]), &json!(true))
    );
    let here = workspace.ok("list", json!({})).await;
    assert_eq!(here["directories"], json!(["d"]));
    let message = workspace.failure("list", json!({"path": "d/a"})).await;
    assert!(message.contains("is not a directory"), "{message}");
    workspace
        .error("list", json!({"path": ".."}), ToolErrorCode::PolicyDenied)
        .await;
    let too_many = json!({"max_results": LIST_MAX_ENTRIES + 1});
    workspace
        .error("list", too_many, ToolErrorCode::InvalidArguments)
        .await;
}

#[tokio::test]
async fn a_long_directory_is_listed_in_part() {
    let workspace = Workspace::new();
    for index in 0..LIST_DEFAULT_ENTRIES {
        workspace.put(&format!("{index}"), "");
    }
    let listed = |result: &Value| result["files"].as_array().unwrap().len();
    let all = workspace.ok("list", json!({})).await;
    assert_eq!(
        (listed(&all), &all["truncated"]),
        (LIST_DEFAULT_ENTRIES, &json!(false))
    );
    workspace.put("more", "");
    let some = workspace.ok("list", json!({})).await;
    assert_eq!(
        (listed(&some), &some["truncated"]),
        (LIST_DEFAULT_ENTRIES, &json!(true))
    );
    let more = json!({"max_results": LIST_MAX_ENTRIES});
    let all = workspace.ok("list", more).await;
    assert_eq!(listed(&all), LIST_DEFAULT_ENTRIES + 1);
}

#[tokio::test]
async fn what_they_touch_is_judged_and_shown() {
    let workspace = Workspace::new();
    workspace.put("a", "x\n");
    workspace.put("d/e/f", "");
    let write = |path: &str| Action::Write { path: path.into() };
    let tool = |name: &str| workspace.tools.get(name).unwrap();
    assert_eq!(tool("delete").actions(&delete("a")), [write("a")]);
    assert_eq!(
        tool("rename").actions(&rename("a", "b")),
        [write("a"), write("b")]
    );
    let read = Action::Read { path: ".".into() };
    assert_eq!(tool("list").actions(&json!({})), [read]);
    let diff = async |name: &str, input: Value| tool(name).diff(workspace.context(), &input).await;
    assert_eq!(
        diff("delete", delete("a")).await.unwrap(),
        "deleted a\n--- a\n+++ a\n@@ -1 +0,0 @@\n-x\n"
    );
    assert_eq!(
        diff("delete", delete_all("d")).await.unwrap(),
        "deleted d/ and 2 names in it\n"
    );
    assert_eq!(
        diff("rename", rename("a", "b")).await.unwrap(),
        "moved a to b\n"
    );
}

#[tokio::test]
async fn a_cancelled_call_leaves_the_name() {
    for (tool, input) in [("delete", delete("a")), ("rename", rename("a", "b"))] {
        let workspace = Workspace::new().cancelling_at_door_use(1);
        workspace.put("a", "x");
        workspace.error(tool, input, ToolErrorCode::Cancelled).await;
        assert_eq!(workspace.get("a"), "x");
    }
}

#[tokio::test]
async fn a_cancelled_list_has_no_answer() {
    let workspace = Workspace::new();
    workspace.put("a", "x");
    workspace.cancel.cancel();
    let input = json!({});
    workspace
        .error("list", input, ToolErrorCode::Cancelled)
        .await;
}
