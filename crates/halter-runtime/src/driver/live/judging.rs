//! Judging a call: what it would touch, what the policy says to that, and what
//! it is given once it may run.

use super::{Owner, Running};
use crate::engine::{CallFacts, Input, LateTool};
use crate::limits::APPROVAL_DIFF_BYTES;
use crate::toolset::Toolset;
use futures::FutureExt;
use halter_protocol::limits::LOADED_TOOLS;
use halter_protocol::{
    Action, CallToJudge, HookOpinion, MemoryChange, PolicyVerdict, RuleEffect, ServedDefinition,
    ToolCall, ToolError, ToolErrorCode, ToolName, ToolSpec,
};
use halter_tools::ToolContext;
use halter_tools::policy::{SourcedRule, ToolPolicy};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

impl Owner {
    /// What a call comes to, and what is remembered of one that cannot be made.
    pub(super) fn check_call(
        &mut self,
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

    fn facts_of(&mut self, call: &ToolCall) -> Result<CallFacts, ToolError> {
        let tools = self.tools.clone();
        tools.tools.validate(call)?;
        let tool = tools.tools.get(call.name.as_str());
        Ok(CallFacts {
            actions: self.actions_with_texts(call)?,
            polling: tool.is_some_and(|tool| tool.is_polling(&call.arguments)),
        })
    }

    /// What a call would touch, with what the text of its skill has run.
    fn actions_with_texts(&mut self, call: &ToolCall) -> Result<Vec<Action>, ToolError> {
        let mut actions = self.actions(call)?;
        let (lines, _) = self.lines_of_skill(call);
        actions.extend(lines.into_iter().map(|command| Action::Run {
            command,
            directory: self.toolbox.shell_directory(),
        }));
        Ok(actions)
    }

    /// What a call would touch, from where its shell is.
    pub(super) fn actions(&self, call: &ToolCall) -> Result<Vec<Action>, ToolError> {
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
        if let Some(objection) = self.grants.refusal(call.call.name.as_str()) {
            return (Ok(PolicyVerdict::Deny(objection)), None);
        }
        let policy = self.toolbox.policy(&self.blueprint, &self.resources).await;
        let definition = self.definition_now(&call.call.name);
        let id = call.call.id.clone();
        // A service may give an id again that an earlier call of the turn had.
        match &definition {
            Some(definition) => self.judged_definitions.insert(id, definition.clone()),
            None => self.judged_definitions.remove(&id),
        };
        let mut call = CallToJudge {
            definition,
            ..call.clone()
        };
        call.session_rules.extend_from_slice(&self.grants.allowed);
        let (lines, allowed) = self.lines_of_skill(&call.call);
        if !lines.is_empty() {
            // Each line is judged below as a call of `shell`, not of `skill`.
            call.actions.retain(|it| !matches!(it, Action::Run { .. }));
        }
        let call = &call;
        let mut verdict = match policy {
            Ok(policy) => {
                for message in policy.hold_session_rules(&call.session_rules) {
                    let _ = running.outcome_sender.send(Input::Warn { message });
                }
                judged(policy, call).await
            }
            Err(error) => Err(error),
        };
        // What the text of a skill has run is judged as if the model ran it.
        if !lines.is_empty() && !matches!(verdict, Err(_) | Ok(PolicyVerdict::Deny(_))) {
            let of_lines = self.judge_lines(&lines, &allowed).await;
            // Its rules hold once it is used.
            if let Ok(policy) = self.toolbox.policy(&self.blueprint, &self.resources).await {
                let _ = policy.hold_session_rules(&call.session_rules);
            }
            if !matches!(of_lines, Ok(PolicyVerdict::Allow)) {
                verdict = of_lines;
            }
        }
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

    fn definition_now(&self, tool: &ToolName) -> Option<ServedDefinition> {
        self.tools.tools.get(tool.as_str())?.served_definition()
    }

    /// What the user should know of approvals that do not count with other
    /// tools: a server has changed or renamed what was approved.
    pub(super) fn lost_approvals(&self, now: &Toolset) -> Vec<String> {
        let approved = &self.engine.state().approved_rules;
        let saved = &self.services.policy.permissions.rules;
        let holds = |rule: &String| {
            let is_saved = |it: &SourcedRule| {
                it.effect == RuleEffect::Allow && it.rule.text() == rule.as_str()
            };
            approved.contains(rule) || saved.iter().any(is_saved)
        };
        let defined = |tools: &Toolset, name: &ToolName| {
            let tool = tools.tools.get(name.as_str())?;
            tool.served_definition()
        };
        let mut lost = Vec::new();
        for name in self.tools.late.iter().map(|tool| &tool.spec.name) {
            let Some(before) = defined(&self.tools, name) else {
                continue;
            };
            if !holds(&before.rule_for(name.as_str())) {
                continue;
            }
            let same_server = |tool: &LateTool| server_of(&tool.spec.name) == server_of(name);
            let what = match defined(now, name) {
                Some(definition) if definition.digest == before.digest => continue,
                Some(_) => "its server has changed it",
                // A server that has ended may come back with all it had.
                None if !now.late.iter().any(same_server) => continue,
                None => "its server does not have it any more, or gives it another name",
            };
            lost.push(format!(
                "the approval of the tool '{name}' does not count any more: {what}"
            ));
        }
        lost
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
        // A server may change a tool while a person reads what is asked.
        let judged = self.judged_definitions.get(&call.id);
        if self.definition_now(&call.name).as_ref() != judged {
            return Err(changed_since_judged(&call.name));
        }
        let mut context = self.tool_context(call, cancel).await?;
        let actions = self.actions(call)?;
        if let Some(wider) = context.policy.for_judged_call(&actions) {
            context.policy = wider;
        }
        Ok(context)
    }
}

/// The verdict of a policy. Rules may want to know what is below a directory,
/// which takes time where the files are not this machine's.
pub(super) async fn judged(
    policy: Arc<dyn ToolPolicy>,
    call: &CallToJudge,
) -> Result<PolicyVerdict, ToolError> {
    if !policy.door().is_elsewhere() {
        return Ok(policy.judge(call));
    }
    let call = call.clone();
    let verdict = tokio::task::spawn_blocking(move || policy.judge(&call)).await;
    let failed = |error| ToolError::new(ToolErrorCode::Failed, format!("not judged: {error}"));
    verdict.map_err(failed)
}

/// `mcp__server` of `mcp__server__tool`.
fn server_of(name: &ToolName) -> Option<&str> {
    let (prefix, rest) = name.as_str().split_once("__")?;
    let (server, _) = rest.split_once("__")?;
    name.as_str().get(..prefix.len() + 2 + server.len())
}

fn changed_since_judged(name: &ToolName) -> ToolError {
    let message = format!(
        "not run: its server has changed or removed '{name}' since the call was approved. Call it \
         again if it still fits."
    );
    ToolError::new(ToolErrorCode::PolicyDenied, message)
}

fn not_loaded(name: &ToolName) -> ToolError {
    let message = format!(
        "not run: '{name}' had not been loaded, so its parameters were not known. It is loaded \
         now; make the call again with arguments that fit its schema."
    );
    ToolError::new(ToolErrorCode::NotLoaded, message)
}
