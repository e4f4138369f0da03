//! Publishing a session's events to any number of subscribers.

mod ring;

pub use ring::{Cursor, EventRing, Next};

use crate::clock::Clock;
use crate::limits::{CATCH_UP_PAGE, HUB_EVENTS};
use halter_protocol::{PendingEvent, SessionEvent, SessionEventPayload, SessionId, TurnId};
use halter_session::{SessionStore, StoreError, TraceError, TraceWriter, read_events};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// The publishing side of a session's events.
pub struct Hub {
    session_id: SessionId,
    store: Arc<dyn SessionStore>,
    clock: Arc<dyn Clock>,
    trace: Option<TraceWriter>,
    unfinished_turns: AtomicUsize,
    state: Mutex<HubState>,
    changed: Notify,
}

struct HubState {
    ring: EventRing,
    closed: bool,
    /// Why the session's end could not be committed.
    end_lost: Option<StoreError>,
    /// Turns somebody follows, and why their terminal event could not be
    /// committed, if that is so.
    followed_turns: HashMap<TurnId, Option<StoreError>>,
}

impl Hub {
    /// A hub for a session whose log ends at `head`.
    pub fn new(
        session_id: SessionId,
        store: Arc<dyn SessionStore>,
        clock: Arc<dyn Clock>,
        trace: Option<TraceWriter>,
        head: u64,
    ) -> Self {
        Self {
            session_id,
            store,
            clock,
            trace,
            unfinished_turns: AtomicUsize::new(0),
            state: Mutex::new(HubState {
                ring: EventRing::new(head, HUB_EVENTS),
                closed: false,
                end_lost: None,
                followed_turns: HashMap::new(),
            }),
            changed: Notify::new(),
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
        self.lock().ring.publish(event);
        self.changed.notify_waiters();
    }

    /// Publishes a best-effort event, which repeats the last committed
    /// sequence.
    pub fn publish_best_effort(&self, payload: SessionEventPayload) {
        let at = self.clock.now();
        if let Some(trace) = &self.trace {
            let session_id = self.session_id.clone();
            trace.pending(&PendingEvent::new(session_id, at, payload.clone()));
        }
        let mut state = self.lock();
        let head = state.ring.head();
        let event = SessionEvent::new_committed(self.session_id.clone(), head, at, payload);
        state.ring.publish(Arc::new(event));
        drop(state);
        self.changed.notify_waiters();
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

    /// Nothing more will be published: subscriptions end when they have read
    /// everything, with an error if the session's end could not be committed.
    pub fn close(&self, end_lost: Option<StoreError>) {
        let mut state = self.lock();
        state.closed = true;
        state.end_lost = end_lost;
        drop(state);
        self.changed.notify_waiters();
    }

    /// The store failed while a turn ran: its stream ends with the error.
    pub fn lose_turn(&self, turn_id: TurnId, error: StoreError) {
        if let Some(followed) = self.lock().followed_turns.get_mut(&turn_id) {
            *followed = Some(error);
        }
        self.changed.notify_waiters();
    }

    /// A subscription that starts after a sequence number of the log.
    pub fn subscribe(self: &Arc<Self>, after: u64) -> Subscription {
        let cursor = self.lock().ring.subscribe(after);
        Subscription {
            hub: self.clone(),
            cursor,
            caught_up: VecDeque::new(),
            turn: None,
            ended: false,
        }
    }

    /// A subscription that starts now and ends in an error if the turn is lost.
    pub fn subscribe_turn(self: &Arc<Self>, turn_id: TurnId) -> Subscription {
        self.lock().followed_turns.insert(turn_id.clone(), None);
        let mut subscription = self.subscribe(self.head());
        subscription.turn = Some(turn_id);
        subscription
    }

    /// The last committed sequence.
    pub fn head(&self) -> u64 {
        self.lock().ring.head()
    }

    /// The state is consistent whenever the lock is free, so a panic elsewhere
    /// does not spoil it.
    fn lock(&self) -> MutexGuard<'_, HubState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The reading side: a cursor over the log and the live tail.
pub struct Subscription {
    hub: Arc<Hub>,
    cursor: Cursor,
    caught_up: VecDeque<SessionEvent>,
    turn: Option<TurnId>,
    ended: bool,
}

enum Polled {
    Event(Arc<SessionEvent>),
    CatchUp { after: u64, through: u64 },
    Lost(StoreError),
    Closed,
    Wait,
}

impl Subscription {
    /// The next event; none when the session has shut down and everything is
    /// read. Cancel safe.
    pub async fn next(&mut self) -> Option<Result<SessionEvent, StoreError>> {
        loop {
            if self.ended {
                return None;
            }
            if let Some(event) = self.caught_up.pop_front() {
                self.cursor.caught_up(event.sequence());
                return Some(Ok(event));
            }
            let hub = self.hub.clone();
            let changed = hub.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            match self.poll_hub(&hub) {
                Polled::Event(event) => return Some(Ok(Arc::unwrap_or_clone(event))),
                Polled::CatchUp { after, through } => {
                    if let Err(error) = self.read_page(after, through).await {
                        return Some(Err(error));
                    }
                }
                Polled::Lost(error) => return Some(Err(error)),
                Polled::Closed => return None,
                Polled::Wait => changed.await,
            }
        }
    }

    fn poll_hub(&mut self, hub: &Hub) -> Polled {
        let mut state = hub.lock();
        match state.ring.next(&mut self.cursor) {
            Next::Event(event) => Polled::Event(event),
            Next::CatchUp { after, through } => Polled::CatchUp { after, through },
            Next::Lagged(dropped_events) => Polled::Event(Arc::new(SessionEvent::new_committed(
                hub.session_id.clone(),
                self.cursor.sequence(),
                hub.clock.now(),
                SessionEventPayload::Lagged { dropped_events },
            ))),
            Next::Nothing => {
                let lost = match &self.turn {
                    Some(turn) => state.followed_turns.get_mut(turn).and_then(Option::take),
                    None => None,
                };
                match lost {
                    Some(error) => Polled::Lost(error),
                    None if !state.closed => Polled::Wait,
                    None => {
                        self.ended = true;
                        state.end_lost.clone().map_or(Polled::Closed, Polled::Lost)
                    }
                }
            }
        }
    }

    async fn read_page(&mut self, after: u64, through: u64) -> Result<(), StoreError> {
        let missing = usize::try_from(through - after).unwrap_or(usize::MAX);
        let limit = missing.min(CATCH_UP_PAGE);
        let page = read_events(self.hub.store.as_ref(), &self.hub.session_id, after, limit).await?;
        if page.is_empty() {
            // The log was deleted under us: what is gone cannot be caught up on.
            self.cursor.caught_up(through);
        }
        self.caught_up.extend(page);
        Ok(())
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut state = self.hub.lock();
        state.ring.unsubscribe();
        if let Some(turn) = &self.turn {
            state.followed_turns.remove(turn);
        }
    }
}
