//! One session, as the pool knows it: its state, and whose turn it is.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};

use super::clock::Moment;
use super::error::PoolError;
use super::expiry::{Expiry, Lifetimes, expiry};
use super::ids::SessionId;
use super::state::{SessionEvent, SessionState, TransitionError, transition};
use crate::exec::ExecId;
use crate::limits::MAX_QUEUED;
use crate::lock::lock;

/// What a session is made with, as far as others may see it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionParameters {
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
    /// How long it goes on when nobody renews its lease.
    pub lease: Option<Duration>,
}

/// The right to run the next command of a session.
#[derive(Debug)]
pub struct CommandTurn {
    _permit: OwnedSemaphorePermit,
}

/// One session, as the pool knows it.
#[derive(Debug)]
pub struct Session {
    /// Its name.
    pub id: SessionId,
    /// What it was made with.
    pub parameters: SessionParameters,
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
    /// When its lease began to run.
    renewed: Moment,
    commands: u64,
    working_dir: Option<Box<str>>,
}

impl Session {
    pub(super) fn new(id: SessionId, parameters: SessionParameters, created: Moment) -> Self {
        Self {
            id,
            parameters,
            created,
            gate: Arc::new(Semaphore::new(1)),
            queued: AtomicUsize::new(0),
            live: Mutex::new(Live {
                state: SessionState::Creating,
                last_activity: created,
                renewed: created,
                commands: 0,
                working_dir: None,
            }),
        }
    }

    /// One of an earlier runtime, set up and with this many commands behind
    /// it.
    pub(super) fn adopted(
        id: SessionId,
        parameters: SessionParameters,
        commands: u64,
        created: Moment,
        now: Moment,
    ) -> Self {
        let session = Self::new(id, parameters, created);
        let _ = session.apply(SessionEvent::Opened, now);
        let mut live = lock(&session.live);
        live.commands = commands;
        // Whoever renews it could not while no runtime was there.
        live.renewed = now;
        drop(live);
        session
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

    /// Why its time is up, if it is. One with a lease has somebody who says that
    /// it is wanted.
    pub(super) fn expiry(&self, now: Moment, lifetimes: Lifetimes) -> Option<Expiry> {
        if self.parameters.lease.is_some() {
            return None;
        }
        let live = lock(&self.live);
        expiry(
            &live.state,
            self.created,
            live.last_activity,
            now,
            lifetimes,
        )
    }

    /// Where its shell is.
    #[must_use]
    pub fn working_dir(&self) -> String {
        let live = lock(&self.live);
        live.working_dir
            .as_ref()
            .unwrap_or(&self.parameters.working_dir)
            .to_string()
    }

    /// Notes where its shell is.
    pub fn moved_to(&self, directory: &str) {
        let mut live = lock(&self.live);
        let known = live
            .working_dir
            .as_ref()
            .unwrap_or(&self.parameters.working_dir);
        if **known != *directory {
            live.working_dir = Some(directory.into());
        }
    }

    /// Something happens to it.
    ///
    /// # Errors
    /// If that is refused in its state.
    pub fn apply(&self, event: SessionEvent, now: Moment) -> Result<(), TransitionError> {
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
    pub fn try_turn(&self) -> Result<CommandTurn, PoolError> {
        match Arc::clone(&self.gate).try_acquire_owned() {
            Ok(permit) => Ok(CommandTurn { _permit: permit }),
            Err(TryAcquireError::NoPermits) => Err(PoolError::Busy { id: self.id }),
            Err(TryAcquireError::Closed) => Err(self.gone()),
        }
    }

    /// The right to run the next command, after everyone who asked before.
    ///
    /// # Errors
    /// If too many wait already, or the session is gone.
    pub async fn turn(&self) -> Result<CommandTurn, PoolError> {
        if let Ok(turn) = self.try_turn() {
            return Ok(turn);
        }
        let _place = QueuePlace::take(self)?;
        match Arc::clone(&self.gate).acquire_owned().await {
            Ok(permit) => Ok(CommandTurn { _permit: permit }),
            Err(_) => Err(self.gone()),
        }
    }

    /// Starts a command in a turn: the session runs it from now on.
    ///
    /// # Errors
    /// If the session is gone or has had enough commands, which one with a lease
    /// never has.
    pub fn begin(
        &self,
        _turn: &CommandTurn,
        exec: ExecId,
        command: Arc<str>,
        now: Moment,
        max_commands: Option<u64>,
    ) -> Result<(), PoolError> {
        let limit = max_commands.unwrap_or(u64::MAX);
        if self.parameters.lease.is_none() && self.commands() >= limit {
            return Err(PoolError::Exhausted { id: self.id, limit });
        }
        let event = SessionEvent::Started {
            exec,
            command,
            at: now,
        };
        self.apply(event, now).map_err(|refusal| match refusal {
            TransitionError::Gone => self.gone(),
            TransitionError::Busy | TransitionError::InvalidState => {
                PoolError::Busy { id: self.id }
            }
        })?;
        lock(&self.live).commands += 1;
        Ok(())
    }

    /// Its lease runs anew from now on.
    pub fn renew(&self, now: Moment) {
        lock(&self.live).renewed = now;
    }

    /// What is left of its lease; `None` if it has none or is gone.
    #[must_use]
    pub fn lease_left(&self, now: Moment) -> Option<Duration> {
        let live = lock(&self.live);
        let lease = self.parameters.lease?;
        (live.state != SessionState::Terminated)
            .then(|| lease.saturating_sub(now.since(live.renewed)))
    }

    /// Somebody uses it otherwise than by its shell.
    pub fn used(&self, now: Moment) {
        lock(&self.live).last_activity = now;
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
struct QueuePlace<'session>(&'session Session);

impl<'session> QueuePlace<'session> {
    fn take(session: &'session Session) -> Result<Self, PoolError> {
        let taken = session.queued.fetch_add(1, Ordering::Relaxed);
        let place = Self(session);
        if taken >= MAX_QUEUED {
            return Err(PoolError::QueueFull { id: session.id });
        }
        Ok(place)
    }
}

impl Drop for QueuePlace<'_> {
    fn drop(&mut self) {
        self.0.queued.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::super::clock::{Clock, SystemClock};
    use super::*;

    fn exec(name: &str) -> ExecId {
        ExecId::parse(name).unwrap()
    }

    fn ready() -> Arc<Session> {
        let clock = SystemClock;
        let session = Session::new(
            SessionId::from_number(1),
            SessionParameters::default(),
            clock.now(),
        );
        session.apply(SessionEvent::Opened, clock.now()).unwrap();
        Arc::new(session)
    }

    #[test]
    fn a_lease_runs_from_its_last_renewal_and_ends_with_the_session() {
        let start = SystemClock.now();
        let at = |seconds: u64| Moment {
            monotonic: start.monotonic + Duration::from_secs(seconds),
            wall: start.wall,
        };
        let parameters = SessionParameters {
            lease: Some(Duration::from_secs(30)),
            ..SessionParameters::default()
        };
        let number = SessionId::from_number(1);
        let session = Session::adopted(number, parameters, 0, start, at(100));
        let left = |now| session.lease_left(at(now)).map(|left| left.as_secs());
        assert_eq!((left(100), left(129)), (Some(30), Some(1)));
        session.renew(at(120));
        assert_eq!(
            (left(130), left(150), left(999)),
            (Some(20), Some(0), Some(0))
        );
        session.apply(SessionEvent::Destroy, at(150)).unwrap();
        assert_eq!(left(150), None);
        assert_eq!(ready().lease_left(at(0)), None);
    }

    #[test]
    fn a_session_runs_as_many_commands_as_it_may() {
        let (clock, session) = (SystemClock, ready());
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
        let session = ready();
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
        let session = ready();
        let running = session.try_turn().unwrap();
        let mut waiting = tokio::task::JoinSet::new();
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
        let session = ready();
        let _running = session.try_turn().unwrap();
        let waiting = tokio::spawn({
            let session = Arc::clone(&session);
            async move { session.turn().await }
        });
        tokio::task::yield_now().await;
        session
            .apply(SessionEvent::DestroyByForce, SystemClock.now())
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
}
