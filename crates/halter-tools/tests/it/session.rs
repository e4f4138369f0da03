//! What lives between calls, and that it ends.

use crate::support::Workspace;
use halter_tools::ScratchDir;
use serde_json::json;
use std::os::unix::fs::PermissionsExt;

#[test]
fn a_scratch_directory_is_private_lazy_and_removed() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().join("root");
    let scratch = ScratchDir::new(&root);
    let path = scratch.path().to_owned();
    assert!(path.starts_with(&root) && !root.exists());

    assert_eq!(scratch.create().unwrap(), path);
    assert_eq!(scratch.create().unwrap(), path);
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    std::fs::write(path.join("file"), "x").unwrap();

    scratch.remove().unwrap();
    scratch.remove().unwrap();
    assert!(!path.exists());
    assert!(scratch.create().is_err());
}

#[test]
fn dropping_a_scratch_directory_removes_it() {
    let temp = tempfile::tempdir().unwrap();
    let scratch = ScratchDir::new(temp.path());
    let path = scratch.create().unwrap().to_owned();
    drop(scratch);
    assert!(!path.exists());
}

#[test]
fn what_is_already_there_is_not_taken_for_ours() {
    let temp = tempfile::tempdir().unwrap();
    let scratch = ScratchDir::new(temp.path());
    std::os::unix::fs::symlink("/", scratch.path()).unwrap();
    assert!(scratch.create().is_err());
    assert!(scratch.remove().is_ok() || scratch.path().is_symlink());
}

#[test]
fn two_sessions_never_share_a_directory() {
    assert_ne!(
        ScratchDir::new("/tmp").path(),
        ScratchDir::new("/tmp").path()
    );
}

#[tokio::test]
async fn a_closed_session_refuses_calls_that_need_state() {
    let workspace = Workspace::new();
    workspace.store.close().await;
    let command = json!({"command": "true"});
    let message = workspace.failure("shell", command).await;
    assert!(message.contains("session is closed"), "{message}");
}
