//! The live tail of a session's events, and cursors over it.
//!
//! Subscribers do not have queues. Each is a position: in the log, for what it
//! has yet to catch up on, and in a short ring of recent events. One that
//! falls behind the ring reads lossless events from the log again and is told
//! how many best-effort ones it missed; it never holds up the session.

use halter_protocol::{Delivery, SessionEvent};
use std::collections::VecDeque;
use std::sync::Arc;

/// Recent events, newest last.
#[derive(Debug)]
pub struct EventRing {
    capacity: usize,
    entries: VecDeque<Entry>,
    /// Position of the first entry among all events ever published.
    first: u64,
    /// The last committed sequence.
    head: u64,
    best_effort: u64,
    /// The last committed sequence before the first entry.
    evicted_head: u64,
    /// Best-effort events before the first entry.
    evicted_best_effort: u64,
    subscribers: usize,
}

#[derive(Debug)]
struct Entry {
    event: Arc<SessionEvent>,
    /// False for an event of another session, which is in another log.
    own: bool,
}

impl Entry {
    /// Its place in the session's log, if it has one.
    fn sequence(&self) -> Option<u64> {
        let lossless = self.own && self.event.delivery == Delivery::Lossless;
        lossless.then(|| self.event.sequence())
    }
}

/// A subscriber's position.
#[derive(Debug, Clone)]
pub struct Cursor {
    position: u64,
    sequence: u64,
    catch_up_through: u64,
    best_effort: u64,
}

/// What a subscriber gets next.
#[derive(Debug)]
pub enum Next {
    /// An event of the live tail.
    Event(Arc<SessionEvent>),
    /// Lossless events to read from the log, oldest first.
    CatchUp {
        /// The last sequence it has.
        after: u64,
        /// The last sequence to read.
        through: u64,
    },
    /// It missed this many best-effort events.
    Lagged(u64),
    /// Nothing new.
    Nothing,
}

impl EventRing {
    /// A ring of at most `capacity` events, for a session whose log ends at
    /// `head`.
    pub fn new(head: u64, capacity: usize) -> Self {
        Self {
            capacity,
            entries: VecDeque::new(),
            first: 0,
            head,
            best_effort: 0,
            evicted_head: head,
            evicted_best_effort: 0,
            subscribers: 0,
        }
    }

    /// The last committed sequence.
    pub fn head(&self) -> u64 {
        self.head
    }

    /// Adds an event. Without subscribers nothing is kept.
    pub fn publish(&mut self, event: Arc<SessionEvent>) {
        self.push(Entry { event, own: true });
    }

    /// Adds an event of another session. One that falls behind misses it, like
    /// a best-effort event.
    pub fn forward(&mut self, event: Arc<SessionEvent>) {
        self.push(Entry { event, own: false });
    }

    fn push(&mut self, entry: Entry) {
        match entry.sequence() {
            Some(sequence) => self.head = sequence,
            None => self.best_effort += 1,
        }
        self.entries.push_back(entry);
        let keep = if self.subscribers == 0 {
            0
        } else {
            self.capacity
        };
        self.evict_to(keep);
    }

    fn evict_to(&mut self, keep: usize) {
        while self.entries.len() > keep {
            let Some(oldest) = self.entries.pop_front() else {
                break;
            };
            self.first += 1;
            match oldest.sequence() {
                Some(sequence) => self.evicted_head = sequence,
                None => self.evicted_best_effort += 1,
            }
        }
        if keep == 0 {
            self.entries.shrink_to_fit();
        }
    }

    /// A cursor that starts after a sequence of the log and goes on with the
    /// live tail.
    pub fn subscribe(&mut self, after: u64) -> Cursor {
        self.subscribers += 1;
        Cursor {
            position: self.first + self.entries.len() as u64,
            sequence: after,
            catch_up_through: self.head,
            best_effort: self.best_effort,
        }
    }

    /// A subscriber is gone. Without any, nothing is kept.
    pub fn unsubscribe(&mut self) {
        self.subscribers = self.subscribers.saturating_sub(1);
        if self.subscribers == 0 {
            self.evict_to(0);
        }
    }

    /// Moves a cursor on.
    pub fn next(&self, cursor: &mut Cursor) -> Next {
        loop {
            if cursor.sequence < cursor.catch_up_through {
                return Next::CatchUp {
                    after: cursor.sequence,
                    through: cursor.catch_up_through,
                };
            }
            if cursor.position < self.first {
                let missed = self.evicted_best_effort.saturating_sub(cursor.best_effort);
                cursor.position = self.first;
                cursor.best_effort = self.evicted_best_effort;
                cursor.catch_up_through = self.evicted_head;
                if missed > 0 {
                    return Next::Lagged(missed);
                }
                continue;
            }
            let offset = usize::try_from(cursor.position - self.first).unwrap_or(usize::MAX);
            let Some(entry) = self.entries.get(offset) else {
                return Next::Nothing;
            };
            cursor.position += 1;
            match entry.sequence() {
                Some(sequence) if sequence <= cursor.sequence => continue,
                Some(sequence) => cursor.sequence = sequence,
                None => cursor.best_effort += 1,
            }
            return Next::Event(entry.event.clone());
        }
    }
}

impl Cursor {
    /// Takes note of an event read from the log.
    pub fn caught_up(&mut self, sequence: u64) {
        self.sequence = self.sequence.max(sequence);
    }

    /// The last lossless event it has.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::HUB_EVENTS;
    use halter_protocol::{DeltaItem, SessionEventPayload, Timestamp};
    use proptest::prelude::*;

    fn event(sequence: u64, lossless: bool) -> Arc<SessionEvent> {
        let payload = if lossless {
            SessionEventPayload::SessionResumed
        } else {
            SessionEventPayload::DeltaItem {
                delta: DeltaItem { text: "x".into() },
            }
        };
        Arc::new(SessionEvent::new_committed(
            "ses".into(),
            sequence,
            Timestamp::UNIX_EPOCH,
            payload,
        ))
    }

    proptest! {
        /// However slowly a subscriber reads, it gets every lossless event once
        /// and in order, and the best-effort ones it gets and misses add up.
        #[test]
        fn slow_subscribers_miss_nothing_that_is_lossless(
            steps in proptest::collection::vec((any::<bool>(), 0usize..3000, 0usize..40), 1..12),
        ) {
            let mut ring = EventRing::new(0, HUB_EVENTS);
            let mut cursor = ring.subscribe(0);
            let (mut head, mut published) = (0, 0);
            let (mut lossless, mut received, mut missed) = (Vec::new(), 0, 0);
            let mut read = |ring: &EventRing, most: usize| {
                for _ in 0..most {
                    match ring.next(&mut cursor) {
                        Next::Event(event) if event.delivery == Delivery::Lossless => {
                            lossless.push(event.sequence());
                        }
                        Next::Event(_) => received += 1,
                        Next::CatchUp { after, through } => {
                            for sequence in after + 1..=through {
                                lossless.push(sequence);
                                cursor.caught_up(sequence);
                            }
                        }
                        Next::Lagged(count) => missed += count,
                        Next::Nothing => break,
                    }
                }
            };
            for (is_lossless, burst, reads) in steps {
                for _ in 0..burst {
                    if is_lossless {
                        head += 1;
                    } else {
                        published += 1;
                    }
                    ring.publish(event(head, is_lossless));
                }
                read(&ring, reads);
            }
            read(&ring, usize::MAX);
            prop_assert_eq!(lossless, (1..=head).collect::<Vec<_>>());
            prop_assert_eq!(received + missed, published);
        }
    }

    #[test]
    fn the_ring_is_bounded_and_empty_without_subscribers() {
        let mut ring = EventRing::new(0, HUB_EVENTS);
        for sequence in 1..=10 {
            ring.publish(event(sequence, true));
        }
        assert!(ring.entries.is_empty());
        let _cursor = ring.subscribe(0);
        for sequence in 11..=11 + 2 * HUB_EVENTS as u64 {
            ring.publish(event(sequence, true));
        }
        assert_eq!(ring.entries.len(), HUB_EVENTS);
        ring.unsubscribe();
        assert!(ring.entries.is_empty());
        ring.publish(event(5000, true));
        assert!(ring.entries.is_empty());
    }
}
