//! A host that speaks in raw messages, and an agent that does as it is told.

use async_trait::async_trait;
use halter_mcp::server::{
    AgentServer, HostLink, ListedSession, ServeError, ServedAgent, SessionsPage, SessionsRequest,
    TaskReport, TaskRequest, serve_streams,
};
use halter_protocol::{
    Action, ApprovalChoice, ApprovalRequest, AskedBy, Objection, ToolCall, ToolError, ToolResult,
    ToolSpec, Usage,
};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The task says what to do: `say X`, `wait`, `ask`, `fail`, `flood`.
#[derive(Default)]
pub struct ScriptedAgent {
    pub started: Notify,
    pub running: AtomicUsize,
    pub cancelled: AtomicUsize,
    /// Does not stop when it is cancelled.
    pub stubborn: bool,
}

struct Runs<'a>(&'a AtomicUsize);

impl Drop for Runs<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

pub fn approval(command: &str) -> ApprovalRequest {
    ApprovalRequest {
        approval_id: "apr_1".into(),
        call: ToolCall {
            id: "call_1".into(),
            name: "shell".into(),
            arguments: json!({"command": command}),
        },
        actions: Vec::<Action>::new(),
        diff: None,
        asked_by: AskedBy::Policy,
        objection: Objection {
            always: Some("Bash(make)".to_owned()),
            ..Objection::new("shell.program", "make is not on the list")
        },
        choices: vec![
            ApprovalChoice::Once,
            ApprovalChoice::Session,
            ApprovalChoice::Always,
            ApprovalChoice::Deny,
        ],
        origin: None,
    }
}

#[async_trait]
impl ServedAgent for ScriptedAgent {
    async fn run_task(&self, task: TaskRequest, host: HostLink) -> Result<TaskReport, ServeError> {
        self.running.fetch_add(1, Ordering::SeqCst);
        let _runs = Runs(&self.running);
        self.started.notify_one();
        let session_id = task.session_id.unwrap_or_else(|| "ses_1".to_owned());
        let (what, rest) = task.task.split_once(' ').unwrap_or((&task.task, ""));
        let answer = match what {
            "say" => {
                host.progress(rest);
                rest.to_owned()
            }
            "wait" => {
                host.cancelled().await;
                self.cancelled.fetch_add(1, Ordering::SeqCst);
                if self.stubborn {
                    std::future::pending::<()>().await;
                }
                return Err(ServeError::new("cancelled", "as it was told").in_session(session_id));
            }
            "ask" => {
                let answer = host.ask(Arc::new(approval(rest))).await;
                let reason = answer.reason.unwrap_or_default();
                format!("{} {reason}", answer.choice.as_str())
                    .trim()
                    .to_owned()
            }
            "flood" => {
                let times: usize = rest.parse().unwrap();
                (0..times).for_each(|number| host.progress(number.to_string()));
                host.cancelled().await;
                String::new()
            }
            _ => return Err(ServeError::new("failed", "nobody knows how").in_session(session_id)),
        };
        Ok(TaskReport {
            session_id,
            answer,
            usage: Usage::default(),
        })
    }

    async fn list_sessions(&self, request: SessionsRequest) -> Result<SessionsPage, ServeError> {
        let session = |number| ListedSession {
            session_id: format!("ses_{number}"),
            title: "before".to_owned(),
            working_dir: "/work".to_owned(),
            updated_at: "2026-01-01T00:00:00Z".parse().unwrap(),
        };
        Ok(SessionsPage {
            sessions: (0..request.limit.unwrap_or(2)).map(session).collect(),
            next_cursor: None,
        })
    }

    fn tools(&self) -> Vec<ToolSpec> {
        Vec::new()
    }

    async fn call_tool(
        &self,
        _name: &str,
        _arguments: Value,
        _host: HostLink,
    ) -> Result<Result<Arc<ToolResult>, ToolError>, ServeError> {
        Err(ServeError::new("tool_unknown", "it has none"))
    }
}

/// A host at the other end of two streams.
pub struct RawHost {
    pub agent: Arc<ScriptedAgent>,
    writer: Option<WriteHalf<DuplexStream>>,
    reader: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
    pub serving: JoinHandle<Result<(), ServeError>>,
    pub stop: CancellationToken,
}

impl RawHost {
    /// Serves an agent and says nothing yet.
    pub fn silent(agent: ScriptedAgent) -> Self {
        Self::with_buffer(agent, 1024 * 1024)
    }

    pub fn with_buffer(agent: ScriptedAgent, bytes: usize) -> Self {
        let agent = Arc::new(agent);
        let (near, far) = tokio::io::duplex(bytes);
        let (far_reader, far_writer) = tokio::io::split(far);
        let (reader, writer) = tokio::io::split(near);
        let server = AgentServer::new(agent.clone(), "1.2.3");
        let stop = CancellationToken::new();
        let serving = tokio::spawn(serve_streams(server, far_reader, far_writer, stop.clone()));
        Self {
            agent,
            writer: Some(writer),
            reader: BufReader::new(reader).lines(),
            serving,
            stop,
        }
    }

    /// A host that has shaken hands by the older revision.
    pub async fn legacy(capabilities: Value) -> Self {
        Self::legacy_with(ScriptedAgent::default(), capabilities).await
    }

    pub async fn legacy_with(agent: ScriptedAgent, capabilities: Value) -> Self {
        let mut host = Self::silent(agent);
        let info = json!({"name": "test", "version": "1"});
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": info,
        });
        let answer = host.request(0, "initialize", params).await;
        assert_eq!(
            answer["result"]["protocolVersion"], "2025-11-25",
            "{answer}"
        );
        host.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
            .await;
        host
    }

    pub async fn send(&mut self, message: Value) {
        self.send_line(&message.to_string()).await;
    }

    pub async fn send_line(&mut self, line: &str) {
        let writer = self.writer.as_mut().unwrap();
        writer.write_all(line.as_bytes()).await.unwrap();
        writer.write_all(b"\n").await.unwrap();
    }

    /// The next message of the server.
    pub async fn next(&mut self) -> Value {
        let line = self.reader.next_line().await.unwrap();
        serde_json::from_str(&line.expect("the server closed its end")).unwrap()
    }

    pub async fn request(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.ask(id, method, params).await;
        let answer = self.next().await;
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    pub async fn ask(&mut self, id: u64, method: &str, params: Value) {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.send(request).await;
    }

    /// Starts a task without waiting for its end.
    pub async fn start(&mut self, id: u64, task: &str) {
        let params = json!({"name": "run_task", "arguments": {"task": task}});
        self.ask(id, "tools/call", params).await;
    }

    pub async fn cancel(&mut self, id: u64) {
        let params = json!({"requestId": id});
        self.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}))
            .await;
    }

    /// Closes its end and waits for the server to leave.
    pub async fn leave(mut self) -> Arc<ScriptedAgent> {
        drop(self.writer.take());
        // Whatever is still said is read by nobody.
        drop(self.reader);
        self.serving.await.unwrap().unwrap();
        self.agent
    }
}

/// The text of a result.
pub fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("{answer}"))
}
