//! Judging a call: what it would touch, what the policy says to that, and what
//! it is given once it may run.

use super::{Owner, Running};
use crate::engine::{CallFacts, Input};
use crate::limits::APPROVAL_DIFF_BYTES;
use futures::FutureExt;
use halter_protocol::limits::LOADED_TOOLS;
use halter_protocol::{
    Action, CallToJudge, HookOpinion, MemoryChange, PolicyVerdict, ToolCall, ToolError,
    ToolErrorCode, ToolName, ToolSpec,
};
use halter_tools::ToolContext;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

impl Owner {
    /// What a call comes to, and what is remembered of one that cannot be made.
    pub(super) fn check_call(
        &self,
        call: &ToolCall,
    ) -> (Result<CallFacts, ToolError>, Vec<MemoryChange>) {
        match self.unloaded(&call.name) {
            Some(spec) => (
                Err(not_loaded(&spec.name)),
                vec![MemoryChange::ToolLoaded { spec }],
            ),
            None => (self.facts_of(call), Vec::new()),
        }
    }

    /// The tool, if it is deferred, not loaded, and can be.
    fn unloaded(&self, name: &ToolName) -> Option<Arc<ToolSpec>> {
        let spec = self.tools.deferred_spec(name)?;
        let memory = &self.engine.state().memory;
        let has_room = memory.loaded_tools.len() < LOADED_TOOLS;
        (has_room && memory.loaded_tool(name).is_none()).then_some(spec)
    }

    fn facts_of(&self, call: &ToolCall) -> Result<CallFacts, ToolError> {
        let tools = &self.tools.tools;
        tools.validate(call)?;
        let tool = tools.get(call.name.as_str());
        Ok(CallFacts {
            actions: self.actions(call)?,
            polling: tool.is_some_and(|tool| tool.is_polling(&call.arguments)),
        })
    }

    /// What a call would touch, from where its shell is.
    fn actions(&self, call: &ToolCall) -> Result<Vec<Action>, ToolError> {
        let mut actions = self.tools.tools.actions(call)?;
        for action in &mut actions {
            // Where the shell is decides which files a command names.
            if let Action::Run { directory, .. } = action
                && directory.is_none()
            {
                *directory = self.toolbox.shell_directory();
            }
        }
        Ok(actions)
    }

    pub(super) async fn judge(
        &mut self,
        call: &CallToJudge,
        running: &mut Running,
    ) -> (Result<PolicyVerdict, ToolError>, Option<String>) {
        let policy = self.toolbox.policy(&self.blueprint, &self.resources).await;
        let verdict = policy.map(|policy| {
            for message in policy.hold_session_rules(&call.session_rules) {
                let _ = running.outcome_sender.send(Input::Warn { message });
            }
            policy.judge(call)
        });
        let asks = match &verdict {
            Ok(PolicyVerdict::Ask(_)) => true,
            Ok(PolicyVerdict::Allow) => matches!(call.hook, HookOpinion::Ask(_)),
            _ => false,
        };
        let diff = match asks {
            true => self.diff(&call.call).await,
            false => None,
        };
        (verdict, diff)
    }

    /// What a call would change. A tool that fails here says why when it runs.
    async fn diff(&mut self, call: &ToolCall) -> Option<String> {
        let context = self.tool_context(call, CancellationToken::new()).await;
        let context = context.ok()?;
        let tool = self.tools.tools.get(call.name.as_str())?;
        let diff = AssertUnwindSafe(tool.diff(context, &call.arguments));
        let mut diff = diff.catch_unwind().await.ok()??;
        if diff.len() > APPROVAL_DIFF_BYTES {
            diff.truncate(diff.floor_char_boundary(APPROVAL_DIFF_BYTES));
            diff.push_str("\n[the rest of the change is left out]\n");
        }
        Some(diff)
    }

    /// What a call is given that was judged and may run.
    pub(super) async fn judged_context(
        &mut self,
        call: &ToolCall,
        cancel: CancellationToken,
    ) -> Result<ToolContext, ToolError> {
        let mut context = self.tool_context(call, cancel).await?;
        let actions = self.actions(call)?;
        if let Some(wider) = context.policy.for_judged_call(&actions) {
            context.policy = wider;
        }
        Ok(context)
    }
}

fn not_loaded(name: &ToolName) -> ToolError {
    let message = format!(
        "not run: '{name}' had not been loaded, so its parameters were not known. It is loaded \
         now; make the call again with arguments that fit its schema."
    );
    ToolError::new(ToolErrorCode::NotLoaded, message)
}
