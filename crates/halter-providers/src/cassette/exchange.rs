//! One request and its response, as a line of the file.

use super::Scrubber;
use crate::http::{HttpMethod, HttpRequest, ResponseHeaders};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of the format, in the first line.
pub(super) const VERSION: u32 = 1;

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Header {
    pub cassette: u32,
    /// What the harness was set up with, in its own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_with: Option<Value>,
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
            body: match RecordedBody::new(&request.body, scrubber) {
                RecordedBody::Text(text) => {
                    RecordedBody::Text(without_dates(without_session(text)))
                }
                bytes => bytes,
            },
        }
    }
}

/// Members that name a cache of prompts after the session.
const SESSION_MEMBERS: [&str; 2] = ["\"prompt_cache_key\":\"", "\"session_id\":\""];

/// What stands in the place of the name of a session.
const SOME_SESSION: &str = "[session]";

/// The body without the name of the session. Quotes inside of texts are
/// escaped in JSON, so that only members are found.
fn without_session(mut body: String) -> String {
    for member in SESSION_MEMBERS {
        let mut from = 0;
        while let Some(at) = body.get(from..).and_then(|rest| rest.find(member)) {
            let start = from + at + member.len();
            let Some(length) = body.get(start..).and_then(|rest| rest.find('"')) else {
                break;
            };
            body.replace_range(start..start + length, SOME_SESSION);
            from = start + SOME_SESSION.len();
        }
    }
    body
}

/// What precedes the date in the environment section of a prompt.
const BEFORE_DATE: [&str; 2] = ["- Date: ", "the date is now "];

/// What stands in the place of the day.
const SOME_DAY: &str = "[date]";

/// The body without the day, so that a recording holds on other days too.
fn without_dates(mut body: String) -> String {
    for before in BEFORE_DATE {
        let mut from = 0;
        while let Some(at) = body.get(from..).and_then(|rest| rest.find(before)) {
            from += at + before.len();
            let day = body.get(from..).map_or(0, day_length);
            if day > 0 {
                body.replace_range(from..from + day, SOME_DAY);
            }
        }
    }
    body
}

/// How long the day at the start of a text is, written like `2026-01-31`.
fn day_length(text: &str) -> usize {
    const FORM: &[u8] = b"dddd-dd-dd";
    let fits = |(byte, form): (u8, &u8)| match form {
        b'd' => byte.is_ascii_digit(),
        other => byte == *other,
    };
    let day = text.as_bytes().get(..FORM.len());
    let is_day = day.is_some_and(|day| day.iter().copied().zip(FORM).all(fits));
    if is_day { FORM.len() } else { 0 }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_day_is_left_out_where_the_harness_tells_it() {
        for (body, shown) in [
            ("x\\n- Date: 2026-01-31\\n", "x\\n- Date: [date]\\n"),
            ("the date is now 2026-01-31.", "the date is now [date]."),
            ("- Date: today", "- Date: today"),
            ("- Date: 2026-01-3", "- Date: 2026-01-3"),
            ("due 2026-01-31", "due 2026-01-31"),
        ] {
            assert_eq!(without_dates(body.to_owned()), shown);
        }
    }

    #[test]
    fn the_name_of_a_session_is_left_out_and_texts_stay() {
        let body =
            r#"{"prompt_cache_key":"ses_1","session_id":"ses_1","input":"\"session_id\":\"x\""}"#;
        assert_eq!(
            without_session(body.to_owned()),
            r#"{"prompt_cache_key":"[session]","session_id":"[session]","input":"\"session_id\":\"x\""}"#
        );
        assert_eq!(
            without_session(r#"{"session_id":"torn"#.to_owned()),
            r#"{"session_id":"torn"#
        );
    }
}
