//! What tools ask for: start a subagent, tell it something, wait, close.

use super::birth::Child;
use super::follow::follow;
use super::shortened;
use super::tree::RunningPlace;
use super::types::{AgentTypes, GENERAL};
use super::worktree;
use crate::error::{HalterError, store_failure};
use crate::limits::{SUBAGENT_CLOSE_WAIT, SUBAGENT_TASK_BYTES};
use crate::runtime::SessionRuntime;
use crate::scoped_hooks::HookScope;
use crate::services::Resources;
use crate::session::{SessionCore, SessionHandle};
use crate::toolset::Toolset;
use async_trait::async_trait;
use halter_protocol::{
    AgentId, CloseSubagentRequest, CloseSubagentResponse, ContextMark, EnvironmentSnapshot,
    MessageId, ModelId, SendSubagentInputRequest, SessionBudget, SessionId, SessionMemory,
    SpawnSubagentRequest, Spending, SubagentReport, SubagentState, SubagentStatus, Transcript,
    Turn, TurnId, UserMessage, WaitSubagentRequest, WaitSubagentResponse,
};
use halter_tools::{SubagentControl, ToolPolicy};
use std::sync::Arc;
use std::time::Duration;

/// What a session is at the moment a tool runs in it: what its children are
/// cut from.
#[derive(Clone)]
pub(crate) struct ParentFacts {
    pub tools: Arc<Toolset>,
    pub types: AgentTypes,
    pub resources: Arc<Resources>,
    pub policy: Arc<dyn ToolPolicy>,
    /// The model of children for which none is named.
    pub subagent_model: Option<ModelId>,
    pub turn: Option<TurnId>,
    pub messages: Transcript,
    pub context_mark: Option<ContextMark>,
    pub memory: Arc<SessionMemory>,
    pub environment: EnvironmentSnapshot,
    pub budget: SessionBudget,
    /// What is in use whose hooks hold for calls of children.
    pub hook_scopes: Vec<HookScope>,
}

/// The subagents of a session, for its tools.
#[derive(Clone)]
pub(crate) struct SessionSubagents {
    core: Arc<SessionCore>,
    parent: Arc<ParentFacts>,
}

impl SessionSubagents {
    pub fn new(core: Arc<SessionCore>, parent: ParentFacts) -> Self {
        Self {
            core,
            parent: Arc::new(parent),
        }
    }

    fn take_place(&self) -> anyhow::Result<RunningPlace> {
        let depth = self.core.depth();
        let place = self
            .core
            .tree()
            .take_place(self.parent.policy.as_ref(), depth);
        Ok(place?)
    }

    async fn start(
        self,
        request: SpawnSubagentRequest,
        place: RunningPlace,
    ) -> anyhow::Result<SubagentStatus> {
        let runtime = SessionRuntime::of(&self.core);
        let parent = &self.parent;
        let name = request.agent_type.as_deref().unwrap_or(GENERAL);
        let agent_type = parent
            .types
            .get(name)
            .ok_or_else(|| unknown(name, parent))?;
        let bounds = &self.core.blueprint().bounds;
        let model = runtime.child_model(parent, request.model, agent_type, bounds)?;
        let children = self.core.children();
        let agent_id = children.next_id(parent.turn.as_ref())?;
        let services = self.core.services();
        let at = services.clock.now();
        let session_id = SessionId::mint(services.ids.as_ref(), at);
        let worktree = match agent_type.worktree {
            true => {
                let parent = &self.core.blueprint().working_dir;
                Some(worktree::make(services, parent, &session_id).await?)
            }
            false => None,
        };
        let child = Child {
            session_id,
            agent_id: agent_id.clone(),
            named: request.agent_type.clone(),
            agent_type,
            model,
            fork: request.fork_context,
            worktree: worktree.clone(),
        };
        let session = runtime.new_child(&self.core, parent, child).await?;
        let status = SubagentStatus {
            agent_id,
            session_id: session.session_id().clone(),
            agent_type: request.agent_type,
            task: shortened(&request.message, SUBAGENT_TASK_BYTES),
            state: SubagentState::Running,
            last_message: None,
            usage: None,
            error: None,
            worktree,
        };
        let mut turn = self.turn(request.message);
        turn.uses = request.uses;
        self.begin(session, status, turn, place).await
    }

    /// A turn of a child, with ids and a time of the harness.
    fn turn(&self, message: String) -> Turn {
        let services = self.core.services();
        let (ids, at) = (services.ids.as_ref(), services.clock.now());
        let message = UserMessage {
            id: MessageId::mint(ids, at),
            created_at: at,
            ..UserMessage::text(message)
        };
        Turn {
            id: TurnId::mint(ids, at),
            ..Turn::new(message)
        }
    }

    /// Has a child work once its parent's log says so.
    async fn begin(
        &self,
        session: SessionHandle,
        status: SubagentStatus,
        turn: Turn,
        place: RunningPlace,
    ) -> anyhow::Result<SubagentStatus> {
        let noted = self.core.subagent_starts(Arc::new(status.clone())).await;
        noted?.map_err(store_failure)?;
        let children = self.core.children();
        children.begin(status.clone(), session.clone());
        session.core().begin_run();
        let submitted = session.submit_turn(turn).await.map(drop);
        tokio::spawn(follow(
            self.core.clone(),
            session,
            status.clone(),
            submitted.err(),
            place,
        ));
        Ok(status)
    }

    async fn tell(self, request: SendSubagentInputRequest) -> anyhow::Result<SubagentStatus> {
        let SendSubagentInputRequest { target, message } = request;
        let children = self.core.children();
        let telling = children.told(&target).await?;
        let (status, session) = (telling.status.clone(), telling.session.clone());
        if status.state == SubagentState::Closed {
            let message = format!("the subagent '{target}' is closed");
            let error = HalterError::new("subagent_closed", message);
            return Err(error.with_hint("start another one").into());
        }
        if let (SubagentState::Running, Some(session)) = (&status.state, &session) {
            // Between two turns there is nothing to join.
            if session.steer(message.clone()).await.is_err() {
                session.submit_turn(self.turn(message)).await?;
            }
            return Ok(status);
        }
        let place = self.take_place()?;
        let session = match session {
            Some(session) => session,
            None => {
                let runtime = SessionRuntime::of(&self.core);
                let id = &status.session_id;
                runtime.resume_child(&self.core, &self.parent, id).await?
            }
        };
        let status = SubagentStatus {
            task: shortened(&message, SUBAGENT_TASK_BYTES),
            state: SubagentState::Running,
            last_message: None,
            error: None,
            ..status
        };
        let turn = self.turn(message);
        self.begin(session, status, turn, place).await
    }

    async fn end(self, target: AgentId) -> anyhow::Result<CloseSubagentResponse> {
        let children = self.core.children();
        let look = children.with(&target, |it| {
            it.stopped = true;
            (it.status.clone(), it.session.take())
        });
        let (previous_status, session) = look?;
        if previous_status.state == SubagentState::Closed {
            return Ok(CloseSubagentResponse { previous_status });
        }
        let waiting = children.waiting(std::slice::from_ref(&target))?;
        if let Some(session) = session {
            session.shutdown("closed by its parent").await?;
        }
        // The one who follows it reports first.
        let ended = tokio::time::timeout(SUBAGENT_CLOSE_WAIT, waiting.first()).await;
        let ended = ended.unwrap_or_else(|_| previous_status.clone());
        let status = SubagentStatus {
            state: SubagentState::Closed,
            ..ended
        };
        let spent = children.with(&target, |it| it.spent)?;
        self.core
            .subagent_reports(SubagentReport {
                subagent: status.clone(),
                spent: Spending::default(),
                told: true,
                wakes: false,
            })
            .await?;
        children.reported(status, spent);
        Ok(CloseSubagentResponse { previous_status })
    }
}

#[async_trait]
impl SubagentControl for SessionSubagents {
    async fn spawn(&self, request: SpawnSubagentRequest) -> anyhow::Result<SubagentStatus> {
        let place = self.take_place()?;
        // In a task: a call that is given up leaves no child half made.
        tokio::spawn(self.clone().start(request, place)).await?
    }

    async fn send_input(
        &self,
        request: SendSubagentInputRequest,
    ) -> anyhow::Result<SubagentStatus> {
        tokio::spawn(self.clone().tell(request)).await?
    }

    async fn wait(&self, request: WaitSubagentRequest) -> anyhow::Result<WaitSubagentResponse> {
        let waiting = self.core.children().waiting(&request.targets)?;
        let status = match request.timeout_ms.map(Duration::from_millis) {
            None => Some(waiting.first().await),
            Some(time) => match tokio::time::timeout(time, waiting.first()).await {
                Ok(status) => Some(status),
                Err(_) if waiting.is_promised() => Some(waiting.first().await),
                Err(_) => None,
            },
        };
        Ok(WaitSubagentResponse {
            timed_out: status.is_none(),
            status,
            target_statuses: waiting.statuses(),
        })
    }

    async fn close(&self, request: CloseSubagentRequest) -> anyhow::Result<CloseSubagentResponse> {
        tokio::spawn(self.clone().end(request.target)).await?
    }

    async fn cancel(&self, target: &AgentId, reason: &str) {
        let children = self.core.children();
        let session = children.with(target, |it| {
            it.stopped = true;
            it.session.clone()
        });
        if let Ok(Some(session)) = session {
            // One that has ended meanwhile needs no cancel.
            let _ = session.cancel_with(None, reason).await;
        }
    }
}

fn unknown(name: &str, parent: &ParentFacts) -> HalterError {
    let known: Vec<&str> = parent.types.names().collect();
    let message = format!(
        "there is no agent type '{name}'; there are {}",
        known.join(", ")
    );
    HalterError::new("unknown_agent_type", message)
        .with_hint("name one of these, or none for `general`")
}
