//! Publishing a session's events to any number of subscribers.
//!
//! [`EventHub`] is the plumbing between a session and its subscribers, and can
//! be replaced; `SessionEvents` is what a session itself adds to it: its trace
//! and what it owes to those who follow a turn.

mod ring;
mod standard;

pub use ring::{Cursor, EventRing, Next};
pub use standard::StandardHubs;

use crate::clock::Clock;
use crate::subagents::RunProgress;
use futures::StreamExt;
use futures::stream::BoxStream;
use halter_protocol::{
    Delivery, PendingEvent, SessionEvent, SessionEventPayload, SessionId, Timestamp, TurnId,
};
use halter_session::{SessionStore, StoreError, TraceError, TraceWriter};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio::sync::Notify;

/// The events of a session as a subscriber reads them.
pub type EventStream = BoxStream<'static, Result<SessionEvent, StoreError>>;

/// Carries the events of one session to its subscribers. Publishing never
/// waits for them.
pub trait EventHub: Send + Sync {
    /// Publishes a committed event.
    fn publish(&self, event: Arc<SessionEvent>);

    /// Publishes a best-effort event, which repeats the last committed
    /// sequence.
    fn publish_best_effort(&self, at: Timestamp, payload: SessionEventPayload);

    /// Publishes an event of a subagent, with its session's id and place.
    /// Nothing, unless a hub does more.
    fn forward(&self, _event: Arc<SessionEvent>) {}

    /// The last committed sequence.
    fn head(&self) -> u64;

    /// Every lossless event after a sequence of the log, in order, and the
    /// best-effort ones as far as the subscriber keeps up.
    fn subscribe(&self, after: u64) -> EventStream;

    /// Nothing more will be published: subscriptions end when they have read
    /// everything, with an error if the session's end could not be committed.
    fn close(&self, end_lost: Option<StoreError>);
}

/// Makes the hubs of sessions.
pub trait HubFactory: Send + Sync {
    /// The hub of a session.
    fn open(&self, session: HubSession) -> Arc<dyn EventHub>;
}

/// What a hub knows of its session.
pub struct HubSession {
    /// The session.
    pub session_id: SessionId,
    /// Where its committed events can be read again.
    pub store: Arc<dyn SessionStore>,
    /// The clock of events.
    pub clock: Arc<dyn Clock>,
    /// The last committed sequence.
    pub head: u64,
}

/// Where the events of a session go beside its own subscribers, and how many of
/// others it shows.
#[derive(Default)]
pub(crate) struct Forwarding {
    /// The sessions above it that show them.
    pub above: Vec<Weak<SessionEvents>>,
    /// How many events of subagents a turn of this session shows; 0: all.
    pub cap: u64,
    forwarded: AtomicU64,
}

impl Forwarding {
    pub fn new(above: Vec<Weak<SessionEvents>>, cap: u64) -> Self {
        Self {
            above,
            cap,
            forwarded: AtomicU64::new(0),
        }
    }

    fn pass_on(&self, event: &Arc<SessionEvent>) {
        for above in self.above.iter().filter_map(Weak::upgrade) {
            above.forward(event.clone());
        }
    }
}

/// The publishing side of a session.
pub(crate) struct SessionEvents {
    session_id: SessionId,
    clock: Arc<dyn Clock>,
    hub: Arc<dyn EventHub>,
    trace: Option<TraceWriter>,
    unfinished_turns: AtomicUsize,
    /// Turns somebody follows, and why their terminal event could not be
    /// committed, if that is so.
    followed_turns: Mutex<HashMap<TurnId, Option<StoreError>>>,
    lost: Notify,
    forwarding: Forwarding,
    /// What a subagent has said and how its turns ended.
    progress: Option<Mutex<RunProgress>>,
}

impl SessionEvents {
    pub fn new(
        session_id: SessionId,
        clock: Arc<dyn Clock>,
        hub: Arc<dyn EventHub>,
        trace: Option<TraceWriter>,
        forwarding: Forwarding,
        is_subagent: bool,
    ) -> Self {
        Self {
            session_id,
            clock,
            hub,
            trace,
            unfinished_turns: AtomicUsize::new(0),
            followed_turns: Mutex::default(),
            lost: Notify::new(),
            forwarding,
            progress: is_subagent.then(Mutex::default),
        }
    }

    /// Takes note of events that are about to be committed, for the trace.
    pub fn announce(&self, events: &[PendingEvent]) {
        if let Some(trace) = &self.trace {
            for event in events {
                trace.pending(event);
            }
        }
    }

    /// What went wrong with the trace since the last call.
    pub fn take_trace_error(&self) -> Option<TraceError> {
        self.trace.as_ref().and_then(TraceWriter::take_error)
    }

    /// Publishes a committed event.
    pub fn publish(&self, event: Arc<SessionEvent>) {
        if let Some(trace) = &self.trace {
            trace.committed(&event);
        }
        if let Some(mut progress) = self.lock_progress() {
            progress.observe(&event.payload);
        }
        if let SessionEventPayload::TurnStarted { .. } = event.payload {
            self.forwarding.forwarded.store(0, Ordering::Relaxed);
        }
        self.forwarding.pass_on(&event);
        self.hub.publish(event);
    }

    /// Publishes a best-effort event.
    pub fn publish_best_effort(&self, payload: SessionEventPayload) {
        let at = self.clock.now();
        if let Some(trace) = &self.trace {
            let session_id = self.session_id.clone();
            trace.pending(&PendingEvent::new(session_id, at, payload.clone()));
        }
        if !self.forwarding.above.is_empty() {
            let (session_id, head) = (self.session_id.clone(), self.hub.head());
            let event = SessionEvent::new_committed(session_id, head, at, payload.clone());
            self.forwarding.pass_on(&Arc::new(event));
        }
        self.hub.publish_best_effort(at, payload);
    }

    /// Those who get the events of a subagent of this session.
    pub fn forwarding_below(self: &Arc<Self>, forwards: bool) -> Vec<Weak<Self>> {
        let own = forwards.then(|| Arc::downgrade(self));
        self.forwarding.above.iter().cloned().chain(own).collect()
    }

    /// Shows an event of a subagent, unless the turn has shown too many: then it
    /// says so, once.
    fn forward(&self, event: Arc<SessionEvent>) {
        let cap = self.forwarding.cap;
        let before = self.forwarding.forwarded.fetch_add(1, Ordering::Relaxed);
        if cap == 0 || before < cap {
            self.hub.forward(event);
        } else if before == cap {
            let dropped_events = 1;
            let lagged = SessionEventPayload::Lagged { dropped_events };
            self.hub.publish_best_effort(self.clock.now(), lagged);
        }
    }

    /// A subagent is given work: what it said before counts no more.
    pub fn begin_run(&self) {
        if let Some(mut progress) = self.lock_progress() {
            *progress = RunProgress::default();
        }
    }

    /// What a subagent has said since it was given work.
    pub fn progress(&self) -> RunProgress {
        let progress = self.lock_progress();
        progress.map(|it| it.clone()).unwrap_or_default()
    }

    fn lock_progress(&self) -> Option<MutexGuard<'_, RunProgress>> {
        let progress = self.progress.as_ref()?;
        Some(progress.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A turn was accepted.
    pub fn turn_accepted(&self) {
        self.unfinished_turns.fetch_add(1, Ordering::Relaxed);
    }

    /// A turn is over.
    pub fn turn_over(&self) {
        self.unfinished_turns.fetch_sub(1, Ordering::Relaxed);
    }

    /// How many turns were accepted and are not over.
    pub fn unfinished_turns(&self) -> usize {
        self.unfinished_turns.load(Ordering::Relaxed)
    }

    /// Nothing more will be published.
    pub fn close(&self, end_lost: Option<StoreError>) {
        self.hub.close(end_lost);
    }

    /// The store failed while a turn ran: its stream ends with the error.
    pub fn lose_turn(&self, turn_id: &TurnId, error: StoreError) {
        if let Some(followed) = self.followed().get_mut(turn_id) {
            *followed = Some(error);
        }
        self.lost.notify_waiters();
    }

    /// The last committed sequence.
    pub fn head(&self) -> u64 {
        self.hub.head()
    }

    /// The events after a sequence number of the log.
    pub fn subscribe(&self, after: u64) -> EventStream {
        self.hub.subscribe(after)
    }

    /// A subscription that starts now and ends in an error if the turn is lost.
    pub fn subscribe_turn(self: &Arc<Self>, turn_id: TurnId) -> TurnSubscription {
        self.followed().insert(turn_id.clone(), None);
        let sequence = self.head();
        TurnSubscription {
            events: self.subscribe(sequence),
            session: self.clone(),
            turn_id,
            sequence,
        }
    }

    fn take_loss(&self, turn_id: &TurnId) -> Option<StoreError> {
        self.followed().get_mut(turn_id).and_then(Option::take)
    }

    /// The map is consistent whenever the lock is free, so a panic elsewhere
    /// does not spoil it.
    fn followed(&self) -> MutexGuard<'_, HashMap<TurnId, Option<StoreError>>> {
        self.followed_turns
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The events of a session, for somebody who follows one of its turns.
pub(crate) struct TurnSubscription {
    events: EventStream,
    session: Arc<SessionEvents>,
    turn_id: TurnId,
    /// The last lossless event that was read.
    sequence: u64,
}

impl TurnSubscription {
    /// The next event, or, once everything committed is read, why the turn's
    /// end could not be. None when the session has shut down. Cancel safe.
    pub async fn next(&mut self) -> Option<Result<SessionEvent, StoreError>> {
        let session = self.session.clone();
        loop {
            let lost = session.lost.notified();
            tokio::pin!(lost);
            lost.as_mut().enable();
            if self.sequence >= session.head()
                && let Some(error) = session.take_loss(&self.turn_id)
            {
                return Some(Err(error));
            }
            tokio::select! {
                biased;
                event = self.events.next() => {
                    if let Some(Ok(event)) = &event
                        && event.delivery == Delivery::Lossless
                        && event.session_id == session.session_id
                    {
                        self.sequence = event.sequence();
                    }
                    return event;
                }
                () = lost => {}
            }
        }
    }
}

impl Drop for TurnSubscription {
    fn drop(&mut self) {
        self.session.followed().remove(&self.turn_id);
    }
}
