//! The promises every schedule must keep.

use super::Simulation;
use crate::engine::PersonAnswer;
use halter_protocol::{
    ApprovalChoice, ApprovalId, ApprovalRequest, Message, QuestionId, QuestionRequest, ResolvedBy,
    SessionEventPayload, SessionState, ToolCall, ToolCallId, Transcript, TurnId, fold,
};
use std::collections::{HashMap, HashSet};

/// A promise that was broken, and the seed that breaks it again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("seed {seed}: {promise}")]
pub struct Violation {
    /// The seed of the schedule.
    pub seed: u64,
    /// What should have held.
    pub promise: String,
}

impl Simulation {
    pub(super) fn violation(&self, promise: impl Into<String>) -> Violation {
        Violation {
            seed: self.schedule.seed,
            promise: promise.into(),
        }
    }

    /// Every request has exactly one result for each call, right after it, and
    /// is made of committed messages only.
    pub(super) fn check_request(&self, messages: &Transcript) -> Result<(), Violation> {
        if let Err(problem) = check_pairs(messages) {
            return Err(self.violation(format!("calls and results pair: {problem}")));
        }
        match *messages == self.folded.messages {
            true => Ok(()),
            false => Err(self.violation("a request holds just what is committed")),
        }
    }

    /// A tool runs only once its start is committed, and only once.
    pub(super) fn check_tool_start(&self, call: &ToolCall) -> Result<(), Violation> {
        let (mut started, mut ended) = (0, 0);
        for event in &self.log {
            match &event.payload {
                SessionEventPayload::ToolExecutionStarted { call: seen } if seen.id == call.id => {
                    started += 1;
                }
                SessionEventPayload::ToolExecutionCompleted { outcome }
                    if outcome.call.id == call.id =>
                {
                    ended += 1;
                }
                _ => {}
            }
        }
        match (started, ended) {
            (1, 0) => Ok(()),
            _ => Err(self.violation(format!(
                "a tool runs once, after its start is committed ({started} starts, {ended} ends)"
            ))),
        }
    }

    /// A person is asked once the request is committed, one at a time, and not
    /// about what a rule of theirs covers.
    pub(super) fn check_approval(&self, request: &ApprovalRequest) -> Result<(), Violation> {
        let state = fold::fold_events(self.log.iter().map(|e| &e.payload));
        let alone = state.open_questions.is_empty();
        if !alone || !state.open_approvals.keys().eq([&request.approval_id]) {
            return Err(self.violation("one approval is requested at a time, once committed"));
        }
        match request.rule() {
            Some(rule) if state.approved_rules.iter().any(|known| known == rule) => {
                Err(self.violation("nobody is asked twice about the same rule"))
            }
            _ => Ok(()),
        }
    }

    /// Questions are put once they are committed, and nothing else is open.
    pub(super) fn check_questions(&self, request: &QuestionRequest) -> Result<(), Violation> {
        let state = fold::fold_events(self.log.iter().map(|e| &e.payload));
        let alone = state.open_approvals.is_empty();
        match alone && state.open_questions.keys().eq([&request.question_id]) {
            true => Ok(()),
            false => Err(self.violation("questions are put one at a time, once committed")),
        }
    }

    /// A call is told of answers that are in the log, or of requests that were
    /// never put.
    pub(super) fn check_reply(&self, answer: &PersonAnswer) -> Result<(), Violation> {
        let state = fold::fold_events(self.log.iter().map(|e| &e.payload));
        let open = match answer {
            PersonAnswer::Approval { approval_id, .. } => {
                state.open_approvals.contains_key(approval_id)
            }
            PersonAnswer::Questions { question_id, .. } => {
                state.open_questions.contains_key(question_id)
            }
        };
        match open {
            false => Ok(()),
            true => Err(self.violation("answers are committed before a call is told")),
        }
    }

    /// A rule is saved once the answer that says so is committed.
    pub(super) fn check_saved_rule(&self, saved: &str) -> Result<(), Violation> {
        let always = |payload: &SessionEventPayload| {
            matches!(payload, SessionEventPayload::ApprovalResolved { choice, rule, .. }
                if *choice == ApprovalChoice::Always && rule.as_deref() == Some(saved))
        };
        match self.log.iter().any(|event| always(&event.payload)) {
            true => Ok(()),
            false => Err(self.violation("a rule is saved after its approval is committed")),
        }
    }

    /// Every request has one resolution, and a call that was asked about runs
    /// only if it was allowed.
    fn check_resolutions(&mut self) -> Result<(), Violation> {
        let mut open: HashMap<&ApprovalId, &ToolCallId> = HashMap::new();
        let mut denied: HashSet<&ToolCallId> = HashSet::new();
        for event in &self.log {
            match &event.payload {
                SessionEventPayload::ApprovalRequested(request) => {
                    denied.insert(&request.call.id);
                    open.insert(&request.approval_id, &request.call.id);
                }
                SessionEventPayload::ApprovalResolved {
                    approval_id,
                    choice,
                    by,
                    ..
                } => {
                    let Some(call) = open.remove(approval_id) else {
                        return Err(self.violation("an approval is resolved once"));
                    };
                    if *choice != ApprovalChoice::Deny {
                        denied.remove(call);
                    }
                    let how = match by {
                        ResolvedBy::User => choice.as_str(),
                        by => by.as_str(),
                    };
                    *self.report.resolutions.entry(how.to_owned()).or_default() += 1;
                }
                SessionEventPayload::ToolExecutionStarted { call } if denied.contains(&call.id) => {
                    return Err(self.violation("a call runs only if it was allowed"));
                }
                _ => {}
            }
        }
        let mut asked: HashSet<&QuestionId> = HashSet::new();
        for event in &self.log {
            match &event.payload {
                SessionEventPayload::QuestionsAsked(request) => {
                    asked.insert(&request.question_id);
                }
                SessionEventPayload::QuestionsAnswered {
                    question_id, by, ..
                } => {
                    if !asked.remove(question_id) {
                        return Err(self.violation("questions are answered once"));
                    }
                    let how = format!("questions_{by}");
                    *self.report.resolutions.entry(how).or_default() += 1;
                }
                _ => {}
            }
        }
        match open.is_empty() && asked.is_empty() {
            true => Ok(()),
            false => Err(self.violation("every request to a person is resolved")),
        }
    }

    /// The engine's state is the fold of the log, cheaply compared.
    pub(super) fn check_state(&self) -> Result<(), Violation> {
        if self.engine.state().messages.len() != self.folded.messages.len() {
            return Err(self.violation("the state follows every commit"));
        }
        Ok(())
    }

    pub(super) fn check_end(&mut self) -> Result<(), Violation> {
        let folded: SessionState = fold::fold_events(self.log.iter().map(|e| &e.payload));
        if folded != *self.engine.state() {
            return Err(self.violation("the state equals the fold of the log"));
        }
        if !self.engine.counts_its_media() {
            return Err(self.violation("images and documents are counted as the log has them"));
        }
        if let Err(problem) = check_pairs(&folded.messages) {
            return Err(self.violation(format!("calls and results pair at the end: {problem}")));
        }
        let gap_free = (1..=self.log.len() as u64).eq(self.log.iter().map(|e| e.sequence()));
        if !gap_free {
            return Err(self.violation("sequence numbers have no gaps"));
        }
        if self.subscriber.lossless != (1..=self.log.len() as u64).collect::<Vec<_>>() {
            return Err(self.violation("a slow subscriber gets every lossless event once"));
        }
        if !self.engine.is_closed() {
            return Err(self.violation("the session shuts down"));
        }
        for event in &self.log {
            if let SessionEventPayload::ContextCompacted(compaction) = &event.payload {
                let tier = compaction.tier.as_str().to_owned();
                *self.report.compactions.entry(tier).or_default() += 1;
            }
        }
        self.check_books()?;
        self.check_resolutions()?;
        self.check_turns()
    }

    /// Every submitted turn ends exactly once, unless the store or a crash
    /// took it, and starts before it ends.
    fn check_turns(&mut self) -> Result<(), Violation> {
        let mut live: Option<TurnId> = None;
        let mut endings: HashMap<TurnId, String> = HashMap::new();
        for event in &self.log {
            match &event.payload {
                SessionEventPayload::TurnStarted { turn_id, .. } => {
                    let before = live.replace(turn_id.clone());
                    if before.is_some() {
                        return Err(self.violation("turns do not overlap"));
                    }
                }
                SessionEventPayload::TurnCompleted { turn_id, .. }
                | SessionEventPayload::TurnFailed { turn_id, .. } => {
                    if live.take().as_ref() != Some(turn_id) {
                        return Err(self.violation("a turn starts before it ends"));
                    }
                    let how = match &event.payload {
                        SessionEventPayload::TurnFailed { error, .. } => error.code.clone(),
                        _ => "completed".to_owned(),
                    };
                    if endings.insert(turn_id.clone(), how).is_some() {
                        return Err(self.violation("a turn ends once"));
                    }
                }
                _ => {}
            }
        }
        for turn_id in &self.submitted {
            let how = match endings.get(turn_id) {
                Some(how) => how.clone(),
                None if self.lost.contains(turn_id) => "store_failed".to_owned(),
                None => return Err(self.violation(format!("{turn_id} has a terminal event"))),
            };
            *self.report.endings.entry(how).or_default() += 1;
        }
        Ok(())
    }
}

/// Checks that results follow their answer, in call order, one each.
fn check_pairs(messages: &Transcript) -> Result<(), String> {
    let mut awaited: Vec<ToolCallId> = Vec::new();
    let mut seen: HashSet<ToolCallId> = HashSet::new();
    for message in messages.iter() {
        match message.as_ref() {
            Message::Tool(tool) => {
                if awaited.first() != Some(&tool.call_id) {
                    return Err(format!("{} is not the result that is due", tool.call_id));
                }
                awaited.remove(0);
            }
            other => {
                if let Some(missing) = awaited.first() {
                    return Err(format!("{missing} has no result before the next message"));
                }
                if let Some(answer) = other.as_assistant() {
                    awaited = answer.tool_calls().map(|call| call.id).collect();
                    for id in &awaited {
                        if !seen.insert(id.clone()) {
                            return Err(format!("{id} is called twice"));
                        }
                    }
                }
            }
        }
    }
    match awaited.first() {
        Some(missing) => Err(format!("{missing} has no result")),
        None => Ok(()),
    }
}
