//! Requests as they come: bytes from anyone, read at a bounded cost.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::error::WireError;
use crate::limits::{MAX_ID_BYTES, MAX_REQUEST_BYTES, MAX_REQUEST_DEPTH};

/// What a reply is known by. Echoed as it was given.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum RequestId {
    /// A string, as the protocol asks for.
    Text(String),
    /// A number, as many clients send.
    Number(i64),
}

impl RequestId {
    /// The id of a reply to something whose id could not be found.
    #[must_use]
    pub fn unknown() -> Self {
        Self::Text("unknown".to_owned())
    }

    fn fits(&self) -> bool {
        match self {
            Self::Text(text) => text.len() <= MAX_ID_BYTES,
            Self::Number(_) => true,
        }
    }
}

/// A request whose frame is sound; its parameters have not been looked at.
#[derive(Debug)]
pub struct Request<'line> {
    /// What the reply is known by.
    pub id: RequestId,
    /// What is asked for.
    pub method: Cow<'line, str>,
    /// The parameters: an object.
    pub params: &'line str,
}

/// A request that could not be read, with the id its reply carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// The request's id as far as it could be found.
    pub id: RequestId,
    /// Why.
    pub error: WireError,
}

#[derive(Deserialize)]
struct Envelope<'line> {
    id: RequestId,
    #[serde(borrow)]
    method: Cow<'line, str>,
    #[serde(borrow, default)]
    params: Option<&'line RawValue>,
}

/// Reads one request. Never costs more than a few passes over the line.
///
/// # Errors
/// With the id of the request where it has one.
pub fn decode(line: &[u8]) -> Result<Request<'_>, Rejection> {
    let reject = |message: String| Rejection {
        id: find_id(line),
        error: WireError::invalid(message),
    };
    if line.len() > MAX_REQUEST_BYTES {
        return Err(reject(format!(
            "the request has more than {MAX_REQUEST_BYTES} bytes; send large input with exec.write"
        )));
    }
    if is_too_deep(line) {
        return Err(reject(format!(
            "the request is nested deeper than {MAX_REQUEST_DEPTH} levels"
        )));
    }
    let envelope: Envelope<'_> = serde_json::from_slice(line).map_err(|error| {
        reject(format!(
            "not a request: {}; send one JSON object per line with id, method and params",
            without_values(&error)
        ))
    })?;
    if !envelope.id.fits() {
        return Err(reject(format!("the id has more than {MAX_ID_BYTES} bytes")));
    }
    let params = match envelope.params.map(RawValue::get) {
        None | Some("null") => "{}",
        Some(params) if params.starts_with('{') => params,
        Some(_) => return Err(reject("params must be an object".to_owned())),
    };
    Ok(Request {
        id: envelope.id,
        method: envelope.method,
        params,
    })
}

/// What is wrong and where, never what was there: it may be a secret.
pub(super) fn without_values(error: &serde_json::Error) -> String {
    use serde_json::error::Category;
    let place = format!("column {}", error.column());
    match error.classify() {
        Category::Eof => format!("the JSON ends too early at {place}"),
        Category::Syntax | Category::Io => format!("no valid JSON at {place}"),
        Category::Data => {
            let text = error.to_string();
            // "missing field `id`" and "unknown variant" are about names;
            // "invalid type: string "..."" quotes what was sent.
            match text.split_once(" at line ") {
                Some((said, _)) if said.starts_with("missing field") => said.to_owned(),
                Some((said, _)) if said.starts_with("duplicate field") => said.to_owned(),
                Some((said, _)) => match said.rsplit_once(", expected ") {
                    Some((_, expected)) => format!("expected {expected} at {place}"),
                    None => format!("an unexpected value at {place}"),
                },
                None => format!("an unexpected value at {place}"),
            }
        }
    }
}

/// Whether brackets outside of strings are nested too deeply.
fn is_too_deep(line: &[u8]) -> bool {
    let mut depth = 0_usize;
    let mut bytes = line.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => skip_string(&mut bytes),
            b'{' | b'[' => {
                depth += 1;
                if depth > MAX_REQUEST_DEPTH {
                    return true;
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

fn skip_string(bytes: &mut std::slice::Iter<'_, u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => {
                bytes.next();
            }
            b'"' => return,
            _ => {}
        }
    }
}

/// The id of a request that cannot be read as a whole: the first value of a
/// key `id` of the outermost object, however the rest continues.
fn find_id(line: &[u8]) -> RequestId {
    id_within(line.get(..MAX_REQUEST_BYTES).unwrap_or(line))
        .filter(RequestId::fits)
        .unwrap_or_else(RequestId::unknown)
}

fn id_within(line: &[u8]) -> Option<RequestId> {
    let mut depth = 0_usize;
    let mut bytes = line.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => {
                let text = bytes.as_slice();
                skip_string(&mut bytes);
                if depth == 1 && text.starts_with(b"id\"") {
                    let rest = bytes.as_slice().trim_ascii_start();
                    if let Some(value) = rest.strip_prefix(b":") {
                        return first_value(value);
                    }
                }
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

fn first_value(bytes: &[u8]) -> Option<RequestId> {
    serde_json::Deserializer::from_slice(bytes)
        .into_iter::<RequestId>()
        .next()?
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejected(line: &str) -> (String, String) {
        let rejection = decode(line.as_bytes()).unwrap_err();
        let id = serde_json::to_string(&rejection.id).unwrap();
        (id, rejection.error.message)
    }

    #[test]
    fn a_request_is_read() {
        let line = br#"{"id":"1","method":"system.ping","params":{"a":[1]},"more":true}"#;
        let request = decode(line).unwrap();
        assert_eq!(request.id, RequestId::Text("1".to_owned()));
        assert_eq!(
            (&*request.method, request.params),
            ("system.ping", r#"{"a":[1]}"#)
        );
    }

    #[test]
    fn parameters_may_be_absent_or_null() {
        for line in [
            &br#"{"id":7,"method":"m"}"#[..],
            br#"{"id":7,"method":"m","params":null}"#,
        ] {
            let request = decode(line).unwrap();
            assert_eq!((request.id, request.params), (RequestId::Number(7), "{}"));
        }
    }

    #[test]
    fn the_id_is_found_in_what_cannot_be_read() {
        assert_eq!(rejected(r#"{"id":"a","method":"#).0, r#""a""#);
        assert_eq!(
            rejected(r#"{"params":{"id":"no"},"id": "a b" ]"#).0,
            r#""a b""#
        );
        assert_eq!(rejected(r#"{"id":12,"params":[1]}"#).0, "12");
        assert_eq!(
            rejected(r#"{"id":"a","method":"m","params":[1]}"#).0,
            r#""a""#
        );
        assert_eq!(
            rejected(r#"{"id":{"id":"b"},"method":"m"}"#).0,
            r#""unknown""#
        );
        assert_eq!(rejected("hello").0, r#""unknown""#);
        assert_eq!(rejected("").0, r#""unknown""#);
    }

    #[test]
    fn nesting_is_allowed_to_its_limit_and_no_deeper() {
        let nested = |levels: usize| {
            // The request itself is one level, its parameters another.
            let inner = format!("{}{}", "[".repeat(levels - 2), "]".repeat(levels - 2));
            format!(r#"{{"id":"1","method":"m","params":{{"x":{inner}}}}}"#)
        };
        assert!(decode(nested(MAX_REQUEST_DEPTH).as_bytes()).is_ok());
        let (id, message) = rejected(&nested(MAX_REQUEST_DEPTH + 1));
        assert_eq!(id, r#""1""#);
        assert_eq!(message, "the request is nested deeper than 64 levels");
    }

    #[test]
    fn brackets_in_strings_are_no_nesting() {
        let line = format!(
            r#"{{"id":"1","method":"m","params":{{"x":"\"{}"}}}}"#,
            "[".repeat(99)
        );
        assert!(decode(line.as_bytes()).is_ok());
    }

    #[test]
    fn length_is_allowed_to_its_limit_and_no_longer() {
        let frame = r#"{"id":"1","method":"m","params":{"x":""}}"#.len();
        let line = |bytes: usize| {
            let text = "x".repeat(bytes - frame);
            format!(r#"{{"id":"1","method":"m","params":{{"x":"{text}"}}}}"#)
        };
        assert!(decode(line(MAX_REQUEST_BYTES).as_bytes()).is_ok());
        let (id, message) = rejected(&line(MAX_REQUEST_BYTES + 1));
        assert_eq!(id, r#""1""#);
        assert!(message.contains("more than 1048576 bytes"), "{message}");
    }

    #[test]
    fn an_id_is_echoed_to_its_limit_and_no_longer() {
        let line = |bytes: usize| format!(r#"{{"id":"{}","method":"m"}}"#, "i".repeat(bytes));
        assert!(decode(line(MAX_ID_BYTES).as_bytes()).is_ok());
        let (id, message) = rejected(&line(MAX_ID_BYTES + 1));
        assert_eq!(
            (id.as_str(), message.as_str()),
            (r#""unknown""#, "the id has more than 256 bytes")
        );
    }

    #[test]
    fn complaints_do_not_repeat_what_was_sent() {
        let (_, message) = rejected(r#"{"id":"1","method":["s3cret"]}"#);
        assert!(!message.contains("s3cret"), "{message}");
        let (_, message) = rejected(r#"{"id":"1","params":{"env":"s3cret"}}"#);
        assert_eq!(
            message,
            "not a request: missing field `method`; send one JSON object per line with id, method and params"
        );
    }
}
