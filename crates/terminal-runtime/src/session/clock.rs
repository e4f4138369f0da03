//! The time, so that tests can have their own.

use std::fmt;
use std::time::{Duration, Instant, SystemTime};

/// One point in time, on both clocks: `monotonic` to count, `wall` to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Never goes back.
    pub monotonic: Instant,
    /// What a person's clock says.
    pub wall: SystemTime,
}

impl Moment {
    /// How long ago another moment was; nothing if it is yet to come.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        self.monotonic.saturating_duration_since(earlier.monotonic)
    }

    /// The wall clock's time in the form of RFC 3339.
    #[must_use]
    pub fn shown(self) -> String {
        shown(self.wall)
    }
}

/// A time of the wall clock in the form of RFC 3339, to the millisecond.
pub(crate) fn shown(wall: SystemTime) -> String {
    let timestamp = jiff::Timestamp::try_from(wall).unwrap_or_default();
    format!("{timestamp:.3}")
}

/// Says what time it is.
pub trait Clock: fmt::Debug + Send + Sync {
    /// Now.
    fn now(&self) -> Moment;
}

/// The clocks of the system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Moment {
        Moment {
            monotonic: Instant::now(),
            wall: SystemTime::now(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_in_utc_to_the_millisecond() {
        let moment = Moment {
            monotonic: Instant::now(),
            wall: SystemTime::UNIX_EPOCH + Duration::from_millis(86_400_012),
        };
        assert_eq!(moment.shown(), "1970-01-02T00:00:00.012Z");
    }
}
