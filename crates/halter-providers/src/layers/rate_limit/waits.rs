//! Who waits for a rate, for those who show it.

use crate::limits::RATE_SHOWN_WAIT_MILLIS;
use halter_protocol::SessionId;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// A request that is held back to stay within a rate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateWait {
    /// The model as its service spells it.
    pub model: String,
    /// How much longer, as far as that is known; nothing while others stand
    /// before it.
    pub left: Duration,
}

impl fmt::Display for RateWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("waiting ")?;
        if !self.left.is_zero() {
            write!(f, "about {} s ", self.left.as_secs_f64().ceil())?;
        }
        write!(f, "to stay within the rate of '{}'", self.model)
    }
}

/// All waits of a limiter. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Waits(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    next: u64,
    waits: BTreeMap<u64, Wait>,
}

struct Wait {
    session: SessionId,
    model: String,
    since: Instant,
    until: Instant,
}

impl Waits {
    /// Notes a wait; it is over when what this returns is dropped.
    pub fn begin(&self, session: SessionId, wait: RateWait) -> Waiting {
        let since = Instant::now();
        let mut table = self.lock();
        let number = table.next;
        table.next += 1;
        let wait = Wait {
            session,
            model: wait.model,
            since,
            until: since + wait.left,
        };
        table.waits.insert(number, wait);
        Waiting {
            waits: self.clone(),
            number,
        }
    }

    /// The longest wait of a session that is worth showing.
    pub fn of(&self, session: &SessionId) -> Option<RateWait> {
        let now = Instant::now();
        let worth_showing = |wait: &&Wait| {
            let whole = wait.until.max(now) - wait.since;
            wait.session == *session && whole >= Duration::from_millis(RATE_SHOWN_WAIT_MILLIS)
        };
        let table = self.lock();
        let waits = table.waits.values().filter(worth_showing);
        waits.max_by_key(|wait| wait.until).map(|wait| RateWait {
            model: wait.model.clone(),
            left: wait.until.saturating_duration_since(now),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A wait that lasts.
pub(super) struct Waiting {
    waits: Waits,
    number: u64,
}

impl Waiting {
    /// How much longer it will be.
    pub fn expect(&self, left: Duration) {
        if let Some(wait) = self.waits.lock().waits.get_mut(&self.number) {
            wait.until = Instant::now() + left;
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.waits.lock().waits.remove(&self.number);
    }
}
