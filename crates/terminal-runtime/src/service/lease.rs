//! Sessions that end when whoever made them is gone for good.
//!
//! A lease is renewed by `session.renew` and by nothing else: a command that
//! runs is no sign that anybody waits for it.

use std::sync::Arc;
use std::time::Duration;

use super::Service;
use crate::limits::MAX_LEASE;
use crate::protocol::{Nothing, SessionParams, WireError};
use crate::session::{Session, SessionEvent};

/// A lease in seconds: more than none, and no longer than the limit.
pub(super) fn read_lease(seconds: f64) -> Result<Duration, WireError> {
    let lease = Duration::try_from_secs_f64(seconds).ok();
    let fits = |lease: &Duration| !lease.is_zero() && *lease <= MAX_LEASE;
    lease.filter(fits).ok_or_else(|| {
        WireError::invalid(format!(
            "lease_s must be more than 0 and at most {}",
            MAX_LEASE.as_secs()
        ))
    })
}

impl Service {
    pub(super) fn renew(&self, params: &SessionParams) -> Result<Nothing, WireError> {
        let session = self.find_session(&params.session_id)?;
        session.renew(self.inner.clock.now());
        Ok(Nothing {})
    }

    /// Ends a session with a lease when that has run out, whatever it runs.
    pub(super) fn watch_lease(&self, session: &Arc<Session>) {
        if session.parameters.lease.is_none() {
            return;
        }
        let service = self.clone();
        let watched = Arc::downgrade(session);
        tokio::spawn(async move {
            loop {
                // Gone, or ended otherwise.
                let Some(session) = watched.upgrade() else {
                    return;
                };
                let Some(left) = session.lease_left(service.inner.clock.now()) else {
                    return;
                };
                if left.is_zero() {
                    tracing::info!(session = %session.id, "nobody has renewed the session's lease");
                    let end = SessionEvent::DestroyByForce;
                    let _ = service.end_session(&session, end).await;
                    return;
                }
                drop(session);
                tokio::select! {
                    () = tokio::time::sleep(left) => {}
                    () = service.inner.ended.cancelled() => return,
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_has_a_length() {
        assert_eq!(read_lease(0.5).unwrap(), Duration::from_millis(500));
        assert_eq!(read_lease(MAX_LEASE.as_secs_f64()).unwrap(), MAX_LEASE);
        for wrong in [0.0, -1.0, f64::NAN, MAX_LEASE.as_secs_f64() + 1.0] {
            let error = read_lease(wrong).unwrap_err();
            assert!(error.message.contains("lease_s"), "{error}");
        }
    }
}
