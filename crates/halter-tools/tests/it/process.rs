//! `process`.

use crate::support::{Workspace, eventually};
use serde_json::json;

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

    // The command ends once the processes it leaves behind are there.
    let command = "(sleep 1000 & echo $! > child; wait) >/dev/null 2>&1 & \
                   while [ ! -s child ]; do :; done; echo $!";
    let started = workspace.ok("shell", json!({"command": command})).await;
    let group: i64 = started["stdout"].as_str().unwrap().trim().parse().unwrap();
    let child: i64 = workspace.get("child").trim().parse().unwrap();
    let listing = workspace
        .ok("process", json!({"action": "list_descendants"}))
        .await;
    let listed: Vec<i64> = listing["descendants"]
        .as_array()
        .unwrap()
        .iter()
        .map(|process| process["pid"].as_i64().unwrap())
        .collect();
    assert!(
        listed.contains(&group) && listed.contains(&child),
        "{listing}"
    );

    let killed = workspace
        .ok("process", json!({"action": "kill_tree", "pid": group}))
        .await;
    assert_eq!(killed["pid"], group);
    assert_eq!(killed["signal"], 9);
    assert_eq!(killed["killed"], 2, "{killed}");
    let directory = workspace.dir();
    for pid in [group, child] {
        let pid = pid.try_into().unwrap();
        let is_running = || crate::place::is_running(pid, &directory);
        eventually("the processes end", || !is_running()).await;
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
