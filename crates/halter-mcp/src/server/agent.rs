//! What is served, and what is said between it and a host.

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use halter_protocol::{ApprovalAnswer, ApprovalRequest, ToolError, ToolResult, ToolSpec, Usage};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::num::NonZeroU64;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// An agent that hosts give tasks to.
///
/// Whatever it starts for a host has ended when the future of a method returns;
/// that is soon after [`HostLink::cancelled`] does.
#[async_trait]
pub trait ServedAgent: Send + Sync + 'static {
    /// Works on a task in a new session, or goes on with one.
    async fn run_task(&self, task: TaskRequest, host: HostLink) -> Result<TaskReport, ServeError>;

    /// Sessions that can be continued.
    async fn list_sessions(&self, request: SessionsRequest) -> Result<SessionsPage, ServeError>;

    /// Its own tools, if hosts may call these; none otherwise.
    fn tools(&self) -> Vec<ToolSpec>;

    /// Has an item whenever its own tools may be others than before.
    fn tool_changes(&self) -> BoxStream<'static, ()> {
        futures::stream::pending().boxed()
    }

    /// Calls one of its own tools, under the policy of its sessions.
    async fn call_tool(
        &self,
        name: &str,
        arguments: Value,
        host: HostLink,
    ) -> Result<Result<Arc<ToolResult>, ToolError>, ServeError>;
}

/// A task for the agent.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskRequest {
    /// What to do.
    pub task: String,
    /// The session to go on with; a new one if there is none.
    #[serde(default)]
    pub session_id: Option<String>,
    /// The model: a role, or provider/model.
    #[serde(default)]
    pub model: Option<String>,
    /// How long it may take, in seconds.
    #[serde(default)]
    pub timeout_secs: Option<NonZeroU64>,
}

/// What came of a task.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TaskReport {
    /// The session, to go on with.
    pub session_id: String,
    /// The last thing the agent said.
    pub answer: String,
    /// What all model calls of the task used and cost.
    pub usage: Usage,
}

/// Which sessions are listed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionsRequest {
    /// How many at most.
    #[serde(default)]
    pub limit: Option<usize>,
    /// Where the page before ended.
    #[serde(default)]
    pub cursor: Option<String>,
}

/// A page of sessions, the most recently used first.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SessionsPage {
    /// The sessions.
    pub sessions: Vec<ListedSession>,
    /// Where the next page begins; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A session that can be continued.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListedSession {
    /// Its id.
    pub session_id: String,
    /// How it began.
    pub title: String,
    /// The directory it works in.
    pub working_dir: String,
    /// When something last happened in it.
    pub updated_at: jiff::Timestamp,
}

/// Why the agent did not do what a host asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ServeError {
    /// The stable name of the error.
    pub code: String,
    /// What happened, to what, and what to do next.
    pub message: String,
    /// The session it happened in, to go on with.
    pub session_id: Option<String>,
}

impl ServeError {
    /// An error outside of any session.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
            session_id: None,
        }
    }

    /// The error of a session.
    #[must_use]
    pub fn in_session(mut self, session_id: impl Into<String>) -> Self {
        self.session_id = Some(session_id.into());
        self
    }
}

/// A question that waits for a host.
pub(super) struct HostQuestion {
    pub request: Arc<ApprovalRequest>,
    pub reply: oneshot::Sender<ApprovalAnswer>,
}

/// The way from work to the host it is done for.
#[derive(Debug, Clone)]
pub struct HostLink {
    pub(super) progress: mpsc::Sender<String>,
    pub(super) questions: mpsc::Sender<HostQuestion>,
    pub(super) cancel: CancellationToken,
}

impl HostLink {
    /// Tells the host how it goes. A host that reads too slowly misses some.
    pub fn progress(&self, message: impl Into<String>) {
        let _ = self.progress.try_send(message.into());
    }

    /// Asks whoever sits at the host. The answer is no where nobody can be
    /// asked, and once the host has gone.
    pub async fn ask(&self, request: Arc<ApprovalRequest>) -> ApprovalAnswer {
        let (reply, answer) = oneshot::channel();
        let question = HostQuestion { request, reply };
        let gone = || ApprovalAnswer::deny("the host that asked for this has gone");
        if self.questions.send(question).await.is_err() {
            return gone();
        }
        answer.await.unwrap_or_else(|_| gone())
    }

    /// Waits until the host wants this no longer, or has gone.
    pub async fn cancelled(&self) {
        self.cancel.cancelled().await;
    }
}
