//! HTTP connections, as long as they have not shown the token: few at a time,
//! and the oldest makes room for the next, so that whoever only connects and
//! waits keeps nobody out.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::limits::{MAX_HTTP_CONNECTIONS, MAX_UNAUTHENTICATED_HTTP};
use crate::lock::lock;

/// The room for HTTP connections.
#[derive(Debug)]
pub(super) struct HttpConnections {
    unauthenticated: Mutex<VecDeque<CancellationToken>>,
    known: Arc<Semaphore>,
}

impl HttpConnections {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            unauthenticated: Mutex::default(),
            known: Arc::new(Semaphore::new(MAX_HTTP_CONNECTIONS)),
        })
    }

    /// A place for a new connection.
    pub(super) fn enter(self: &Arc<Self>) -> HttpConnectionSlot {
        let evicted = CancellationToken::new();
        let mut unauthenticated = lock(&self.unauthenticated);
        unauthenticated.retain(|waiting| !waiting.is_cancelled());
        if unauthenticated.len() >= MAX_UNAUTHENTICATED_HTTP
            && let Some(oldest) = unauthenticated.pop_front()
        {
            oldest.cancel();
        }
        unauthenticated.push_back(evicted.clone());
        drop(unauthenticated);
        HttpConnectionSlot {
            room: Arc::clone(self),
            evicted,
            known: OnceLock::new(),
        }
    }
}

/// The place of one connection, free again when this is dropped.
#[derive(Debug)]
pub(super) struct HttpConnectionSlot {
    room: Arc<HttpConnections>,
    evicted: CancellationToken,
    known: OnceLock<OwnedSemaphorePermit>,
}

impl HttpConnectionSlot {
    /// Returns when the connection has to make room for another.
    pub(super) async fn evicted(&self) {
        self.evicted.cancelled().await;
    }

    /// The connection has shown the token; `false` if too many have.
    pub(super) fn show_token(&self) -> bool {
        if self.known.get().is_some() {
            return true;
        }
        match Arc::clone(&self.room.known).try_acquire_owned() {
            Ok(permit) => {
                let _ = self.known.set(permit);
                self.leave();
                true
            }
            Err(_) => false,
        }
    }

    fn leave(&self) {
        let is_ours = |waiting: &CancellationToken| *waiting == self.evicted;
        lock(&self.room.unauthenticated).retain(|waiting| !is_ours(waiting));
    }
}

impl Drop for HttpConnectionSlot {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_newcomer_makes_room_for_the_next_and_whoever_is_known_stays() {
        let room = HttpConnections::new();
        let known = room.enter();
        assert!(known.show_token() && known.show_token());
        let waiting: Vec<_> = (0..MAX_UNAUTHENTICATED_HTTP)
            .map(|_| room.enter())
            .collect();
        assert!(waiting.iter().all(|place| !place.evicted.is_cancelled()));
        let next = room.enter();
        let evicted = waiting.iter().map(|place| place.evicted.is_cancelled());
        let evicted: Vec<usize> = evicted
            .enumerate()
            .filter(|one| one.1)
            .map(|one| one.0)
            .collect();
        assert_eq!(evicted, [0]);
        assert!(!next.evicted.is_cancelled() && !known.evicted.is_cancelled());
        drop(next);
        assert_eq!(
            lock(&room.unauthenticated).len(),
            MAX_UNAUTHENTICATED_HTTP - 1
        );
    }

    #[test]
    fn so_many_connections_are_known_at_a_time_and_no_more() {
        let room = HttpConnections::new();
        let mut places: Vec<_> = (0..MAX_HTTP_CONNECTIONS).map(|_| room.enter()).collect();
        assert!(places.iter().all(HttpConnectionSlot::show_token));
        let next = room.enter();
        assert!(!next.show_token());
        places.pop();
        assert!(next.show_token());
    }
}
