//! Ctrl-C, SIGTERM and SIGHUP while a session or a service is live.
//!
//! A task of its own listens, so that blocked output does not delay signals. Before one is live the signals do what they always do.

use crate::exit::{Exit, StopSignal};
use crate::failure::Failure;
use crate::limits::{DRAIN, LEAVE_WAIT};
use crate::output::Messages;
use crate::terminal;
use halter::{Halter, HalterError, HalterSession};
use halter_protocol::TurnId;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What the signals so far have asked for.
pub struct Stops {
    shared: Arc<Shared>,
    listener: tokio::task::JoinHandle<()>,
}

struct Shared {
    harness: Halter,
    session: HalterSession,
    messages: Messages,
    asked: Mutex<Option<StopSignal>>,
    turn: Mutex<Option<TurnId>>,
    interrupts: AtomicUsize,
    /// True once the program is asked to end, for a prompt to give up.
    ending: Arc<AtomicBool>,
}

impl Stops {
    /// Listens from now on.
    pub fn listen(
        harness: &Halter,
        session: &HalterSession,
        messages: &Messages,
    ) -> Result<Self, Failure> {
        let shared = Arc::new(Shared {
            harness: harness.clone(),
            session: session.clone(),
            messages: messages.clone(),
            asked: Mutex::new(None),
            turn: Mutex::new(None),
            interrupts: AtomicUsize::new(0),
            ending: Arc::default(),
        });
        let signals = Signals::open()?;
        let listener = tokio::spawn(listen(signals, shared.clone()));
        Ok(Self { shared, listener })
    }

    /// The signal that ended the last turn or asks to end the program.
    pub fn asked(&self) -> Option<StopSignal> {
        *self.shared.asked()
    }

    /// Another turn begins: this one is meant by the next Ctrl-C.
    pub fn next_turn(&self, turn_id: &TurnId) {
        *lock(&self.shared.turn) = Some(turn_id.clone());
        let mut asked = self.shared.asked();
        if *asked == Some(StopSignal::Interrupt) {
            *asked = None;
        }
        self.shared.interrupts.store(0, Ordering::SeqCst);
    }

    /// A way out for a program that nobody watches any more.
    pub fn quick_exit(&self) -> QuickExit {
        QuickExit(self.shared.clone())
    }

    /// Becomes true when the program is asked to end.
    pub fn ending(&self) -> Arc<AtomicBool> {
        self.shared.ending.clone()
    }
}

/// Ends the program without waiting for running work.
pub struct QuickExit(Arc<Shared>);

impl QuickExit {
    /// Ends what can be ended in [`LEAVE_WAIT`], child processes among it, and
    /// exits.
    pub async fn leave(&self, signal: StopSignal) -> ! {
        self.0.leave(signal).await
    }
}

impl Drop for Stops {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

impl Shared {
    fn asked(&self) -> MutexGuard<'_, Option<StopSignal>> {
        lock(&self.asked)
    }

    async fn obey(&self, signal: StopSignal) {
        let again = self.asked().replace(signal).is_some();
        match signal {
            StopSignal::Interrupt => {
                if self.interrupts.fetch_add(1, Ordering::SeqCst) > 0 || again {
                    self.leave(signal).await;
                }
                self.cancel_turn().await;
            }
            StopSignal::Hangup | StopSignal::Terminate => {
                self.ending.store(true, Ordering::SeqCst);
                if again {
                    self.leave(signal).await;
                }
                // The listener must hear the next signal meanwhile.
                // Closing the store is left to whoever reads from it to the end.
                let runtime = self.harness.runtime().clone();
                tokio::spawn(async move { runtime.shutdown(DRAIN).await });
            }
        }
    }

    async fn cancel_turn(&self) {
        let Some(turn_id) = lock(&self.turn).clone() else {
            return;
        };
        let mut cancelled = self.session.cancel_turn(&turn_id, "Ctrl-C").await;
        if matches!(cancelled, Ok(false)) {
            // It is over: what goes on are its subagents, or what they brought.
            cancelled = self.session.cancel().await;
        }
        if let Err(error) = cancelled {
            tracing::debug!(%error, "nothing to cancel");
        }
    }

    /// Leaves at once, taking child processes along.
    async fn leave(&self, signal: StopSignal) -> ! {
        self.end_quickly().await;
        self.messages.clear_status();
        terminal::restore();
        std::process::exit(i32::from(Exit::Signal(signal).code()))
    }

    /// Ends what can be ended within [`LEAVE_WAIT`].
    async fn end_quickly(&self) {
        let end = self.harness.shutdown(Duration::ZERO);
        let _ = tokio::time::timeout(LEAVE_WAIT, end).await;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The signals we listen for. One that our parent told us to ignore, as
/// `nohup` does, stays ignored.
pub struct Signals {
    interrupt: Option<Signal>,
    terminate: Option<Signal>,
    hangup: Option<Signal>,
}

impl Signals {
    /// Listens from now on.
    pub fn open() -> Result<Self, Failure> {
        Self::listen().map_err(|error| {
            let message = format!("could not listen for signals: {error}");
            HalterError::new("signals_failed", message).into()
        })
    }

    fn listen() -> std::io::Result<Self> {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let ignored = ignored_signals(&status);
        let open = |kind: SignalKind| match ignored & (1 << (kind.as_raw_value() - 1)) {
            0 => signal(kind).map(Some),
            _ => Ok(None),
        };
        Ok(Self {
            interrupt: open(SignalKind::interrupt())?,
            terminate: open(SignalKind::terminate())?,
            hangup: open(SignalKind::hangup())?,
        })
    }

    /// Waits for the next one.
    pub async fn next(&mut self) -> StopSignal {
        tokio::select! {
            () = arrival(&mut self.interrupt) => StopSignal::Interrupt,
            () = arrival(&mut self.terminate) => StopSignal::Terminate,
            () = arrival(&mut self.hangup) => StopSignal::Hangup,
        }
    }
}

/// Waits for a signal; for ever if it is ignored.
async fn arrival(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// The set of ignored signals in the text of `/proc/self/status`, signal 1 in
/// the lowest bit.
fn ignored_signals(status: &str) -> u64 {
    status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

async fn listen(mut signals: Signals, shared: Arc<Shared>) {
    loop {
        let signal = signals.next().await;
        shared.obey(signal).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Verbosity;
    use crate::terminal::Terminal;
    use futures::StreamExt;
    use halter::providers::{FakeProvider, Gate, Reply};
    use halter_protocol::{ResourceSnapshot, Turn};
    use halter_runtime::{SessionInit, TurnStream};
    use halter_testkit::{EventsExt, FaultyStore, collect};
    use tokio::time::Instant;

    const SCREENLESS: Terminal = Terminal {
        stdin: false,
        stdout: false,
        stderr: false,
        capable: false,
        color: false,
    };

    /// A session in whose turn the model never stops.
    async fn endless(store: Arc<FaultyStore>) -> (Shared, TurnStream) {
        let never = Gate::new();
        let reply = Reply::new().text("and then").gate(&never);
        let harness = Halter::builder()
            .with_resource_snapshot(ResourceSnapshot::empty())
            .with_provider(Arc::new(FakeProvider::scripted([reply])))
            .with_session_store(store)
            .build()
            .await
            .unwrap();
        let session = harness.new_session(SessionInit::default()).await.unwrap();
        let turn = session.submit_turn(Turn::user("go on")).await.unwrap();
        never.reached().await;
        let shared = Shared {
            harness,
            session,
            messages: Messages::new(SCREENLESS, Verbosity::Quiet, false),
            asked: Mutex::default(),
            turn: Mutex::default(),
            interrupts: AtomicUsize::default(),
            ending: Arc::default(),
        };
        (shared, turn)
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_may_go_on_for_so_long_after_sigterm() {
        let (shared, turn) = endless(Arc::new(FaultyStore::in_memory())).await;
        let asked = Instant::now();
        shared.obey(StopSignal::Terminate).await;
        let events = collect(turn).await;
        assert_eq!(events.turn_error().code, "cancelled");
        assert_eq!(asked.elapsed(), DRAIN);
    }

    #[tokio::test(start_paused = true)]
    async fn a_quick_exit_is_bounded() {
        let store = Arc::new(FaultyStore::in_memory());
        let (shared, mut turn) = endless(store.clone()).await;
        store.hold_next_append(&Gate::new());
        let asked = Instant::now();
        shared.end_quickly().await;
        assert_eq!(asked.elapsed(), LEAVE_WAIT);
        assert!(turn.next().await.is_some());
    }

    #[test]
    fn ignored_signals_are_read_from_the_status() {
        let status = "Name:\tx\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n";
        assert_eq!(ignored_signals(status), 0x1001);
        assert_eq!(ignored_signals("nothing"), 0);
    }
}
