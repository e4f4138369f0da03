//! Children in git worktrees of their own.

use super::{ended, last_word, spawn, task};
use halter_protocol::{AgentDef, AgentIsolation, ResourceSnapshot, SubagentState};
use halter_providers::Reply;
use halter_runtime::limits::{WORKTREE_DEADLINE, WORKTREE_SETTINGS_BYTES};
use halter_runtime::{ResourceCell, Resources};
use halter_testkit::{EventsExt, Harness};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};

/// Says so not through a macro, whose output a passing test would swallow.
fn needs_git() {
    use std::io::Write as _;
    let mut errors = std::io::stderr();
    writeln!(errors, "skipped: needs git").unwrap();
}

fn git(directory: &Path, arguments: &[&str]) -> bool {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=t", "-c", "user.email=t@t"]);
    command.current_dir(directory).args(arguments);
    command.output().is_ok_and(|it| it.status.success())
}

fn delegating(writes: bool) -> Harness {
    delegating_to(move |last| {
        let write = || Reply::new().tool_call("write", json!({"path": "new.txt", "content": "x"}));
        (writes && last == "work").then(write)
    })
}

/// A session whose child calls what `first` says to its task.
fn delegating_to(first: impl Fn(&str) -> Option<Reply> + Send + Sync + 'static) -> Harness {
    let mut agent = AgentDef::new("apart", "works apart", "You work apart.");
    agent.isolation = Some(AgentIsolation::Worktree);
    let mut snapshot = ResourceSnapshot::empty();
    snapshot.revision = "agents".into();
    snapshot.agents.insert("apart".into(), agent);
    Harness::answering(move |request| match task(request).as_str() {
        "work" => first(&last_word(request)).unwrap_or_else(|| Reply::from("worked")),
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
            return needs_git();
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

/// A repository whose settings and hooks make files in this directory, with
/// more filters than one would list by hand.
fn hostile(root: &Path, made: &Path) {
    let program = |name: &str| format!("touch {}/{name}; cat", made.display());
    assert!(git(root, &["init", "-q"]));
    for (path, text) in [
        (".gitattributes", "* filter=evil\nlong filter=long\n"),
        ("file", "x\n"),
        ("long", "x\n"),
    ] {
        std::fs::write(root.join(path), text).unwrap();
    }
    assert!(git(root, &["add", "-A"]));
    assert!(git(root, &["commit", "-qm", "one"]));
    for name in ["post-checkout", "post-index-change"] {
        let hook = root.join(".git/hooks").join(name);
        std::fs::write(&hook, format!("#!/bin/sh\n{}\n", program(name))).unwrap();
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(hook, executable).unwrap();
    }
    let mut settings = format!("[core]\n\tfsmonitor = \"{}\"\n", program("fsmonitor"));
    let many = (0..200).map(|number| format!("[filter \"f{number}\"]\n\tclean = true\n"));
    settings.extend(many);
    // What an including file names counts as well, however it is spelled.
    settings.push_str("[include]\n\tpath = m\"ore\"\n");
    let mut more = String::new();
    for (driver, keys) in [
        ("evil", ["clean", "smudge"]),
        ("long", ["process", "clean"]),
    ] {
        more.push_str(&format!("[filter \"{driver}\"]\n\trequired = true\n"));
        for key in keys {
            let program = program(&format!("{driver}-{key}"));
            more.push_str(&format!("\t{key} = \"{program}\"\n"));
        }
    }
    std::fs::write(root.join(".git/more"), more).unwrap();
    let config = root.join(".git/config");
    let before = std::fs::read_to_string(&config).unwrap();
    std::fs::write(config, before + &settings).unwrap();
}

/// It is made and looked at outside every sandbox.
#[tokio::test]
async fn no_program_that_a_repository_names_runs_for_a_worktree() {
    for writes in [true, false] {
        let harness = delegating(writes);
        let root = harness.workspace().path();
        if !git(root, &["--version"]) {
            return needs_git();
        }
        let made = tempfile::tempdir().unwrap();
        hostile(root, made.path());
        let session = harness.session().await;
        let events = harness.run(&session, "go").await;
        let report = ended(&events).remove(0);
        assert_eq!(report.state, SubagentState::Completed, "{report:?}");
        assert_eq!(report.worktree.is_some(), writes, "{report:?}");
        session.shutdown("enough").await.unwrap();
        let ran: Vec<_> = std::fs::read_dir(made.path()).unwrap().collect();
        assert!(ran.is_empty(), "{ran:?}");
        // The programs are real: git runs them where nothing turns them off.
        git(root, &["worktree", "add", "-q", "--detach", "other"]);
        let ran = std::fs::read_dir(made.path()).unwrap().count();
        assert!(ran >= 3, "{ran}");
    }
}

/// Git looks at it by the settings that the child gave it.
#[tokio::test]
async fn a_worktree_with_a_repository_in_it_is_kept_and_not_looked_into() {
    let made = tempfile::tempdir().unwrap();
    let evil = format!("touch {}/ran; cat", made.path().display());
    let place: Arc<OnceLock<PathBuf>> = Arc::default();
    let known = Arc::clone(&place);
    let harness = delegating_to(move |_| {
        let worktrees = known.get().unwrap().join(".halter/worktrees");
        let entries = std::fs::read_dir(worktrees).unwrap().map(Result::unwrap);
        let worktree = entries.map(|it| it.path()).find(|it| it.is_dir()).unwrap();
        let sub = worktree.join("sub");
        assert!(git(&sub, &["init", "-q"]));
        std::fs::write(sub.join(".gitattributes"), "* filter=e\n").unwrap();
        std::fs::write(sub.join("x"), "1\n").unwrap();
        assert!(git(&sub, &["add", "-A"]));
        assert!(git(&sub, &["config", "filter.e.clean", &evil]));
        // Of the same size: only the filter tells whether it is the same.
        std::fs::write(sub.join("x"), "2\n").unwrap();
        None
    });
    let root = harness.workspace().path();
    place.set(root.to_owned()).unwrap();
    if !git(root, &["init", "-q"]) {
        return needs_git();
    }
    assert!(git(root, &["init", "-q", "sub"]));
    assert!(git(
        &root.join("sub"),
        &["commit", "-q", "--allow-empty", "-m", "s"]
    ));
    assert!(git(root, &["add", "sub"]));
    assert!(git(root, &["commit", "-qm", "one"]));
    let session = harness.session().await;
    let events = harness.run(&session, "go").await;
    let report = ended(&events).remove(0);
    let worktree = report.worktree.clone().unwrap();
    assert!(worktree.join("sub/x").exists(), "{report:?}");
    session.shutdown("enough").await.unwrap();
    assert!(!made.path().join("ran").exists());
}

#[tokio::test]
async fn a_repository_with_more_settings_than_can_be_turned_off_gets_no_worktree() {
    let harness = delegating(false);
    let root = harness.workspace().path();
    if !git(root, &["init", "-q"]) {
        return needs_git();
    }
    assert!(git(root, &["commit", "-q", "--allow-empty", "-m", "one"]));
    let line = format!("[filter \"{}\"]\n\tclean = true\n", "x".repeat(1000));
    let times = WORKTREE_SETTINGS_BYTES / 1000 + 1;
    let config = root.join(".git/config");
    let before = std::fs::read_to_string(&config).unwrap();
    std::fs::write(config, before + &line.repeat(times)).unwrap();
    let session = harness.session().await;
    let events = harness.run(&session, "go").await;
    let text = events.streamed_text();
    assert!(text.contains("too many to turn off"), "{text}");
    assert!(events.of_kind("subagent_started").is_empty());
    session.shutdown("enough").await.unwrap();
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
