//! Whether a call may run: the policy's verdict, and a person's if need be.

use super::super::recording::Then;
use super::super::turn::hook_stopped;
use super::super::{Effect, EffectId, Engine, PersonRequest};
use super::{AskProgress, CallSlot, Stage, ToolQuestions};
use halter_hooks::{HookEventName, HookPoint, HookVerdict, PermissionDecision};
use halter_protocol::action::{HOOK_ASKS, REQUIRES_APPROVAL, SET_LIST_RULES};
use halter_protocol::{
    ApprovalAnswer, ApprovalChoice, ApprovalId, ApprovalRequest, AskedBy, CallToJudge, HookOpinion,
    Objection, PolicyVerdict, ResolvedBy, SessionEventPayload, ToolError, ToolErrorCode, fold,
};
use std::sync::Arc;

impl Engine {
    pub(super) fn judge_call(&mut self, index: usize) {
        let id = self.next_effect();
        let session_rules = self.approved_rules.clone();
        let Some(slot) = self.slot(index) else { return };
        slot.stage = Stage::Judging {
            id,
            rules: session_rules.len(),
        };
        let call = CallToJudge {
            call: slot.call.clone(),
            actions: slot.actions.clone(),
            capabilities: slot.traits.capabilities,
            hook: slot.hook.clone(),
            session_rules,
            // The driver knows the servers of tools.
            definition: None,
        };
        self.effects.push(Effect::Judge { id, call });
    }

    pub(in crate::engine) fn judged(
        &mut self,
        id: EffectId,
        verdict: Result<PolicyVerdict, ToolError>,
        diff: Option<String>,
    ) {
        let known = self.approved_rules.len();
        let judging =
            |slot: &CallSlot| matches!(slot.stage, Stage::Judging { id: it, .. } if it == id);
        let Some(index) = self.position(judging) else {
            return;
        };
        let Some(slot) = self.slot(index) else { return };
        // A rule was approved meanwhile: it may cover this call, too.
        let outdated = matches!(slot.stage, Stage::Judging { rules, .. } if rules < known);
        let hook_asks = match &slot.hook {
            HookOpinion::Ask(reason) => Some(Objection::new(HOOK_ASKS, reason)),
            _ => None,
        };
        match (verdict, hook_asks) {
            (Err(error), _) => self.settle_call(index, Err(error)),
            (Ok(PolicyVerdict::Deny(objection)), _) => {
                let denied = ToolError::new(ToolErrorCode::PolicyDenied, objection.message);
                self.refuse_call(index, denied);
            }
            (Ok(PolicyVerdict::Ask(_)), _) if outdated => self.judge_call(index),
            (Ok(PolicyVerdict::Ask(objection)), _) => {
                let asked_by = match objection.rule.as_str() {
                    HOOK_ASKS => AskedBy::Hook,
                    _ => AskedBy::Policy,
                };
                self.request_approval(index, asked_by, objection, diff);
            }
            (Ok(PolicyVerdict::Allow), Some(objection)) => {
                self.request_approval(index, AskedBy::Hook, objection, diff);
            }
            (Ok(PolicyVerdict::Allow), None) => self.admit_start(index),
        }
        self.finish_step_if_settled();
    }

    fn request_approval(
        &mut self,
        index: usize,
        asked_by: AskedBy,
        objection: Objection,
        diff: Option<String>,
    ) {
        let approval_id = ApprovalId::mint(&self.ids, self.at);
        let saves_rules = self.facts.saves_rules;
        let Some(slot) = self.slot(index) else { return };
        let choices = choices(&objection, saves_rules);
        let call = slot.call.clone();
        let request = Arc::new(ApprovalRequest {
            approval_id,
            call: call.clone(),
            actions: slot.actions.clone(),
            diff,
            asked_by,
            objection: objection.clone(),
            choices,
            origin: None,
        });
        if self.has_hooks(HookEventName::PermissionRequest) {
            let id = self.run_hooks(HookPoint::PermissionRequest { call, objection });
            return self.set_stage(index, Stage::RequestHooks { id, request });
        }
        self.put_off_request(index, request);
    }

    pub(super) fn request_hooks_finished(
        &mut self,
        index: usize,
        request: Arc<ApprovalRequest>,
        verdict: HookVerdict,
    ) {
        let blocked = verdict.objection().or_else(|| verdict.stop.clone());
        if let Some(reason) = blocked {
            let message = format!("a hook denied this call: {reason}");
            self.refuse_call(index, ToolError::new(ToolErrorCode::HookBlocked, message));
            if let Some(reason) = verdict.stop {
                self.abort_step(hook_stopped(&reason));
            }
            return;
        }
        let spares = verdict.permission == PermissionDecision::Allow;
        match spares && request.objection.rule == REQUIRES_APPROVAL {
            true => self.admit_start(index),
            false => self.put_off_request(index, request),
        }
    }

    /// The request waits until no other is open.
    fn put_off_request(&mut self, index: usize, request: Arc<ApprovalRequest>) {
        let progress = AskProgress::Waiting;
        self.set_stage(index, Stage::Asking { request, progress });
        self.open_request();
    }

    /// Puts the first request that waits, unless another is open or the model
    /// still speaks.
    pub(super) fn open_request(&mut self) {
        let Some(step) = self.step() else { return };
        let is_put = |asked: &ToolQuestions| {
            matches!(asked.progress, AskProgress::Recorded | AskProgress::Open(_))
        };
        if step.stream.is_some() || step.is_failing() || step.questions.iter().any(is_put) {
            return;
        }
        let asking = step
            .calls
            .iter_mut()
            .filter_map(|slot| match &mut slot.stage {
                Stage::Asking { request, progress } => Some((request, progress)),
                _ => None,
            });
        let mut first = None;
        for (request, progress) in asking {
            match progress {
                AskProgress::Waiting => first = first.or(Some((request, progress))),
                AskProgress::Recorded | AskProgress::Open(_) => return,
                AskProgress::Hooks(_) => {}
            }
        }
        let Some((request, progress)) = first else {
            return self.open_questions();
        };
        *progress = AskProgress::Recorded;
        let request = request.clone();
        self.after_commit(Then::Ask(request.approval_id.clone()));
        self.record(SessionEventPayload::ApprovalRequested(request));
    }

    /// A request is committed: ask, unless it was withdrawn meanwhile.
    pub(in crate::engine) fn ask(&mut self, approval_id: &ApprovalId) {
        let id = self.next_effect();
        let slots = self.step().map(|step| step.calls.iter_mut());
        let asked = slots.into_iter().flatten().find_map(|slot| {
            let Stage::Asking { request, progress } = &mut slot.stage else {
                return None;
            };
            (request.approval_id == *approval_id).then_some((request, progress))
        });
        if asked.is_none() {
            return self.ask_running(id, |request| request.approval(approval_id).is_some());
        }
        if let Some((request, progress)) = asked {
            *progress = AskProgress::Open(id);
            let request = request.clone();
            let request = PersonRequest::Approval(request);
            self.effects.push(Effect::Ask { id, request });
            let at = self.at;
            if let Some(turn) = &mut self.turn {
                turn.account.waits(at);
            }
        }
    }

    /// The request of that id, while it can be answered.
    pub fn open_approval(&self, approval_id: &ApprovalId) -> Option<&ApprovalRequest> {
        let step = self.turn.as_ref()?.step()?;
        let before = step.calls.iter().find_map(|slot| match &slot.stage {
            Stage::Asking {
                request,
                progress: AskProgress::Open(_),
            } if request.approval_id == *approval_id => Some(request.as_ref()),
            _ => None,
        });
        let open = |asked: &&ToolQuestions| matches!(asked.progress, AskProgress::Open(_));
        let mut running = step.questions.iter().filter(open);
        before.or_else(|| running.find_map(|asked| asked.request.approval(approval_id)))
    }

    /// Somebody decided. Only the first answer counts.
    pub(in crate::engine) fn answered(
        &mut self,
        approval_id: &ApprovalId,
        answer: ApprovalAnswer,
        by: ResolvedBy,
    ) {
        let open = |slot: &CallSlot| {
            matches!(&slot.stage, Stage::Asking { request, progress: AskProgress::Open(_) }
                if request.approval_id == *approval_id)
        };
        let at = self.at;
        let Some(index) = self.position(open) else {
            return self.running_answered(approval_id, answer, by);
        };
        let Some(slot) = self.slot(index) else { return };
        let stage = std::mem::replace(&mut slot.stage, Stage::Starting);
        let Stage::Asking {
            request,
            progress: AskProgress::Open(id),
        } = stage
        else {
            return;
        };
        if let Some(turn) = &mut self.turn {
            turn.account.goes_on(at);
        }
        self.effects.push(Effect::Withdraw { id });
        let (choice, rule) = self.record_answer_to(&request, &answer, &by);
        if choice == ApprovalChoice::Deny {
            let denied = not_approved(&request, &by, answer.reason.as_deref());
            self.refuse_call(index, denied);
        } else {
            self.admit_start(index);
        }
        self.hold_rule(&choice, rule);
        self.open_request();
        self.finish_step_if_settled();
    }

    /// Records what somebody decided, as far as that was offered, and returns
    /// it with the rule that holds from now on.
    pub(super) fn record_answer_to(
        &mut self,
        request: &ApprovalRequest,
        answer: &ApprovalAnswer,
        by: &ResolvedBy,
    ) -> (ApprovalChoice, Option<String>) {
        let choice = offered(request, answer.choice.clone());
        let rule = match choice {
            ApprovalChoice::Session | ApprovalChoice::Always => {
                let given = answer.rule.clone();
                given.or_else(|| request.rule().map(str::to_owned))
            }
            _ => None,
        };
        self.record(SessionEventPayload::ApprovalResolved {
            approval_id: request.approval_id.clone(),
            choice: choice.clone(),
            by: by.clone(),
            reason: answer.reason.clone(),
            rule: rule.clone(),
        });
        (choice, rule)
    }

    /// Has a rule hold that somebody approved, and be saved if they said so.
    pub(super) fn hold_rule(&mut self, choice: &ApprovalChoice, rule: Option<String>) {
        let Some(rule) = rule else { return };
        if *choice == ApprovalChoice::Always {
            self.after_commit(Then::SaveRule(rule.clone()));
        }
        self.approve_rule(&rule);
        self.running_rule_approved(&rule);
    }

    /// A rule holds for the session: what waits to be asked may not have to.
    fn approve_rule(&mut self, rule: &str) {
        fold::add_rule(&mut self.approved_rules, rule);
        let waits = |slot: &CallSlot| {
            let progress = AskProgress::Waiting;
            matches!(&slot.stage, Stage::Asking { progress: it, .. } if *it == progress)
        };
        let count = self.step().map_or(0, |step| step.calls.len());
        for index in 0..count {
            if self.slot(index).is_some_and(|slot| waits(slot)) {
                self.judge_call(index);
            }
        }
    }

    /// Nobody wants to know the answer any more.
    pub(super) fn withdraw(&mut self, approval_id: ApprovalId, progress: AskProgress) {
        if let AskProgress::Open(id) = progress {
            self.effects.push(Effect::Withdraw { id });
        }
        if progress != AskProgress::Waiting {
            self.record(SessionEventPayload::ApprovalResolved {
                approval_id,
                choice: ApprovalChoice::Deny,
                by: ResolvedBy::Withdrawn,
                reason: Some("the turn ended before it was answered".to_owned()),
                rule: None,
            });
        }
    }

    /// Ends a call that was refused, once hooks have been told.
    fn refuse_call(&mut self, index: usize, error: ToolError) {
        let Some(slot) = self.slot(index) else { return };
        let call = slot.call.clone();
        let failing = self.step().is_some_and(|step| step.is_failing());
        if failing || !self.has_hooks(HookEventName::PermissionDenied) {
            return self.settle_call(index, Err(error));
        }
        let reason = error.message.clone();
        let id = self.run_hooks(HookPoint::PermissionDenied { call, reason });
        let result = Err(error);
        self.set_stage(index, Stage::PostHooks { id, result });
    }

    pub(super) fn position(&mut self, wanted: impl Fn(&CallSlot) -> bool) -> Option<usize> {
        self.step()
            .and_then(|step| step.calls.iter().position(wanted))
    }
}

/// What may be chosen. A list that somebody set is widened for a session at
/// most: a saved rule would not.
pub(super) fn choices(objection: &Objection, saves_rules: bool) -> Vec<ApprovalChoice> {
    let mut choices = vec![ApprovalChoice::Once];
    if objection.always.is_some() {
        choices.push(ApprovalChoice::Session);
        let saves = saves_rules && !SET_LIST_RULES.contains(&objection.rule.as_str());
        choices.extend(saves.then_some(ApprovalChoice::Always));
    }
    choices.push(ApprovalChoice::Deny);
    choices
}

/// The choice, as far as it was offered. A yes to more than that is a yes to
/// this call; what nobody knows is a no.
fn offered(request: &ApprovalRequest, choice: ApprovalChoice) -> ApprovalChoice {
    match choice {
        ApprovalChoice::Unknown(_) => ApprovalChoice::Deny,
        choice if request.choices.contains(&choice) => choice,
        _ => ApprovalChoice::Once,
    }
}

/// What the model reads in place of a result.
fn not_approved(request: &ApprovalRequest, by: &ResolvedBy, reason: Option<&str>) -> ToolError {
    let objection = &request.objection;
    let code = match request.asked_by {
        AskedBy::Hook => ToolErrorCode::HookBlocked,
        _ => ToolErrorCode::PolicyDenied,
    };
    let asks = match (&request.asked_by, objection.message.as_str()) {
        (AskedBy::Hook, "") => "a hook asks".to_owned(),
        (_, "") => format!("rule {}", objection.rule),
        (_, message) => message.to_owned(),
    };
    if *by == ResolvedBy::Unattended {
        let needed = match &objection.always {
            Some(rule) => format!("; it would run with the permission rule `{rule}`"),
            None => String::new(),
        };
        let message = format!(
            "not run: a person has to approve this, and nobody can be asked: {asks}{needed}"
        );
        return ToolError::new(code, message);
    }
    let why = reason.map_or_else(String::new, |reason| format!(": {reason}"));
    let who = match by {
        ResolvedBy::User => " by the user",
        _ => "",
    };
    let message = format!("not run: denied{who}{why} (asked because: {asks})");
    ToolError::new(code, message)
}
