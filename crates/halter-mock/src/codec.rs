//! What each wire module provides, and what it is given.

use crate::conversation::Conversation;
use crate::model_answer::ModelAnswer;
use crate::models::ModelEntry;
use crate::openai;
use crate::scenario::HttpFault;
use crate::wire::{Dialect, MockWire};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A request as a wire sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ModelRequest<'a> {
    /// Headers by lower-case name.
    pub headers: &'a BTreeMap<String, String>,
    /// The part of the address behind `?`.
    pub query: &'a str,
    /// The model of the path, where the wire has it there.
    pub path_model: Option<&'a str>,
    /// Which server the endpoint behaves like.
    pub dialect: Dialect,
    /// Whether the tokens are to be counted only.
    pub counting: bool,
    /// Whether the conversation is to be compacted, by the address.
    pub compacting: bool,
    /// Whether the path asks for a stream.
    pub path_streams: bool,
    /// Whether names that the service does not know, and signatures that it did
    /// not issue, are refused.
    pub strict: bool,
    /// The parsed body; null when there is none.
    pub body: &'a Value,
}

impl<'a> ModelRequest<'a> {
    /// A header that is there and not empty.
    pub(crate) fn header(&self, name: &str) -> Option<&'a str> {
        self.headers
            .get(name)
            .map(|value| value.trim())
            .filter(|value| !value.is_empty())
    }

    /// The key of `Authorization: Bearer KEY`.
    pub(crate) fn bearer(&self) -> Option<&'a str> {
        let value = self.header("authorization")?;
        let (scheme, key) = value.split_once(' ')?;
        let key = key.trim();
        (scheme.eq_ignore_ascii_case("bearer") && !key.is_empty()).then_some(key)
    }

    /// The value of a query parameter.
    pub(crate) fn query_value(&self, name: &str) -> Option<&'a str> {
        self.query
            .split('&')
            .find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
            .filter(|value| !value.is_empty())
    }
}

/// Why a request is refused, or what a fault says.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Problem {
    /// The HTTP status.
    pub status: u16,
    /// The wire's type of error; unset: what it uses for the status.
    pub kind: Option<Box<str>>,
    /// A finer code.
    pub code: Option<Box<str>>,
    /// The field at fault.
    pub param: Option<Box<str>>,
    /// The words.
    pub message: String,
    /// Seconds to wait, where the wire says so in the body.
    pub retry_after: Option<Box<str>>,
}

impl Problem {
    /// A problem with this status.
    pub(crate) fn new(status: u16, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
            ..Self::default()
        }
    }

    /// A request that breaks a rule.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(400, message)
    }

    /// The same, with a finer code.
    pub(crate) fn with_code(mut self, code: &str) -> Self {
        self.code = Some(code.into());
        self
    }

    /// The same, naming the field at fault.
    pub(crate) fn at(mut self, param: impl Into<Box<str>>) -> Self {
        self.param = Some(param.into());
        self
    }
}

impl From<&HttpFault> for Problem {
    fn from(fault: &HttpFault) -> Self {
        Self {
            status: fault.status,
            kind: fault.error.as_deref().map(Box::from),
            code: fault.code.as_deref().map(Box::from),
            param: None,
            message: fault
                .message
                .clone()
                .unwrap_or_else(|| format!("the scenario answers with status {}", fault.status)),
            retry_after: fault
                .headers
                .get("retry-after")
                .map(|wait| Box::from(wait.as_str())),
        }
    }
}

/// One event of a stream.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Frame {
    /// The `event:` line.
    pub event: Option<String>,
    /// The `data:` line.
    pub data: String,
    /// Where it stands in the stream.
    pub place: Place,
}

/// Where an event stands in its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Before any content.
    Opening,
    /// Carries a piece of content.
    Delta,
    /// Between pieces of content.
    Between,
    /// Says that the answer is complete.
    Closing,
    /// The formal last event, which says nothing new.
    Last,
}

impl Frame {
    /// An event with its name.
    pub(crate) fn named(event: &str, data: &Value, place: Place) -> Self {
        Self {
            event: Some(event.to_owned()),
            data: data.to_string(),
            place,
        }
    }

    /// An event without a name.
    pub(crate) fn data(data: &Value, place: Place) -> Self {
        Self {
            event: None,
            data: data.to_string(),
            place,
        }
    }
}

/// A wire: reads, checks and answers requests. What the two wires of OpenAI have
/// in common is the default.
pub(crate) trait Codec: Sync {
    /// The key of the request, or why the lack of one is refused.
    fn authenticate<'a>(&self, request: &ModelRequest<'a>) -> Result<Option<&'a str>, Problem> {
        openai::authenticate(request)
    }
    /// The body in the one spelling that the wire's module reads.
    fn normalize(&self, body: Value) -> Value {
        body
    }
    /// What a server would refuse.
    fn check(&self, request: &ModelRequest<'_>) -> Result<(), Problem>;
    /// What the request says.
    fn conversation(&self, request: &ModelRequest<'_>) -> Conversation;
    /// The answer in one piece.
    fn whole(&self, answer: &ModelAnswer, request: &ModelRequest<'_>) -> Value;
    /// The answer as a stream.
    fn frames(&self, answer: &ModelAnswer, request: &ModelRequest<'_>) -> Vec<Frame>;
    /// An error's body.
    fn error_body(&self, problem: &Problem, dialect: Dialect, _request_id: &str) -> Value {
        openai::error_body(problem, dialect)
    }
    /// An error in the middle of a stream.
    fn error_frame(&self, problem: &Problem, request: &ModelRequest<'_>, request_id: &str)
    -> Frame;
    /// The conversation of a request in a smaller form, if that is what it asks
    /// for.
    fn compaction(&self, _request: &ModelRequest<'_>, _input_tokens: u64) -> Option<Value> {
        None
    }
    /// The number of tokens of a request.
    fn token_count(&self, tokens: u64) -> Value {
        json!({"object": "response.input_tokens", "input_tokens": tokens})
    }
    /// A model.
    fn model(&self, entry: &ModelEntry) -> Value {
        openai::model(entry)
    }
    /// All models.
    fn model_list(&self, entries: &[ModelEntry]) -> Value {
        let data: Vec<_> = entries.iter().map(openai::model).collect();
        json!({"object": "list", "data": data})
    }
}

/// Checks the body of a request to generate, as a service that is not strict
/// does it. For tests of clients that need no service.
///
/// # Errors
///
/// What the service would refuse the request with.
pub fn check_body(wire: MockWire, model: &str, body: &Value) -> Result<(), String> {
    let headers = [
        ("content-type", "application/json"),
        ("anthropic-version", "2026-10-21"),
    ];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let codec = codec(wire);
    let body = codec.normalize(body.clone());
    let request = ModelRequest {
        headers: &BTreeMap::from(headers),
        query: "",
        path_model: Some(model),
        dialect: Dialect::Vendor,
        counting: false,
        compacting: false,
        path_streams: false,
        strict: false,
        body: &body,
    };
    codec.check(&request).map_err(|problem| problem.message)
}

/// The codec of a wire.
pub(crate) fn codec(wire: MockWire) -> &'static dyn Codec {
    match wire {
        MockWire::Anthropic => &crate::anthropic::Anthropic,
        MockWire::Responses => &crate::responses::Responses,
        MockWire::Chat => &crate::chat::Chat,
        MockWire::Gemini => &crate::gemini::Gemini,
    }
}

#[cfg(test)]
mod tests;
