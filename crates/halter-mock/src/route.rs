//! Which wire and operation an address means.
//!
//! | address | is |
//! |---|---|
//! | `POST /v1/messages`, `/v1/messages/count_tokens` | Anthropic |
//! | `POST /v1/responses`, `/v1/responses/input_tokens`, `GET /v1/responses/{id}` | Responses |
//! | `POST /v1/chat/completions` | Chat |
//! | `POST /v1beta/models/{m}:generateContent`, `:streamGenerateContent?alt=sse`, `:countTokens` | Gemini; also under `/v1` |
//! | `GET /v1/models[/{id}]` | Anthropic with an `anthropic-version` header, Gemini with `x-goog-api-key`, else Chat |
//! | `GET /v1beta/models[/{id}]` | Gemini |
//! | `GET /mock/requests`, `GET /mock/scenarios`, `POST /mock/gates/{name}` | the service itself |
//!
//! In front of these the path may name whose endpoint it is: `/anthropic`,
//! `/openai`, `/gemini`, `/openrouter` or `/api` (OpenRouter's manners),
//! `/local` (no key needed). The prefix decides the model list as well.

use crate::wire::{Dialect, Wire};
use std::collections::BTreeMap;

/// What a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Operation {
    /// An answer of the model.
    Generate,
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
    /// What this service can play.
    ShowScenarios,
    /// A gate to open.
    OpenGate(String),
}

/// Where a request goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Route {
    pub wire: Wire,
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
        Some("anthropic") => Wire::Anthropic,
        Some("gemini") => Wire::Gemini,
        Some(_) => Wire::Chat,
        None if headers.contains_key("anthropic-version") => Wire::Anthropic,
        None if headers.contains_key("x-goog-api-key") => Wire::Gemini,
        None => Wire::Chat,
    };
    let mut found = Route {
        wire: if path.contains("/v1beta") {
            Wire::Gemini
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
        ["v1", "messages"] => (Wire::Anthropic, Operation::Generate),
        ["v1", "messages", "count_tokens"] => (Wire::Anthropic, Operation::CountTokens),
        ["v1", "responses"] => (Wire::Responses, Operation::Generate),
        ["v1", "responses", "input_tokens"] => (Wire::Responses, Operation::CountTokens),
        ["v1", "responses", id] => (Wire::Responses, Operation::GetResponse((*id).to_owned())),
        ["v1", "chat", "completions"] => (Wire::Chat, Operation::Generate),
        ["v1", "models", rest @ ..] if rest.last().is_some_and(|last| last.contains(':')) => {
            return gemini(found, method, &rest.join("/"));
        }
        ["v1", "models"] => (v1, Operation::ListModels),
        ["v1", "models", id @ ..] => (v1, Operation::GetModel(id.join("/"))),
        ["v1beta" | "v1beta1", "models"] => (Wire::Gemini, Operation::ListModels),
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
    found.wire = Wire::Gemini;
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
        Operation::Generate | Operation::CountTokens | Operation::OpenGate(_) => "POST",
        Operation::GetResponse(_)
        | Operation::ListModels
        | Operation::GetModel(_)
        | Operation::ShowRequests
        | Operation::ShowScenarios => "GET",
    };
    method == wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routed(path: &str) -> (Wire, Dialect, Option<Operation>) {
        let method = if path.ends_with("models") {
            "GET"
        } else {
            "POST"
        };
        let route = route(method, path, &BTreeMap::new());
        (route.wire, route.dialect, route.operation)
    }

    #[test]
    fn addresses_are_told_apart() {
        use Dialect::{Local, OpenRouter, Vendor};
        use Operation::{CountTokens, Generate, ListModels};
        let table = [
            ("/v1/messages", Wire::Anthropic, Vendor, Generate),
            (
                "/anthropic/v1/messages/count_tokens",
                Wire::Anthropic,
                Vendor,
                CountTokens,
            ),
            ("/v1/responses", Wire::Responses, Vendor, Generate),
            (
                "/openai/v1/responses/input_tokens",
                Wire::Responses,
                Vendor,
                CountTokens,
            ),
            ("/v1/chat/completions", Wire::Chat, Vendor, Generate),
            ("/api/v1/chat/completions", Wire::Chat, OpenRouter, Generate),
            (
                "/openrouter/api/v1/chat/completions",
                Wire::Chat,
                OpenRouter,
                Generate,
            ),
            ("/local/v1/chat/completions", Wire::Chat, Local, Generate),
            ("/v1/models", Wire::Chat, Vendor, ListModels),
            ("/anthropic/v1/models", Wire::Anthropic, Vendor, ListModels),
            ("/v1beta/models", Wire::Gemini, Vendor, ListModels),
        ];
        for (path, wire, dialect, operation) in table {
            assert_eq!(routed(path), (wire, dialect, Some(operation)), "{path}");
        }
        assert_eq!(routed("/v1/nothing").2, None);
    }

    #[test]
    fn headers_tell_whose_model_list_is_meant() {
        let headers = BTreeMap::from([("anthropic-version".to_owned(), "x".to_owned())]);
        assert_eq!(route("GET", "/v1/models", &headers).wire, Wire::Anthropic);
        let headers = BTreeMap::from([("x-goog-api-key".to_owned(), "x".to_owned())]);
        assert_eq!(route("GET", "/v1/models", &headers).wire, Wire::Gemini);
    }

    #[test]
    fn gemini_names_model_and_verb_in_the_path() {
        let found = route(
            "POST",
            "/v1beta/models/m-1:streamGenerateContent",
            &BTreeMap::new(),
        );
        assert_eq!(found.path_model.as_deref(), Some("m-1"));
        assert!(found.path_streams && found.method_fits);
        assert_eq!(found.operation, Some(Operation::Generate));
        let newer = route("POST", "/v1/models/m-1:generateContent", &BTreeMap::new());
        assert_eq!((newer.wire, newer.method_fits), (Wire::Gemini, true));
        assert!(!route("GET", "/v1beta/models/m:countTokens", &BTreeMap::new()).method_fits);
    }
}
