//! `process`.

use crate::support::{Workspace, eventually};
use serde_json::json;
use std::path::Path;

#[tokio::test]
async fn what_a_shell_left_running_is_listed_and_killed() {
    let workspace = Workspace::with_open_shell();
    let empty = workspace
        .ok("process", json!({"action": "list_descendants"}))
        .await;
    assert_eq!(
        empty,
        json!({"pid": null, "descendants": [], "truncated": false})
    );

    let command = "(sleep 1000 & sleep 1001) >/dev/null 2>&1 & echo $!";
    let started = workspace.ok("shell", json!({"command": command})).await;
    let group: i64 = started["stdout"].as_str().unwrap().trim().parse().unwrap();
    let children = |listing: &serde_json::Value| -> Vec<(i64, String)> {
        let found = listing["descendants"].as_array().unwrap();
        found
            .iter()
            .map(|process| {
                let command = process["command"].as_str().unwrap().to_owned();
                (process["pid"].as_i64().unwrap(), command)
            })
            .collect()
    };
    let mut listed = Vec::new();
    for _ in 0..1000 {
        let listing = workspace
            .ok("process", json!({"action": "list_descendants"}))
            .await;
        listed = children(&listing);
        let has = |text: &str| listed.iter().any(|(_, command)| command.contains(text));
        if has("sleep 1000") && has("sleep 1001") {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    assert!(listed.iter().any(|(pid, _)| *pid == group), "{listed:?}");

    let killed = workspace
        .ok("process", json!({"action": "kill_tree", "pid": group}))
        .await;
    assert_eq!(killed["pid"], group);
    assert_eq!(killed["signal"], 9);
    assert!(killed["killed"].as_u64().unwrap() >= 2, "{killed}");
    let count = killed["per_pid"].as_array().unwrap().len() as u64;
    assert_eq!(killed["killed"].as_u64().unwrap(), count);
    for (pid, command) in listed {
        if command.starts_with("sleep") {
            let path = format!("/proc/{pid}/cmdline");
            eventually("the sleepers end", || {
                std::fs::read(Path::new(&path)).map_or(true, |line| line.is_empty())
            })
            .await;
        }
    }
    workspace.store.close().await;
}

#[tokio::test]
async fn what_is_missing_or_wrong_is_said() {
    let workspace = Workspace::new();
    let message = workspace
        .failure("process", json!({"action": "kill_tree"}))
        .await;
    assert!(message.contains("needs `pid`"), "{message}");
}
