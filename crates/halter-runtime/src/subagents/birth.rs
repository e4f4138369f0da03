//! How a child session is made from its parent: what it has is cut from what
//! the parent has, never from what the harness has.

use super::control::ParentFacts;
use super::tree::Lineage;
use super::types::AgentType;
use crate::bounds::{check_child, child_bounds};
use crate::driver::live::Owner;
use crate::engine::Input;
use crate::error::{HalterError, store_failure};
use crate::limits::SUBAGENT_MODEL_CALLS;
use crate::runtime::{SessionRuntime, model_outside};
use crate::session::{SessionCore, SessionHandle};
use halter_protocol::{
    AgentId, ForkedContext, Message, ModelId, ModelRole, PromptSegment, PromptSegmentKind,
    SessionBlueprint, SessionBounds, SessionId, SubagentPlace, ToolName, Transcript,
};
use halter_session::{SessionLog, StoreError, TraceStart};
use halter_tools::subagents::{CLOSE_AGENT, SEND_INPUT, SPAWN_AGENT, WAIT_AGENT};
use std::path::PathBuf;
use std::sync::Arc;

/// What is known of a child before it is made.
pub(super) struct Child<'a> {
    pub session_id: SessionId,
    pub agent_id: AgentId,
    /// The type that was asked for by name.
    pub named: Option<String>,
    pub agent_type: &'a AgentType,
    pub model: ModelId,
    pub fork: bool,
    pub worktree: Option<PathBuf>,
}

impl SessionRuntime {
    /// Starts a child session.
    pub(super) async fn new_child(
        &self,
        core: &Arc<SessionCore>,
        parent: &ParentFacts,
        child: Child<'_>,
    ) -> anyhow::Result<SessionHandle> {
        let services = self.services();
        let above = core.blueprint();
        let mode = services.policy.permissions.mode;
        let depth = core.depth() + 1;
        let deeper = parent.policy.check_subagent_spawn(depth, 0).is_ok();
        let tools = child_tools(parent, child.agent_type, deeper);
        let bounds = child_bounds(&above.bounds, child.agent_type, &tools);
        check_child(&above.bounds, &bounds, mode)?;
        let forked = child
            .fork
            .then(|| Arc::new(fork(core.session_id(), parent)));
        let at = services.clock.now();
        let worktree = child.worktree;
        let environment = match &worktree {
            Some(directory) => {
                let (services, directory) = (services.clone(), directory.clone());
                tokio::task::spawn_blocking(move || services.probe.look(&directory, at)).await?
            }
            None => parent.environment.clone(),
        };
        let may_ask = above.subagent.as_ref().is_none_or(|it| it.may_ask);
        let parents_mode = above.bounds.permission_mode.map_or(mode, |it| it.min(mode));
        let root_session_id = above
            .subagent
            .as_ref()
            .map_or(&above.session_id, |it| &it.root_session_id);
        let place = SubagentPlace {
            agent_id: child.agent_id,
            agent_type: child.named,
            depth,
            root_session_id: root_session_id.clone(),
            worktree: worktree.clone(),
            may_ask: may_ask && parents_mode.asks(),
        };
        let mut system_prompt = above.system_prompt.clone();
        system_prompt.push(segment(child.agent_type));
        let max_turns = child.agent_type.max_turns.or(above.max_turns);
        let toolset = parent.tools.only(&tools);
        let blueprint = SessionBlueprint {
            session_id: child.session_id,
            parent_session_id: Some(above.session_id.clone()),
            created_at: at,
            working_dir: worktree.unwrap_or_else(|| above.working_dir.clone()),
            default_model: child.model,
            system_prompt,
            environment,
            instructions: above.instructions.clone(),
            snapshot_revision: parent.resources.snapshot.revision.clone(),
            tools_revision: Some(toolset.revision.clone()),
            max_turns: Some(max_turns.unwrap_or(SUBAGENT_MODEL_CALLS)),
            bounds,
            budget: parent.budget,
            subagent_model: parent.subagent_model.clone(),
            subagent_event_forwarding: above.subagent_event_forwarding,
            subagent: Some(place),
        };
        let log = SessionLog::create(services.store.clone(), blueprint, services.durability)
            .await
            .map_err(store_failure)?;
        let hub = self.hub(&log, TraceStart::New, Some(core));
        let resources = parent.resources.clone();
        let mut owner = Owner::new(log, services.clone(), hub.clone(), resources, toolset);
        owner.inherit(&parent.hook_scopes);
        let warnings = Vec::new();
        let started = owner.settle(Input::Start { warnings, forked }).await;
        started.map_err(store_failure)?;
        Ok(self.register(owner, hub, Some(lineage(core))))
    }

    /// Takes a child up that does not live here any more.
    pub(super) async fn resume_child(
        &self,
        core: &Arc<SessionCore>,
        parent: &ParentFacts,
        session_id: &SessionId,
    ) -> anyhow::Result<SessionHandle> {
        if let Some(session) = self.live_session(session_id) {
            return Ok(session);
        }
        let services = self.services();
        let store = services.store.clone();
        let log = match SessionLog::open(store, session_id, services.durability).await {
            Err(StoreError::NotFound { .. }) => return Err(gone(session_id).into()),
            opened => opened.map_err(store_failure)?,
        };
        let head_sequence = log.head();
        let hub = self.hub(&log, TraceStart::Resumed { head_sequence }, Some(core));
        let kept = log.blueprint().bounds.tools.clone();
        let names = parent.tools.tools.names().filter(|name| {
            let kept = kept.as_ref();
            kept.is_none_or(|it| it.contains(name))
        });
        let names: Vec<ToolName> = names.cloned().collect();
        let tools = parent.tools.only(&names);
        let resources = parent.resources.clone();
        let mut owner = Owner::resumed(log, services.clone(), hub.clone(), resources, tools);
        owner.inherit(&parent.hook_scopes);
        owner.settle(Input::Resume).await.map_err(store_failure)?;
        Ok(self.register(owner, hub, Some(lineage(core))))
    }

    /// The model of a child: what the call names, else its type, else the turn,
    /// else the session, else the role.
    pub(super) fn child_model(
        &self,
        parent: &ParentFacts,
        asked: Option<ModelId>,
        agent_type: &AgentType,
        bounds: &SessionBounds,
    ) -> Result<ModelId, HalterError> {
        // A name of another service in a file changes nothing, as in skills.
        let known = |model: &ModelId| self.check_model(model).is_ok();
        let named = asked.or_else(|| agent_type.model.clone().filter(known));
        let model = named
            .or_else(|| parent.subagent_model.clone())
            .unwrap_or_else(|| ModelRole::Subagent.as_str().into());
        self.check_model(&model)?;
        match &bounds.models {
            Some(models) if !models.contains(&model) => Err(model_outside(&model)),
            _ => Ok(model),
        }
    }
}

fn lineage(core: &Arc<SessionCore>) -> Lineage {
    match core.lineage() {
        Some(above) => above.clone(),
        None => Lineage {
            root: Arc::downgrade(core),
            tree: core.tree().clone(),
        },
    }
}

/// The tools of the parent that the type has. Where no session can be started
/// below it, a child is not told of the tools for that.
fn child_tools(parent: &ParentFacts, agent_type: &AgentType, deeper: bool) -> Vec<ToolName> {
    let starts = |name: &ToolName| {
        [SPAWN_AGENT, SEND_INPUT, WAIT_AGENT, CLOSE_AGENT].contains(&name.as_str())
    };
    let names = parent.tools.tools.names();
    names
        .filter(|name| agent_type.has_tool(name) && (deeper || !starts(name)))
        .cloned()
        .collect()
}

/// What the parent knows. Its last answer, in which the child is asked for, has
/// no results yet and is left out.
fn fork(from: &SessionId, parent: &ParentFacts) -> ForkedContext {
    let unanswered = |message: &Message| {
        let answer = message.as_assistant();
        answer.is_some_and(|it| it.tool_calls().next().is_some())
    };
    let mut newest = parent.messages.iter_newest_first();
    let behind = newest
        .position(|message| message.as_assistant().is_some())
        .unwrap_or_default();
    let last = parent.messages.iter_newest_first().nth(behind);
    let cut = match last {
        Some(message) if unanswered(message) => behind + 1,
        _ => 0,
    };
    let kept = parent.messages.len().saturating_sub(cut);
    let mut messages = Transcript::default();
    for message in parent.messages.iter().take(kept) {
        messages.push(message.clone());
    }
    ForkedContext {
        parent_session_id: from.clone(),
        context_mark: parent.context_mark.filter(|mark| mark.messages <= kept),
        messages,
        tasks: parent.memory.tasks.clone(),
        file_views: parent.memory.file_views.clone(),
    }
}

/// What a child is told of being one.
fn segment(agent_type: &AgentType) -> PromptSegment {
    let text = format!(
        "# Your role\n\nYou are a subagent of the type `{}`: another agent handed you a part of \
         its work. Nobody answers questions before you are done; where something is open, choose, \
         and say so. Your last message is your report, and all that the other agent sees: make \
         it complete and short.\n\n{}",
        agent_type.name, agent_type.prompt
    );
    PromptSegment::new(PromptSegmentKind::Append, text)
}

fn gone(session_id: &SessionId) -> HalterError {
    let message = format!("the session '{session_id}' of the subagent is not there any more");
    HalterError::new("session_not_found", message).with_hint("start another subagent")
}
