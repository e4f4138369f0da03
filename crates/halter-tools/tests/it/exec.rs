//! A place of an embedder's own.

use crate::support::Workspace;
use async_trait::async_trait;
use halter_protocol::ToolErrorCode;
use halter_tools::exec::{
    ExecBackend, ExecCommand, ExecSession, ExecSessionSpec, ExitStatus, FinishedCommand,
    FinishedOutput, KillOutcome, ProcessInfo, SessionProcesses, SignalResult, TextListener,
};
use halter_tools::limits::SHELL_RESULT_BYTES;
use halter_tools::{PolicyError, PolicySettings};
use serde_json::json;
use std::sync::{Arc, Mutex};
use tokio_util::sync::CancellationToken;

/// Starts nothing: writes down what it is told and answers the same always.
#[derive(Debug, Clone, Default)]
struct PaperExec(Arc<Mutex<Vec<String>>>);

impl PaperExec {
    fn note(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }

    fn notes(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl ExecBackend for PaperExec {
    fn open(&self, spec: ExecSessionSpec) -> Arc<dyn ExecSession> {
        assert_eq!(spec.environment.get("LANG").unwrap(), "C.UTF-8");
        assert_eq!(spec.output.result_bytes, SHELL_RESULT_BYTES);
        let directory = spec.working_dir.file_name().unwrap().to_owned();
        self.note(format!("open in {}", directory.display()));
        Arc::new(self.clone())
    }
}

#[async_trait]
impl ExecSession for PaperExec {
    async fn run(
        &self,
        command: ExecCommand,
        _: &CancellationToken,
        output: &TextListener<'_>,
    ) -> anyhow::Result<FinishedCommand> {
        let deadline = command.deadline.as_secs();
        self.note(format!("run {} within {deadline} s", command.text));
        output("live");
        Ok(FinishedCommand {
            status: ExitStatus {
                code: Some(3),
                signal: None,
            },
            stdout: FinishedOutput {
                text: "on paper".to_owned(),
                omitted_bytes: 9,
                kept_file: Some("/far/away".into()),
                kept_note: Some("partly".to_owned()),
            },
            stderr: FinishedOutput::default(),
            timed_out: false,
            cancelled: false,
            shell_restarted: false,
            sandbox_note: None,
            refused_hosts: Vec::new(),
        })
    }

    async fn processes(&self, root: Option<i32>) -> anyhow::Result<SessionProcesses> {
        if let Some(pid) = root {
            return Err(PolicyError::ProcessOutsideTree { pid }.into());
        }
        Ok(SessionProcesses {
            root: Some(7),
            descendants: vec![ProcessInfo {
                pid: 8,
                ppid: 7,
                command: "far".to_owned(),
                state: 'S',
                start_time: 0,
            }],
        })
    }

    async fn signal_tree(&self, root: i32, signal: i32) -> anyhow::Result<Vec<KillOutcome>> {
        self.note(format!("signal {signal} to {root}"));
        Ok(vec![KillOutcome {
            pid: root,
            result: SignalResult::Signalled,
        }])
    }

    async fn close(&self) {
        self.note("close".to_owned());
    }
}

#[tokio::test]
async fn shell_and_process_work_in_a_place_of_an_embedders_own() {
    let exec = PaperExec::default();
    let workspace = Workspace::with_exec(PolicySettings::default(), Arc::new(exec.clone()));
    let result = workspace.ok("shell", json!({"command": "ls"})).await;
    assert_eq!(
        result,
        json!({
            "exit_code": 3,
            "stdout": "on paper",
            "stdout_omitted_bytes": 9,
            "stdout_file": "/far/away",
            "stdout_file_note": "partly",
            "stderr": "",
            "timed_out": false,
            "cancelled": false,
        })
    );
    assert_eq!(workspace.output.text(), "live");

    let listed = workspace
        .ok("process", json!({"action": "list_descendants"}))
        .await;
    assert_eq!(listed["pid"], 7);
    assert_eq!(listed["descendants"][0]["pid"], 8);
    // The numbers are the place's: this machine's process 8 is not asked.
    let killed = workspace
        .ok("process", json!({"action": "kill_tree", "pid": 8}))
        .await;
    assert_eq!(killed["killed"], 1);
    let other = json!({"action": "list_descendants", "pid": 1});
    workspace
        .error("process", other, ToolErrorCode::PolicyDenied)
        .await;

    workspace.store.close().await;
    assert_eq!(
        exec.notes(),
        [
            "open in work",
            "run ls within 120 s",
            "signal 9 to 8",
            "close"
        ]
    );
}
