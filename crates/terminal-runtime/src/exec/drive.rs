//! A command's life after its start: output moved, wishes heard, time kept,
//! its end made known once.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use halter_exec::limits::SPOOL_HEAD_BYTES;
use halter_exec::{CommandEnd, ExecError, PidFd, Signal};
use rustix::process::{Pid, kill_process_group};
use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;

use super::core::CoreInner;
use super::error::CoreError;
use super::handle::{Exec, Wish};
use super::ledger::Ledger;
use super::lock;
use super::order::{ExecEnd, Scope, Usage};
use super::output::Flows;
use super::record::{ExecRecord, Grip, StopReason};
use super::session::ShellSeat;
use super::stop::{Stop, Stopping};
use super::tree::Tree;
use super::trees::Past;
use crate::holder::{EndWatch, Exit, ProcessEnd, Request};
use crate::limits::YOUTH_BEAT;
use crate::sys;

/// What brings a command to its end, and goes on with what it leaves running.
/// Somebody has to poll it.
pub(crate) type Drive = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What a waiting driver hears first.
enum Heard<End> {
    End(End),
    Stop(Stop),
    Signal(Signal, Scope),
    Old,
    /// It lives longer than most.
    Grown,
}

/// Who knows first how a command ended.
enum Herald {
    Holder,
    /// With what is to be kept of the shell.
    Daemon(Vec<Request>),
    /// Only the shell itself: what it said is kept.
    Nobody,
}

impl Exec {
    /// Drives it to its end. What is to be done afterwards is done by a task.
    /// Must not be given up half-way: nobody else drives it.
    pub(crate) async fn driven(&self, mut drive: Drive) -> Result<ExecEnd, CoreError> {
        let (end, over) = poll_fn(|context| {
            let over = drive.as_mut().poll(context).is_ready();
            match self.inner.end.get() {
                Some(end) => Poll::Ready((end.clone(), over)),
                None if over => Poll::Ready((Err(CoreError::Ended), over)),
                None => Poll::Pending,
            }
        })
        .await;
        if !over {
            tokio::spawn(drive);
        }
        end
    }

    /// Waits for the end of a command, for its time to be up, or for a wish.
    async fn hear<End>(
        &self,
        end: impl Future<Output = End>,
        deadline: Option<Instant>,
        old: Option<Instant>,
    ) -> Heard<End> {
        tokio::select! {
            biased;
            heard = self.hear_anyone(end) => heard,
            () = at(deadline) => Heard::Stop(Stop::TimedOut),
            () = at(old) => Heard::Old,
        }
    }

    /// The same, however long it takes.
    async fn hear_anyone<End>(&self, end: impl Future<Output = End>) -> Heard<End> {
        tokio::select! {
            biased;
            end = end => Heard::End(end),
            () = self.inner.session.closed.cancelled() => Heard::Stop(Stop::Closed),
            wish = self.inner.wishes.next() => match wish {
                Wish::Signal(signal, scope) => Heard::Signal(signal, scope),
                Wish::Cancel(signal) => Heard::Stop(Stop::Cancelled(signal)),
            },
        }
    }

    /// What happens to a process that has just been started. Most have ended
    /// before anybody had to look after their output or their time.
    async fn hear_young(&self, end: &EndWatch, deadline: Option<Instant>) -> Heard<ProcessEnd> {
        let Some(core) = self.inner.core.upgrade() else {
            return Heard::Grown;
        };
        let soon = |at: &Instant| *at <= Instant::now() + 2 * YOUTH_BEAT;
        if self.inner.terminal.is_some() || deadline.as_ref().is_some_and(soon) {
            return Heard::Grown;
        }
        tokio::select! {
            biased;
            heard = self.hear_anyone(end.wait()) => heard,
            () = self.inner.read.notified() => Heard::Grown,
            () = core.pulse.pass() => Heard::Grown,
        }
    }

    /// When its time is up, also if an earlier daemon started it.
    fn deadline(&self) -> Option<Instant> {
        let record = lock(&self.inner.record);
        let age = crate::clock::now_us().saturating_sub(record.started_us);
        let left = record.timeout?.saturating_sub(Duration::from_micros(age));
        Some(Instant::now() + left)
    }

    /// Drives a command that is a process of its own.
    pub(super) async fn drive_process(self, mut flows: Flows, end: EndWatch, grip: Grip) {
        let deadline = self.deadline();
        // One that was being stopped when its daemon died is stopped again.
        let mut stop = lock(&self.inner.record).stop.map(|reason| match reason {
            StopReason::TimedOut => Stop::TimedOut,
            StopReason::Cancelled => Stop::Cancelled(None),
        });
        let mut heard = match stop {
            None => self.hear_young(&end, deadline).await,
            Some(_) => Heard::Grown,
        };
        let mut old = None;
        let ended = loop {
            match heard {
                Heard::End(ended) => break ended,
                Heard::Stop(reason) => {
                    self.note_stop(reason.reason());
                    stop = Some(reason);
                }
                Heard::Signal(signal, scope) => {
                    Box::pin(self.signal_process(signal, scope, &grip)).await;
                }
                Heard::Grown => old = Some(Instant::now() + sys::NUMBER_NEEDED_AFTER),
                Heard::Old => {
                    old = None;
                    Box::pin(self.learn_pid()).await;
                }
            }
            if let Some(stop) = stop {
                break Box::pin(self.bring_down(stop, &mut flows, (&end, &grip))).await;
            }
            heard = Box::pin(flows.run_until(self.hear(end.wait(), deadline, old))).await;
        };
        flows.drain();
        let pid = self.inner.pid.load(Ordering::Relaxed);
        let unexpected = |core: &CoreInner| !core.ending.load(Ordering::Acquire);
        if ended == ProcessEnd::Lost
            && self.inner.core.upgrade().as_deref().is_some_and(unexpected)
            && let Some(tree) = self.inner.session.tree(pid, &grip)
        {
            Box::pin(tree.kill_until_gone()).await;
        }
        if stop.is_some() || !matches!(ended, ProcessEnd::Exited(_)) {
            self.keep_streams(ended);
        }
        let session = &self.inner.session;
        let trees = &session.trees;
        let past = match stop {
            None => Past::Peaceful,
            Some(_) => Past::Killed,
        };
        trees.release(&session.spec, (pid != 0).then_some(pid), &grip, past);
        let result = self.end_of_process(ended);
        // The end of a process the holder has told us; why it was brought
        // about it learns from us.
        match stop {
            None => self.finish(result, Herald::Holder),
            Some(_) => self.finish(result, Herald::Daemon(Vec::new())),
        }
        match flows.is_open() {
            true => Box::pin(self.follow(flows)).await,
            false => self.cease(flows),
        }
    }

    async fn learn_pid(&self) -> Option<i32> {
        let known = self.inner.pid.load(Ordering::Relaxed);
        if known != 0 {
            return Some(known);
        }
        let core = self.inner.core.upgrade()?;
        let pid = core.link.pid_of(self.inner.key).await?;
        self.inner.pid.store(pid, Ordering::Relaxed);
        Some(pid)
    }

    pub(super) async fn tree(&self, grip: &Grip) -> Option<Tree> {
        let pid = self.learn_pid().await.unwrap_or(0);
        self.inner.session.tree(pid, grip)
    }

    pub(super) async fn signal_process(&self, signal: Signal, scope: Scope, grip: &Grip) {
        match scope {
            Scope::Leader | Scope::Group if self.inner.session.container.is_some() => {
                let leader = self
                    .tree(grip)
                    .await
                    .and_then(|tree| tree.contained_leader());
                if let Some(Ok(handle)) = leader.map(PidFd::open) {
                    let _ = handle.send(signal);
                }
            }
            Scope::Leader => {
                if let Some(core) = self.inner.core.upgrade() {
                    core.link.send(&[Request::Signal {
                        key: self.inner.key,
                        signal: signal.number(),
                    }]);
                }
            }
            Scope::Group => {
                let pid = self.learn_pid().await.and_then(Pid::from_raw);
                let number = rustix::process::Signal::from_named_raw(signal.number());
                if let (Some(pid), Some(signal)) = (pid, number) {
                    // A group that is gone needs no signal.
                    let _ = kill_process_group(pid, signal);
                }
            }
            Scope::Tree => {
                if let Some(tree) = self.tree(grip).await {
                    tree.signal(signal);
                }
            }
        }
    }

    fn end_of_process(&self, ended: ProcessEnd) -> Result<ExecEnd, CoreError> {
        match ended {
            ProcessEnd::Exited(exit) => Ok(lock(&self.inner.record).end_by(exit)),
            ProcessEnd::Failed(failure) => Err(self.explain(failure)),
            ProcessEnd::Lost => Err(lost()),
        }
    }

    /// Drives a command that was given to the session's shell.
    pub(super) async fn drive_shell(self, mut flows: Flows, mut seat: OwnedMutexGuard<ShellSeat>) {
        let deadline = self.deadline();
        let mut stop = lock(&self.inner.record).stop.map(|reason| match reason {
            StopReason::TimedOut => Stop::TimedOut,
            StopReason::Cancelled => Stop::Cancelled(None),
        });
        let mut stopped_since = None;
        let pulse = self.inner.core.upgrade();
        let pulse = pulse.map(|core| Arc::clone(&core.pulse));
        let result = loop {
            let (Some(driver), Some(pulse)) = (seat.as_mut(), &pulse) else {
                break Err(lost());
            };
            if let Some(reason) = stop {
                let since = *stopped_since.get_or_insert_with(Instant::now);
                let stopping = Box::pin(self.stop_in_shell(reason, since, driver));
                let attended = Box::pin(self.attend(stopping, reason));
                let heard = flows.watch_late_until(pulse, &self.inner.read, attended);
                match heard.await {
                    Stopping::Over(stopped) => break self.end_in_shell(stopped),
                    Stopping::Signal(signal, _) => {
                        driver.signal(signal);
                        stop = Some(reason.begun());
                    }
                    Stopping::Harder(harder) => stop = Some(harder),
                }
                continue;
            }
            let heard = self.hear(driver.ended(), deadline, None);
            match flows.watch_late_until(pulse, &self.inner.read, heard).await {
                Heard::End(end) => break self.end_in_shell(end),
                Heard::Stop(reason) => {
                    self.note_stop(reason.reason());
                    stop = Some(reason);
                }
                Heard::Signal(signal, _) => driver.signal(signal),
                Heard::Old | Heard::Grown => {}
            }
        };
        flows.drain();
        let ledger = seat
            .as_ref()
            .map(|driver| Arc::clone(driver.host().ledger()));
        if !flows.is_open() {
            self.inner.flowing.store(false, Ordering::Release);
        }
        let told = match ledger {
            Some(ledger) if self.needs_no_slot(&ledger) => {
                if let Some(loan) = &mut *lock(&self.inner.loan) {
                    loan.pipes = flows.into_pipes();
                }
                return self.finish(result, Herald::Nobody);
            }
            Some(ledger) => ledger.flush(),
            None => Vec::new(),
        };
        self.finish(result, Herald::Daemon(told));
        drop(seat);
        Box::pin(self.follow(flows)).await;
    }

    /// Whether its end need not be told to the holder: its streams are free
    /// for the next command as soon as its result was taken.
    fn needs_no_slot(&self, ledger: &Ledger) -> bool {
        let small = |spool: &halter_exec::Spool| spool.total() <= SPOOL_HEAD_BYTES;
        !self.inner.kept
            && !self.inner.flowing.load(Ordering::Acquire)
            && lock(&self.inner.loan).is_some()
            && small(&self.inner.stdout)
            && self.inner.stderr.as_ref().is_none_or(small)
            && !ledger.has_deferred()
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
            }),
            // The session was closed under it.
            Err(_) if cancelled => Ok(ExecEnd {
                exit_code: None,
                signal: Some(Signal::KILL.number()),
                timed_out,
                cancelled,
                duration,
                usage: None,
                cwd: None,
            }),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes the end known: first to the holder, unless it need not know,
    /// then to everybody else.
    fn finish(&self, result: Result<ExecEnd, CoreError>, herald: Herald) {
        if let Ok(end) = &result {
            lock(&self.inner.record).end = Some(end.clone());
        }
        let key = self.inner.key;
        if let Some(core) = self.inner.core.upgrade() {
            match herald {
                Herald::Holder => core.link.send_later(Request::Settle { key }),
                Herald::Daemon(told) => {
                    let mut requests = vec![self.put_request(), Request::Settle { key }];
                    requests.extend(told);
                    core.link.send(&requests);
                }
                Herald::Nobody => {}
            }
        }
        self.inner.stdout.finish();
        if let Some(stderr) = &self.inner.stderr {
            stderr.finish();
        }
        self.inner.session.forget_names(key);
        // A command ends once.
        let _ = self.inner.end.set(result);
        if let Some(core) = self.inner.core.upgrade() {
            core.ended(self);
        }
    }

    /// Goes on moving what the command's background processes write, until
    /// nobody writes any more or the session is closed.
    pub(super) async fn follow(self, mut flows: Flows) {
        let closed = self.inner.session.closed.clone();
        while flows.is_open() && !closed.is_cancelled() {
            let Flows { stdout, stderr } = &mut flows;
            tokio::select! {
                () = stdout.advance() => {}
                () = super::output::advance(stderr.as_mut()) => {}
                () = closed.cancelled() => {}
            }
        }
        self.cease(flows);
    }

    /// Nothing is moved any more.
    fn cease(&self, flows: Flows) {
        self.inner.return_pipes(flows);
        self.inner.flowing.store(false, Ordering::Release);
        if lock(&self.inner.record).forgotten {
            self.let_go();
        }
    }
}

impl ExecRecord {
    /// How a command ended whose process ended like this.
    pub(super) fn end_by(&self, exit: Exit) -> ExecEnd {
        ExecEnd {
            exit_code: exit.code,
            signal: exit.signal,
            timed_out: self.stop == Some(StopReason::TimedOut),
            cancelled: self.stop == Some(StopReason::Cancelled),
            duration: Duration::from_micros(exit.at_us.saturating_sub(self.started_us)),
            usage: Some(Usage {
                user_time: Duration::from_micros(exit.user_us),
                system_time: Duration::from_micros(exit.system_us),
                max_resident_bytes: exit.max_resident_bytes,
            }),
            cwd: None,
        }
    }
}

async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

pub(super) fn lost() -> CoreError {
    CoreError::Internal {
        message: "the holder of all processes has ended, and every command with it; \
                  restart the runtime"
            .to_owned(),
    }
}
