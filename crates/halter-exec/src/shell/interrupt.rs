//! Stopping a command without losing its shell.

use std::time::Duration;

use tokio::time::Instant;

use super::host::{EarlierProcesses, ShellProcess};
use super::live::LiveShell;
use super::record::EndRecord;
use super::state::RunningState;
use crate::limits::{INTERRUPT_GRACE, KILL_WAIT, POLL_PAUSE};
use crate::sys::Signal;

/// How long before a signal is repeated.
const SIGNAL_AGAIN: Duration = Duration::from_millis(50);

/// How a command ended: with a record, or with its shell.
type Ended = Option<EndRecord>;

/// INT, TERM, KILL to everything the command started, each with its time to
/// act. The shell takes the INT as the end of the command. One that does not
/// is asked to exit, which keeps its state, and then killed.
pub(super) async fn interrupt<P: ShellProcess>(
    live: &mut LiveShell<P>,
    command: &RunningState,
    grace: Duration,
) -> Ended {
    let nonce = &command.nonce;
    // A shell interrupted while it reads the line might lose half of it.
    live.read_but(command.last_line().len()).await;
    // If the shell was just reading the line that reports the end, that line
    // may be lost, or its report may be about to be skipped: it is sent
    // again. Twice does no harm.
    let mut again = b"\n".to_vec();
    again.extend(live.dialect.end_line(nonce));
    let mut stopping = Stopping {
        live,
        nonce,
        earlier: &command.earlier,
        ended: None,
    };
    stopping.interrupt_shell(&again);
    if stopping.quiet_within(INTERRUPT_GRACE, &[Signal::INT]).await {
        return stopping.ended.flatten();
    }
    if stopping.left() == 0 {
        // Nothing runs but the shell itself. On a busy machine it may not have
        // had its turn yet, and its process is worth a second try.
        stopping.interrupt_shell(&again);
        if stopping.quiet_within(INTERRUPT_GRACE, &[Signal::INT]).await {
            return stopping.ended.flatten();
        }
        if stopping.left() == 0 {
            stopping.ask_shell_to_exit();
        }
    }
    let term = [Signal::TERM, Signal::CONT];
    if stopping.quiet_within(grace, &term).await {
        return stopping.ended.flatten();
    }
    let kill = [Signal::KILL];
    if stopping.quiet_within(INTERRUPT_GRACE, &kill).await {
        return stopping.ended.flatten();
    }
    // Without its children the shell has nothing to wait for.
    stopping.ask_shell_to_exit();
    if stopping.quiet_within(INTERRUPT_GRACE, &kill).await {
        return stopping.ended.flatten();
    }
    stopping.kill_shell().await;
    stopping.quiet_within(KILL_WAIT, &kill).await;
    stopping.ended.flatten()
}

struct Stopping<'a, P> {
    live: &'a mut LiveShell<P>,
    nonce: &'a str,
    earlier: &'a EarlierProcesses,
    /// Set as soon as it is known how the command ended.
    ended: Option<Ended>,
}

impl<P: ShellProcess> Stopping<'_, P> {
    /// How many processes of the command are left.
    fn left(&self) -> usize {
        self.live.process.count_others(self.earlier)
    }

    /// Interrupts the shell, which then reads `again`.
    fn interrupt_shell(&mut self, again: &[u8]) {
        if self.ended.is_none() {
            self.live.process.signal(Signal::INT);
            let _ = self.live.send(again);
        }
    }

    fn ask_shell_to_exit(&self) {
        if self.ended.is_none() {
            self.live.process.signal(Signal::TERM);
            self.live.process.signal(Signal::CONT);
        }
    }

    /// Signals what the command started until, within the limit, the command
    /// has ended and nothing it started is left. Signals are sent again from
    /// time to time: the first may have come before a child was born.
    async fn quiet_within(&mut self, limit: Duration, signals: &[Signal]) -> bool {
        let until = Instant::now() + limit;
        let mut next_signal = Instant::now();
        let (mut pause, longest) = POLL_PAUSE;
        loop {
            if Instant::now() >= next_signal {
                for signal in signals {
                    self.live.process.signal_others(*signal, self.earlier);
                }
                next_signal = Instant::now() + SIGNAL_AGAIN;
            }
            if self.ended.is_none() {
                let end = self.live.ended(self.nonce);
                self.ended = tokio::time::timeout(pause, end).await.ok();
            } else {
                tokio::time::sleep(pause).await;
            }
            if self.ended.is_some() && self.left() == 0 {
                return true;
            }
            if Instant::now() >= until {
                return false;
            }
            pause = (pause * 2).min(longest);
        }
    }

    async fn kill_shell(&mut self) {
        if self.ended.is_none() {
            self.live.process.signal(Signal::KILL);
            self.live.process.exited().await;
        }
    }
}
