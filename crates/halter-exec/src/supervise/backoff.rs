//! How long to wait before a program is started again.

use crate::limits::{RESTART_DELAY, RESTART_DELAY_MAX, RESTART_STABLE, RESTARTS};
use std::time::Duration;

/// Counts how often a program failed in a row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Backoff {
    failures: u32,
}

impl Backoff {
    /// The pause before the next start of a program that was usable for so
    /// long, or `None` if it failed [`RESTARTS`] times in a row and is given
    /// up.
    pub fn next_delay(&mut self, usable: Duration) -> Option<Duration> {
        if usable >= RESTART_STABLE {
            self.failures = 0;
        }
        if self.failures >= RESTARTS {
            return None;
        }
        let delay = RESTART_DELAY.saturating_mul(1 << self.failures.min(16));
        self.failures += 1;
        Some(delay.min(RESTART_DELAY_MAX))
    }

    /// How often it has failed in a row.
    pub fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_to_a_limit_and_end() {
        let mut backoff = Backoff::default();
        let mut last = Duration::ZERO;
        for _ in 0..RESTARTS {
            let delay = backoff.next_delay(Duration::ZERO).unwrap();
            assert!(delay > last || delay == RESTART_DELAY_MAX);
            assert!((RESTART_DELAY..=RESTART_DELAY_MAX).contains(&delay));
            last = delay;
        }
        let short = RESTART_STABLE - Duration::from_millis(1);
        assert_eq!(backoff.next_delay(short), None);
        assert_eq!(backoff.next_delay(RESTART_STABLE), Some(RESTART_DELAY));
    }
}
