//! `notebook_edit`, and `current_time`.

use crate::support::Workspace;
use halter_protocol::{Action, ToolErrorCode};
use halter_tools::{ScratchDir, ToolSessionStore};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

const NOTEBOOK: &str = r#"{
 "cells": [
  {
   "cell_type": "code",
   "execution_count": 1,
   "id": "a1",
   "metadata": {},
   "outputs": [ {"output_type": "stream", "name": "stdout", "text": ["3\n"]} ],
   "source": [
    "print(1 + 2)"
   ]
  }
 ],
 "metadata": {},
 "nbformat": 4,
 "nbformat_minor": 5
}
"#;

fn replace(source: &str) -> Value {
    json!({"path": "n.ipynb", "cell_id": "a1", "new_source": source})
}

#[tokio::test]
async fn a_cell_is_replaced_and_its_outputs_kept() {
    let workspace = Workspace::new();
    workspace.put("n.ipynb", NOTEBOOK);
    let result = workspace
        .ok("notebook_edit", replace("print(2)\nprint(3)"))
        .await;
    assert_eq!(
        (&result["cell_id"], &result["cells"]),
        (&json!("a1"), &json!(1))
    );
    let lines = "\"print(2)\\n\",\n    \"print(3)\"";
    assert_eq!(
        workspace.get("n.ipynb"),
        NOTEBOOK.replace("\"print(1 + 2)\"", lines)
    );
}

#[tokio::test]
async fn cells_are_inserted_and_deleted() {
    let workspace = Workspace::new();
    workspace.put("n.ipynb", NOTEBOOK);
    let mut input = replace("# Title");
    input["edit_mode"] = "insert".into();
    input["cell_type"] = "markdown".into();
    let result = workspace.ok("notebook_edit", input).await;
    assert_eq!(result["cells"], 2);
    let value: Value = serde_json::from_str(&workspace.get("n.ipynb")).unwrap();
    assert_eq!(
        value["cells"][1],
        json!({
            "cell_type": "markdown", "id": result["cell_id"], "metadata": {}, "source": ["# Title"],
        })
    );
    let gone = json!({"path": "n.ipynb", "cell_id": result["cell_id"], "edit_mode": "delete"});
    workspace.ok("notebook_edit", gone).await;
    assert_eq!(workspace.get("n.ipynb"), NOTEBOOK);
}

#[tokio::test]
async fn what_cannot_be_done_is_said_and_nothing_changes() {
    let workspace = Workspace::new();
    workspace.put("n.ipynb", NOTEBOOK);
    workspace.put("no.ipynb", "{}");
    for (change, expected) in [
        (json!({"cell_id": "b2"}), "has no cell 'b2'; its cells: a1"),
        (json!({"cell_id": "cell-0"}), "has no cell 'cell-0'"),
        (json!({"cell_id": null}), "cell_id"),
        (json!({"path": "no.ipynb"}), "not a notebook"),
        (json!({"path": "missing.ipynb"}), "does not exist"),
        (json!({"edit_mode": "insert"}), "`cell_type` is needed"),
        (
            json!({"edit_mode": "delete"}),
            "`new_source` is not for `delete`",
        ),
    ] {
        let mut input = replace("x");
        let object = input.as_object_mut().unwrap();
        for (key, value) in change.as_object().unwrap() {
            match value.is_null() {
                true => drop(object.shift_remove(key)),
                false => drop(object.insert(key.clone(), value.clone())),
            }
        }
        let message = workspace.failure("notebook_edit", input).await;
        assert!(message.contains(expected), "{change}: {message}");
    }
    let mut outside = replace("x");
    outside["path"] = "../n.ipynb".into();
    workspace
        .error("notebook_edit", outside, ToolErrorCode::PolicyDenied)
        .await;
    workspace.ok("read", json!({"path": "n.ipynb"})).await;
    workspace.put("n.ipynb", NOTEBOOK.replace("1 + 2", "1"));
    let message = workspace.failure("notebook_edit", replace("x")).await;
    assert!(message.contains("has changed since"), "{message}");
}

#[tokio::test]
async fn the_notebook_is_judged_and_the_change_shown() {
    let workspace = Workspace::new();
    workspace.put("n.ipynb", NOTEBOOK);
    let tool = workspace.tools.get("notebook_edit").unwrap();
    let input = replace("print(4)");
    let path = "n.ipynb".into();
    assert_eq!(tool.actions(&input), [Action::Write { path }]);
    let diff = tool.diff(workspace.context(), &input).await.unwrap();
    assert!(
        diff.contains("\n-    \"print(1 + 2)\"\n+    \"print(4)\"\n"),
        "{diff}"
    );
    assert_eq!(workspace.get("n.ipynb"), NOTEBOOK);
}

#[tokio::test]
async fn a_cancelled_edit_changes_nothing() {
    let workspace = Workspace::new().cancelling_at_door_use(2);
    workspace.put("n.ipynb", NOTEBOOK);
    workspace
        .error("notebook_edit", replace("x"), ToolErrorCode::Cancelled)
        .await;
    assert_eq!(workspace.get("n.ipynb"), NOTEBOOK);
}

#[tokio::test]
async fn the_time_is_told_in_a_zone_and_the_session_only_gets_older() {
    let workspace = Workspace::new();
    let first = workspace.ok("current_time", json!({"zone": "UTC"})).await;
    assert_eq!(first["zone"], "UTC");
    let local = first["local"].as_str().unwrap();
    assert_eq!(local.replace("+00:00", "Z"), first["utc"]);
    let second = workspace.ok("current_time", json!({})).await;
    assert!(second["zone"].is_string());
    let age = |result: &Value| result["session_seconds"].as_f64().unwrap();
    assert!(age(&second) >= age(&first));
    // What began in another process is as old as it is.
    let store = ToolSessionStore::new(ScratchDir::new("/nowhere-at-all"));
    let before = Duration::from_secs(3_600);
    let mut resumed = Workspace::new();
    resumed.store = Arc::new(store.with_age(before));
    let third = resumed.ok("current_time", json!({})).await;
    assert!((3_600.0..7_200.0).contains(&age(&third)), "{third}");
    let message = workspace
        .failure("current_time", json!({"zone": "Nowhere/At_All"}))
        .await;
    assert!(message.contains("UTC"), "{message}");
}
