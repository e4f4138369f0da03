//! Bringing a command to its end before it comes to it by itself.

use std::time::Duration;

use halter_exec::host::{CommandEnd, ShellDriver};
use halter_exec::{ExecError, Signal};
use tokio::time::Instant;

use crate::exec::command::flow::Flows;
use crate::exec::command::{Exec, Order};
use crate::exec::record::{StopReason, TreeId};
use crate::exec::session::tree::Tree;
use crate::exec::shell::HolderHost;
use crate::exec::types::Scope;
use crate::holder::{ExitWatch, ProcessEnd, SignalTarget};
use crate::limits::{CANCEL_GRACE, TREE_END_WAIT};

/// The shortest and longest pause between two looks at a tree that is being
/// brought down.
const POLL_PAUSE: (Duration, Duration) = (Duration::from_micros(500), Duration::from_millis(20));

/// Why a command is brought to its end.
#[derive(Debug, Clone, Copy)]
pub(in crate::exec) enum Stop {
    TimedOut,
    Cancelled(Option<Signal>),
    /// The session goes, and everything with it.
    Closed,
}

impl Stop {
    pub(in crate::exec) fn reason(self) -> StopReason {
        match self {
            Self::TimedOut => StopReason::TimedOut,
            Self::Cancelled(_) | Self::Closed => StopReason::Cancelled,
        }
    }

    /// The same for a command that has had its first signal: what it was told
    /// once it is not told again.
    pub(in crate::exec) fn after_first_signal(self) -> Self {
        match self {
            Self::Cancelled(Some(_)) if self.may_wait() => Self::Cancelled(None),
            other => other,
        }
    }

    /// Whether the command is given time before it is killed.
    fn may_wait(self) -> bool {
        !matches!(self, Self::Cancelled(Some(Signal::KILL)) | Self::Closed)
    }

    /// What is sent before KILL, and how long each has to act.
    fn signal_steps(self, grace: Duration) -> Vec<(Signal, Duration)> {
        match self {
            _ if !self.may_wait() => Vec::new(),
            Self::Cancelled(first) if first != Some(Signal::TERM) => vec![
                (first.unwrap_or(Signal::INT), CANCEL_GRACE),
                (Signal::TERM, grace),
            ],
            _ => vec![(Signal::TERM, grace)],
        }
    }
}

/// What happens to a command while it is being brought to its end.
pub(in crate::exec) enum Stopping<End> {
    Over(End),
    /// Somebody sends it a signal meanwhile.
    Signal(Signal, Scope),
    /// It has less time than it was given.
    Escalated(Stop),
}

impl Exec {
    /// Waits for a command that is being stopped, and for other orders.
    pub(in crate::exec) async fn wait_or_order<End>(
        &self,
        stopping: impl Future<Output = End>,
        stop: Stop,
    ) -> Stopping<End> {
        let mut stopping = std::pin::pin!(stopping);
        let closed = &self.inner.session.closed;
        loop {
            let order = tokio::select! {
                biased;
                end = stopping.as_mut() => return Stopping::Over(end),
                () = closed.cancelled(), if stop.may_wait() => {
                    return Stopping::Escalated(Stop::Closed);
                }
                order = self.inner.orders.next() => order,
            };
            match order {
                // What is being killed hears nothing, and its end must not be
                // given up half-way.
                _ if !stop.may_wait() => {}
                Order::Signal(signal, scope) => return Stopping::Signal(signal, scope),
                Order::Cancel(Some(Signal::KILL)) => {
                    return Stopping::Escalated(Stop::Cancelled(Some(Signal::KILL)));
                }
                Order::Cancel(Some(signal)) => return Stopping::Signal(signal, Scope::Tree),
                // It is being stopped already.
                Order::Cancel(None) => {}
            }
        }
    }

    /// Brings a process and all that descends from it to its end; `None` if it
    /// does not die.
    pub(in crate::exec) async fn terminate(
        &self,
        mut stop: Stop,
        flows: &mut Flows,
        (end, tree): (&ExitWatch, &TreeId),
    ) -> Option<ProcessEnd> {
        loop {
            let mut stopping = Box::pin(self.stop_process(stop, end, tree));
            stop = loop {
                let waited = self.wait_or_order(stopping.as_mut(), stop);
                match flows.run_until(waited).await {
                    Stopping::Over(ended) => return ended,
                    Stopping::Signal(signal, scope) => {
                        self.signal_process(signal, scope, tree).await;
                    }
                    Stopping::Escalated(escalated) => break escalated,
                }
            };
        }
    }

    /// Signals the whole tree up to KILL until nothing is left of it.
    async fn stop_process(&self, stop: Stop, end: &ExitWatch, id: &TreeId) -> Option<ProcessEnd> {
        let tree = self.tree(id).await;
        for (signal, limit) in stop.signal_steps(self.grace()) {
            tree.signal(signal);
            // A stopped process takes no other signal.
            tree.signal(Signal::CONT);
            if gone_within(&tree, end, limit).await {
                return Some(end.wait().await);
            }
        }
        if !tree.kill_until_gone().await {
            tracing::warn!(exec = %self.inner.id, "something of a command does not die");
        }
        // Reaches the leader also where its tree cannot be seen from here. Not
        // before: without a control group, what it started is found by way of it.
        self.signal_by_holder(Signal::KILL, SignalTarget::Group);
        tokio::time::timeout(TREE_END_WAIT, end.wait()).await.ok()
    }

    fn grace(&self) -> Duration {
        let core = self.inner.core.upgrade();
        core.map_or(Duration::ZERO, |core| core.settings.grace)
    }

    /// Stops a command in its shell that was first to be stopped then.
    pub(in crate::exec) async fn stop_in_shell(
        &self,
        stop: Stop,
        since: Instant,
        driver: &mut ShellDriver<HolderHost>,
    ) -> Result<CommandEnd, ExecError> {
        if matches!(stop, Stop::Closed) {
            driver.close().await;
            return driver.ended().await;
        }
        // The shell must have been told of the command before it is told to
        // stop it.
        if let Some(process) = driver.process() {
            self.link().pid_of(process.key()).await;
        }
        let grace = match stop {
            Stop::Cancelled(Some(Signal::KILL)) => Duration::ZERO,
            _ => self.grace().saturating_sub(since.elapsed()),
        };
        if let Stop::Cancelled(Some(signal)) = stop {
            driver.signal(signal);
        }
        driver.interrupt(grace).await
    }
}

/// Whether the process has ended and nothing of its tree is left, looked at
/// until the limit has passed.
async fn gone_within(tree: &Tree, end: &ExitWatch, limit: Duration) -> bool {
    let until = Instant::now() + limit;
    let (mut pause, longest) = POLL_PAUSE;
    loop {
        if end.now().is_some() && tree.is_gone() {
            return true;
        }
        if Instant::now() >= until {
            return false;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(longest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_is_cancelled_has_its_time_before_each_next_signal() {
        let grace = Duration::from_secs(7);
        let steps = |stop: Stop| stop.signal_steps(grace);
        let (int, term) = ((Signal::INT, CANCEL_GRACE), (Signal::TERM, grace));
        assert_eq!(steps(Stop::Cancelled(None)), [int, term]);
        let hangup = (Signal::HUP, CANCEL_GRACE);
        assert_eq!(steps(Stop::Cancelled(Some(Signal::HUP))), [hangup, term]);
        assert_eq!(steps(Stop::Cancelled(Some(Signal::TERM))), [term]);
        assert_eq!(steps(Stop::TimedOut), [term]);
        assert_eq!(steps(Stop::Cancelled(Some(Signal::KILL))), []);
        assert_eq!(steps(Stop::Closed), []);
    }

    #[test]
    fn what_a_command_was_told_first_it_is_told_once() {
        let first = Stop::Cancelled(Some(Signal::HUP));
        assert!(matches!(first.after_first_signal(), Stop::Cancelled(None)));
        let kill = Stop::Cancelled(Some(Signal::KILL));
        assert!(matches!(
            kill.after_first_signal(),
            Stop::Cancelled(Some(Signal::KILL))
        ));
        assert!(matches!(
            Stop::TimedOut.after_first_signal(),
            Stop::TimedOut
        ));
        assert!(matches!(Stop::Closed.after_first_signal(), Stop::Closed));
    }
}
