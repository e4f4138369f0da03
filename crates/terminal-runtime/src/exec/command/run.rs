//! Running a command: its output moved, orders taken, time kept, its end made
//! known once.

use std::sync::atomic::Ordering;
use std::time::Duration;

use halter_exec::host::{CommandEnd, PidFd};
use halter_exec::{ExecError, Signal};
use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;

use crate::exec::command::flow::Flows;
use crate::exec::command::stop::{Stop, Stopping};
use crate::exec::command::{Exec, Order};
use crate::exec::error::CoreError;
use crate::exec::lock;
use crate::exec::record::{ExecRecord, StopReason, TreeId};
use crate::exec::session::SessionShell;
use crate::exec::session::tree::Tree;
use crate::exec::session::trees::TreeEnd;
use crate::exec::types::{CommandUsage, ExecEnd, Scope};
use crate::holder::{Exit, ExitWatch, HolderRequest, ProcessEnd, SignalTarget};
use crate::sys;

/// What happens first to a command that runs.
enum Event<End> {
    End(End),
    Stop(Stop),
    Signal(Signal, Scope),
    /// Its process number may be asked for by now.
    NumberNeeded,
}

/// How the end of a command reaches the holder.
enum EndNotice {
    /// The holder has reported it itself.
    NotNeeded,
    /// In a message of its own, before anybody else learns of it.
    Now,
    /// With the next message, together with what is known of the shell: until
    /// then the next daemon finds the end in what the shell has answered.
    WithNext(Vec<HolderRequest>),
}

impl Exec {
    /// Waits for the end of a command, for its time to be up, or for an order.
    async fn event<End>(
        &self,
        end: impl Future<Output = End>,
        deadline: Option<Instant>,
        number_needed: Option<Instant>,
    ) -> Event<End> {
        tokio::select! {
            biased;
            end = end => Event::End(end),
            () = self.inner.session.closed.cancelled() => Event::Stop(Stop::Closed),
            order = self.inner.orders.next() => match order {
                Order::Signal(signal, scope) => Event::Signal(signal, scope),
                Order::Cancel(signal) => Event::Stop(Stop::Cancelled(signal)),
            },
            () = at(deadline) => Event::Stop(Stop::TimedOut),
            () = at(number_needed) => Event::NumberNeeded,
        }
    }

    /// When its time is up, also if an earlier daemon started it.
    fn deadline(&self) -> Option<Instant> {
        let record = lock(&self.inner.record);
        let age = crate::clock::now_us().saturating_sub(record.started_us);
        let left = record.timeout?.saturating_sub(Duration::from_micros(age));
        Some(Instant::now() + left)
    }

    /// Why an earlier daemon was stopping it: it is stopped again.
    fn earlier_stop(&self) -> Option<Stop> {
        lock(&self.inner.record).stop.map(|reason| match reason {
            StopReason::TimedOut => Stop::TimedOut,
            StopReason::Cancelled => Stop::Cancelled(None),
        })
    }

    /// Runs a command that is a process of its own to its end.
    pub(in crate::exec) async fn run_process(self, mut flows: Flows, end: ExitWatch, tree: TreeId) {
        let deadline = self.deadline();
        let mut stop = self.earlier_stop();
        let mut number_needed = Some(Instant::now() + sys::NUMBER_NEEDED_AFTER);
        let ended = loop {
            if let Some(stop) = stop {
                break Box::pin(self.terminate(stop, &mut flows, (&end, &tree))).await;
            }
            let event = self.event(end.wait(), deadline, number_needed);
            match flows.run_until(event).await {
                Event::End(ended) => break Some(ended),
                Event::Stop(reason) => {
                    self.note_stop(reason.reason());
                    stop = Some(reason);
                }
                Event::Signal(signal, scope) => self.signal_process(signal, scope, &tree).await,
                Event::NumberNeeded => {
                    number_needed = None;
                    self.learn_pid().await;
                }
            }
        };
        flows.drain();
        let pid = self.inner.pid.load(Ordering::Relaxed);
        if ended == Some(ProcessEnd::Lost) && !self.is_left_to_next_daemon() {
            // Nobody collects it any more: it must not stay.
            Box::pin(self.inner.session.tree(pid, &tree).kill_until_gone()).await;
        }
        let tree_end = match stop {
            None => TreeEnd::ByItself,
            Some(_) => TreeEnd::Killed,
        };
        let trees = &self.inner.session.trees;
        trees.release((pid != 0).then_some(pid), &tree, tree_end);
        let result = self.end_of_process(ended);
        // The end of a process the holder has told us; why it was brought
        // about it learns from us.
        match stop {
            None => self.finish(result, EndNotice::NotNeeded),
            Some(_) => self.finish(result, EndNotice::Now),
        }
        self.follow(flows).await;
    }

    /// Whether this daemon is leaving, and another goes on with the command.
    fn is_left_to_next_daemon(&self) -> bool {
        let core = self.inner.core.upgrade();
        core.is_none_or(|core| core.ending.load(Ordering::Acquire))
    }

    pub(in crate::exec) async fn learn_pid(&self) -> Option<i32> {
        let known = self.inner.pid.load(Ordering::Relaxed);
        if known != 0 {
            return Some(known);
        }
        let pid = self.link().pid_of(self.inner.key).await?;
        self.inner.pid.store(pid, Ordering::Relaxed);
        Some(pid)
    }

    pub(in crate::exec) async fn tree(&self, id: &TreeId) -> Tree {
        let pid = self.learn_pid().await.unwrap_or(0);
        self.inner.session.tree(pid, id)
    }

    pub(in crate::exec) async fn signal_process(
        &self,
        signal: Signal,
        scope: Scope,
        tree: &TreeId,
    ) {
        match scope {
            Scope::Leader | Scope::Group if self.inner.session.container.is_some() => {
                let leader = self.tree(tree).await.contained_leader();
                if let Some(Ok(handle)) = leader.map(PidFd::open) {
                    let _ = handle.send(signal);
                }
            }
            Scope::Leader => self.signal_by_holder(signal, SignalTarget::Process),
            Scope::Group => self.signal_by_holder(signal, SignalTarget::Group),
            Scope::Tree => self.tree(tree).await.signal(signal),
        }
    }

    /// Has the holder signal its process: only the holder knows whether that
    /// has been collected and its number may be another's.
    pub(in crate::exec) fn signal_by_holder(&self, signal: Signal, target: SignalTarget) {
        self.link().send(&[HolderRequest::Signal {
            key: self.inner.key,
            signal: signal.number(),
            target,
        }]);
    }

    fn end_of_process(&self, ended: Option<ProcessEnd>) -> Result<ExecEnd, CoreError> {
        match ended {
            Some(ProcessEnd::Exited(exit)) => Ok(lock(&self.inner.record).end_by(exit)),
            Some(ProcessEnd::Failed(failure)) => Err(self.explain(failure)),
            Some(ProcessEnd::Lost) => Err(holder_lost()),
            None => Err(CoreError::Internal {
                message: format!(
                    "the command was killed and does not end; process {} is stuck in the kernel",
                    self.inner.pid.load(Ordering::Relaxed)
                ),
            }),
        }
    }

    /// Runs a command that was given to the session's shell to its end.
    pub(in crate::exec) async fn run_in_shell(
        self,
        mut flows: Flows,
        mut shell: OwnedMutexGuard<SessionShell>,
    ) {
        let deadline = self.deadline();
        let mut stop = self.earlier_stop();
        let mut stopped_since = None;
        let result = loop {
            let Some(driver) = shell.as_mut() else {
                break Err(holder_lost());
            };
            if let Some(reason) = stop {
                let since = *stopped_since.get_or_insert_with(Instant::now);
                let stopping = Box::pin(self.stop_in_shell(reason, since, driver));
                let waited = self.wait_or_order(stopping, reason);
                match flows.run_until(waited).await {
                    Stopping::Over(stopped) => break self.end_in_shell(stopped),
                    Stopping::Signal(signal, _) => {
                        driver.signal(signal);
                        stop = Some(reason.after_first_signal());
                    }
                    Stopping::Escalated(escalated) => stop = Some(escalated),
                }
                continue;
            }
            let event = self.event(driver.ended(), deadline, None);
            match flows.run_until(event).await {
                Event::End(end) => break self.end_in_shell(end),
                Event::Stop(reason) => {
                    self.note_stop(reason.reason());
                    stop = Some(reason);
                }
                Event::Signal(signal, _) => driver.signal(signal),
                Event::NumberNeeded => {}
            }
        };
        flows.drain();
        let updates = shell.as_ref().map(|driver| driver.host().updates().take());
        let updates = updates.unwrap_or_default();
        match stop {
            None => self.finish(result, EndNotice::WithNext(updates)),
            Some(_) => {
                self.link().send(&updates);
                self.finish(result, EndNotice::Now);
            }
        }
        drop(shell);
        self.follow(flows).await;
    }

    fn end_in_shell(&self, end: Result<CommandEnd, ExecError>) -> Result<ExecEnd, CoreError> {
        let record = lock(&self.inner.record);
        let age = crate::clock::now_us().saturating_sub(record.started_us);
        let duration = Duration::from_micros(age);
        let timed_out = record.stop == Some(StopReason::TimedOut);
        let cancelled = record.stop == Some(StopReason::Cancelled);
        match end {
            Ok(end) => Ok(ExecEnd {
                exit_code: end.status.code,
                signal: end.status.signal,
                timed_out,
                cancelled,
                duration,
                usage: None,
                cwd: Some(end.cwd),
                shell_restarted: end.shell_restarted,
                limit: None,
            }),
            Err(_) if self.link().is_lost() => Err(holder_lost()),
            // The session was closed under it.
            Err(_) if cancelled => Ok(ExecEnd {
                exit_code: None,
                signal: Some(Signal::KILL.number()),
                timed_out,
                cancelled,
                duration,
                usage: None,
                cwd: None,
                shell_restarted: false,
                limit: None,
            }),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes the end known: to the holder, then to everybody else.
    fn finish(&self, result: Result<ExecEnd, CoreError>, notice: EndNotice) {
        if let Ok(end) = &result {
            lock(&self.inner.record).end = Some(end.clone());
        }
        let key = self.inner.key;
        let settle = HolderRequest::Settle { key };
        match notice {
            EndNotice::NotNeeded => self.link().send_later(settle),
            EndNotice::Now => self.link().send(&[self.store_request(), settle]),
            EndNotice::WithNext(updates) => {
                for request in [self.store_request(), settle].into_iter().chain(updates) {
                    self.link().send_later(request);
                }
            }
        }
        self.inner.stdout.finish();
        if let Some(stderr) = &self.inner.stderr {
            stderr.finish();
        }
        self.inner.session.forget_names(key);
        // A command ends once.
        let _ = self.inner.end.set(result);
        if self.inner.forgotten.load(Ordering::Acquire) {
            self.remove();
        }
    }

    /// Goes on moving what the command's background processes write, until
    /// nobody writes any more or the session is closed.
    pub(in crate::exec) async fn follow(self, mut flows: Flows) {
        let closed = self.inner.session.closed.clone();
        while flows.is_open() && !closed.is_cancelled() {
            let Flows { stdout, stderr } = &mut flows;
            tokio::select! {
                () = stdout.advance() => {}
                () = crate::exec::command::flow::advance(stderr.as_mut()) => {}
                () = closed.cancelled() => {}
            }
        }
        // Whatever it has open goes before anybody counts on that.
        drop(flows);
        self.inner.flowing.store(false, Ordering::SeqCst);
        let forgotten = lock(&self.inner.record).forgotten;
        if forgotten {
            self.release_slot();
        } else if self.inner.kept.load(Ordering::SeqCst) {
            self.close_streams();
        }
    }
}

impl ExecRecord {
    /// How a command ended whose process ended like this.
    pub(in crate::exec) fn end_by(&self, exit: Exit) -> ExecEnd {
        ExecEnd {
            exit_code: exit.code,
            signal: exit.signal,
            timed_out: self.stop == Some(StopReason::TimedOut),
            cancelled: self.stop == Some(StopReason::Cancelled),
            duration: Duration::from_micros(exit.at_us.saturating_sub(self.started_us)),
            usage: Some(CommandUsage {
                user_time: Duration::from_micros(exit.user_us),
                system_time: Duration::from_micros(exit.system_us),
                max_resident_bytes: exit.max_resident_bytes,
            }),
            cwd: None,
            shell_restarted: false,
            limit: None,
        }
    }
}

async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

/// What the clients of a session learn whose holder has ended.
pub(in crate::exec) fn holder_lost() -> CoreError {
    CoreError::Internal {
        message: "the holder of the session's processes has ended, and every command with it; \
                  create a new session"
            .to_owned(),
    }
}
