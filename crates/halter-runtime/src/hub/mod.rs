//! Publishing a session's events to any number of subscribers.

mod ring;

pub use ring::{Cursor, EventRing, Next};

use crate::limits::{CATCH_UP_PAGE, HUB_EVENTS};
use halter_protocol::{SessionEvent, SessionEventPayload, SessionId, Timestamp};
use halter_session::{SessionStore, StoreError, read_events};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// The publishing side of a session's events.
pub struct Hub {
    session_id: SessionId,
    store: Arc<dyn SessionStore>,
    state: Mutex<HubState>,
    changed: Notify,
}

struct HubState {
    ring: EventRing,
    closed: bool,
}

impl Hub {
    /// A hub for a session whose log ends at `head`.
    pub fn new(session_id: SessionId, store: Arc<dyn SessionStore>, head: u64) -> Self {
        Self {
            session_id,
            store,
            state: Mutex::new(HubState {
                ring: EventRing::new(head, HUB_EVENTS),
                closed: false,
            }),
            changed: Notify::new(),
        }
    }

    /// Publishes a committed event.
    pub fn publish(&self, event: Arc<SessionEvent>) {
        self.lock().ring.publish(event);
        self.changed.notify_waiters();
    }

    /// Publishes a best-effort event, which repeats the last committed
    /// sequence.
    pub fn publish_best_effort(&self, at: Timestamp, payload: SessionEventPayload) {
        let mut state = self.lock();
        let event =
            SessionEvent::new_committed(self.session_id.clone(), state.ring.head(), at, payload);
        state.ring.publish(Arc::new(event));
        drop(state);
        self.changed.notify_waiters();
    }

    /// Nothing more will be published: subscriptions end when they have read
    /// everything.
    pub fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_waiters();
    }

    /// A subscription that starts after a sequence number of the log.
    pub fn subscribe(self: &Arc<Self>, after: u64) -> Subscription {
        let cursor = self.lock().ring.subscribe(after);
        Subscription {
            hub: self.clone(),
            cursor,
            caught_up: VecDeque::new(),
            first: true,
        }
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
    first: bool,
}

impl Subscription {
    /// The next event; none when the session has shut down and everything is
    /// read. Cancel safe.
    pub async fn next(&mut self) -> Option<Result<SessionEvent, StoreError>> {
        let event = self.advance().await?;
        Some(event.map(|event| {
            if std::mem::take(&mut self.first) {
                event.first_of_stream()
            } else {
                event
            }
        }))
    }

    async fn advance(&mut self) -> Option<Result<SessionEvent, StoreError>> {
        loop {
            if let Some(event) = self.caught_up.pop_front() {
                self.cursor.caught_up(event.sequence());
                return Some(Ok(event));
            }
            let hub = self.hub.clone();
            let changed = hub.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let (next, closed) = {
                let state = hub.lock();
                (state.ring.next(&mut self.cursor), state.closed)
            };
            match next {
                Next::Event(event) => return Some(Ok(Arc::unwrap_or_clone(event))),
                Next::Lagged(dropped_events) => {
                    let payload = SessionEventPayload::Lagged { dropped_events };
                    return Some(Ok(SessionEvent::new_committed(
                        hub.session_id.clone(),
                        self.cursor.sequence(),
                        Timestamp::now(),
                        payload,
                    )));
                }
                Next::CatchUp { after, through } => match self.read_page(after, through).await {
                    Ok(()) => {}
                    Err(error) => return Some(Err(error)),
                },
                Next::Nothing if closed => return None,
                Next::Nothing => changed.await,
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
        self.hub.lock().ring.unsubscribe();
    }
}
