//! The standard hub: subscribers are cursors over the log and a short ring of
//! what was published last.

use super::ring::{Cursor, EventRing, Next};
use super::{EventHub, EventStream, HubFactory, HubSession};
use crate::limits::{CATCH_UP_PAGE, HUB_EVENTS};
use futures::StreamExt;
use halter_protocol::{SessionEvent, SessionEventPayload, Timestamp};
use halter_session::{StoreError, read_events};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Makes hubs that keep [`HUB_EVENTS`] events for subscribers that do not wait
/// for the next one.
#[derive(Debug, Clone, Copy, Default)]
pub struct StandardHubs;

impl HubFactory for StandardHubs {
    fn open(&self, session: HubSession) -> Arc<dyn EventHub> {
        let state = Mutex::new(State {
            ring: EventRing::new(session.head, HUB_EVENTS),
            closed: false,
            end_lost: None,
        });
        Arc::new(StandardHub(Arc::new(Shared {
            session,
            state,
            changed: Notify::new(),
        })))
    }
}

struct StandardHub(Arc<Shared>);

struct Shared {
    session: HubSession,
    state: Mutex<State>,
    changed: Notify,
}

struct State {
    ring: EventRing,
    closed: bool,
    /// Why the session's end could not be committed.
    end_lost: Option<StoreError>,
}

impl Shared {
    /// The state is consistent whenever the lock is free, so a panic elsewhere
    /// does not spoil it.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventHub for StandardHub {
    fn publish(&self, event: Arc<SessionEvent>) {
        self.0.lock().ring.publish(event);
        self.0.changed.notify_waiters();
    }

    fn publish_best_effort(&self, at: Timestamp, payload: SessionEventPayload) {
        let session_id = self.0.session.session_id.clone();
        let mut state = self.0.lock();
        let head = state.ring.head();
        let event = SessionEvent::new_committed(session_id, head, at, payload);
        state.ring.publish(Arc::new(event));
        drop(state);
        self.0.changed.notify_waiters();
    }

    fn forward(&self, event: Arc<SessionEvent>) {
        self.0.lock().ring.forward(event);
        self.0.changed.notify_waiters();
    }

    fn head(&self) -> u64 {
        self.0.lock().ring.head()
    }

    fn subscribe(&self, after: u64) -> EventStream {
        let subscription = Subscription {
            cursor: self.0.lock().ring.subscribe(after),
            hub: self.0.clone(),
            caught_up: VecDeque::new(),
            ended: false,
        };
        futures::stream::unfold(subscription, |mut subscription| async move {
            let next = subscription.next().await?;
            Some((next, subscription))
        })
        .boxed()
    }

    fn close(&self, end_lost: Option<StoreError>) {
        let mut state = self.0.lock();
        state.closed = true;
        state.end_lost = end_lost;
        drop(state);
        self.0.changed.notify_waiters();
    }
}

/// The reading side: a cursor over the log and the live tail.
struct Subscription {
    hub: Arc<Shared>,
    cursor: Cursor,
    caught_up: VecDeque<SessionEvent>,
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
    /// read.
    async fn next(&mut self) -> Option<Result<SessionEvent, StoreError>> {
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

    fn poll_hub(&mut self, hub: &Shared) -> Polled {
        let state = hub.lock();
        match state.ring.next(&mut self.cursor) {
            Next::Event(event) => Polled::Event(event),
            Next::CatchUp { after, through } => Polled::CatchUp { after, through },
            Next::Lagged(dropped_events) => Polled::Event(Arc::new(SessionEvent::new_committed(
                hub.session.session_id.clone(),
                self.cursor.sequence(),
                hub.session.clock.now(),
                SessionEventPayload::Lagged { dropped_events },
            ))),
            Next::Nothing if !state.closed => Polled::Wait,
            Next::Nothing => {
                self.ended = true;
                state.end_lost.clone().map_or(Polled::Closed, Polled::Lost)
            }
        }
    }

    async fn read_page(&mut self, after: u64, through: u64) -> Result<(), StoreError> {
        let missing = usize::try_from(through - after).unwrap_or(usize::MAX);
        let limit = missing.min(CATCH_UP_PAGE);
        let session = &self.hub.session;
        let page = read_events(session.store.as_ref(), &session.session_id, after, limit).await?;
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
