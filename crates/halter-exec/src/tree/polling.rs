//! How long a tree that is to go is looked at, and how often.

use std::time::Duration;

use tokio::time::Instant;

use super::Look;
use crate::limits::{KILL_AGAIN, KILL_WAIT, POLL_PAUSE, UNCLEAR_WAIT};

/// Whether nothing is left, looked at until `limit` has passed. What may or
/// may not belong there is given a moment to show it.
pub(super) async fn gone_within(limit: Duration, mut look: impl FnMut() -> Look) -> bool {
    let until = Instant::now() + limit;
    let mut pauses = Pauses::new();
    let mut unclear_until = None;
    loop {
        let look = look();
        let now = Instant::now();
        let clear_by = *unclear_until.get_or_insert(now + UNCLEAR_WAIT);
        if look.members.is_empty() {
            if !look.unclear || now >= clear_by {
                return true;
            }
        } else if now >= until {
            return false;
        }
        pauses.next().await;
    }
}

/// Kills until nothing is left. `false` if something is still there after
/// [`KILL_WAIT`].
pub(super) async fn kill_until_gone(
    mut look: impl FnMut() -> Look,
    mut kill: impl FnMut(),
) -> bool {
    let until = Instant::now() + KILL_WAIT;
    while !gone_within(Duration::ZERO, &mut look).await {
        kill();
        if gone_within(KILL_AGAIN, &mut look).await {
            return true;
        }
        if Instant::now() >= until {
            return false;
        }
    }
    true
}

/// Whether this comes true, tried until `limit` has passed.
pub(crate) async fn comes_true_within(limit: Duration, mut attempt: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + limit;
    let mut pauses = Pauses::new();
    loop {
        if attempt() {
            return true;
        }
        if Instant::now() >= until {
            return false;
        }
        pauses.next().await;
    }
}

/// Pauses that grow: most things happen at once, and what does not should
/// cost little.
struct Pauses {
    next: Duration,
    longest: Duration,
}

impl Pauses {
    fn new() -> Self {
        let (next, longest) = POLL_PAUSE;
        Self { next, longest }
    }

    async fn next(&mut self) {
        tokio::time::sleep(self.next).await;
        self.next = (self.next * 2).min(self.longest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::RELEASE_WAIT;
    use crate::tree::Member;

    const LONGEST: Duration = POLL_PAUSE.1;
    /// The clock of a test ticks in milliseconds.
    const TICK: Duration = Duration::from_millis(1);

    fn living() -> Look {
        Look {
            members: vec![Member {
                pid: 1,
                parent: 0,
                start_time: 0,
            }],
            unclear: false,
        }
    }

    fn nobody(unclear: bool) -> Look {
        Look {
            members: Vec::new(),
            unclear,
        }
    }

    fn took(begun: Instant, at_least: Duration) {
        let elapsed = begun.elapsed();
        assert!(elapsed >= at_least, "{elapsed:?} < {at_least:?}");
        let at_most = at_least + LONGEST + TICK;
        assert!(elapsed <= at_most, "{elapsed:?} > {at_most:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_living_tree_is_waited_for_as_long_as_was_said() {
        for limit in [Duration::ZERO, Duration::from_secs(1)] {
            let begun = Instant::now();
            assert!(!gone_within(limit, living).await);
            took(begun, limit);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_between_looks_grow_from_the_shortest_to_the_longest() {
        let mut looks = Vec::new();
        let limit = Duration::from_secs(1);
        gone_within(limit, || {
            looks.push(Instant::now());
            living()
        })
        .await;
        let pauses: Vec<Duration> = looks.windows(2).map(|two| two[1] - two[0]).collect();
        assert!(pauses[0] >= POLL_PAUSE.0 && pauses[0] <= POLL_PAUSE.0 + TICK);
        assert!(pauses.iter().all(|pause| *pause <= LONGEST + TICK));
        assert!(pauses.last().unwrap() >= &LONGEST);
    }

    #[tokio::test(start_paused = true)]
    async fn what_stays_unclear_is_taken_for_a_strangers() {
        let begun = Instant::now();
        assert!(gone_within(Duration::ZERO, || nobody(true)).await);
        took(begun, UNCLEAR_WAIT);
        let begun = Instant::now();
        assert!(gone_within(Duration::from_secs(9), || nobody(false)).await);
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_die_is_killed_again_and_given_up_in_the_end() {
        let begun = Instant::now();
        let mut kills = Vec::new();
        assert!(!kill_until_gone(living, || kills.push(Instant::now())).await);
        let elapsed = begun.elapsed();
        assert!(elapsed >= KILL_WAIT && elapsed <= KILL_WAIT + KILL_AGAIN + LONGEST + TICK);
        for two in kills.windows(2) {
            let between = two[1] - two[0];
            assert!(between >= KILL_AGAIN && between <= KILL_AGAIN + LONGEST + TICK);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_gone_is_not_killed() {
        assert!(kill_until_gone(|| nobody(false), || panic!("killed")).await);
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_is_repeated_until_its_time_is_up() {
        let begun = Instant::now();
        assert!(!comes_true_within(RELEASE_WAIT, || false).await);
        took(begun, RELEASE_WAIT);
        let mut attempts = 0;
        let third = || {
            attempts += 1;
            attempts == 3
        };
        assert!(comes_true_within(RELEASE_WAIT, third).await);
    }
}
