//! Repositories that commands make in a sandbox that is there.

use crate::sandbox::{settings, sh, works};
use crate::sandbox_places::elsewhere;
use crate::support::Workspace;
use halter_exec::Environment;
use halter_tools::exec::probe_sandbox;
use halter_tools::policy::SandboxMode;
use serde_json::json;
use std::path::Path;
use std::process::Command;

/// Python that is given paths which the judge cannot read, so that only the
/// kernel is in the way.
fn python(code: &str, paths: &[&str]) -> String {
    let paths: Vec<String> = paths.iter().map(|path| format!("@{path}")).collect();
    let paths = paths.join(" ");
    format!("python3 -c 'import os, sys; a = [it[1:] for it in sys.argv[1:]]; {code}' {paths}")
}

const APPEND: &str = "open(a[0], \"a\").write(\"# x\")";
const MOVE: &str = "os.rename(a[0], a[1])";

#[tokio::test]
async fn a_repository_that_a_command_makes_is_named_and_protected_from_the_next_one() {
    if !works("namespaces") {
        return;
    }
    let mut workspace = Workspace::with_settings(settings(SandboxMode::Prefer, &["*"]));
    // A shell that is there already does not cross the mounts of a directory
    // in which it is, unless it enters it anew.
    let make = python("os.makedirs(a[0])", &["up/made/.git/hooks"]);
    let made = sh(&workspace, &format!("{make} && cd up/made/.git/hooks")).await;
    let note = made["sandbox_note"].as_str().unwrap_or_default();
    let named = format!(
        "protected for the next one: {}/up/made/.git",
        workspace.dir().display()
    );
    assert!(note.ends_with(&named), "{made}");
    let refused = sh(&workspace, &python(APPEND, &["pre-commit"])).await;
    assert_ne!(refused["exit_code"], 0, "{refused}");
    assert_eq!(sh(&workspace, "cd ../../../..").await["exit_code"], 0);
    let is_kept = async |workspace: &Workspace| {
        for (code, paths) in [
            (APPEND, &["up/made/.git/config"][..]),
            (APPEND, &["up/made/.git/hooks/pre-commit"]),
            (APPEND, &["up/made/.git/commondir"]),
            (MOVE, &["up/made/.git", "up/made/other"]),
            (MOVE, &["up/made", "up/other"]),
            (MOVE, &["up", "other"]),
        ] {
            let refused = sh(workspace, &python(code, paths)).await;
            assert_ne!(refused["exit_code"], 0, "{paths:?}: {refused}");
        }
    };
    is_kept(&workspace).await;
    // Work goes on, and nothing more is said of it.
    let worked = sh(&workspace, "echo x > up/made/plain && cat up/made/plain").await;
    assert_eq!(worked["stdout"], "x\n", "{worked}");
    assert_eq!(worked.get("sandbox_note"), None, "{worked}");
    workspace.resume().await;
    is_kept(&workspace).await;
    workspace.store.close().await;
    assert!(!workspace.dir().join("up/made/.git/commondir").exists());
}

fn git(directory: &Path, words: &[&str]) {
    let own = ["-c", "user.name=n", "-c", "user.email=e"];
    let ran = Command::new("git")
        .args(own)
        .args(words)
        .current_dir(directory)
        .output()
        .unwrap();
    assert!(ran.status.success(), "{words:?}: {ran:?}");
}

const COMMIT: &str = "git -c user.name=n -c user.email=e commit -qm";

#[tokio::test]
async fn git_that_cannot_change_its_settings_is_told_that_the_sandbox_refused_it() {
    if !works("namespaces") {
        return;
    }
    let workspace = Workspace::with_settings(settings(SandboxMode::Prefer, &["*"]));
    git(&workspace.dir(), &["init", "-q", "."]);
    for command in [
        "git config user.name x",
        "git remote add origin /nowhere",
        "python3 -c 'import os; os.remove(\".git/con\" + \"fig\")'",
        "python3 -c 'import os; os.rename(\".g\" + \"it\", \"g2\")'",
    ] {
        let refused = sh(&workspace, command).await;
        assert_ne!(refused["exit_code"], 0, "{refused}");
        let note = refused["sandbox_note"].as_str().unwrap_or_default();
        assert!(note.contains("settings and hooks of git"), "{refused}");
    }
    workspace.store.close().await;
}

/// Another directory of settings is what host programs would run by.
#[tokio::test]
async fn git_works_in_a_repository_whose_settings_cannot_be_led_elsewhere() {
    if !works("namespaces") {
        return;
    }
    let workspace = Workspace::with_settings(settings(SandboxMode::Require, &["*"]));
    let root = workspace.dir().to_owned();
    git(&root, &["init", "-q", "."]);
    workspace.put("file", "x");
    let commands = [
        format!("git add file && {COMMIT} one"),
        "git status --short && git branch other && git checkout -q other && git gc -q".to_owned(),
        format!(
            "git worktree add -q tree && cd tree && echo y > file && git add file && {COMMIT} two && cd .."
        ),
        "git stash list && git fsck && git log --oneline".to_owned(),
        "git init -q lib && cd lib && echo z > z && git add z".to_owned(),
        format!(
            "{COMMIT} lib && cd .. && git -c protocol.file.allow=always submodule add -q ./lib sub"
        ),
    ];
    for command in commands {
        let done = sh(&workspace, &command).await;
        assert_eq!(done["exit_code"], 0, "{command}: {done}");
    }
    let lead = "python3 -c 'import sys; open(sys.argv[1][1:], \"w\").write(\"../evil\")' ";
    let refused = sh(&workspace, &format!("{lead} @.git/commondir")).await;
    assert_ne!(refused["exit_code"], 0, "{refused}");
    workspace.store.close().await;
    assert!(!root.join(".git/commondir").exists());
    git(&root, &["status"]);
}

#[tokio::test]
async fn a_linked_work_tree_takes_commits_and_keeps_the_settings_of_its_repository() {
    if !works("namespaces") {
        return;
    }
    let elsewhere = elsewhere();
    let main = elsewhere.path().canonicalize().unwrap();
    git(&main, &["init", "-q", "."]);
    git(&main, &["commit", "-q", "--allow-empty", "-m", "one"]);
    let mut workspace = Workspace::with_settings(settings(SandboxMode::Require, &["*"]));
    let root = workspace.dir().to_str().unwrap().to_owned();
    git(&main, &["worktree", "add", "-q", "--force", &root]);
    workspace.resume().await;
    workspace.put("file", "x");
    let done = sh(&workspace, &format!("git add file && {COMMIT} two")).await;
    assert_eq!(done["exit_code"], 0, "{done}");
    let write = "python3 -c 'import sys; open(sys.argv[1][1:], \"a\").write(\"x\")' @";
    let git = main.join(".git");
    for closed in [
        git.join("config"),
        git.join("hooks/pre-commit"),
        git.join("commondir"),
        main.join("file"),
    ] {
        let refused = sh(&workspace, &format!("{write}{}", closed.display())).await;
        assert_ne!(refused["exit_code"], 0, "{refused}");
    }
    workspace.store.close().await;
}

#[tokio::test]
async fn settings_that_a_command_makes_are_named_and_protected_from_the_next_one() {
    if !works("namespaces") {
        return;
    }
    let workspace = Workspace::with_settings(settings(SandboxMode::Prefer, &["*"]));
    for name in ["halter.toml", ".mcp.json"] {
        let made = sh(&workspace, &python(APPEND, &[name])).await;
        let note = made["sandbox_note"].as_str().unwrap_or_default();
        assert!(note.contains("protected files were changed"), "{made}");
        assert!(note.contains(name), "{made}");
        for (code, paths) in [(APPEND, &[name][..]), (MOVE, &[name, "other"])] {
            let refused = sh(&workspace, &python(code, paths)).await;
            assert_ne!(refused["exit_code"], 0, "{refused}");
        }
        assert_eq!(workspace.get(name), "# x");
    }
    workspace.store.close().await;
}

#[tokio::test]
async fn settings_that_are_absent_cannot_be_made_where_a_sandbox_is_required() {
    if !works("namespaces") {
        return;
    }
    let workspace = Workspace::with_settings(settings(SandboxMode::Require, &["*"]));
    workspace.put("file", "x");
    for name in ["halter.toml", ".mcp.json", ".agents/skills"] {
        for (code, paths) in [(APPEND, &[name][..]), (MOVE, &["file", name])] {
            let refused = sh(&workspace, &python(code, paths)).await;
            assert_ne!(refused["exit_code"], 0, "{refused}");
        }
    }
    workspace.store.close().await;
    let left = std::fs::read_dir(workspace.dir()).unwrap().flatten();
    let left: Vec<_> = left.map(|it| it.file_name()).collect();
    assert_eq!(left, ["file"]);
}

#[tokio::test]
async fn a_workspace_too_large_to_be_searched_is_said_to_be_once_or_refused() {
    if !works("namespaces") {
        return;
    }
    for mode in [SandboxMode::Prefer, SandboxMode::Require] {
        let mut workspace = Workspace::with_settings(settings(mode, &["*"]));
        let deep = "d/".repeat(halter_tools::policy::limits::SANDBOX_WALK_DEPTH + 1);
        workspace.put(&format!("{deep}file"), "");
        workspace.resume().await;
        let bounds = workspace.policy.sandbox(None);
        let status = probe_sandbox(&bounds, &Environment::new());
        let held = status.not_held.join(", ");
        assert!(held.contains("too large to be searched"), "{status:?}");
        if mode == SandboxMode::Require {
            assert_eq!(status.active, None);
            let refused = workspace.call("shell", json!({"command": "true"})).await;
            let refused = refused.unwrap_err().message;
            for part in [
                "policy.sandbox = \"require\"",
                "too large to be searched",
                "start in a directory below",
            ] {
                assert!(refused.contains(part), "{refused}");
            }
            continue;
        }
        assert_eq!(status.active, Some("namespaces"));
        let first = sh(&workspace, "true").await;
        let note = first["sandbox_note"].as_str().unwrap_or_default();
        assert!(note.contains("too large to be searched"), "{first}");
        assert_eq!(sh(&workspace, "true").await.get("sandbox_note"), None);
        workspace.store.close().await;
    }
}
