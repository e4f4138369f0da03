//! The subagents of one session, as long as it lives in this process.

use crate::error::HalterError;
use crate::limits::SUBAGENTS_PER_TURN;
use crate::session::SessionHandle;
use halter_protocol::{AgentId, SessionState, Spending, SubagentState, SubagentStatus, TurnId};
use indexmap::IndexMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// The subagents of one session.
#[derive(Default)]
pub(crate) struct Children {
    table: Mutex<Table>,
    changed: Notify,
}

#[derive(Default)]
struct Table {
    agents: IndexMap<AgentId, Child>,
    /// How many there ever were.
    started: u64,
    /// The session ends: no more are started.
    closing: bool,
    /// How many a turn has started.
    of_turn: Option<(TurnId, usize)>,
}

/// One subagent.
pub(crate) struct Child {
    pub status: SubagentStatus,
    /// Its session, while it lives here.
    pub session: Option<SessionHandle>,
    /// How many wait for it.
    waiters: usize,
    /// Its report goes to those who wait.
    claimed: bool,
    /// Its parent stopped it: nobody goes on because of it.
    pub stopped: bool,
    /// What it had spent when it last reported.
    pub spent: Spending,
    /// How many are giving it more to do right now.
    telling: usize,
    /// Its report is on the way: what it is told now is another piece of work.
    reporting: bool,
}

impl Children {
    /// Those that a log knows.
    pub fn of(state: &SessionState) -> Self {
        let children = Self::default();
        let mut table = children.lock();
        table.started = state.subagents_started;
        for status in state.subagents.values() {
            let child = Child::new(SubagentStatus::clone(status), None);
            table.agents.insert(status.agent_id.clone(), child);
        }
        drop(table);
        children
    }

    /// How many run.
    pub fn running(&self) -> usize {
        let table = self.lock();
        let running = |it: &&Child| !it.status.state.is_terminal();
        table.agents.values().filter(running).count()
    }

    /// Gives the next subagent its name, if one more may be started.
    pub fn next_id(&self, turn: Option<&TurnId>) -> Result<AgentId, HalterError> {
        let mut table = self.lock();
        if table.closing {
            return Err(closing());
        }
        if let Some(turn) = turn {
            let count = match &mut table.of_turn {
                Some((known, count)) if known == turn => count,
                other => &mut other.insert((turn.clone(), 0)).1,
            };
            if *count >= SUBAGENTS_PER_TURN {
                let message = format!("this turn has started {SUBAGENTS_PER_TURN} subagents");
                return Err(HalterError::new("too_many_subagents", message)
                    .with_hint("give those that you have more to do, or do the work yourself"));
            }
            *count += 1;
        }
        table.started += 1;
        Ok(format!("agent_{}", table.started).into())
    }

    /// Adds a subagent, or notes that one runs again.
    pub fn begin(&self, status: SubagentStatus, session: SessionHandle) {
        let mut table = self.lock();
        let id = status.agent_id.clone();
        let spent = table.agents.get(&id).map(|it| it.spent);
        let mut child = Child::new(status, Some(session));
        child.spent = spent.unwrap_or_default();
        let before = table.agents.get(&id);
        child.waiters = before.map_or(0, |it| it.waiters);
        child.telling = before.map_or(0, |it| it.telling);
        table.agents.insert(id, child);
    }

    /// A subagent is about to report: whether those who wait get the report, and
    /// whether its parent stopped it.
    pub fn claim(&self, id: &AgentId) -> (bool, bool) {
        let mut table = self.lock();
        let Some(child) = table.agents.get_mut(id) else {
            return (false, false);
        };
        child.claimed = child.waiters > 0;
        (child.claimed, child.stopped)
    }

    /// A subagent has reported.
    pub fn reported(&self, status: SubagentStatus, spent: Spending) {
        let mut table = self.lock();
        if let Some(child) = table.agents.get_mut(&status.agent_id) {
            child.status = status;
            child.spent = spent;
            child.claimed = false;
            child.stopped = false;
            child.reporting = false;
        }
        drop(table);
        self.changed.notify_waiters();
    }

    /// Has a subagent that has nothing left to do report, once nobody is giving
    /// it more. False if somebody was: it has to be followed on.
    pub async fn ends(&self, id: &AgentId) -> bool {
        let mut was_told = false;
        self.until(|table| {
            let Some(child) = table.agents.get_mut(id) else {
                return Some(true);
            };
            if child.telling > 0 {
                was_told = true;
                return None;
            }
            child.reporting = !was_told;
            Some(child.reporting)
        })
        .await
    }

    /// Waits until a subagent can be told something: it works, and will not
    /// report before it was told, or it has reported.
    pub async fn told(self: &Arc<Self>, id: &AgentId) -> Result<Telling, HalterError> {
        self.with(id, |_| ())?;
        let told = self.until(|table| {
            let child = table.agents.get_mut(id)?;
            if child.reporting {
                return None;
            }
            child.telling += 1;
            Some((child.status.clone(), child.session.clone()))
        });
        let (status, session) = told.await;
        Ok(Telling {
            children: self.clone(),
            status,
            session,
        })
    }

    /// Something about a subagent.
    pub fn with<T>(
        &self,
        id: &AgentId,
        look: impl FnOnce(&mut Child) -> T,
    ) -> Result<T, HalterError> {
        let mut table = self.lock();
        if let Some(child) = table.agents.get_mut(id) {
            return Ok(look(child));
        }
        let names: Vec<&str> = table.agents.keys().map(AgentId::as_str).collect();
        let known = match names.as_slice() {
            [] => "it has started none".to_owned(),
            names => format!("it has {}", names.join(", ")),
        };
        let message = format!("this session has no subagent '{id}': {known}");
        Err(HalterError::new("unknown_subagent", message)
            .with_hint("use the agent_id that spawn_agent returned"))
    }

    /// The sessions that live here, of those that run or of all.
    pub fn sessions(&self, running_only: bool) -> Vec<(AgentId, SessionHandle)> {
        let table = self.lock();
        let wanted = |it: &Child| !running_only || !it.status.state.is_terminal();
        let all = table.agents.iter().filter(|(_, child)| wanted(child));
        all.filter_map(|(id, child)| Some((id.clone(), child.session.clone()?)))
            .collect()
    }

    /// The sessions of those that have reported longest ago, but for `keep`.
    pub fn take_idle(&self, keep: usize) -> Vec<SessionHandle> {
        let mut table = self.lock();
        let idle = |it: &Child| it.status.state.is_terminal() && it.session.is_some();
        let count = table.agents.values().filter(|it| idle(it)).count();
        let over = count.saturating_sub(keep);
        let all = table.agents.values_mut().filter(|it| idle(it));
        all.take(over).filter_map(|it| it.session.take()).collect()
    }

    /// The parent stops all that run.
    pub fn stop_all(&self) -> Vec<(AgentId, SessionHandle)> {
        let mut table = self.lock();
        for child in table.agents.values_mut() {
            child.stopped |= !child.status.state.is_terminal();
        }
        drop(table);
        self.sessions(true)
    }

    /// No more are started.
    pub fn close(&self) {
        self.lock().closing = true;
    }

    /// Waits until none runs.
    pub async fn none_runs(&self) {
        self.until(|table| {
            let mut all = table.agents.values();
            all.all(|it| it.status.state.is_terminal()).then_some(())
        })
        .await;
    }

    async fn until<T>(&self, mut check: impl FnMut(&mut Table) -> Option<T>) -> T {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Some(found) = check(&mut self.lock()) {
                return found;
            }
            changed.await;
        }
    }

    /// Waits for the first of several to be in a terminal state.
    pub fn waiting(self: &Arc<Self>, targets: &[AgentId]) -> Result<Waiting, HalterError> {
        for target in targets {
            self.with(target, |_| ())?;
        }
        let mut table = self.lock();
        for target in targets {
            if let Some(child) = table.agents.get_mut(target) {
                child.waiters += 1;
            }
        }
        drop(table);
        Ok(Waiting {
            children: self.clone(),
            targets: targets.to_vec(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Child {
    fn new(status: SubagentStatus, session: Option<SessionHandle>) -> Self {
        Self {
            status,
            session,
            waiters: 0,
            claimed: false,
            stopped: false,
            spent: Spending::default(),
            telling: 0,
            reporting: false,
        }
    }
}

/// Somebody waits for subagents. While it lives, their reports are theirs.
pub(crate) struct Waiting {
    children: Arc<Children>,
    targets: Vec<AgentId>,
}

impl Waiting {
    /// The first that is in a terminal state.
    pub async fn first(&self) -> SubagentStatus {
        self.children.until(|table| self.find(table)).await
    }

    /// True if a report is on its way here.
    pub fn is_promised(&self) -> bool {
        let table = self.children.lock();
        let mut targets = self.targets.iter().filter_map(|it| table.agents.get(it));
        targets.any(|it| it.claimed)
    }

    /// All targets, as they are now.
    pub fn statuses(&self) -> Vec<SubagentStatus> {
        let table = self.children.lock();
        let targets = self.targets.iter().filter_map(|it| table.agents.get(it));
        targets.map(|it| it.status.clone()).collect()
    }

    fn find(&self, table: &mut Table) -> Option<SubagentStatus> {
        let mut targets = self.targets.iter().filter_map(|it| table.agents.get(it));
        let ended = targets.find(|it| it.status.state != SubagentState::Running);
        ended.map(|it| it.status.clone())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut table = self.children.lock();
        for target in &self.targets {
            if let Some(child) = table.agents.get_mut(target) {
                child.waiters = child.waiters.saturating_sub(1);
            }
        }
    }
}

/// Somebody tells a subagent something. While it lives, the subagent does not
/// report.
pub(crate) struct Telling {
    children: Arc<Children>,
    pub status: SubagentStatus,
    /// Its session, while it lives here.
    pub session: Option<SessionHandle>,
}

impl Drop for Telling {
    fn drop(&mut self) {
        let mut table = self.children.lock();
        if let Some(child) = table.agents.get_mut(&self.status.agent_id) {
            child.telling = child.telling.saturating_sub(1);
        }
        drop(table);
        self.children.changed.notify_waiters();
    }
}

fn closing() -> HalterError {
    HalterError::new("session_closing", "the session is being shut down")
        .with_hint("start no more subagents")
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use halter_protocol::SessionId;

    #[test]
    fn what_a_subagent_is_told_is_done_before_it_reports_or_after() {
        let status = SubagentStatus {
            agent_id: "agent_1".into(),
            session_id: SessionId::from("ses_1"),
            agent_type: None,
            task: "Look".to_owned(),
            state: SubagentState::Running,
            last_message: None,
            usage: None,
            error: None,
            worktree: None,
        };
        let id = status.agent_id.clone();
        let children = Arc::new(Children::default());
        let child = Child::new(status.clone(), None);
        children.lock().agents.insert(id.clone(), child);

        let telling = children.told(&id).now_or_never();
        let mut ends = Box::pin(children.ends(&id));
        assert_eq!(ends.as_mut().now_or_never(), None, "it is being told more");
        drop(telling);
        assert_eq!(ends.now_or_never(), Some(false), "it has more to do");

        assert_eq!(children.ends(&id).now_or_never(), Some(true));
        let mut late = Box::pin(children.told(&id));
        assert!(late.as_mut().now_or_never().is_none(), "it reports first");
        children.reported(status, Spending::default());
        assert!(late.now_or_never().is_some(), "it can be told the next");
    }
}
