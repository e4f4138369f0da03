//! Children in git worktrees of their own.

use super::{ended, last_word, spawn, task};
use halter_protocol::{AgentDef, AgentIsolation, ResourceSnapshot, SubagentState};
use halter_providers::Reply;
use halter_runtime::limits::WORKTREE_DEADLINE;
use halter_runtime::{ResourceCell, Resources};
use halter_testkit::{EventsExt, Harness};
use serde_json::json;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

fn git(directory: &Path, arguments: &[&str]) -> bool {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=t", "-c", "user.email=t@t"]);
    command.current_dir(directory).args(arguments);
    command.output().is_ok_and(|it| it.status.success())
}

fn delegating(writes: bool) -> Harness {
    let mut agent = AgentDef::new("apart", "works apart", "You work apart.");
    agent.isolation = Some(AgentIsolation::Worktree);
    let mut snapshot = ResourceSnapshot::empty();
    snapshot.revision = "agents".into();
    snapshot.agents.insert("apart".into(), agent);
    Harness::answering(move |request| match task(request).as_str() {
        "work" if writes && last_word(request) == "work" => {
            Reply::new().tool_call("write", json!({"path": "new.txt", "content": "x"}))
        }
        "work" => Reply::from("worked"),
        _ if last_word(request) == "go" => {
            spawn(json!({"message": "work", "agent_type": "apart", "wait": true}))
        }
        _ => Reply::from(last_word(request)),
    })
    .subagents()
    .tools(halter_tools::builtin_tools())
    .services(|services| {
        let environment = std::env::vars_os().filter(|(name, _)| name == "PATH" || name == "HOME");
        services.base_environment = Arc::new(environment.collect());
        services.resources = ResourceCell::new(Resources {
            snapshot: Arc::new(snapshot),
            ..Resources::default()
        });
    })
    .start()
}

#[tokio::test]
async fn a_worktree_is_kept_if_something_changed_in_it_and_removed_if_not() {
    assert!(WORKTREE_DEADLINE.as_secs() >= 60);
    for writes in [true, false] {
        let harness = delegating(writes);
        let root = harness.workspace().path();
        if !git(root, &["init", "-q"]) {
            println!("skipped: needs git");
            return;
        }
        assert!(git(root, &["commit", "-q", "--allow-empty", "-m", "one"]));
        let session = harness.session().await;
        let events = harness.run(&session, "go").await;
        let report = ended(&events).remove(0);
        assert_eq!(report.state, SubagentState::Completed, "{report:?}");
        assert!(!root.join("new.txt").exists(), "the parent's files stay");
        assert_eq!(report.worktree.is_some(), writes, "{report:?}");
        match report.worktree {
            Some(path) => {
                assert!(path.starts_with(root) && path.join("new.txt").exists());
                let child = harness.runtime().read_session(&report.session_id).await;
                let child = child.unwrap().unwrap();
                assert_eq!(child.blueprint().working_dir, path);
            }
            None => assert!(!root.join(".halter").exists()),
        }
        session.shutdown("enough").await.unwrap();
    }
}

#[tokio::test]
async fn without_a_checkout_there_is_no_worktree_and_the_model_is_told() {
    let harness = delegating(false);
    let session = harness.session().await;
    let events = harness.run(&session, "go").await;
    assert!(
        events
            .streamed_text()
            .contains("no git worktree can be made")
    );
    assert!(events.of_kind("subagent_started").is_empty());
}
