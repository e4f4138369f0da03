//! All sessions of a runtime.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};

use super::clock::{Clock, Moment};
use super::expiry::{Expiry, Lifetimes, expiry};
use super::ids::{IdMaker, SessionId};
use super::state::{Refusal, SessionEvent, SessionState, transition};
use crate::exec::ExecId;
use crate::limits::MAX_QUEUED;

fn lock<Value>(mutex: &Mutex<Value>) -> MutexGuard<'_, Value> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why the pool does not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// There are as many sessions as there may be.
    #[error(
        "there are {limit} sessions already, as many as there may be; destroy one or raise TRL_MAX_SESSIONS"
    )]
    Full {
        /// The limit.
        limit: usize,
    },
    /// No such session.
    #[error("session `{id}` does not exist; session.list shows those that do")]
    NotFound {
        /// The name asked for.
        id: String,
    },
    /// Something runs in the session.
    #[error("session {id} is busy; wait for its command, cancel it, or send `queue: true`")]
    Busy {
        /// The session.
        id: SessionId,
    },
    /// Too many commands wait for the session.
    #[error("{MAX_QUEUED} commands wait for session {id} already; wait for one of them")]
    QueueFull {
        /// The session.
        id: SessionId,
    },
    /// The session has run as many commands as it may.
    #[error("session {id} has run {limit} commands, as many as it may; create another one")]
    Exhausted {
        /// The session.
        id: SessionId,
        /// The limit.
        limit: u64,
    },
}

impl PoolError {
    /// The stable name of this error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Full { .. } => "pool_full",
            Self::NotFound { .. } => "session_not_found",
            Self::Busy { .. } => "session_busy",
            Self::QueueFull { .. } => "queue_full",
            Self::Exhausted { .. } => "session_exhausted",
        }
    }
}

/// What a session is made with, as far as others may see it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Birth {
    /// A name for people.
    pub name: Option<Box<str>>,
    /// The shell.
    pub shell: Box<str>,
    /// Where its first command starts.
    pub working_dir: Box<str>,
    /// The names of its variables.
    pub env_keys: Box<[Box<str>]>,
    /// The timeout of its commands.
    pub timeout: Option<Duration>,
}

/// The right to run the next command of a session.
#[derive(Debug)]
pub struct Turn {
    _permit: OwnedSemaphorePermit,
}

/// One session, as the pool knows it.
#[derive(Debug)]
pub struct Session {
    /// Its name.
    pub id: SessionId,
    /// What it was made with.
    pub birth: Birth,
    /// When it was made.
    pub created: Moment,
    /// One permit: whoever has it runs a command. Its queue is fair.
    gate: Arc<Semaphore>,
    queued: AtomicUsize,
    live: Mutex<Live>,
}

#[derive(Debug)]
struct Live {
    state: SessionState,
    last_activity: Moment,
    commands: u64,
    working_dir: Option<Box<str>>,
}

impl Session {
    fn new(id: SessionId, birth: Birth, created: Moment) -> Self {
        Self {
            id,
            birth,
            created,
            gate: Arc::new(Semaphore::new(1)),
            queued: AtomicUsize::new(0),
            live: Mutex::new(Live {
                state: SessionState::Creating,
                last_activity: created,
                commands: 0,
                working_dir: None,
            }),
        }
    }

    /// Its state now.
    #[must_use]
    pub fn state(&self) -> SessionState {
        lock(&self.live).state.clone()
    }

    /// When it was last used.
    #[must_use]
    pub fn last_activity(&self) -> Moment {
        lock(&self.live).last_activity
    }

    /// How many commands it was given.
    #[must_use]
    pub fn commands(&self) -> u64 {
        lock(&self.live).commands
    }

    /// Where its shell is.
    #[must_use]
    pub fn working_dir(&self) -> String {
        let live = lock(&self.live);
        live.working_dir
            .as_ref()
            .unwrap_or(&self.birth.working_dir)
            .to_string()
    }

    /// Notes where its shell is.
    pub fn moved_to(&self, directory: &str) {
        let mut live = lock(&self.live);
        let known = live.working_dir.as_ref().unwrap_or(&self.birth.working_dir);
        if **known != *directory {
            live.working_dir = Some(directory.into());
        }
    }

    /// Something happens to it.
    ///
    /// # Errors
    /// If that is refused in its state.
    pub fn apply(&self, event: SessionEvent, now: Moment) -> Result<(), Refusal> {
        let mut live = lock(&self.live);
        live.state = transition(&live.state, event)?;
        live.last_activity = now;
        if live.state == SessionState::Terminated {
            self.gate.close();
        }
        Ok(())
    }

    /// The right to run the next command, if nobody has it.
    ///
    /// # Errors
    /// If someone has, or the session is gone.
    pub fn try_turn(&self) -> Result<Turn, PoolError> {
        match Arc::clone(&self.gate).try_acquire_owned() {
            Ok(permit) => Ok(Turn { _permit: permit }),
            Err(TryAcquireError::NoPermits) => Err(PoolError::Busy { id: self.id }),
            Err(TryAcquireError::Closed) => Err(self.gone()),
        }
    }

    /// The right to run the next command, after everyone who asked before.
    ///
    /// # Errors
    /// If too many wait already, or the session is gone.
    pub async fn turn(&self) -> Result<Turn, PoolError> {
        if let Ok(turn) = self.try_turn() {
            return Ok(turn);
        }
        let _place = Place::take(self)?;
        match Arc::clone(&self.gate).acquire_owned().await {
            Ok(permit) => Ok(Turn { _permit: permit }),
            Err(_) => Err(self.gone()),
        }
    }

    /// Starts a command in a turn: the session runs it from now on.
    ///
    /// # Errors
    /// If the session is gone or has had enough commands.
    pub fn begin(
        &self,
        _turn: &Turn,
        exec: ExecId,
        command: Arc<str>,
        now: Moment,
        max_commands: Option<u64>,
    ) -> Result<(), PoolError> {
        let limit = max_commands.unwrap_or(u64::MAX);
        if self.commands() >= limit {
            return Err(PoolError::Exhausted { id: self.id, limit });
        }
        let event = SessionEvent::Started {
            exec,
            command,
            at: now,
        };
        self.apply(event, now).map_err(|refusal| match refusal {
            Refusal::Gone => self.gone(),
            Refusal::Busy | Refusal::OutOfPlace => PoolError::Busy { id: self.id },
        })?;
        lock(&self.live).commands += 1;
        Ok(())
    }

    /// A command has ended. A session that is gone does not mind.
    pub fn finish(&self, exec: ExecId, now: Moment) {
        let _ = self.apply(SessionEvent::Finished { exec }, now);
    }

    fn gone(&self) -> PoolError {
        PoolError::NotFound {
            id: self.id.to_string(),
        }
    }
}

/// A place in a session's queue, given back when it is dropped.
struct Place<'session>(&'session Session);

impl<'session> Place<'session> {
    fn take(session: &'session Session) -> Result<Self, PoolError> {
        let taken = session.queued.fetch_add(1, Ordering::Relaxed);
        let place = Self(session);
        if taken >= MAX_QUEUED {
            return Err(PoolError::QueueFull { id: session.id });
        }
        Ok(place)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.queued.fetch_sub(1, Ordering::Relaxed);
    }
}

/// All sessions.
#[derive(Debug)]
pub struct SessionPool {
    clock: Arc<dyn Clock>,
    max_sessions: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    sessions: HashMap<SessionId, Arc<Session>>,
    ids: IdMaker,
}

impl SessionPool {
    /// An empty pool for so many sessions.
    #[must_use]
    pub fn new(max_sessions: usize, clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            max_sessions,
            inner: Mutex::default(),
        }
    }

    /// A new session that is yet to be set up.
    ///
    /// # Errors
    /// If there are as many as there may be.
    pub fn create(&self, birth: Birth) -> Result<Arc<Session>, PoolError> {
        let now = self.clock.now();
        let mut inner = lock(&self.inner);
        if inner.sessions.len() >= self.max_sessions {
            return Err(PoolError::Full {
                limit: self.max_sessions,
            });
        }
        let id = loop {
            let id = inner.ids.next_id();
            // A runtime before this one may have given it to a session that lives.
            if !inner.sessions.contains_key(&id) {
                break id;
            }
        };
        let session = Arc::new(Session::new(id, birth, now));
        inner.sessions.insert(id, Arc::clone(&session));
        Ok(session)
    }

    /// A session of an earlier runtime, set up and with this many commands
    /// behind it. It counts, but is not refused.
    pub fn adopt(
        &self,
        id: SessionId,
        birth: Birth,
        commands: u64,
        created: Moment,
    ) -> Arc<Session> {
        let session = Arc::new(Session::new(id, birth, created));
        let _ = session.apply(SessionEvent::Opened, self.clock.now());
        lock(&session.live).commands = commands;
        lock(&self.inner).sessions.insert(id, Arc::clone(&session));
        session
    }

    /// The session of that name.
    ///
    /// # Errors
    /// If there is none.
    pub fn find(&self, name: &str) -> Result<Arc<Session>, PoolError> {
        let shown = || name.chars().filter(|c| !c.is_control()).take(64).collect();
        SessionId::parse(name)
            .and_then(|id| lock(&self.inner).sessions.get(&id).cloned())
            .ok_or_else(|| PoolError::NotFound { id: shown() })
    }

    /// All sessions, oldest first.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<Session>> {
        let mut sessions: Vec<_> = lock(&self.inner).sessions.values().cloned().collect();
        sessions.sort_by_key(|session| (session.created.monotonic, session.id));
        sessions
    }

    /// How many sessions there are.
    #[must_use]
    pub fn len(&self) -> usize {
        lock(&self.inner).sessions.len()
    }

    /// Whether there is no session.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes a session out of the pool.
    pub fn remove(&self, id: SessionId) {
        lock(&self.inner).sessions.remove(&id);
    }

    /// The sessions whose time is up now.
    #[must_use]
    pub fn expired(&self, lifetimes: Lifetimes) -> Vec<(Arc<Session>, Expiry)> {
        let now = self.clock.now();
        let over = |session: Arc<Session>| {
            let live = lock(&session.live);
            let found = expiry(
                &live.state,
                session.created,
                live.last_activity,
                now,
                lifetimes,
            );
            drop(live);
            found.map(|expiry| (session, expiry))
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
    use super::*;
    use std::time::{Instant, SystemTime};

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

    fn exec(name: &str) -> ExecId {
        ExecId::parse(name).unwrap()
    }

    fn ready(pool: &SessionPool) -> Arc<Session> {
        let session = pool.create(Birth::default()).unwrap();
        session
            .apply(SessionEvent::Opened, pool.clock.now())
            .unwrap();
        session
    }

    #[test]
    fn sessions_are_counted_to_the_limit_and_no_further() {
        let pool = SessionPool::new(2, ManualClock::new());
        let first = ready(&pool);
        let second = pool.create(Birth::default()).unwrap();
        assert_ne!(first.id, second.id);
        assert_eq!(
            pool.create(Birth::default()).unwrap_err(),
            PoolError::Full { limit: 2 }
        );
        pool.remove(first.id);
        assert!(pool.create(Birth::default()).is_ok());
        assert!(pool.find(&first.id.to_string()).is_err());
        assert_eq!(pool.find(&second.id.to_string()).unwrap().id, second.id);
    }

    #[test]
    fn a_session_runs_as_many_commands_as_it_may() {
        let clock = ManualClock::new();
        let pool = SessionPool::new(1, clock.clone());
        let session = ready(&pool);
        for number in 0..3 {
            let turn = session.try_turn().unwrap();
            let begun = session.begin(&turn, exec("e-1"), "x".into(), clock.now(), Some(2));
            assert_eq!(begun.is_ok(), number < 2, "{begun:?}");
            session.finish(exec("e-1"), clock.now());
        }
        assert_eq!(session.commands(), 2);
    }

    #[tokio::test]
    async fn turns_are_taken_in_the_order_they_were_asked_for() {
        let pool = SessionPool::new(1, ManualClock::new());
        let session = ready(&pool);
        let running = session.try_turn().unwrap();
        assert_eq!(
            session.try_turn().unwrap_err(),
            PoolError::Busy { id: session.id }
        );
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut waiting = Vec::new();
        for number in 0..5 {
            let (session, order) = (Arc::clone(&session), Arc::clone(&order));
            waiting.push(tokio::spawn(async move {
                let _turn = session.turn().await.unwrap();
                lock(&order).push(number);
            }));
            tokio::task::yield_now().await;
        }
        drop(running);
        for task in waiting {
            task.await.unwrap();
        }
        assert_eq!(*lock(&order), [0, 1, 2, 3, 4]);
        assert_eq!(session.queued.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn a_queue_is_filled_to_its_limit_and_no_further() {
        let pool = SessionPool::new(1, ManualClock::new());
        let session = ready(&pool);
        let running = session.try_turn().unwrap();
        let mut waiting = tokio::task::JoinSet::new();
        assert_eq!(MAX_QUEUED, 64);
        for _ in 0..MAX_QUEUED {
            let session = Arc::clone(&session);
            waiting.spawn(async move { session.turn().await.map(drop) });
            tokio::task::yield_now().await;
        }
        assert_eq!(
            session.turn().await.unwrap_err(),
            PoolError::QueueFull { id: session.id }
        );
        drop(running);
        while let Some(turn) = waiting.join_next().await {
            assert_eq!(turn.unwrap(), Ok(()));
        }
    }

    #[tokio::test]
    async fn whoever_waits_for_a_session_learns_that_it_is_gone() {
        let clock = ManualClock::new();
        let pool = SessionPool::new(1, clock.clone());
        let session = ready(&pool);
        let _running = session.try_turn().unwrap();
        let waiting = tokio::spawn({
            let session = Arc::clone(&session);
            async move { session.turn().await }
        });
        tokio::task::yield_now().await;
        session
            .apply(SessionEvent::DestroyByForce, clock.now())
            .unwrap();
        assert!(matches!(
            waiting.await.unwrap(),
            Err(PoolError::NotFound { .. })
        ));
        assert!(matches!(
            session.try_turn(),
            Err(PoolError::NotFound { .. })
        ));
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
        second
            .begin(&turn, exec("e-1"), "x".into(), clock.now(), None)
            .unwrap();
        second.finish(exec("e-1"), clock.now());
        assert_eq!(pool.least_used(1)[0].id, first.id);
        clock.advance(4);
        let gone: Vec<_> = pool
            .expired(lifetimes)
            .iter()
            .map(|(session, why)| (session.id, *why))
            .collect();
        assert_eq!(gone, [(first.id, Expiry::Idle)]);
    }
}
