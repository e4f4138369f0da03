//! All sessions of a runtime.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::clock::{Clock, Moment};
use super::entry::{Session, SessionParameters};
use super::error::PoolError;
use super::expiry::{Expiry, Lifetimes};
use super::ids::SessionId;
use super::state::SessionState;
use crate::lock::lock;

/// All sessions.
#[derive(Debug)]
pub struct SessionPool {
    clock: Arc<dyn Clock>,
    max_sessions: usize,
    sessions: Mutex<HashMap<SessionId, Arc<Session>>>,
}

impl SessionPool {
    /// An empty pool for so many sessions.
    #[must_use]
    pub fn new(max_sessions: usize, clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            max_sessions,
            sessions: Mutex::default(),
        }
    }

    /// A new session that is yet to be set up.
    ///
    /// # Errors
    /// If there are as many as there may be.
    pub fn create(&self, parameters: SessionParameters) -> Result<Arc<Session>, PoolError> {
        self.create_named(parameters, SessionId::random)
    }

    fn create_named(
        &self,
        parameters: SessionParameters,
        mut draw: impl FnMut() -> SessionId,
    ) -> Result<Arc<Session>, PoolError> {
        let now = self.clock.now();
        let mut sessions = lock(&self.sessions);
        if sessions.len() >= self.max_sessions {
            return Err(PoolError::Full {
                limit: self.max_sessions,
            });
        }
        let id = loop {
            let id = draw();
            if !sessions.contains_key(&id) {
                break id;
            }
        };
        let session = Arc::new(Session::new(id, parameters, now));
        sessions.insert(id, Arc::clone(&session));
        Ok(session)
    }

    /// A session of an earlier runtime, set up and with this many commands
    /// behind it. It counts, but is not refused.
    pub fn adopt(
        &self,
        id: SessionId,
        parameters: SessionParameters,
        commands: u64,
        created: Moment,
    ) -> Arc<Session> {
        let now = self.clock.now();
        let session = Arc::new(Session::adopted(id, parameters, commands, created, now));
        lock(&self.sessions).insert(id, Arc::clone(&session));
        session
    }

    /// The session of that name.
    ///
    /// # Errors
    /// If there is none.
    pub fn find(&self, name: &str) -> Result<Arc<Session>, PoolError> {
        let shown = || name.chars().filter(|c| !c.is_control()).take(64).collect();
        SessionId::parse(name)
            .and_then(|id| lock(&self.sessions).get(&id).cloned())
            .ok_or_else(|| PoolError::NotFound { id: shown() })
    }

    /// All sessions, oldest first.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<Session>> {
        let mut sessions: Vec<_> = lock(&self.sessions).values().cloned().collect();
        sessions.sort_by_key(|session| (session.created.monotonic, session.id));
        sessions
    }

    /// How many sessions there are.
    #[must_use]
    pub fn len(&self) -> usize {
        lock(&self.sessions).len()
    }

    /// Whether there is no session.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes a session out of the pool.
    pub fn remove(&self, id: SessionId) {
        lock(&self.sessions).remove(&id);
    }

    /// The sessions whose time is up now.
    #[must_use]
    pub fn expired(&self, lifetimes: Lifetimes) -> Vec<(Arc<Session>, Expiry)> {
        let now = self.clock.now();
        let over = |session: Arc<Session>| {
            let expiry = session.expiry(now, lifetimes)?;
            Some((session, expiry))
        };
        self.list().into_iter().filter_map(over).collect()
    }

    /// The idle sessions that were unused the longest, at most `count`.
    #[must_use]
    pub fn least_used(&self, count: usize) -> Vec<Arc<Session>> {
        let mut idle: Vec<_> = self.list();
        idle.retain(|session| session.state() == SessionState::Idle);
        idle.sort_by_key(|session| session.last_activity().monotonic);
        idle.truncate(count);
        idle
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant, SystemTime};

    use super::super::state::SessionEvent;
    use super::*;
    use crate::exec::ExecId;

    #[derive(Debug)]
    struct ManualClock {
        start: Instant,
        elapsed: Mutex<Duration>,
    }

    impl ManualClock {
        fn new() -> Arc<Self> {
            Arc::new(Self {
                start: Instant::now(),
                elapsed: Mutex::default(),
            })
        }

        fn advance(&self, seconds: u64) {
            *lock(&self.elapsed) += Duration::from_secs(seconds);
        }
    }

    impl Clock for ManualClock {
        fn now(&self) -> Moment {
            let elapsed = *lock(&self.elapsed);
            Moment {
                monotonic: self.start + elapsed,
                wall: SystemTime::UNIX_EPOCH + elapsed,
            }
        }
    }

    fn ready(pool: &SessionPool) -> Arc<Session> {
        let session = pool.create(SessionParameters::default()).unwrap();
        session
            .apply(SessionEvent::Opened, pool.clock.now())
            .unwrap();
        session
    }

    #[test]
    fn a_name_that_a_session_has_is_not_given_to_another() {
        let pool = SessionPool::new(2, ManualClock::new());
        let mut drawn = [7, 7, 8].map(SessionId::from_number).into_iter();
        let mut next = || {
            let session = pool.create_named(SessionParameters::default(), || drawn.next().unwrap());
            session.unwrap().id.number()
        };
        assert_eq!((next(), next()), (7, 8));
    }

    #[test]
    fn sessions_are_counted_to_the_limit_and_no_further() {
        let pool = SessionPool::new(2, ManualClock::new());
        let first = ready(&pool);
        let second = pool.create(SessionParameters::default()).unwrap();
        assert_ne!(first.id, second.id);
        assert_eq!(
            pool.create(SessionParameters::default()).unwrap_err(),
            PoolError::Full { limit: 2 }
        );
        pool.remove(first.id);
        assert!(pool.create(SessionParameters::default()).is_ok());
        assert!(pool.find(&first.id.to_string()).is_err());
        assert_eq!(pool.find(&second.id.to_string()).unwrap().id, second.id);
    }

    #[test]
    fn sessions_expire_by_the_clock_they_are_given() {
        let clock = ManualClock::new();
        let pool = SessionPool::new(8, clock.clone());
        let lifetimes = Lifetimes {
            max_idle: Some(Duration::from_secs(10)),
            ttl: None,
        };
        let (first, second) = (ready(&pool), ready(&pool));
        clock.advance(6);
        let turn = second.try_turn().unwrap();
        let exec = ExecId::parse("e-1").unwrap();
        second
            .begin(&turn, exec.clone(), "x".into(), clock.now(), None)
            .unwrap();
        second.finish(exec, clock.now());
        assert_eq!(pool.least_used(1)[0].id, first.id);
        clock.advance(4);
        let gone: Vec<_> = pool
            .expired(lifetimes)
            .iter()
            .map(|(session, why)| (session.id, *why))
            .collect();
        assert_eq!(gone, [(first.id, Expiry::Idle)]);
    }

    #[test]
    fn a_session_with_a_lease_has_no_other_limit() {
        let clock = ManualClock::new();
        let pool = SessionPool::new(8, clock.clone());
        let parameters = SessionParameters {
            lease: Some(Duration::from_secs(5)),
            ..SessionParameters::default()
        };
        let leased = pool.create(parameters).unwrap();
        leased.apply(SessionEvent::Opened, clock.now()).unwrap();
        let plain = ready(&pool);
        for session in [&leased, &plain] {
            for number in 0..2 {
                let turn = session.try_turn().unwrap();
                let exec = ExecId::parse(&format!("e-{number}")).unwrap();
                let begun = session.begin(&turn, exec.clone(), "x".into(), clock.now(), Some(1));
                let is_allowed = number == 0 || session.id == leased.id;
                assert_eq!(begun.is_ok(), is_allowed, "{number}");
                session.finish(exec, clock.now());
            }
        }
        clock.advance(100);
        let lifetimes = Lifetimes {
            max_idle: Some(Duration::from_secs(10)),
            ttl: Some(Duration::from_secs(10)),
        };
        let gone: Vec<_> = pool
            .expired(lifetimes)
            .iter()
            .map(|(it, _)| it.id)
            .collect();
        assert_eq!(gone, [plain.id]);
    }
}
