//! What a harness gives the commands of its sessions.

use crate::support::{
    CHILD, bare, directory, is_child, one_turn, outcomes, run, run_turn, session_in, shown,
};
use async_trait::async_trait;
use halter::prelude::*;
use halter::providers::{FakeProvider, Reply};
use halter_config::Environment;
use halter_tools::exec::{
    ExecBackend, ExecCommand, ExecSession, ExecSessionSpec, ExitStatus, FinishedCommand,
    FinishedOutput, KillOutcome, SessionProcesses, TextListener,
};
use serde_json::json;
use std::process::Command;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn commands_see_the_users_environment_without_credentials() {
    let project = directory(&[]);
    let model = FakeProvider::scripted([
        Reply::new().tool_call("shell", json!({"command": "printenv"})),
        Reply::new().text("Done."),
    ]);
    let mut config = HarnessConfig::default();
    config.policy.shell.allow = vec!["printenv".to_owned()];
    config.policy.shell.env.add = vec!["CI_JOB_TOKEN".to_owned()];
    config.policy.shell.env.remove = vec!["AWS_*".to_owned()];
    let harness = Halter::builder()
        .with_config(config)
        .with_resource_snapshot(ResourceSnapshot::empty())
        .with_environment(Environment::from_iter([
            ("PATH", "/usr/bin:/bin"),
            ("VIRTUAL_ENV", "/venv"),
            ("JAVA_HOME", "/java"),
            ("https_proxy", "http://proxy.example:3128"),
            ("http_proxy", "http://me:hidden@proxy.example:3128"),
            ("DEPLOY_TOKEN", "hidden"),
            ("CI_JOB_TOKEN", "shown"),
            ("AWS_REGION", "hidden"),
            ("BASH_ENV", "/hidden"),
            ("LD_DEBUG_OUTPUT", "/hidden"),
        ]))
        .with_provider(Arc::new(model))
        .build()
        .await
        .unwrap();
    let events = one_turn(&harness, project.path(), "Show me the environment").await;
    let printed = outcomes(&events)[0]
        .result
        .as_ref()
        .unwrap()
        .to_model_text();
    for shown in [
        "VIRTUAL_ENV=/venv",
        "JAVA_HOME=/java",
        // The user's, or in a sandbox the one that asks about hosts.
        "https_proxy=http://",
        "CI_JOB_TOKEN=shown",
    ] {
        assert!(printed.contains(shown), "{shown} in {printed}");
    }
    assert!(!printed.contains("hidden"), "{printed}");
}

/// Each session works in a directory of its own, and stays open.
#[tokio::test]
async fn a_thousand_idle_sessions_fit_into_1024_descriptors() {
    let test = "commands::a_thousand_idle_sessions_fit_into_1024_descriptors";
    if !is_child() {
        let mut command = Command::new("sh");
        command
            .args([
                "-c",
                "ulimit -n 1024 && exec \"$0\" --exact \"$1\" --nocapture",
            ])
            .arg(std::env::current_exe().unwrap())
            .arg(test)
            .env(CHILD, "1");
        let output = run(command, directory(&[]).path(), &[], "");
        assert!(output.status.success(), "{}", shown(&output));
        return;
    }
    let projects = directory(&[]);
    let model = FakeProvider::from_fn(|request| {
        let answered = request
            .messages
            .iter()
            .any(|message| matches!(**message, Message::Tool(_)));
        match answered {
            true => Reply::new().text("Done."),
            false => Reply::new().tool_call("read", json!({"path": "note"})),
        }
    });
    let harness = bare().with_provider(Arc::new(model)).build().await.unwrap();
    let mut sessions = Vec::new();
    for number in 0..1_000 {
        let project = projects.path().join(number.to_string());
        std::fs::create_dir(&project).unwrap();
        std::fs::write(project.join("note"), "hello").unwrap();
        let session = session_in(&harness, &project).await;
        let events = run_turn(&session, "Read the note").await;
        let read = outcomes(&events)[0].result.clone();
        assert!(read.is_ok(), "session {number}: {read:?}");
        sessions.push(session);
    }
}

/// Answers every command with its own text, and runs none.
#[derive(Debug)]
struct EchoingExec;

impl ExecBackend for EchoingExec {
    fn open(&self, _: ExecSessionSpec) -> Arc<dyn ExecSession> {
        Arc::new(Self)
    }
}

#[async_trait]
impl ExecSession for EchoingExec {
    async fn run(
        &self,
        command: ExecCommand,
        _: &CancellationToken,
        _: &TextListener<'_>,
    ) -> anyhow::Result<FinishedCommand> {
        let status = ExitStatus {
            code: Some(0),
            signal: None,
        };
        Ok(FinishedCommand {
            status,
            stdout: FinishedOutput {
                text: format!("elsewhere: {}", command.text),
                ..FinishedOutput::default()
            },
            stderr: FinishedOutput::default(),
            timed_out: false,
            cancelled: false,
            shell_restarted: false,
            sandbox_note: None,
            refused_hosts: Vec::new(),
        })
    }

    async fn processes(&self, _: Option<i32>) -> anyhow::Result<SessionProcesses> {
        Ok(SessionProcesses::default())
    }

    async fn signal_tree(&self, _: i32, _: i32) -> anyhow::Result<Vec<KillOutcome>> {
        Ok(Vec::new())
    }

    async fn close(&self) {}
}

#[tokio::test]
async fn commands_run_where_the_embedder_says() {
    let project = directory(&[]);
    let model = FakeProvider::scripted([
        Reply::new().tool_call("shell", json!({"command": "ls"})),
        Reply::new().text("Done."),
    ]);
    let harness = bare()
        .with_exec(Arc::new(EchoingExec))
        .with_provider(Arc::new(model))
        .build()
        .await
        .unwrap();
    let events = one_turn(&harness, project.path(), "List the files").await;
    let result = outcomes(&events)[0].result.clone().unwrap();
    assert!(
        result.to_model_text().contains("elsewhere: ls"),
        "{result:?}"
    );
}
