//! What the model must not forget is in the log.

use halter_protocol::{ToolErrorCode, ToolResult};
use halter_testkit::{EventsExt, Harness, Reply, TempWorkspace};
use halter_tools::builtin_tools;
use serde_json::{Value, json};
use std::sync::Arc;

fn call(tool: &str, arguments: Value) -> [Reply; 2] {
    [Reply::new().tool_call(tool, arguments), "done".into()]
}

fn json_of(result: &Result<Arc<ToolResult>, halter_protocol::ToolError>) -> Value {
    match result.as_deref() {
        Ok(ToolResult::Json { value }) => value.clone(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_task_list_survives_a_resume() {
    let create = |subject: &str| call("task", json!({"action": "create", "subject": subject}));
    let replies = [create("build"), create("test")].concat();
    let complete = call("task", json!({"action": "complete", "id": 1}));
    let harness = Harness::scripted(replies.into_iter().chain(complete))
        .tools(builtin_tools())
        .start();
    let session = harness.session().await;
    for _ in 0..3 {
        harness.run(&session, "go on").await;
    }
    let next = harness
        .another_process(call("task", json!({"action": "list"})))
        .start();
    let resumed = next.resume(&session).await;
    let events = next.run(&resumed, "what is left?").await;
    let list = json_of(events.only_result());
    assert_eq!(
        list,
        json!({
            "tasks": [
                {"id": 1, "subject": "build", "status": "completed"},
                {"id": 2, "subject": "test", "status": "pending"},
            ],
            "summary": {"total": 2, "pending": 1, "completed": 1},
        })
    );
}

#[tokio::test]
async fn a_file_that_changed_since_it_was_read_is_not_edited_after_a_resume() {
    let workspace = Arc::new(TempWorkspace::default());
    let file = workspace.path().join("a.txt");
    std::fs::write(&file, "one\n").unwrap();
    let harness = Harness::scripted(call("read", json!({"path": "a.txt"})))
        .tools(builtin_tools())
        .workspace(workspace.clone())
        .start();
    let session = harness.session().await;
    harness.run(&session, "read it").await;
    std::fs::write(&file, "one and two\n").unwrap();

    let edit = json!({"path": "a.txt", "old_string": "one", "new_string": "1"});
    let next = harness.another_process(call("edit", edit.clone())).start();
    let resumed = next.resume(&session).await;
    let events = next.run(&resumed, "edit it").await;
    let error = events.only_result().as_ref().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::Failed);
    assert!(error.message.contains("has changed since you last read it"));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "one and two\n");
}

#[tokio::test]
async fn what_a_call_has_seen_is_known_to_the_next() {
    let workspace = Arc::new(TempWorkspace::default());
    let file = workspace.path().join("a.txt");
    std::fs::write(&file, "one\n").unwrap();
    let edit =
        |old: &str, new: &str| json!({"path": "a.txt", "old_string": old, "new_string": new});
    let reply = Reply::new()
        .tool_call("read", json!({"path": "a.txt"}))
        .tool_call("edit", edit("one", "two"))
        .tool_call("edit", edit("two", "three"));
    let harness = Harness::scripted([reply, "done".into()])
        .tools(builtin_tools())
        .workspace(workspace)
        .start();
    let events = harness.ask("edit it").await;
    assert!(events.outcomes().iter().all(|it| it.result.is_ok()));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "three\n");
}
