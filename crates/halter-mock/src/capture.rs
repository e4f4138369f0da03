//! What the service has been asked.

use crate::error::MockError;
use crate::limits::{MAX_CAPTURED_BYTES, MAX_CAPTURED_REQUESTS};
use crate::wire::MockWire;
use bytes::Bytes;
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Headers whose values stay in memory.
const SECRET_HEADERS: [&str; 4] = ["authorization", "x-api-key", "x-goog-api-key", "cookie"];

/// A request as it arrived, and what became of it. Keys are readable through
/// [`CapturedRequest::header`] and shown nowhere else.
#[derive(Clone, PartialEq)]
pub struct CapturedRequest {
    pub(crate) number: u64,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Bytes,
    pub(crate) wire: MockWire,
    pub(crate) scenario: Option<String>,
    pub(crate) step: Option<usize>,
    pub(crate) streaming: bool,
    pub(crate) outcome: RequestOutcome,
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestOutcome {
    /// It was answered, perhaps with a fault in the stream.
    Answered,
    /// A strict check, the lack of a key, or an unknown address or scenario.
    Refused {
        /// The status sent.
        status: u16,
        /// What the client was told.
        message: String,
    },
    /// The scenario said so.
    Failed {
        /// The status sent.
        status: u16,
    },
    /// The scenario never answers.
    Hung,
}

impl CapturedRequest {
    /// Its number among all requests of the service, from 0.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The HTTP method.
    #[must_use]
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The path, without what follows `?`.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// A parameter behind the `?` of the address, as it was written.
    #[must_use]
    pub fn query_value(&self, name: &str) -> Option<&str> {
        self.query
            .split('&')
            .find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    }

    /// A header by its lower-case name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// The body as it arrived.
    #[must_use]
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// The body as JSON; null when it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// The wire it was taken for.
    #[must_use]
    pub fn wire(&self) -> MockWire {
        self.wire
    }

    /// The scenario that answered.
    #[must_use]
    pub fn scenario(&self) -> Option<&str> {
        self.scenario.as_deref()
    }

    /// The step that answered, from 0.
    #[must_use]
    pub fn step(&self) -> Option<usize> {
        self.step
    }

    /// Whether it asked for a stream.
    #[must_use]
    pub fn is_streaming(&self) -> bool {
        self.streaming
    }

    /// What became of it.
    #[must_use]
    pub fn outcome(&self) -> &RequestOutcome {
        &self.outcome
    }

    /// All of it that may be shown.
    pub(crate) fn shown(&self) -> Value {
        let headers: BTreeMap<_, _> = self.shown_headers().collect();
        let (outcome, status, message) = match &self.outcome {
            RequestOutcome::Answered => ("answered", None, None),
            RequestOutcome::Refused { status, message } => {
                ("refused", Some(*status), Some(message))
            }
            RequestOutcome::Failed { status } => ("failed", Some(*status), None),
            RequestOutcome::Hung => ("hung", None, None),
        };
        serde_json::json!({
            "number": self.number,
            "method": self.method,
            "path": self.path,
            "headers": headers,
            "wire": self.wire,
            "scenario": self.scenario,
            "step": self.step,
            "streaming": self.streaming,
            "outcome": outcome,
            "status": status,
            "message": message,
            "body": self.json(),
        })
    }

    fn shown_headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers.iter().map(|(name, value)| {
            let secret = SECRET_HEADERS.contains(&name.as_str());
            (
                name.as_str(),
                if secret { "[redacted]" } else { value.as_str() },
            )
        })
    }
}

impl fmt::Debug for CapturedRequest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("CapturedRequest")
            .field("number", &self.number)
            .field("method", &self.method)
            .field("path", &self.path)
            .field("headers", &self.shown_headers().collect::<Vec<_>>())
            .field("body", &String::from_utf8_lossy(&self.body))
            .field("wire", &self.wire)
            .field("scenario", &self.scenario)
            .field("step", &self.step)
            .field("outcome", &self.outcome)
            .finish_non_exhaustive()
    }
}

/// The requests that are kept.
#[derive(Debug, Default)]
pub(crate) struct Captures {
    kept: Mutex<Kept>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct Kept {
    requests: VecDeque<Arc<CapturedRequest>>,
    bytes: usize,
    dropped: u64,
}

impl Captures {
    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, request: CapturedRequest) {
        let mut kept = self.lock();
        kept.bytes += request.body.len();
        kept.requests.push_back(Arc::new(request));
        while kept.requests.len() > MAX_CAPTURED_REQUESTS
            || (kept.bytes > MAX_CAPTURED_BYTES && kept.requests.len() > 1)
        {
            if let Some(oldest) = kept.requests.pop_front() {
                kept.bytes -= oldest.body.len();
                kept.dropped += 1;
            }
        }
        drop(kept);
        self.arrived.notify_waiters();
    }

    pub(crate) fn all(&self) -> Vec<Arc<CapturedRequest>> {
        self.lock().requests.iter().cloned().collect()
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.lock().dropped
    }

    pub(crate) fn clear(&self) {
        let mut kept = self.lock();
        kept.requests.clear();
        kept.bytes = 0;
    }

    pub(crate) async fn wait_for(
        &self,
        wanted: usize,
        within: Duration,
    ) -> Result<Vec<Arc<CapturedRequest>>, MockError> {
        let enough = async {
            loop {
                let mut arrived = std::pin::pin!(self.arrived.notified());
                arrived.as_mut().enable();
                let requests = self.all();
                if requests.len() >= wanted {
                    return requests;
                }
                arrived.await;
            }
        };
        tokio::time::timeout(within, enough)
            .await
            .map_err(|_| MockError::TimedOut {
                wanted,
                seen: self.lock().requests.len(),
                waited: within,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(number: u64, body: Bytes) -> CapturedRequest {
        CapturedRequest {
            number,
            method: "POST".to_owned(),
            path: "/v1/messages".to_owned(),
            query: "key=s3cret".to_owned(),
            headers: SECRET_HEADERS
                .iter()
                .map(|name| ((*name).to_owned(), "s3cret".to_owned()))
                .collect(),
            body,
            wire: MockWire::Anthropic,
            scenario: None,
            step: None,
            streaming: false,
            outcome: RequestOutcome::Answered,
        }
    }

    #[test]
    fn secrets_are_readable_but_not_shown() {
        let request = request(0, Bytes::new());
        assert_eq!(request.header("x-api-key"), Some("s3cret"));
        assert_eq!(request.query_value("key"), Some("s3cret"));
        assert!(!format!("{request:?}").contains("s3cret"));
        assert!(!request.shown().to_string().contains("s3cret"));
    }

    #[test]
    fn the_oldest_requests_go_first_and_are_counted() {
        let captures = Captures::default();
        for number in 0..MAX_CAPTURED_REQUESTS as u64 {
            captures.push(request(number, Bytes::new()));
        }
        assert_eq!(captures.dropped(), 0);
        captures.push(request(99_999, Bytes::new()));
        assert_eq!(captures.dropped(), 1);
        assert_eq!(captures.all()[0].number(), 1);
        captures.clear();
        assert!(captures.all().is_empty());
    }

    #[test]
    fn bodies_are_bounded_together_and_the_newest_stays() {
        let captures = Captures::default();
        let half = Bytes::from(vec![0; MAX_CAPTURED_BYTES / 2]);
        captures.push(request(0, half.clone()));
        captures.push(request(1, half));
        assert_eq!(captures.dropped(), 0);
        captures.push(request(2, Bytes::from_static(b"x")));
        assert_eq!(captures.dropped(), 1);
    }
}
