//! Subagents as their parent's engine knows them: that they run, what they
//! report, and what they ask.

use super::{Effect, Engine, SystemNote};
use halter_protocol::{
    AgentId, ApprovalAnswer, ApprovalId, ApprovalRequest, ResolvedBy, SessionEventPayload,
    SubagentReport, SubagentState, SubagentStatus, TurnError, TurnId,
};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// What a session knows of its subagents beside its log.
#[derive(Debug, Default)]
pub(super) struct Subagents {
    /// Those that run.
    running: BTreeSet<AgentId>,
    /// What subagents below wait for.
    requests: HashMap<ApprovalId, Arc<ApprovalRequest>>,
    /// A report waits that an idle session goes on with.
    wakes: bool,
}

impl Engine {
    /// True if a subagent runs.
    pub fn has_running_subagents(&self) -> bool {
        !self.subagents.running.is_empty()
    }

    /// The turns that run or wait.
    pub fn unfinished_turns(&self) -> usize {
        self.queue.len() + usize::from(self.turn.is_some())
    }

    pub(super) fn subagent_starts(&mut self, subagent: Arc<SubagentStatus>) {
        self.subagents.running.insert(subagent.agent_id.clone());
        self.record(SessionEventPayload::SubagentStarted { subagent });
    }

    pub(super) fn subagent_reports(&mut self, report: SubagentReport) {
        let SubagentReport {
            subagent,
            spent,
            told,
            wakes,
        } = report;
        self.subagents.running.remove(&subagent.agent_id);
        self.spent = self.spent.plus(spent);
        if !told {
            self.words.push(SystemNote::from(report_text(&subagent)));
            self.subagents.wakes |= wakes && self.shutdown.is_none();
        }
        let subagent = Arc::new(subagent);
        self.record(SessionEventPayload::SubagentEnded { subagent, spent });
    }

    pub(super) fn subagent_asks(&mut self, request: Arc<ApprovalRequest>) {
        let id = request.approval_id.clone();
        self.subagents.requests.insert(id, request.clone());
        self.record(SessionEventPayload::ApprovalRequested(request));
    }

    /// The request of that id of a subagent below, while it can be answered.
    pub fn subagent_request(&self, approval_id: &ApprovalId) -> Option<&ApprovalRequest> {
        let request = self.subagents.requests.get(approval_id);
        request.map(AsRef::as_ref)
    }

    /// What holds from now on is in the log of the one who asked.
    pub(super) fn subagent_answered(
        &mut self,
        approval_id: ApprovalId,
        answer: ApprovalAnswer,
        by: ResolvedBy,
    ) {
        if self.subagents.requests.remove(&approval_id).is_some() {
            self.record(SessionEventPayload::ApprovalResolved {
                approval_id,
                choice: answer.choice,
                by,
                reason: answer.reason,
                rule: None,
            });
        }
    }

    /// A report waits that the model shall go on with.
    pub(super) fn is_woken(&self) -> bool {
        self.subagents.wakes
    }

    /// What waits is about to be told, or nobody wants it any more.
    pub(super) fn calm_down(&mut self) {
        self.subagents.wakes = false;
    }

    /// A session that nothing else happens in goes on with what a subagent
    /// reported.
    pub(super) fn open_turn_if_woken(&mut self) {
        if self.is_woken() && self.turn.is_none() && self.shutdown.is_none() {
            self.calm_down();
            let id = TurnId::mint(&self.ids, self.at);
            let turn_id = id.clone();
            self.effects.push(Effect::TurnOpened { turn_id });
            self.open_turn_without_prompt(id);
        }
    }

    /// The process that ran these ended, and they with it.
    pub(super) fn repair_subagents(&mut self) {
        let subagents = self.state.subagents.values();
        let running = subagents.filter(|it| !it.state.is_terminal());
        let interrupted: Vec<SubagentStatus> = running
            .map(|subagent| SubagentStatus {
                state: SubagentState::Failed,
                error: Some(interrupted()),
                ..SubagentStatus::clone(subagent)
            })
            .collect();
        for subagent in interrupted {
            self.subagent_reports(SubagentReport {
                subagent,
                spent: Default::default(),
                told: false,
                wakes: false,
            });
        }
        for approval_id in self.state.open_approvals.keys() {
            self.subagents.requests.remove(approval_id);
        }
    }
}

fn interrupted() -> TurnError {
    TurnError::new(
        "interrupted",
        "the process that ran this subagent ended before it had reported",
    )
    .with_hint("give it more to do with send_input: it knows what it has done so far")
}

/// What a model reads of a report.
fn report_text(subagent: &SubagentStatus) -> String {
    let SubagentStatus {
        agent_id, state, ..
    } = subagent;
    let mut text = format!("<subagent_report agent_id=\"{agent_id}\" state=\"{state}\">\n");
    if let Some(error) = &subagent.error {
        text.push_str(&format!("It did not finish: {error}\n"));
    }
    if let Some(worktree) = &subagent.worktree {
        text.push_str(&format!("Its worktree: {}\n", worktree.display()));
    }
    match &subagent.last_message {
        Some(message) => text.push_str(message),
        None => text.push_str("It said nothing."),
    }
    text.push_str("\n</subagent_report>");
    text
}
