//! What the subagents of a session are made from, and where their questions go.

use super::uses::skills_in_use;
use super::{Owner, Running};
use crate::engine::{EffectId, Input, PersonRequest};
use crate::error::HalterError;
use crate::session::SessionCore;
use crate::subagents::{AgentTypes, ParentFacts, SessionSubagents, ask_at_root};
use halter_protocol::{ApprovalChoice, ApprovalRequest, ResolvedBy};
use halter_tools::{SubagentControl, ToolPolicy};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

impl Owner {
    /// What starts and follows subagents of the session as it is now.
    pub(super) async fn subagents(
        &mut self,
        core: &Arc<SessionCore>,
    ) -> Result<Arc<dyn SubagentControl>, HalterError> {
        let policy = self.toolbox.policy(&self.blueprint, &self.resources).await;
        let policy = policy.map_err(|error| HalterError::new("policy", error.to_string()))?;
        Ok(self.subagents_under(core, policy))
    }

    pub(super) fn subagents_under(
        &self,
        core: &Arc<SessionCore>,
        policy: Arc<dyn ToolPolicy>,
    ) -> Arc<dyn SubagentControl> {
        let state = self.engine.state();
        let environment = state.environment.as_ref();
        let of_turn = self.engine.subagent_model();
        let subagent_model = of_turn.or(self.blueprint.subagent_model.as_ref());
        let parent = ParentFacts {
            tools: self.tools.clone(),
            types: AgentTypes::of(&self.resources.snapshot),
            resources: self.resources.clone(),
            policy,
            subagent_model: subagent_model.cloned(),
            turn: self.engine.live_turn().cloned(),
            messages: state.messages.clone(),
            context_mark: state.context_mark,
            memory: state.memory.clone(),
            environment: environment.unwrap_or(&self.blueprint.environment).clone(),
            budget: state.budget.unwrap_or(self.blueprint.budget),
            hook_scopes: self.scopes.in_use(skills_in_use(state)),
        };
        Arc::new(SessionSubagents::new(core.clone(), parent))
    }

    /// Puts a question of a subagent at the root; none if this session is none,
    /// or its root does not live here.
    pub(super) fn ask_above(
        &self,
        id: EffectId,
        request: &Arc<ApprovalRequest>,
        running: &mut Running,
    ) -> bool {
        let lineage = running.core.lineage();
        let Some(root) = lineage.and_then(|it| it.root.upgrade()) else {
            return false;
        };
        let cancel = CancellationToken::new();
        running.cancels.insert(id, cancel.clone());
        running.tasks.spawn(ask_at_root(
            root,
            self.blueprint.clone(),
            request.clone(),
            cancel,
            running.outcome_sender.clone(),
        ));
        true
    }

    /// The answer where nobody above the session is asked.
    /// What a subagent wants to know is not asked above.
    pub(super) fn unasked(&self, request: &PersonRequest) -> Option<Input> {
        let place = self.blueprint.subagent.as_ref()?;
        let asks = matches!(request, PersonRequest::Approval(_)) && place.may_ask;
        (!asks).then(|| Input::Answered {
            answer: request.answered_with(ApprovalChoice::Deny.into()),
            by: ResolvedBy::Unattended,
        })
    }
}
