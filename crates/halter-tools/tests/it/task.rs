//! `task`.

use crate::support::Workspace;
use halter_protocol::limits::TASKS;
use serde_json::json;

#[tokio::test]
async fn tasks_are_made_listed_and_completed() {
    let workspace = Workspace::new();
    let empty = workspace.ok("task", json!({"action": "list"})).await;
    assert_eq!(
        empty,
        json!({"tasks": [], "summary": {"total": 0, "pending": 0, "completed": 0}})
    );
    workspace
        .ok("task", json!({"action": "create", "subject": "look"}))
        .await;
    let arguments = json!({"action": "create", "subject": "leap", "description": "far"});
    let made = workspace.ok("task", arguments).await;
    assert_eq!(
        made["task"],
        json!({"id": 2, "subject": "leap", "description": "far", "status": "pending"})
    );
    workspace
        .ok("task", json!({"action": "complete", "id": 1}))
        .await;
    let list = workspace.ok("task", json!({"action": "list"})).await;
    assert_eq!(list["tasks"][0]["status"], "completed");
    assert_eq!(
        list["summary"],
        json!({"total": 2, "pending": 1, "completed": 1})
    );
}

#[tokio::test]
async fn what_is_missing_is_asked_for() {
    let workspace = Workspace::new();
    for (arguments, expected) in [
        (json!({"action": "create"}), "needs `subject`"),
        (
            json!({"action": "create", "subject": "  "}),
            "needs `subject`",
        ),
        (json!({"action": "complete"}), "needs `id`"),
        (json!({"action": "complete", "id": 1}), "the list is empty"),
    ] {
        let message = workspace.failure("task", arguments).await;
        assert!(message.contains(expected), "{message}");
    }
}

#[tokio::test]
async fn the_list_has_an_end() {
    let workspace = Workspace::new();
    for _ in 0..TASKS {
        workspace
            .ok("task", json!({"action": "create", "subject": "x"}))
            .await;
    }
    let message = workspace
        .failure("task", json!({"action": "create", "subject": "x"}))
        .await;
    assert!(message.contains("full"), "{message}");
}

#[tokio::test]
async fn sessions_have_lists_of_their_own() {
    let (one, other) = (Workspace::new(), Workspace::new());
    one.ok("task", json!({"action": "create", "subject": "x"}))
        .await;
    let list = other.ok("task", json!({"action": "list"})).await;
    assert_eq!(list["summary"]["total"], 0);
}
