//! The clock that restarts of the daemon do not disturb.

use rustix::time::{ClockId, clock_gettime};

/// Microseconds on the clock that only goes forward, the same for every
/// process until the machine restarts.
pub(crate) fn now_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(now.tv_nsec).unwrap_or(0);
    seconds * 1_000_000 + nanos / 1000
}
