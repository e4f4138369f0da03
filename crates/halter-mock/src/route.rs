//! Which wire and operation an address means.
//!
//! | address | is |
//! |---|---|
//! | `POST /v1/messages`, `/v1/messages/count_tokens` | Anthropic |
//! | `POST /v1/responses`, `/v1/responses/compact`, `/v1/responses/input_tokens`, `GET /v1/responses/{id}` | Responses |
//! | `POST /v1/chat/completions` | Chat |
//! | `POST /v1beta/models/{m}:generateContent`, `:streamGenerateContent?alt=sse`, `:countTokens` | Gemini; also under `/v1` |
//! | `GET /v1/models[/{id}]` | Anthropic with an `anthropic-version` header, Gemini with `x-goog-api-key`, else Chat |
//! | `GET /v1beta/models[/{id}]` | Gemini |
//! | `GET /mock/requests`, `GET /mock/scenarios`, `POST /mock/gates/{name}` | the service itself |
//!
//! In front of these the path may name whose endpoint it is: `/anthropic`,
//! `/openai`, `/gemini`, `/openrouter` or `/api` (OpenRouter's errors and usage),
//! `/local` (no key needed). The prefix decides the model list as well.

use crate::wire::{Dialect, MockWire};
use std::collections::BTreeMap;

/// What a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Operation {
    /// An answer of the model.
    Generate,
    /// The conversation in a smaller form.
    Compact,
    /// The number of tokens.
    CountTokens,
    /// A response that was stored.
    GetResponse(String),
    /// All models.
    ListModels,
    /// One model.
    GetModel(String),
    /// What this service has seen.
    ShowRequests,
    /// The scenarios of this service.
    ShowScenarios,
    /// A gate to open.
    OpenGate(String),
}

/// Where a request goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Route {
    pub wire: MockWire,
    pub dialect: Dialect,
    /// Unset when the address means nothing.
    pub operation: Option<Operation>,
    pub path_model: Option<String>,
    pub path_streams: bool,
    /// Whether the operation is asked for with the right method.
    pub method_fits: bool,
}

pub(crate) fn route(method: &str, path: &str, headers: &BTreeMap<String, String>) -> Route {
    let mut segments: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let mut prefix = None;
    while let Some(first) = segments.first().copied() {
        if ![
            "anthropic",
            "openai",
            "gemini",
            "openrouter",
            "api",
            "local",
        ]
        .contains(&first)
        {
            break;
        }
        prefix = prefix.or(Some(first));
        segments.remove(0);
    }
    let v1 = match prefix {
        Some("anthropic") => MockWire::Anthropic,
        Some("gemini") => MockWire::Gemini,
        Some(_) => MockWire::Chat,
        None if headers.contains_key("anthropic-version") => MockWire::Anthropic,
        None if headers.contains_key("x-goog-api-key") => MockWire::Gemini,
        None => MockWire::Chat,
    };
    let mut found = Route {
        wire: if path.contains("/v1beta") {
            MockWire::Gemini
        } else {
            v1
        },
        dialect: match prefix {
            Some("openrouter" | "api") => Dialect::OpenRouter,
            Some("local") => Dialect::Local,
            _ => Dialect::Vendor,
        },
        operation: None,
        path_model: None,
        path_streams: false,
        method_fits: true,
    };
    let (wire, operation) = match segments.as_slice() {
        ["v1", "messages"] => (MockWire::Anthropic, Operation::Generate),
        ["v1", "messages", "count_tokens"] => (MockWire::Anthropic, Operation::CountTokens),
        ["v1", "responses"] => (MockWire::Responses, Operation::Generate),
        ["v1", "responses", "input_tokens"] => (MockWire::Responses, Operation::CountTokens),
        ["v1", "responses", "compact"] => (MockWire::Responses, Operation::Compact),
        ["v1", "responses", id] => (
            MockWire::Responses,
            Operation::GetResponse((*id).to_owned()),
        ),
        ["v1", "chat", "completions"] => (MockWire::Chat, Operation::Generate),
        ["v1", "models", rest @ ..] if rest.last().is_some_and(|last| last.contains(':')) => {
            return gemini(found, method, &rest.join("/"));
        }
        ["v1", "models"] => (v1, Operation::ListModels),
        ["v1", "models", id @ ..] => (v1, Operation::GetModel(id.join("/"))),
        ["v1beta" | "v1beta1", "models"] => (MockWire::Gemini, Operation::ListModels),
        ["v1beta" | "v1beta1", "models", rest @ ..] => {
            return gemini(found, method, &rest.join("/"));
        }
        ["mock", "requests"] => (v1, Operation::ShowRequests),
        ["mock", "scenarios"] => (v1, Operation::ShowScenarios),
        ["mock", "gates", name] => (v1, Operation::OpenGate((*name).to_owned())),
        _ => return found,
    };
    found.method_fits = fits(method, &operation);
    found.wire = wire;
    found.operation = Some(operation);
    found
}

fn gemini(mut found: Route, method: &str, rest: &str) -> Route {
    found.wire = MockWire::Gemini;
    let operation = match rest.rsplit_once(':') {
        None => Operation::GetModel(rest.to_owned()),
        Some((model, verb)) => {
            found.path_model = Some(model.to_owned());
            match verb {
                "generateContent" => Operation::Generate,
                "streamGenerateContent" => {
                    found.path_streams = true;
                    Operation::Generate
                }
                "countTokens" => Operation::CountTokens,
                _ => return found,
            }
        }
    };
    found.method_fits = fits(method, &operation);
    found.operation = Some(operation);
    found
}

fn fits(method: &str, operation: &Operation) -> bool {
    let wanted = match operation {
        Operation::Generate
        | Operation::Compact
        | Operation::CountTokens
        | Operation::OpenGate(_) => "POST",
        Operation::GetResponse(_)
        | Operation::ListModels
        | Operation::GetModel(_)
        | Operation::ShowRequests
        | Operation::ShowScenarios => "GET",
    };
    method == wanted
}
