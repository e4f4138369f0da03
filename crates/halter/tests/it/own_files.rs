//! The files of the harness itself: no tool reads or changes them, and the
//! store is closed when nobody needs it any more.

use crate::support::{directory, no_keys, outcomes, run_turn, session_in};
use halter::prelude::*;
use halter::providers::{FakeProvider, Reply};
use halter::session::SqliteSessionStore;
use halter_config::{Environment, load_path};
use halter_protocol::{ToolErrorCode, ToolExecutionOutcome};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

const KEY: &str = "sk-0123456789-must-not-appear";

/// A configuration with a key, and everything that can be kept, in the
/// directory in which sessions work.
fn project() -> TempDir {
    let config = format!(
        "version = 1\n[models.default]\nprovider = \"offline\"\nmodel = \"offline\"\n\
         [providers.openai]\nbase_url = \"https://models.example.com\"\napi_key = \"{KEY}\"\n\
         [sessions]\nbackend = \"sqlite\"\nsqlite_path = \"sessions.db\"\n\
         [runtime]\ntraces_dir = \"traces\"\n"
    );
    directory(&[("halter.toml", &config), ("notes.txt", "sk-notes\n")])
}

fn calls() -> Vec<(&'static str, Value)> {
    let mut calls = vec![
        ("read", json!({"path": "halter.toml"})),
        ("read", json!({"path": "./traces/../halter.toml"})),
        ("grep", json!({"pattern": "sk-", "path": "halter.toml"})),
        (
            "edit",
            json!({"path": "halter.toml", "old_string": "models.example.com",
                   "new_string": "elsewhere.example.com"}),
        ),
        (
            "write",
            json!({"path": "halter.toml", "content": "version = 1\n"}),
        ),
        ("write", json!({"path": "traces/new.txt", "content": ""})),
    ];
    for name in ["sessions.db", "sessions.db-wal", "sessions.db-shm"] {
        calls.push(("read", json!({"path": name})));
        calls.push(("write", json!({"path": name, "content": ""})));
    }
    calls
}

fn scripted(calls: &[(&str, Value)]) -> Arc<FakeProvider> {
    let calls = calls
        .iter()
        .map(|(name, input)| Reply::new().tool_call(*name, input.clone()));
    let end = Reply::new().text("That is all.");
    Arc::new(FakeProvider::scripted(calls.chain([end])))
}

fn assert_denied(outcomes: &[ToolExecutionOutcome]) {
    for outcome in outcomes {
        let error = outcome.result.as_ref().unwrap_err();
        assert_eq!(error.code, ToolErrorCode::PolicyDenied, "{outcome:?}");
    }
}

#[tokio::test]
async fn no_tool_reads_or_changes_what_the_harness_keeps() {
    let project = project();
    let file = project.path().join("halter.toml");
    let before = std::fs::read(&file).unwrap();
    let calls = calls();
    let harness = Halter::builder()
        .with_config(load_path(&file).await.unwrap())
        .with_resource_snapshot(ResourceSnapshot::empty())
        .with_environment(no_keys())
        .with_provider(scripted(&calls))
        .build()
        .await
        .unwrap();
    let session = session_in(&harness, project.path()).await;
    let events = run_turn(&session, "Go on").await;
    let ended = outcomes(&events);
    assert_eq!(ended.len(), calls.len());
    assert_denied(&ended);
    assert_eq!(std::fs::read(&file).unwrap(), before);
    // The store still works.
    assert!(!session.export_trace().await.unwrap().contains(KEY));
    harness.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_search_of_everything_passes_over_them() {
    let project = project();
    let calls = [
        ("grep", json!({"pattern": "sk-"})),
        ("glob", json!({"pattern": "**/*"})),
    ];
    let harness = Halter::builder()
        .with_config(load_path(project.path().join("halter.toml")).await.unwrap())
        .with_resource_snapshot(ResourceSnapshot::empty())
        .with_environment(no_keys())
        .with_provider(scripted(&calls))
        .build()
        .await
        .unwrap();
    let session = session_in(&harness, project.path()).await;
    let events = run_turn(&session, "Go on").await;
    for outcome in outcomes(&events) {
        let found = outcome.result.unwrap().to_model_text();
        assert!(found.contains("notes.txt"), "{found}");
        for own in ["halter.toml", "sessions.db", "traces"] {
            assert!(!found.contains(own), "{own} in {found}");
        }
    }
    harness.shutdown(Duration::from_secs(5)).await;
}

/// The way of the README, with nothing but the file.
#[tokio::test]
async fn a_harness_from_a_file_keeps_tools_away_from_it() {
    let project = project();
    let file = project.path().join("halter.toml");
    let harness = Halter::from_config_file(&file).await.unwrap();
    let session = session_in(&harness, project.path()).await;
    let events = run_turn(&session, "read halter.toml").await;
    let ended = outcomes(&events);
    assert!(!ended.is_empty());
    assert_denied(&ended);
    assert!(!serde_json::to_string(&events).unwrap().contains(KEY));
    harness.shutdown(Duration::from_secs(5)).await;
}

/// A recording, a store of the program's own, and the user's own state.
#[tokio::test]
async fn what_the_program_brings_is_protected_too() {
    let project = directory(&[
        ("state/halter/trusted-configs", ""),
        ("config/halter/halter.toml", "version = 1\n"),
    ]);
    let path = |name: &str| project.path().join(name);
    let environment = Environment::from_iter([
        ("XDG_STATE_HOME", path("state")),
        ("XDG_CONFIG_HOME", path("config")),
    ]);
    let store = SqliteSessionStore::open(path("own.db")).await.unwrap();
    let writes = [
        "own.db",
        "own.db-wal",
        "state/halter/trusted-configs",
        "config/halter/halter.toml",
        "secret/inside",
    ];
    let calls = writes.map(|name| ("write", json!({"path": name, "content": "x"})));
    let harness = Halter::builder()
        .with_resource_snapshot(ResourceSnapshot::empty())
        .with_environment(environment)
        .with_session_store(Arc::new(store))
        .with_protected_path(path("secret"))
        .with_provider(scripted(&calls))
        .build()
        .await
        .unwrap();
    let session = session_in(&harness, project.path()).await;
    let ended = outcomes(&run_turn(&session, "Go on").await);
    assert_eq!(ended.len(), calls.len());
    assert_denied(&ended);
    harness.shutdown(Duration::from_secs(5)).await;
    // A store that the program opened is the program's to close.
    assert!(harness.store().open(session.session_id()).await.is_ok());
}

/// SQLite removes its log when the last connection is closed.
fn is_closed(project: &Path) -> bool {
    project.join("sessions.db").exists() && !project.join("sessions.db-wal").exists()
}

#[tokio::test]
async fn a_shutdown_closes_the_store() {
    let project = project();
    let harness = Halter::from_config_file(project.path().join("halter.toml"))
        .await
        .unwrap();
    let session = session_in(&harness, project.path()).await;
    run_turn(&session, "What can you do?").await;
    assert!(!is_closed(project.path()));
    harness.shutdown(Duration::from_secs(5)).await;
    assert!(is_closed(project.path()));
    let closed = harness.store().open(session.session_id()).await;
    assert_eq!(closed.unwrap_err().code(), "store_closed");
}

#[tokio::test]
async fn the_last_drop_closes_the_store() {
    let project = project();
    let harness = Halter::from_config_file(project.path().join("halter.toml"))
        .await
        .unwrap();
    let session = session_in(&harness, project.path()).await;
    drop(harness);
    // The session goes on without the harness.
    run_turn(&session, "What can you do?").await;
    session.shutdown("done").await.unwrap();
    assert!(!is_closed(project.path()));
    drop(session);
    assert!(is_closed(project.path()));
}
