//! Commands that were let out of the session's sandbox, or into a wider one.

use crate::sandbox::{settings, sh, works};
use crate::support::{Workspace, eventually};
use halter_protocol::{Action, CallToJudge, PermissionMode, PolicyVerdict, ToolCall};
use halter_tools::policy::{SandboxMode, SoftRoots};
use halter_tools::{PolicySettings, ToolPolicy};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

async fn outside(workspace: &Workspace, command: &str) -> Value {
    let input = json!({"command": command, "outside_sandbox": true});
    workspace.ok("shell", input).await
}

/// A directory that no sandbox has of its own: not below `/tmp`, which is fresh
/// inside.
pub fn elsewhere() -> tempfile::TempDir {
    let base = std::env::var_os("HALTER_TEST_BASE");
    tempfile::tempdir_in(base.unwrap_or_else(|| env!("CARGO_TARGET_TMPDIR").into())).unwrap()
}

/// Whether a process runs; one that nobody has collected does not.
fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|it| !it.contains(") Z "))
}

/// A write whose target the judge cannot read.
fn write_to(path: &Path) -> String {
    format!(
        "python3 -c 'import sys; open(sys.argv[1].replace(\"@\", \"\"), \"w\").write(\"x\")' @{}",
        path.display()
    )
}

#[tokio::test]
async fn a_command_that_was_let_out_has_what_was_written_and_gives_back_what_it_exports() {
    if !works("namespaces") {
        return;
    }
    let elsewhere = elsewhere();
    let workspace = Workspace::with_settings(settings(SandboxMode::Prefer, &["*"]));
    workspace.put("sub/file", "");
    let prepared = "cd sub; export A=1 D=$(echo 4); B=2; f() { echo \"f$1\"; }; set -f";
    assert_eq!(sh(&workspace, prepared).await["exit_code"], 0);
    let target = elsewhere.path().join("written");
    let refused = sh(&workspace, &write_to(&target)).await;
    let note = refused["sandbox_note"].as_str().unwrap();
    assert!(note.contains("\"outside_sandbox\": true"), "{refused}");
    assert!(!target.exists());
    let command = format!(
        "{}; basename \"$PWD\"; echo $A ${{B-none}} ${{D-none}} *; f 3; cd ..; export C=$(echo 4); \
         unset A",
        write_to(&target)
    );
    let ran = outside(&workspace, &command).await;
    assert_eq!(ran["stdout"], "sub\n1 none none *\n", "{ran}");
    assert!(
        ran["stderr"]
            .as_str()
            .unwrap()
            .contains("f: command not found")
    );
    let note = ran["sandbox_note"].as_str().unwrap();
    assert!(note.contains("ran outside the sandbox"), "{ran}");
    let stayed = "the variables D, functions of the shell stayed in the sandbox";
    assert!(note.contains(stayed), "{ran}");
    assert_eq!(ran.get("note"), None, "{ran}");
    assert!(target.exists());
    let look = "basename \"$PWD\"; echo ${A-none} $B $C $D *; f 5";
    let back = sh(&workspace, look).await;
    assert_eq!(back["stdout"], "work\nnone 2 4 4 *\nf5\n", "{back}");
    let again = sh(&workspace, &write_to(&elsewhere.path().join("second"))).await;
    assert_ne!(again["exit_code"], 0, "{again}");
    workspace.store.close().await;
}

#[tokio::test]
async fn what_a_shell_let_out_leaves_running_ends_with_the_session() {
    if !works("namespaces") {
        return;
    }
    let workspace = Workspace::with_settings(settings(SandboxMode::Prefer, &["*"]));
    let started = outside(&workspace, "sleep 1000 & echo $!").await;
    let pid = started["stdout"].as_str().unwrap().trim().to_owned();
    assert_eq!(sh(&workspace, "true").await["exit_code"], 0);
    assert!(runs(&pid));
    workspace.store.close().await;
    assert!(!runs(&pid));
}

#[tokio::test]
async fn a_command_in_the_background_is_in_the_sandbox_unless_it_was_let_out() {
    if !works("namespaces") {
        return;
    }
    let elsewhere = elsewhere();
    let workspace = Workspace::with_settings(settings(SandboxMode::Prefer, &["*"]));
    for (name, is_outside) in [("inside", false), ("outside", true)] {
        let target = elsewhere.path().join(name);
        let command = format!("{}; echo over > over-{name}", write_to(&target));
        let input = json!({
            "command": command, "background": true, "outside_sandbox": is_outside
        });
        let started = workspace.ok("shell", input).await;
        let note = started["sandbox_note"].as_str().unwrap_or_default();
        assert_eq!(
            note.contains("outside the sandbox"),
            is_outside,
            "{started}"
        );
        let over = workspace.dir().join(format!("over-{name}"));
        eventually("the command is over", || over.exists()).await;
        assert_eq!(target.exists(), is_outside, "{name}");
    }
    workspace.store.close().await;
}

#[tokio::test]
async fn a_sandbox_that_is_required_is_not_left() {
    if !works("namespaces") {
        return;
    }
    let workspace = Workspace::with_settings(settings(SandboxMode::Require, &["*"]));
    let input = json!({"command": "true", "outside_sandbox": true});
    let refused = workspace.failure("shell", input).await;
    assert!(refused.contains("policy.sandbox"), "{refused:?}");
    workspace.store.close().await;
}

#[tokio::test]
async fn a_directory_that_only_the_sandbox_has_is_not_looked_for_outside() {
    if !works("namespaces") {
        return;
    }
    let workspace = Workspace::with_settings(settings(SandboxMode::Prefer, &["*"]));
    let moved = sh(&workspace, "python3 -c 1; cd \"$(mktemp -d)\" && pwd").await;
    assert_eq!(moved["exit_code"], 0, "{moved}");
    let input = json!({"command": "true", "outside_sandbox": true});
    let refused = workspace.failure("shell", input.clone()).await;
    assert!(refused.contains("only its sandbox has"), "{refused:?}");
    let moved = sh(&workspace, "cd \"$OLDPWD\"").await;
    assert_eq!(moved["exit_code"], 0, "{moved}");
    assert_eq!(outside(&workspace, "true").await["exit_code"], 0);
    assert_eq!(sh(&workspace, "cd \"$(echo /usr)\"").await["exit_code"], 0);
    let refused = workspace.failure("shell", input).await;
    assert!(refused.contains("as `cwd`"), "{refused:?}");
    workspace.store.close().await;
}

/// The policy of a call that was judged, and let through by the mode.
fn judged(policy: &dyn ToolPolicy, actions: Vec<Action>) -> Option<Arc<dyn ToolPolicy>> {
    let call = ToolCall {
        id: "c1".into(),
        name: "shell".into(),
        arguments: json!({}),
    };
    let verdict = policy.judge(&CallToJudge::new(call, actions.clone()));
    assert_eq!(verdict, PolicyVerdict::Allow);
    policy.for_judged_call(&actions)
}

#[tokio::test]
async fn a_command_that_may_change_files_beyond_the_roots_finds_them_open() {
    if !works("namespaces") {
        return;
    }
    for mode in [SandboxMode::Prefer, SandboxMode::Require] {
        let directory = elsewhere();
        let elsewhere = directory.path().canonicalize().unwrap();
        std::fs::create_dir_all(elsewhere.join("open/.git")).unwrap();
        std::fs::create_dir(elsewhere.join("closed")).unwrap();
        std::fs::write(elsewhere.join("open/.env"), "KEY=secret").unwrap();
        let mut settings = PolicySettings {
            soft_roots: SoftRoots {
                read: true,
                write: true,
            },
            ..settings(mode, &["*"])
        };
        settings.permissions.mode = PermissionMode::FullAccess;
        let mut workspace = Workspace::with_settings(settings);
        let session = Arc::clone(&workspace.policy);
        assert_eq!(sh(&workspace, "export A=1").await["exit_code"], 0);
        let named = elsewhere.join("open/named");
        let touch = format!("touch {} && echo $A; export B=2", named.display());
        let run = |command: &str| Action::Run {
            command: command.to_owned(),
            directory: None,
        };
        workspace.policy = judged(&*session, vec![run(&touch)]).expect("a wider policy");
        let touched = sh(&workspace, &touch).await;
        assert_eq!(touched["stdout"], "1\n", "{touched}");
        assert!(named.exists());
        for closed in ["closed/x", "open/.git/config", "open/.env"] {
            let refused = sh(&workspace, &write_to(&elsewhere.join(closed))).await;
            assert_ne!(refused["exit_code"], 0, "{closed}: {refused}");
        }
        workspace.policy = session;
        let back = sh(&workspace, "echo $A $B").await;
        assert_eq!(back["stdout"], "1 2\n", "{back}");
        let refused = sh(&workspace, &write_to(&elsewhere.join("open/other"))).await;
        assert_ne!(refused["exit_code"], 0, "{refused}");
        assert!(judged(&*workspace.policy, vec![run("echo x > inside")]).is_none());
        workspace.store.close().await;
    }
}

/// Git and editors put a new file in the place of the old one, or remove it
/// first, which takes what lies on it away in every sandbox.
#[tokio::test]
async fn what_a_command_outside_replaces_is_out_of_reach_for_the_next_one() {
    if !works("namespaces") {
        return;
    }
    let workspace = Workspace::with_settings(settings(SandboxMode::Prefer, &["*"]));
    workspace.put(".git/config", "[core]\n");
    workspace.put(".git/HEAD", "ref: refs/heads/main\n");
    workspace.put(".env", "KEY=secret");
    let closed = [
        "python3 -c 'open(\".git/con\" + \"fig\", \"a\").write(\"# x\")'",
        "python3 -c 'print(open(\".e\" + \"nv\").read())'",
    ];
    let assert_closed = async || {
        for command in closed {
            let refused = sh(&workspace, command).await;
            assert_ne!(refused["exit_code"], 0, "{refused}");
        }
    };
    assert_closed().await;
    let replace = "import os\nfor it in [\".git/con\" + \"fig\", \".e\" + \"nv\"]:\n  \
                   open(\"new\", \"w\").write(\"# new\"); os.rename(\"new\", it)";
    // The new file may have the number of the old one.
    let make_anew = "import os\nfor it in [\".git/con\" + \"fig\", \".e\" + \"nv\"]:\n  \
                     os.remove(it); open(it, \"w\").write(\"# new\")";
    for code in [replace, make_anew, make_anew] {
        let done = outside(&workspace, &format!("python3 -c '{code}'")).await;
        assert_eq!(done["exit_code"], 0, "{done}");
        assert_closed().await;
    }
    // Also for a command in a shell of its own.
    let done = outside(&workspace, &format!("python3 -c '{replace}'")).await;
    assert_eq!(done["exit_code"], 0, "{done}");
    let [write, _] = closed;
    let command = format!("{write}; echo over > over");
    let input = json!({"command": command, "background": true});
    workspace.ok("shell", input).await;
    let over = workspace.dir().join("over");
    eventually("the command is over", || over.exists()).await;
    assert_eq!(workspace.get(".git/config"), "# new");
    workspace.store.close().await;
}
