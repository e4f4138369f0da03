//! `write`.

use crate::support::Workspace;
use halter_protocol::ContentHash;
use halter_protocol::ToolErrorCode;
use halter_tools::limits::WRITE_BYTES;
use serde_json::json;
use std::os::unix::fs::PermissionsExt;

#[tokio::test]
async fn a_new_file_is_made_with_its_directories() {
    let workspace = Workspace::new();
    let result = workspace
        .ok("write", json!({"path": "a/b/c.txt", "content": "hé\n"}))
        .await;
    assert_eq!(
        result,
        json!({
            "path": "a/b/c.txt",
            "created": true,
            "bytes": 4,
            "sha256": ContentHash::hex_of("hé\n".as_bytes()),
        })
    );
    assert_eq!(workspace.get("a/b/c.txt"), "hé\n");
}

#[tokio::test]
async fn replacing_keeps_the_mode_and_leaves_nothing_beside() {
    let workspace = Workspace::new();
    let path = workspace.put("run.sh", "old");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o751)).unwrap();
    let result = workspace
        .ok("write", json!({"path": "run.sh", "content": "new"}))
        .await;
    assert_eq!(result["created"], false);
    assert_eq!(workspace.get("run.sh"), "new");
    assert_eq!(workspace.mode("run.sh"), 0o751);
    assert_eq!(std::fs::read_dir(workspace.dir()).unwrap().count(), 1);
}

#[tokio::test]
async fn a_file_that_changed_after_it_was_read_is_not_overwritten() {
    let workspace = Workspace::new();
    workspace.put("a", "one");
    workspace.ok("read", json!({"path": "a"})).await;
    workspace.put("a", "somebody else's");
    let message = workspace
        .failure("write", json!({"path": "a", "content": "mine"}))
        .await;
    assert!(message.contains("read it again"), "{message}");
    assert_eq!(workspace.get("a"), "somebody else's");

    workspace.ok("read", json!({"path": "a"})).await;
    workspace
        .ok("write", json!({"path": "a", "content": "mine"}))
        .await;
    workspace
        .ok("write", json!({"path": "a", "content": "mine too"}))
        .await;
    assert_eq!(workspace.get("a"), "mine too");
}

#[tokio::test]
async fn a_file_that_was_removed_can_be_written_again() {
    let workspace = Workspace::new();
    let path = workspace.put("a", "one");
    workspace.ok("read", json!({"path": "a"})).await;
    std::fs::remove_file(path).unwrap();
    let result = workspace
        .ok("write", json!({"path": "a", "content": "two"}))
        .await;
    assert_eq!(result["created"], true);
}

#[tokio::test]
async fn content_has_a_limit() {
    let workspace = Workspace::new();
    let fits = "x".repeat(WRITE_BYTES);
    workspace
        .ok("write", json!({"path": "a", "content": fits}))
        .await;
    let message = workspace
        .failure("write", json!({"path": "b", "content": fits + "x"}))
        .await;
    assert!(message.contains(&WRITE_BYTES.to_string()), "{message}");
    assert!(!workspace.dir().join("b").exists());
}

#[tokio::test]
async fn a_write_that_the_system_refuses_names_the_file_and_changes_nothing() {
    let workspace = Workspace::new();
    let name = "x".repeat(300);
    let message = workspace
        .failure(
            "write",
            json!({"path": format!("new/{name}"), "content": "x"}),
        )
        .await;
    assert!(message.contains(&name), "{message}");
    assert!(!workspace.dir().join("new").exists());

    workspace.put("dir/x", "");
    let message = workspace
        .failure("write", json!({"path": "dir", "content": "x"}))
        .await;
    assert!(message.contains("is a directory"), "{message}");
}

#[tokio::test]
async fn the_scratch_directory_can_be_written_and_is_private() {
    let workspace = Workspace::new();
    let scratch = workspace.store.scratch().path().to_owned();
    workspace
        .ok(
            "write",
            json!({"path": scratch.join("notes.txt"), "content": "x"}),
        )
        .await;
    let mode = std::fs::metadata(&scratch).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let result = workspace
        .ok("read", json!({"path": scratch.join("notes.txt")}))
        .await;
    assert_eq!(result["path"], json!(scratch.join("notes.txt")));
}

#[tokio::test]
async fn writers_of_one_file_take_turns() {
    let workspace = std::sync::Arc::new(Workspace::new());
    workspace.put("count", "END");
    let tasks: Vec<_> = (0..16)
        .map(|index| {
            let workspace = std::sync::Arc::clone(&workspace);
            tokio::spawn(async move {
                let name = format!("line {index}\n");
                let arguments =
                    json!({"path": "count", "old_string": "END", "new_string": name + "END"});
                workspace.ok("edit", arguments).await;
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(workspace.get("count").lines().count(), 17);
    assert!(workspace.locks.is_empty());
}

#[tokio::test]
async fn a_writer_that_waits_for_another_can_be_cancelled() {
    let workspace = Workspace::new().cancelling_at_door_use(1);
    let path = workspace.put("a", "one");
    let held = workspace
        .locks
        .lock(std::fs::canonicalize(&path).unwrap())
        .await;
    let arguments = json!({"path": "a", "content": "two"});
    workspace
        .error("write", arguments, ToolErrorCode::Cancelled)
        .await;
    assert_eq!(workspace.get("a"), "one");
    drop(held);
    assert!(workspace.locks.is_empty());
}
