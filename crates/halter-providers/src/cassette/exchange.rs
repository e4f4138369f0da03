//! One request and its response, as a line of the file.

use super::Scrubber;
use crate::http::{HttpMethod, HttpRequest, ResponseHeaders};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

/// The version of the format, in the first line.
pub(super) const VERSION: u32 = 1;

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Header {
    pub cassette: u32,
}

/// Every other line.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Exchange {
    pub request: RecordedRequest,
    pub response: RecordedResponse,
}

/// What of a request is compared. The host is not part of it, so that a
/// recording from one server replays as if from another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RecordedRequest {
    pub method: String,
    pub path: String,
    pub body: RecordedBody,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RecordedResponse {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: RecordedBody,
    pub end: End,
}

/// How a body ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum End {
    /// By itself.
    Complete,
    /// The connection broke or fell silent.
    Broken,
    /// Nobody read on.
    Unread,
}

/// Bytes, as text where they are text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RecordedBody {
    Text(String),
    Base64(String),
}

impl RecordedBody {
    pub fn new(bytes: &[u8], scrubber: &Scrubber) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(scrubber.scrub(text).into_owned()),
            Err(_) => Self::Base64(STANDARD.encode(bytes)),
        }
    }

    pub fn bytes(&self) -> Option<Vec<u8>> {
        match self {
            Self::Text(text) => Some(text.clone().into_bytes()),
            Self::Base64(text) => STANDARD.decode(text).ok(),
        }
    }
}

impl RecordedRequest {
    pub fn new(request: &HttpRequest, scrubber: &Scrubber) -> Self {
        Self {
            method: match request.method {
                HttpMethod::Get => "GET",
                HttpMethod::Post => "POST",
            }
            .to_owned(),
            path: scrubber.scrub(path_of(&request.url)).into_owned(),
            body: RecordedBody::new(&request.body, scrubber),
        }
    }
}

/// What follows the host of an address.
fn path_of(url: &str) -> &str {
    let after_scheme = url.find("://").map_or(0, |at| at + 3);
    let rest = url.get(after_scheme..).unwrap_or(url);
    rest.find('/').and_then(|at| rest.get(at..)).unwrap_or("/")
}

/// The headers that a wire may read.
pub(super) fn kept_headers(headers: &ResponseHeaders) -> Vec<(String, String)> {
    const KEPT: [&str; 7] = [
        "content-type",
        "date",
        "request-id",
        "retry-after",
        "retry-after-ms",
        "x-request-id",
        "x-should-retry",
    ];
    headers
        .0
        .iter()
        .filter(|(name, _)| KEPT.contains(&name.as_str()) || name.contains("ratelimit"))
        .cloned()
        .collect()
}
