//! A session's appends: in order, one at a time, beside its owner.
//!
//! The owner polls the append under way with everything else it waits for, so
//! a slow store holds back neither deltas nor a cancel. What the engine wants
//! appended meanwhile waits and goes to the store together.

use crate::engine::{EffectId, Input};
use crate::hub::SessionEvents;
use futures::future::BoxFuture;
use halter_protocol::{PendingEvent, SessionState, TurnError};
use halter_session::limits::MAX_BATCH_EVENTS;
use halter_session::{Durability, LogWriter, StoreError};
use std::collections::VecDeque;
use std::sync::Arc;

/// What the engine wants appended.
pub(super) struct Append {
    pub id: EffectId,
    pub events: Vec<PendingEvent>,
    pub durability: Durability,
}

/// The way into a session's log.
pub(super) struct Appends {
    /// None while an append is under way.
    writer: Option<LogWriter>,
    waiting: VecDeque<Append>,
    /// Why the last append failed, if it did.
    pub error: Option<StoreError>,
}

/// An append that is over.
pub(super) struct Appended {
    writer: LogWriter,
    ids: Vec<EffectId>,
    outcome: Result<(), StoreError>,
}

impl Appends {
    pub fn new(writer: LogWriter) -> Self {
        Self {
            writer: Some(writer),
            waiting: VecDeque::new(),
            error: None,
        }
    }

    pub fn add(&mut self, append: Append) {
        self.waiting.push_back(append);
    }

    /// How many wait for the append under way.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Starts to append what waits, unless an append is under way. `state` is
    /// the fold of everything that is committed.
    pub fn start(
        &mut self,
        state: &SessionState,
        hub: &Arc<SessionEvents>,
    ) -> Option<BoxFuture<'static, Appended>> {
        if self.waiting.is_empty() {
            return None;
        }
        let mut writer = self.writer.take()?;
        if writer.wants_checkpoint(state) {
            writer.take_checkpoint(state.clone());
        }
        let (ids, events, durability) = self.take_waiting();
        let hub = hub.clone();
        Some(Box::pin(async move {
            hub.announce(&events);
            let outcome = writer.append(events, durability).await.map(|committed| {
                committed.into_iter().for_each(|event| hub.publish(event));
            });
            Appended {
                writer,
                ids,
                outcome,
            }
        }))
    }

    fn take_waiting(&mut self) -> (Vec<EffectId>, Vec<PendingEvent>, Durability) {
        let mut ids = Vec::new();
        let mut events: Vec<PendingEvent> = Vec::new();
        let mut durability = Durability::Buffered;
        while let Some(next) = self.waiting.front() {
            let fits = events.len() + next.events.len() <= MAX_BATCH_EVENTS;
            if !ids.is_empty() && !fits {
                break;
            }
            if let Some(next) = self.waiting.pop_front() {
                ids.push(next.id);
                events.extend(next.events);
                durability = durability.max(next.durability);
            }
        }
        (ids, events, durability)
    }

    /// Takes the writer back and returns what the engine hears. After a
    /// failure, what waits is not appended: it was decided on what is lost.
    pub fn finish(&mut self, appended: Appended) -> Vec<Input> {
        let Appended {
            writer,
            ids,
            outcome,
        } = appended;
        self.writer = Some(writer);
        self.error = outcome.err();
        let Some(error) = &self.error else {
            return ids.into_iter().map(|id| Input::Committed { id }).collect();
        };
        self.waiting.clear();
        let told = TurnError::new(error.code(), error.to_string());
        let first = ids.into_iter().next();
        let failed = first.map(|id| Input::StoreFailed { id, error: told });
        failed.into_iter().collect()
    }
}
