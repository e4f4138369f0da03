//! A clock that stands until it is told to move.

use halter_protocol::Timestamp;
use halter_runtime::Clock;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Wall-clock time under a test's control. Clones are the same clock.
///
/// It is separate from tokio's time: pausing one does not move the other.
#[derive(Debug, Clone)]
pub struct TestClock(Arc<Mutex<Timestamp>>);

impl TestClock {
    /// A clock that shows this moment, such as `2026-01-02T03:04:05Z`.
    pub fn at(moment: &str) -> Self {
        Self(Arc::new(Mutex::new(parse(moment))))
    }

    /// Moves the clock on.
    pub fn advance(&self, by: Duration) {
        let mut now = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *now += by;
    }

    /// Sets the clock, forwards or backwards.
    pub fn set(&self, moment: &str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = parse(moment);
    }
}

impl Default for TestClock {
    fn default() -> Self {
        Self::at("2026-01-02T03:04:05Z")
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn parse(moment: &str) -> Timestamp {
    moment
        .parse()
        .unwrap_or_else(|error| panic!("'{moment}' is not a moment: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes_only_on_command() {
        let clock = TestClock::at("2026-12-31T23:59:59Z");
        assert_eq!(clock.now(), clock.now());
        clock.clone().advance(Duration::from_secs(1));
        assert_eq!(clock.now().to_string(), "2027-01-01T00:00:00Z");
        clock.set("2026-01-01T00:00:00Z");
        assert_eq!(clock.now().to_string(), "2026-01-01T00:00:00Z");
    }
}
