//! How much one connection may ask for at a time.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits::{MAX_ENDING_IN_FLIGHT, MAX_IN_FLIGHT, MAX_IN_FLIGHT_BYTES};
use crate::protocol::{Call, ErrorCode, WireError};

/// The room for requests of one connection that wait.
#[derive(Debug)]
pub(super) struct InFlightLimits {
    requests: Arc<Semaphore>,
    /// Requests that end work have room of their own: they make room.
    endings: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
}

/// The place of a request that waits; free again when this is dropped.
#[derive(Debug)]
pub(super) struct InFlightPermit {
    _request: OwnedSemaphorePermit,
    _bytes: Option<OwnedSemaphorePermit>,
}

impl InFlightLimits {
    pub(super) fn new() -> Self {
        Self {
            requests: Arc::new(Semaphore::new(MAX_IN_FLIGHT)),
            endings: Arc::new(Semaphore::new(MAX_ENDING_IN_FLIGHT)),
            bytes: Arc::new(Semaphore::new(MAX_IN_FLIGHT_BYTES)),
        }
    }

    /// A place for a request of this many bytes.
    ///
    /// # Errors
    /// If there is no room for it now.
    pub(super) fn take(&self, call: &Call, bytes: usize) -> Result<InFlightPermit, WireError> {
        if call.ends_work() {
            // It waits only if it names something, by a short name: its bytes
            // are not worth counting.
            let place = take(&self.endings, 1).ok_or_else(|| {
                full(format!(
                    "{MAX_ENDING_IN_FLIGHT} requests of this connection that end something wait already"
                ))
            })?;
            return Ok(InFlightPermit {
                _request: place,
                _bytes: None,
            });
        }
        let place = take(&self.requests, 1).ok_or_else(|| {
            full(format!(
                "{MAX_IN_FLIGHT} requests of this connection wait already"
            ))
        })?;
        let bytes = take(&self.bytes, bytes).ok_or_else(|| {
            full(format!(
                "the requests of this connection that wait have {MAX_IN_FLIGHT_BYTES} bytes already"
            ))
        })?;
        Ok(InFlightPermit {
            _request: place,
            _bytes: Some(bytes),
        })
    }
}

fn take(room: &Arc<Semaphore>, count: usize) -> Option<OwnedSemaphorePermit> {
    let count = u32::try_from(count).ok()?;
    Arc::clone(room).try_acquire_many_owned(count).ok()
}

fn full(what: String) -> WireError {
    WireError::new(
        ErrorCode::ResourcePressure,
        format!("{what}; wait for one of them and send this again"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(method: &str, params: &str) -> Call {
        Call::parse(method, params).unwrap()
    }

    fn wait() -> Call {
        call("exec.wait", r#"{"exec_id":"e"}"#)
    }

    #[test]
    fn so_many_requests_wait_and_no_more() {
        let room = InFlightLimits::new();
        let mut places: Vec<InFlightPermit> = (0..MAX_IN_FLIGHT)
            .map(|_| room.take(&wait(), 9).unwrap())
            .collect();
        let error = room.take(&wait(), 9).unwrap_err();
        assert_eq!(error.code, ErrorCode::ResourcePressure);
        assert!(error.message.contains("256 requests"), "{error}");
        places.pop();
        assert!(room.take(&wait(), 9).is_ok());
    }

    #[test]
    fn what_ends_work_has_room_when_nothing_else_has() {
        let room = InFlightLimits::new();
        let _full: Vec<InFlightPermit> = (0..MAX_IN_FLIGHT)
            .map(|_| room.take(&wait(), 9).unwrap())
            .collect();
        let cancel = call("exec.cancel", r#"{"exec_id":"e"}"#);
        let destroy = call("session.destroy", r#"{"session_id":"s","force":true}"#);
        let mut places: Vec<InFlightPermit> = (0..MAX_ENDING_IN_FLIGHT / 2)
            .flat_map(|_| [&cancel, &destroy])
            .map(|call| room.take(call, 9).unwrap())
            .collect();
        let error = room.take(&cancel, 9).unwrap_err();
        assert_eq!(error.code, ErrorCode::ResourcePressure);
        places.pop();
        assert!(room.take(&cancel, 9).is_ok());
    }

    #[test]
    fn so_many_bytes_wait_and_no_more() {
        let room = InFlightLimits::new();
        let write = call("exec.write", r#"{"exec_id":"e","data":"x"}"#);
        let mut places: Vec<InFlightPermit> = (0..16)
            .map(|_| room.take(&write, MAX_IN_FLIGHT_BYTES / 16).unwrap())
            .collect();
        let error = room.take(&write, 1).unwrap_err();
        assert_eq!(error.code, ErrorCode::ResourcePressure);
        assert!(error.message.contains("16777216 bytes"), "{error}");
        places.pop();
        assert!(room.take(&write, MAX_IN_FLIGHT_BYTES / 16 + 1).is_err());
        assert!(room.take(&write, MAX_IN_FLIGHT_BYTES / 16).is_ok());
    }
}
