//! The harness as an agent that hosts give tasks to.

use super::host_approvals::HostApprovals;
use super::own_tools::OwnTools;
use crate::limits::LISTED_SESSIONS;
use crate::view::call_summary;
use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use halter::{Halter, HalterError, HalterSession, SessionInit};
use halter_mcp::server::{
    HostLink, ListedSession, ServeError, ServedAgent, SessionsPage, SessionsRequest, TaskReport,
    TaskRequest,
};
use halter_protocol::{
    ModelId, SessionEventPayload, SessionId, ToolError, ToolResult, ToolSpec, Turn, Usage,
};
use halter_session::PageRequest;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// A harness that works for hosts.
pub struct HarnessAgent {
    pub harness: Halter,
    /// How new sessions start.
    pub init: SessionInit,
    /// The model of tasks that name none, in continued sessions too.
    pub model: Option<ModelId>,
    pub approvals: Arc<HostApprovals>,
    pub own_tools: Option<OwnTools>,
}

/// An error of the harness, as hosts are told of it.
pub fn told(error: anyhow::Error) -> ServeError {
    match error.downcast_ref::<HalterError>() {
        Some(known) => {
            let hint = known.hint().map(|hint| format!(" ({hint})"));
            let message = format!("{known}{}", hint.unwrap_or_default());
            ServeError::new(known.code(), message)
        }
        None => ServeError::new("failed", format!("{error:#}")),
    }
}

#[async_trait]
impl ServedAgent for HarnessAgent {
    async fn run_task(&self, task: TaskRequest, host: HostLink) -> Result<TaskReport, ServeError> {
        if task.task.trim().is_empty() {
            return Err(ServeError::new("invalid_arguments", "the task is empty"));
        }
        let session_id = match &task.session_id {
            Some(id) => SessionId::from(id.as_str()),
            None => SessionId::new(),
        };
        let id = session_id.to_string();
        let Some(_served) = self.approvals.serve(&session_id, &host) else {
            let message = format!("session '{id}' works on another task; wait for it or cancel it");
            return Err(ServeError::new("session_busy", message).in_session(id));
        };
        let session = match &task.session_id {
            Some(_) => self.resumed(&session_id).await?,
            None => {
                let mut init = self.init.clone();
                init.session_id = Some(session_id);
                self.harness.new_session(init).await.map_err(told)?
            }
        };
        host.progress(format!("session {id}"));
        let done = self.work(&session, task, &host).await;
        // Nothing that it started outlives the task.
        if let Err(error) = session.shutdown("complete").await {
            tracing::warn!(%error, session = id, "the end of a session was not stored");
        }
        let (answer, usage) = done.map_err(|error| error.in_session(id.as_str()))?;
        Ok(TaskReport {
            session_id: id,
            answer,
            usage,
        })
    }

    async fn list_sessions(&self, request: SessionsRequest) -> Result<SessionsPage, ServeError> {
        let cursor = request.cursor.as_deref().map(str::parse).transpose();
        let cursor = cursor.map_err(|error| {
            ServeError::new(
                "invalid_arguments",
                format!("the cursor cannot be used: {error}"),
            )
        })?;
        let page = PageRequest {
            cursor,
            limit: request.limit.unwrap_or(LISTED_SESSIONS),
        };
        let page = self.harness.runtime().list_sessions(page).await;
        let page = page.map_err(told)?;
        let sessions = page.sessions.into_iter().map(|session| ListedSession {
            session_id: session.session_id.to_string(),
            title: session.title.as_deref().unwrap_or_default().to_owned(),
            working_dir: session.working_dir.display().to_string(),
            updated_at: session.updated_at,
        });
        Ok(SessionsPage {
            sessions: sessions.collect(),
            next_cursor: page.next.map(|next| next.to_string()),
        })
    }

    fn tools(&self) -> Vec<ToolSpec> {
        match &self.own_tools {
            Some(_) => {
                let mut tools = self.harness.tools().to_vec();
                let late = self.harness.late_tools().map(|late| late.current());
                let late = late.iter().flat_map(|late| late.tools());
                tools.extend(late.map(|(_, tool)| tool.spec()));
                tools
            }
            None => Vec::new(),
        }
    }

    fn tool_changes(&self) -> BoxStream<'static, ()> {
        let Some(late) = self.harness.late_tools() else {
            return futures::stream::pending().boxed();
        };
        let changes = late.subscribe();
        let next = |mut changes: watch::Receiver<_>| async move {
            changes.changed().await.ok().map(|()| ((), changes))
        };
        futures::stream::unfold(changes, next).boxed()
    }

    async fn call_tool(
        &self,
        name: &str,
        arguments: Value,
        host: HostLink,
    ) -> Result<Result<Arc<ToolResult>, ToolError>, ServeError> {
        match &self.own_tools {
            Some(tools) => tools.call(self, name, arguments, host).await,
            None => Err(ServeError::new(
                "tool_unknown",
                format!("there is no tool '{name}'"),
            )),
        }
    }
}

impl HarnessAgent {
    async fn resumed(&self, id: &SessionId) -> Result<HalterSession, ServeError> {
        let found = self.harness.runtime().resume(id).await.map_err(told)?;
        found.ok_or_else(|| {
            let message = format!("there is no session '{id}'; see list_sessions");
            ServeError::new("session_not_found", message)
        })
    }

    /// Runs one turn to its end, which a host can hasten.
    async fn work(
        &self,
        session: &HalterSession,
        task: TaskRequest,
        host: &HostLink,
    ) -> Result<(String, Usage), ServeError> {
        let mut turn = Turn::user(task.task);
        turn.default_model = task.model.map(ModelId::from).or_else(|| self.model.clone());
        let turn_id = turn.id.clone();
        let limit = task
            .timeout_secs
            .map(|seconds| Duration::from_secs(seconds.get()));
        let deadline = tokio::time::sleep(limit.unwrap_or(Duration::ZERO));
        tokio::pin!(deadline);
        let mut events = session.submit_turn(turn).await.map_err(told)?;
        let (mut answer, mut ending) = (String::new(), None);
        loop {
            tokio::select! {
                biased;
                event = events.next() => {
                    let Some(event) = event.transpose().map_err(told)? else {
                        return Err(ServeError::new("cancelled", "the session ended before the task did"));
                    };
                    match event.payload {
                        SessionEventPayload::MessageItem { message } => {
                            if let Some(said) = message.as_assistant() {
                                answer = said.plain_text();
                                host.progress(answer.trim().lines().next().unwrap_or_default());
                            }
                        }
                        SessionEventPayload::ToolExecutionStarted { call, .. } => {
                            host.progress(call_summary(&call));
                        }
                        SessionEventPayload::TurnCompleted { usage, .. } => return Ok((answer, usage)),
                        SessionEventPayload::TurnFailed { error, .. } => {
                            let code = ending.unwrap_or(error.code.as_str());
                            return Err(ServeError::new(code, error.message));
                        }
                        _ => {}
                    }
                }
                () = host.cancelled(), if ending.is_none() => {
                    ending = Some("cancelled");
                    let reason = "the host cancelled it or has gone";
                    session.cancel_turn(&turn_id, reason).await.map_err(told)?;
                }
                () = &mut deadline, if limit.is_some() && ending.is_none() => {
                    ending = Some("timed_out");
                    let reason = "it took longer than the timeout_secs given with the task";
                    session.cancel_turn(&turn_id, reason).await.map_err(told)?;
                }
            }
        }
    }
}
