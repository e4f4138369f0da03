//! Stopping a command without losing its shell.

use std::path::PathBuf;
use std::time::Duration;

use tokio::time::Instant;

use super::live::LiveShell;
use crate::limits::{INTERRUPT_GRACE, POLL_PAUSE};
use crate::sys::Signal;
use crate::tree::Spared;

/// How long before a signal is repeated.
const SIGNAL_AGAIN: Duration = Duration::from_millis(50);

/// How a command ended: with a status in a directory, or with its shell.
type Ended = Option<(i32, PathBuf)>;

/// INT, TERM, KILL to everything the command started, each with its time to
/// act. The shell takes the INT as the end of the command. One that does not
/// is asked to exit, which keeps its state, and then killed.
pub(super) async fn interrupt(
    live: &mut LiveShell,
    nonce: &str,
    spared: &Spared,
    grace: Duration,
) -> Ended {
    // A shell interrupted while it reads the line might lose half of it.
    let _ = tokio::time::timeout(INTERRUPT_GRACE, live.begun(nonce)).await;
    // If the shell was just reading the line that reports the end, that line
    // may be lost, or its report may be about to be skipped: it is sent
    // again. Twice does no harm.
    let mut again = b"\n".to_vec();
    again.extend(live.dialect.end_line(nonce));
    live.process.signal(Signal::INT);
    let _ = live.send(&again);

    let mut stopping = Stopping {
        live,
        nonce,
        spared,
        ended: None,
    };
    if stopping.quiet_within(INTERRUPT_GRACE, &[Signal::INT]).await {
        return stopping.ended.flatten();
    }
    if stopping.left() == 0 {
        // Nothing runs but the shell itself.
        stopping.ask_shell_to_exit();
    }
    let term = [Signal::TERM, Signal::CONT];
    if stopping.quiet_within(grace, &term).await {
        return stopping.ended.flatten();
    }
    stopping.ask_shell_to_exit();
    if stopping
        .quiet_within(INTERRUPT_GRACE, &[Signal::KILL])
        .await
    {
        return stopping.ended.flatten();
    }
    stopping.kill().await
}

struct Stopping<'a> {
    live: &'a mut LiveShell,
    nonce: &'a str,
    spared: &'a Spared,
    /// Set as soon as it is known how the command ended.
    ended: Option<Ended>,
}

impl Stopping<'_> {
    /// How many processes of the command are left.
    fn left(&self) -> usize {
        self.live
            .process
            .tree()
            .map_or(0, |tree| tree.members_except(self.spared).len())
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
                self.signal(signals);
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

    fn signal(&self, signals: &[Signal]) {
        let Some(tree) = self.live.process.tree() else {
            return;
        };
        for signal in signals {
            if *signal == Signal::KILL {
                tree.kill(self.spared);
            } else {
                tree.signal(*signal, self.spared);
            }
        }
    }

    async fn kill(self) -> Ended {
        if self.ended.is_none() {
            self.live.process.signal(Signal::KILL);
            self.live.process.exited().await;
        }
        if let Some(tree) = self.live.process.tree() {
            tree.kill_until_gone(self.spared).await;
        }
        self.ended.flatten()
    }
}
