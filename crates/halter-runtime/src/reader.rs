//! A stored session, to look at.

use crate::clock::Clock;
use crate::error::store_failure;
use crate::limits::CATCH_UP_PAGE;
use halter_protocol::{SessionBlueprint, SessionEvent, SessionId, SessionState};
use halter_session::{SessionStore, StoredState, export_session_trace, read_events};
use std::sync::Arc;

/// A stored session as it was when it was opened for reading. Nothing is
/// written, and whoever writes to it goes on.
pub struct SessionReader {
    store: Arc<dyn SessionStore>,
    clock: Arc<dyn Clock>,
    stored: StoredState,
}

impl SessionReader {
    pub(crate) fn new(
        store: Arc<dyn SessionStore>,
        clock: Arc<dyn Clock>,
        stored: StoredState,
    ) -> Self {
        Self {
            store,
            clock,
            stored,
        }
    }

    /// The session's id.
    pub fn session_id(&self) -> &SessionId {
        &self.stored.blueprint.session_id
    }

    /// What was fixed when the session started.
    pub fn blueprint(&self) -> &SessionBlueprint {
        &self.stored.blueprint
    }

    /// The fold of its events.
    pub fn state(&self) -> &SessionState {
        &self.stored.state
    }

    /// The sequence number of the last event.
    pub fn head(&self) -> u64 {
        self.stored.head
    }

    /// All its events so far.
    pub async fn replay(&self) -> anyhow::Result<Vec<SessionEvent>> {
        replay(self.store.as_ref(), self.session_id()).await
    }

    /// Its trace: a header and every event, one JSON object a line.
    pub async fn export_trace(&self) -> anyhow::Result<String> {
        let at = self.clock.now();
        export_session_trace(self.store.as_ref(), self.session_id(), at)
            .await
            .map_err(store_failure)
    }
}

/// All events of a stored session.
pub(crate) async fn replay(
    store: &dyn SessionStore,
    session_id: &SessionId,
) -> anyhow::Result<Vec<SessionEvent>> {
    let mut events: Vec<SessionEvent> = Vec::new();
    loop {
        let after = events.last().map_or(0, SessionEvent::sequence);
        let page = read_events(store, session_id, after, CATCH_UP_PAGE)
            .await
            .map_err(store_failure)?;
        if page.is_empty() {
            return Ok(events);
        }
        events.extend(page);
    }
}
