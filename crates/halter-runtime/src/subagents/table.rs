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
        child.waiters = table.agents.get(&id).map_or(0, |it| it.waiters);
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
        }
        drop(table);
        self.changed.notify_waiters();
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

    async fn until<T>(&self, check: impl Fn(&mut Table) -> Option<T>) -> T {
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

fn closing() -> HalterError {
    HalterError::new("session_closing", "the session is being shut down")
        .with_hint("start no more subagents")
}
