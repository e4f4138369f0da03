//! A beat that many can wait for at the cost of one timer, and of none while
//! nobody does.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

/// Beats while somebody waits for it. Ends with the last handle.
#[derive(Debug)]
pub(super) struct Pulse {
    shared: Arc<Shared>,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Shared {
    beat: Notify,
    wanted: Notify,
    waiting: AtomicUsize,
}

impl Pulse {
    /// Must be called within a runtime.
    pub(super) fn start(period: Duration) -> Self {
        let shared = Arc::new(Shared::default());
        let beating = Arc::clone(&shared);
        let task = tokio::spawn(async move {
            loop {
                beating.wanted.notified().await;
                while beating.waiting.load(Ordering::Acquire) > 0 {
                    tokio::time::sleep(period).await;
                    beating.beat.notify_waiters();
                }
            }
        });
        Self { shared, task }
    }

    /// Returns after one period at least, and two at most.
    pub(super) async fn pass(&self) {
        let shared = &*self.shared;
        let first = shared.beat.notified();
        if shared.waiting.fetch_add(1, Ordering::AcqRel) == 0 {
            shared.wanted.notify_one();
        }
        let _waiting = Waiting(&shared.waiting);
        first.await;
        shared.beat.notified().await;
    }
}

/// Counted while it lives.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::limits::YOUTH_BEAT;

    const PERIOD: Duration = Duration::from_millis(4);

    #[tokio::test(start_paused = true)]
    async fn a_command_is_young_for_two_beats_at_most() {
        assert_eq!(YOUTH_BEAT, PERIOD);
        let pulse = Pulse::start(YOUTH_BEAT);
        let began = Instant::now();
        pulse.pass().await;
        assert_eq!(began.elapsed(), 2 * YOUTH_BEAT);
    }

    #[tokio::test(start_paused = true)]
    async fn everybody_waits_for_one_to_two_periods() {
        let pulse = Pulse::start(PERIOD);
        let began = Instant::now();
        let late = async {
            tokio::time::sleep(Duration::from_millis(3)).await;
            pulse.pass().await;
            began.elapsed()
        };
        let early = async {
            pulse.pass().await;
            began.elapsed()
        };
        let both = tokio::join!(early, late);
        assert_eq!(both, (2 * PERIOD, 2 * PERIOD));
        // Again, after it has come to rest.
        tokio::time::sleep(100 * PERIOD).await;
        let began = Instant::now();
        pulse.pass().await;
        assert_eq!(began.elapsed(), 2 * PERIOD);
    }

    #[tokio::test(start_paused = true)]
    async fn it_rests_while_nobody_waits() {
        let pulse = Pulse::start(PERIOD);
        let given_up = tokio::time::timeout(PERIOD / 2, pulse.pass()).await;
        assert!(given_up.is_err());
        assert_eq!(pulse.shared.waiting.load(Ordering::Acquire), 0);
        // The one that was under way, and no more.
        let mut beats = 0;
        let counting = async {
            loop {
                pulse.shared.beat.notified().await;
                beats += 1;
            }
        };
        let counted: Result<(), _> = tokio::time::timeout(100 * PERIOD, counting).await;
        assert!(counted.is_err());
        assert_eq!(beats, 1);
    }
}
