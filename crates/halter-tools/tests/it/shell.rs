//! `shell`, in every place where commands can run.

use crate::support::{Workspace, eventually};
use halter_policy::shell::git_environment;
use halter_protocol::{ToolCall, ToolErrorCode, ToolResult};
use halter_tools::limits::{SHELL_KEPT_FILE_BYTES, SHELL_KEPT_FILES, SHELL_RESULT_BYTES};
use halter_tools::{ExecBackend, NoopToolEventSink, PolicySettings, ToolContext};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

type Place = Arc<dyn ExecBackend>;

/// The same tests for every place where commands can run.
macro_rules! suite {
    ($($test:ident),* $(,)?) => {
        mod local {
            $(#[tokio::test]
            async fn $test() {
                super::$test(crate::place::here()).await;
            })*
        }

        mod relayed {
            $(#[tokio::test]
            async fn $test() {
                super::$test(std::sync::Arc::new(crate::relay::RelayedExec)).await;
            })*
        }
    };
}

suite! {
    a_command_returns_its_streams_and_code,
    listed_programs_run_under_the_standard_policy,
    state_survives_from_call_to_call,
    cwd_and_env_are_for_one_command,
    the_environment_is_the_given_one,
    a_repository_makes_git_run_nothing,
    output_is_streamed_while_the_command_runs,
    long_output_keeps_head_and_tail_and_the_whole_in_a_file,
    a_kept_file_is_bounded_and_says_what_it_lacks,
    kept_files_are_bounded,
    a_timeout_keeps_the_output_and_the_shell,
    the_model_cannot_raise_the_timeout,
    cancel_stops_the_command_and_keeps_the_session,
    a_signal_is_named,
    closing_the_session_leaves_nothing_behind,
    closing_the_session_stops_a_running_command,
    dropping_the_session_kills_its_shell,
}

async fn sh(workspace: &Workspace, command: &str) -> Value {
    workspace.ok("shell", json!({"command": command})).await
}

fn is_running(pid: &str, directory: &Path) -> bool {
    crate::place::is_running(pid.trim().parse().unwrap(), directory)
}

#[tokio::test]
async fn files_that_a_command_names_are_looked_for_where_the_shell_is() {
    let workspace = Workspace::with_settings(PolicySettings {
        allowed_shell_commands: vec!["*".to_owned()].into(),
        ..PolicySettings::default()
    });
    workspace.put("sub/.env", "key");
    workspace.put("plain", "text");
    std::fs::write(workspace.outside().join("secret"), "secret").unwrap();
    let run = async |command: &str| workspace.call("shell", json!({"command": command})).await;
    run("cd sub").await.unwrap();
    assert_eq!(run("cat ../plain").await.unwrap()["stdout"], "text");
    run("cd ..").await.unwrap();
    // Where this leads is not known before it runs.
    let there = workspace.outside().display();
    run(&format!("cd \"$(printf %s '{there}')\""))
        .await
        .unwrap();
    let refused = run("cat secret").await.unwrap_err();
    assert_eq!(refused.code, ToolErrorCode::PolicyDenied);
    assert!(
        refused.message.contains("outside the allowed directories"),
        "{refused}"
    );
    let in_work = json!({"command": "cat plain", "cwd": "."});
    assert_eq!(workspace.ok("shell", in_work).await["stdout"], "text");
}

async fn a_command_returns_its_streams_and_code(exec: Place) {
    let workspace = Workspace::with_open_shell_in(exec);
    let result = sh(&workspace, "echo out; echo err >&2; (exit 3)").await;
    assert_eq!(
        result,
        json!({
            "exit_code": 3,
            "stdout": "out\n",
            "stderr": "err\n",
            "timed_out": false,
            "cancelled": false,
        })
    );
    workspace.store.close().await;
}

async fn listed_programs_run_under_the_standard_policy(exec: Place) {
    let settings = PolicySettings {
        allowed_shell_commands: vec!["ls".into(), "cd".into()].into(),
        ..PolicySettings::default()
    };
    let workspace = Workspace::with_exec(settings, exec);
    workspace.put("sub/file", "");
    let result = sh(&workspace, "cd sub && ls").await;
    assert_eq!(result["stdout"], "file\n", "{result}");
    assert_eq!(sh(&workspace, "ls").await["stdout"], "file\n");
    workspace.store.close().await;
}

async fn a_repository_makes_git_run_nothing(exec: Place) {
    let workspace = Workspace::with_open_shell_in(exec);
    let script = "#!/bin/sh\ntouch \"$(dirname \"$0\")/../../ran\"\n";
    let git = "git -c user.name=a -c user.email=a@b.c";
    sh(&workspace, "git init -q . && mkdir -p .git/hooks").await;
    for name in ["pre-commit", "post-commit", "monitor"] {
        workspace.put(&format!(".git/hooks/{name}"), script);
    }
    let set = "chmod +x .git/hooks/* && git config core.fsmonitor .git/hooks/monitor && \
               git config core.pager .git/hooks/monitor && git config core.editor .git/hooks/monitor";
    sh(&workspace, set).await;
    sh(
        &workspace,
        &format!("touch f && git add f && {git} commit -qm x && git -p log && git status"),
    )
    .await;
    sh(&workspace, &format!("{git} commit --amend")).await;
    let set = "for key in diff.external diff.x.command diff.x.textconv filter.x.clean \
               filter.x.process merge.x.driver; do git config $key .git/hooks/monitor; done; \
               git config filter.x.required true; \
               echo '* diff=x filter=x merge=x' > .gitattributes; echo more > f";
    sh(&workspace, set).await;
    sh(
        &workspace,
        &format!("git diff; git add . && {git} commit -qm y"),
    )
    .await;
    let shown = sh(&workspace, "git log -p --no-ext-diff").await;
    assert!(
        shown["stdout"].as_str().unwrap().contains("+more"),
        "{shown}"
    );
    sh(
        &workspace,
        "mkdir sub; cd /; cd - && git -C sub diff HEAD~1",
    )
    .await;
    assert!(
        !workspace.dir().join("ran").exists(),
        "git ran a program of the repository"
    );
    workspace.store.close().await;
}

async fn state_survives_from_call_to_call(exec: Place) {
    let workspace = Workspace::with_open_shell_in(exec);
    workspace.put("sub/x", "");
    sh(
        &workspace,
        "cd sub; export GREETING=hello; f() { echo called; }",
    )
    .await;
    let result = sh(&workspace, "basename \"$PWD\"; echo $GREETING; f").await;
    assert_eq!(result["stdout"], "sub\nhello\ncalled\n");
    workspace.store.close().await;
}

async fn cwd_and_env_are_for_one_command(exec: Place) {
    let workspace = Workspace::with_open_shell_in(exec);
    workspace.put("sub/x", "");
    let arguments = json!({"command": "basename \"$PWD\"; echo $COLOUR", "cwd": "sub", "env": {"COLOUR": "red"}});
    let result = workspace.ok("shell", arguments).await;
    assert_eq!(result["stdout"], "sub\nred\n");
    let result = sh(&workspace, "basename \"$PWD\"; echo $COLOUR").await;
    assert_eq!(result["stdout"], "work\n\n");
    let message = workspace
        .failure("shell", json!({"command": "true", "cwd": "missing"}))
        .await;
    assert!(message.contains("'missing' does not exist"), "{message}");
    workspace.store.close().await;
}

async fn the_environment_is_the_given_one(exec: Place) {
    let workspace = Workspace::with_open_shell_in(exec);
    let result = sh(&workspace, "env | cut -d= -f1 | sort").await;
    let names: Vec<_> = result["stdout"].as_str().unwrap().lines().collect();
    for name in &names {
        let known = [
            "HALTER_EXEC_TREE",
            "LANG",
            "OLDPWD",
            "PATH",
            "PWD",
            "SHLVL",
            "_",
        ];
        // What keeps git from running programs.
        let of_git = git_environment().iter().any(|(it, _)| it == name);
        let of_place = crate::place::variables().contains(name);
        assert!(
            known.contains(name) || of_git || of_place,
            "{name} in {names:?}"
        );
    }
    workspace.store.close().await;
}

async fn output_is_streamed_while_the_command_runs(exec: Place) {
    let workspace = Workspace::with_open_shell_in(exec);
    workspace.fifo("gate");
    let call = workspace.call(
        "shell",
        json!({"command": "echo first; read line < gate; echo $line"}),
    );
    let release = async {
        workspace.output.wait_for("first\n").await;
        let gate = workspace.dir().join("gate");
        tokio::fs::write(gate, "second\n").await.unwrap();
    };
    let (result, ()) = tokio::join!(call, release);
    assert_eq!(result.unwrap()["stdout"], "first\nsecond\n");
    assert_eq!(workspace.output.text(), "first\nsecond\n");
    workspace.store.close().await;
}

async fn long_output_keeps_head_and_tail_and_the_whole_in_a_file(exec: Place) {
    let workspace = Workspace::with_open_shell_in(exec);
    let fits = format!("head -c {SHELL_RESULT_BYTES} /dev/zero | tr '\\0' x");
    let result = sh(&workspace, &fits).await;
    assert_eq!(result["stdout"].as_str().unwrap().len(), SHELL_RESULT_BYTES);
    assert!(result.get("stdout_file").is_none());

    let lines = 20_000;
    let result = sh(&workspace, &format!("seq {lines}; echo oops >&2")).await;
    let whole: String = (1..=lines).map(|n| format!("{n}\n")).collect();
    let shown = result["stdout"].as_str().unwrap();
    assert!(shown.starts_with("1\n2\n") && shown.ends_with("19999\n20000\n"));
    let omitted = whole.len() - SHELL_RESULT_BYTES;
    assert_eq!(result["stdout_omitted_bytes"], omitted);
    assert!(shown.contains(&format!("{omitted} bytes omitted")));
    assert_eq!(result["stderr"], "oops\n");

    let page = workspace
        .ok(
            "read",
            json!({"path": result["stdout_file"], "offset": 10_000, "limit": 1}),
        )
        .await;
    assert_eq!(page["content"], "10000\n");
    assert_eq!(page["total_lines"], lines);
    workspace.store.close().await;
}

async fn a_kept_file_is_bounded_and_says_what_it_lacks(exec: Place) {
    let workspace = Workspace::with_open_shell_in(exec);
    let command = format!("head -c {} /dev/zero", SHELL_KEPT_FILE_BYTES + 1);
    let call = ToolCall {
        id: "call_test".into(),
        name: "shell".into(),
        arguments: json!({"command": command}),
    };
    let context = ToolContext {
        emit: Arc::new(NoopToolEventSink),
        ..workspace.context()
    };
    let result = workspace.tools.execute(&call, context).await.unwrap();
    let ToolResult::Json { value } = result else {
        panic!("not JSON: {result:?}");
    };
    let kept = Path::new(value["stdout_file"].as_str().unwrap());
    assert_eq!(kept.metadata().unwrap().len(), SHELL_KEPT_FILE_BYTES);
    let note = value["stdout_file_note"].as_str().unwrap();
    let expected = format!(
        "holds the first {SHELL_KEPT_FILE_BYTES} of {} bytes",
        SHELL_KEPT_FILE_BYTES + 1
    );
    assert!(note.starts_with(&expected), "{note}");
    workspace.store.close().await;
    assert!(!kept.exists());
}

async fn kept_files_are_bounded(exec: Place) {
    let workspace = Workspace::with_open_shell_in(exec);
    let mut files = Vec::new();
    for _ in 0..=SHELL_KEPT_FILES {
        let result = sh(&workspace, "seq 20000").await;
        files.push(result["stdout_file"].as_str().unwrap().to_owned());
    }
    assert!(!Path::new(&files[0]).exists());
    assert!(files[1..].iter().all(|file| Path::new(file).exists()));
    workspace.store.close().await;
    assert!(!files.iter().any(|file| Path::new(file).exists()));
}

async fn a_timeout_keeps_the_output_and_the_shell(exec: Place) {
    let workspace = Workspace::with_open_shell_in(exec);
    sh(&workspace, "export KEPT=yes").await;
    let arguments = json!({"command": "echo partial; sleep 1000", "timeout_ms": 2000});
    let result = workspace.ok("shell", arguments).await;
    assert_eq!(result["timed_out"], true);
    assert_eq!(result["cancelled"], false);
    assert_eq!(result["stdout"], "partial\n");
    assert_ne!(result["exit_code"], 0);
    assert_eq!(sh(&workspace, "echo $KEPT").await["stdout"], "yes\n");
    workspace.store.close().await;
}

async fn the_model_cannot_raise_the_timeout(exec: Place) {
    let mut workspace = Workspace::with_open_shell_in(exec);
    workspace.shell_timeout_secs = 1;
    let arguments = json!({"command": "sleep 1000", "timeout_ms": 900_000});
    let result = workspace.ok("shell", arguments).await;
    assert_eq!(result["timed_out"], true);
    let note = result["timeout_note"].as_str().unwrap();
    assert!(note.contains("from 900000 to 1000"), "{note}");
    assert!(note.contains("policy.shell.timeout_secs"), "{note}");
    workspace.store.close().await;
}

async fn cancel_stops_the_command_and_keeps_the_session(exec: Place) {
    let mut workspace = Workspace::with_open_shell_in(exec);
    let directory = workspace.dir();
    let call = workspace.call(
        "shell",
        json!({"command": "export KEPT=yes; sleep 1000 & echo $!; wait"}),
    );
    let cancel = async {
        workspace.output.wait_for("\n").await;
        workspace.cancel.cancel();
    };
    let (result, ()) = tokio::join!(call, cancel);
    let result = result.unwrap();
    assert_eq!(result["cancelled"], true);
    assert_eq!(result["timed_out"], false);
    let sleeper = result["stdout"].as_str().unwrap().to_owned();
    eventually("the sleeper ends", || !is_running(&sleeper, &directory)).await;
    workspace.cancel = CancellationToken::new();
    assert_eq!(
        sh(&workspace, "echo still here").await["stdout"],
        "still here\n"
    );
    workspace.store.close().await;
}

async fn a_signal_is_named(exec: Place) {
    let workspace = Workspace::with_open_shell_in(exec);
    let result = sh(&workspace, "sh -c 'kill -9 $$'").await;
    assert_eq!(result["exit_code"], 137);
    assert_eq!(result["signal"], "SIGKILL");
    workspace.store.close().await;
}

async fn closing_the_session_leaves_nothing_behind(exec: Place) {
    let workspace = Workspace::with_open_shell_in(exec);
    let directory = workspace.dir();
    let result = sh(&workspace, "sleep 1000 >/dev/null 2>&1 & echo $!").await;
    let sleeper = result["stdout"].as_str().unwrap().to_owned();
    // A process that is about to become its program has no words for a moment.
    eventually("the sleeper starts", || is_running(&sleeper, &directory)).await;
    let scratch = workspace.store.scratch().path().to_owned();
    assert!(scratch.exists());
    workspace.store.close().await;
    eventually("the sleeper ends", || !is_running(&sleeper, &directory)).await;
    assert!(!scratch.exists());
}

async fn closing_the_session_stops_a_running_command(exec: Place) {
    let workspace = Workspace::with_open_shell_in(exec);
    let call = workspace.call("shell", json!({"command": "echo on; sleep 1000"}));
    let close = async {
        workspace.output.wait_for("on\n").await;
        workspace.store.close().await;
    };
    let (result, ()) = tokio::join!(call, close);
    assert_eq!(result.unwrap()["cancelled"], true);
    let message = workspace.failure("shell", json!({"command": "true"})).await;
    assert!(message.contains("session is closed"), "{message}");
}

async fn dropping_the_session_kills_its_shell(exec: Place) {
    let workspace = Workspace::with_open_shell_in(exec);
    let result = sh(&workspace, "echo $$").await;
    let shell = result["stdout"].as_str().unwrap().to_owned();
    let directory = workspace.dir();
    drop(workspace);
    eventually("the shell ends", || !is_running(&shell, &directory)).await;
}
