//! Deadlines that stand still for a while.

use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// Stops the clock of deadlines while something is awaited that is not the
/// command's to answer for, such as a person. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct DeadlinePause(Arc<watch::Sender<usize>>);

/// Keeps deadlines from running until it is dropped.
#[derive(Debug)]
pub struct HeldDeadline(DeadlinePause);

impl DeadlinePause {
    /// Stops the clock until all that hold it are dropped.
    #[must_use]
    pub fn hold(&self) -> HeldDeadline {
        self.0.send_modify(|holders| *holders += 1);
        HeldDeadline(self.clone())
    }

    /// Sleeps until so much time has passed while nobody held the clock.
    pub async fn sleep(&self, time: Duration) {
        let mut holders = self.0.subscribe();
        let mut left = time;
        loop {
            // The sender is ours, so the channel cannot be closed.
            holders.wait_for(|count| *count == 0).await.ok();
            let since = Instant::now();
            let held = async { drop(holders.wait_for(|count| *count > 0).await) };
            tokio::select! {
                biased;
                () = held => left = left.saturating_sub(since.elapsed()),
                () = tokio::time::sleep(left) => return,
            }
        }
    }
}

impl Drop for HeldDeadline {
    fn drop(&mut self) {
        self.0.0.send_modify(|holders| *holders -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn time_counts_only_while_nobody_holds_the_clock() {
        let pause = DeadlinePause::default();
        let started = Instant::now();
        let work = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let first = pause.hold();
            let second = pause.hold();
            tokio::time::sleep(Duration::from_secs(100)).await;
            drop(first);
            tokio::time::sleep(Duration::from_secs(100)).await;
            drop(second);
        };
        let timed = async {
            pause.sleep(Duration::from_secs(3)).await;
            started.elapsed()
        };
        let ((), elapsed) = tokio::join!(work, timed);
        assert_eq!(elapsed.as_secs(), 203);
    }
}
