//! What becomes of a child that works: it is followed until nothing is left to
//! do for it or its own children, and reported to its parent.

use super::shortened;
use super::tree::RunningPlace;
use super::worktree;
use crate::limits::{KEPT_SUBAGENTS, SUBAGENT_REPORT_BYTES};
use crate::session::{SessionCore, SessionHandle};
use halter_protocol::{
    SessionEventPayload, Spending, SubagentReport, SubagentState, SubagentStatus, TurnError, Usage,
};
use halter_session::StoredState;
use std::sync::Arc;

/// What a child has said and how its last turn ended, since it was given its
/// work.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunProgress {
    pub last_text: Option<String>,
    pub ending: Option<TurnEnding>,
}

/// How a turn ended.
#[derive(Debug, Clone)]
pub(crate) enum TurnEnding {
    Completed,
    Cancelled(TurnError),
    Failed(TurnError),
}

impl RunProgress {
    /// Takes note of an event of the child.
    pub fn observe(&mut self, payload: &SessionEventPayload) {
        match payload {
            SessionEventPayload::MessageItem { message } => {
                let text = message.as_assistant().map(|it| it.plain_text());
                if let Some(text) = text.filter(|text| !text.trim().is_empty()) {
                    self.last_text = Some(shortened(&text, SUBAGENT_REPORT_BYTES));
                }
            }
            SessionEventPayload::TurnCompleted { .. } => {
                self.ending = Some(TurnEnding::Completed);
            }
            SessionEventPayload::TurnFailed {
                error, cancelled, ..
            } => {
                let error = error.clone();
                self.ending = Some(match cancelled {
                    true => TurnEnding::Cancelled(error),
                    false => TurnEnding::Failed(error),
                });
            }
            _ => {}
        }
    }
}

/// What a session has used and spent, with all below it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Totals {
    pub usage: Usage,
    pub spent: Spending,
}

/// Follows a child until nothing is left to do, and reports.
pub(super) async fn follow(
    parent: Arc<SessionCore>,
    session: SessionHandle,
    started: SubagentStatus,
    refused: Option<anyhow::Error>,
    place: RunningPlace,
) {
    if refused.is_none() {
        session.core().settled().await;
        while !parent.children().ends(&started.agent_id).await {
            session.core().settled().await;
        }
    }
    let mut progress = session.core().progress();
    if let Some(error) = refused {
        let told = TurnError::new("subagent_refused", format!("{error:#}"));
        progress.ending = Some(TurnEnding::Failed(told));
    }
    let totals = totals(&session).await;
    drop(place);
    let (state, error) = match progress.ending {
        Some(TurnEnding::Completed) => (SubagentState::Completed, None),
        Some(TurnEnding::Cancelled(error)) => (SubagentState::Cancelled, Some(error)),
        Some(TurnEnding::Failed(error)) => (SubagentState::Failed, Some(error)),
        None => (SubagentState::Failed, Some(lost())),
    };
    let mut started = started;
    if let Some(path) = started.worktree.clone() {
        let (services, above) = (parent.services(), &parent.blueprint().working_dir);
        if worktree::remove_unchanged(services, above, &path).await {
            // Nothing is left to go on with.
            let _ = session.shutdown("nothing changed in its worktree").await;
            started.worktree = None;
        }
    }
    let status = SubagentStatus {
        state,
        last_message: progress.last_text,
        usage: totals.map(|it| it.usage),
        error,
        ..started
    };
    let children = parent.children();
    let (told, stopped) = children.claim(&status.agent_id);
    let before = children.with(&status.agent_id, |it| it.spent);
    let before = before.unwrap_or_default();
    let spent = totals.map_or(before, |it| it.spent);
    let report = SubagentReport {
        subagent: status.clone(),
        spent: spent.minus(before),
        told,
        wakes: !stopped,
    };
    // A parent that is gone needs no report.
    let _ = parent.subagent_reports(report).await;
    children.reported(status, spent);
    for idle in children.take_idle(KEPT_SUBAGENTS) {
        let _ = idle
            .shutdown("it has reported, and others came after it")
            .await;
    }
}

/// What a child and all below it have used. The time it took is its parent's
/// time already.
async fn totals(session: &SessionHandle) -> Option<Totals> {
    let core = session.core();
    let totals = match core.totals().await {
        Ok(totals) => Some(totals),
        Err(_) => {
            let store = core.services().store.clone();
            let stored = StoredState::read(store.as_ref(), core.session_id()).await;
            stored.ok().map(|it| Totals::of(&it.state))
        }
    };
    totals.map(|totals| Totals {
        spent: Spending {
            wall_ms: 0,
            ..totals.spent
        },
        ..totals
    })
}

impl Totals {
    pub fn of(state: &halter_protocol::SessionState) -> Self {
        let mut usage = state.usage_so_far;
        usage.saturating_accumulate(&state.subagent_usage);
        Self {
            usage,
            spent: state.spent,
        }
    }
}

fn lost() -> TurnError {
    TurnError::new("subagent_lost", "its session ended before it had reported")
}

/// Cancels everything that works below a session.
pub(crate) fn cancel_children(core: &Arc<SessionCore>, reason: &str) {
    for (_, session) in core.children().stop_all() {
        let reason = format!("the session above it was cancelled: {reason}");
        tokio::spawn(async move {
            // One that has ended meanwhile needs no cancel.
            let _ = session.cancel_with(None, &reason).await;
        });
    }
}

/// Ends all sessions below one that ends. What they report reaches its log.
pub(crate) fn close_children(core: &Arc<SessionCore>, reason: &str) {
    let children = core.children();
    children.close();
    children.stop_all();
    for (_, session) in children.sessions(false) {
        let reason = format!("the session above it ends: {reason}");
        tokio::spawn(async move {
            let _ = session.shutdown(&reason).await;
        });
    }
}
