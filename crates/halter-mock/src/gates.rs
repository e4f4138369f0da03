//! Gates: points in a stream that a test opens, so that it need not sleep.

use crate::error::MockError;
use crate::limits::MAX_GATES;
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use tokio::sync::Notify;

/// The gates that have been opened. An open gate stays open.
#[derive(Debug, Default)]
pub(crate) struct Gates {
    open: Mutex<HashSet<String>>,
    changed: Notify,
}

impl Gates {
    /// Opens a gate for all who wait and will wait.
    pub(crate) fn open(&self, name: &str) -> Result<(), MockError> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.len() >= MAX_GATES && !open.contains(name) {
            return Err(MockError::TooManyGates { max: MAX_GATES });
        }
        open.insert(name.to_owned());
        drop(open);
        self.changed.notify_waiters();
        Ok(())
    }

    fn is_open(&self, name: &str) -> bool {
        self.open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(name)
    }

    /// Waits until a gate is open.
    pub(crate) async fn opened(&self, name: &str) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if self.is_open(name) {
                return;
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_bounded_but_may_be_opened_again() {
        let gates = Gates::default();
        for number in 0..MAX_GATES {
            gates.open(&number.to_string()).unwrap();
        }
        assert_eq!(
            gates.open("more").unwrap_err().code(),
            "mock_too_many_gates"
        );
        assert!(gates.open("0").is_ok());
    }
}
