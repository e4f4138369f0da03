//! When a session has lived long enough.

use std::time::Duration;

use super::clock::Moment;
use super::state::SessionState;

/// How long sessions live; `None` for as long as they like.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lifetimes {
    /// Without a command.
    pub max_idle: Option<Duration>,
    /// At all; one in use lives on until it is idle.
    pub ttl: Option<Duration>,
}

/// Why a session has to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    /// Nobody used it.
    Idle,
    /// It is too old.
    Old,
}

/// Whether a session has to go, and why.
#[must_use]
pub fn expiry(
    state: &SessionState,
    created: Moment,
    last_activity: Moment,
    now: Moment,
    lifetimes: Lifetimes,
) -> Option<Expiry> {
    if !matches!(state, SessionState::Idle) {
        return None;
    }
    let over = |since: Moment, limit: Option<Duration>| {
        limit.is_some_and(|limit| now.since(since) >= limit)
    };
    if over(created, lifetimes.ttl) {
        Some(Expiry::Old)
    } else if over(last_activity, lifetimes.max_idle) {
        Some(Expiry::Idle)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::ExecId;
    use crate::session::{Clock as _, SystemClock};

    #[test]
    fn idle_and_old_sessions_go_and_busy_ones_stay() {
        let start = SystemClock.now();
        let at = |seconds: u64| Moment {
            monotonic: start.monotonic + Duration::from_secs(seconds),
            wall: start.wall,
        };
        let lifetimes = Lifetimes {
            max_idle: Some(Duration::from_secs(10)),
            ttl: Some(Duration::from_secs(100)),
        };
        let idle = SessionState::Idle;
        let running = SessionState::Running {
            exec: ExecId::parse("e-1").unwrap(),
            command: "x".into(),
            started: start,
        };
        let check = |state: &SessionState, used: u64, now: u64| {
            expiry(state, at(0), at(used), at(now), lifetimes)
        };
        assert_eq!(check(&idle, 5, 14), None);
        assert_eq!(check(&idle, 5, 15), Some(Expiry::Idle));
        assert_eq!(check(&idle, 95, 99), None);
        assert_eq!(check(&idle, 95, 100), Some(Expiry::Old));
        assert_eq!(check(&running, 5, 1000), None);
        assert_eq!(check(&SessionState::Creating, 5, 1000), None);
        assert_eq!(
            expiry(&idle, at(0), at(0), at(1 << 30), Lifetimes::default()),
            None
        );
    }
}
