//! Services as one provider, put together by their constructors.

use super::hello;
use super::server::{Captured, Response, Server};
use crate::support::answer;
use halter_protocol::{ProviderError, ProviderErrorKind};
use halter_providers::Provider;
use halter_providers::layers::RetryPolicy;
use halter_providers::resilience::{ProviderErrorClassifier, ResiliencePolicy};
use halter_providers::services::{
    AnthropicProvider, GeminiProvider, OpenAiProvider, OpenRouterProvider, OpenRouterRouting,
};
use std::sync::Arc;
use std::time::Duration;

const KEY: &str = "k-very-secret";

async fn ask(
    responses: impl IntoIterator<Item = Response>,
    provider: impl FnOnce(&str) -> Arc<dyn Provider>,
) -> (Vec<Captured>, ProviderError) {
    let server = Server::start(responses).await;
    let provider = provider(&server.url);
    let error = answer(&*provider, hello())
        .await
        .pop()
        .unwrap()
        .unwrap_err();
    (server.requests(), error)
}

fn refused() -> Response {
    Response::json(400, r#"{"error":{"message":"no"}}"#)
}

type Build = fn(&str) -> Arc<dyn Provider>;

#[tokio::test]
async fn each_service_is_asked_at_its_address_with_its_key() {
    let cases: [(Build, &str, &str); 4] = [
        (
            |url| Arc::new(AnthropicProvider::new(KEY, url).unwrap()),
            "/v1/messages ",
            "x-api-key",
        ),
        (
            |url| Arc::new(OpenAiProvider::new(KEY, url).unwrap()),
            "/v1/responses ",
            "authorization",
        ),
        (
            |url| Arc::new(OpenRouterProvider::new(KEY, url).unwrap()),
            "/v1/chat/completions ",
            "authorization",
        ),
        (
            |url| Arc::new(GeminiProvider::new(KEY, url).unwrap()),
            "/v1beta/models/",
            "x-goog-api-key",
        ),
    ];
    for (provider, path, header) in cases {
        let (requests, error) = ask([refused()], provider).await;
        assert_eq!(requests.len(), 1);
        assert!(requests[0].line.contains(path), "{}", requests[0].line);
        let key = requests[0].header(header).concat();
        assert!(key.ends_with(KEY), "{path}: {key}");
        assert!(!error.message.contains(KEY));
    }
}

#[tokio::test]
async fn headers_temperature_and_routing_go_along() {
    let routing = OpenRouterRouting {
        order: vec!["acme".to_owned()],
        allow_fallbacks: Some(false),
    };
    let headers = [("X-Team".to_owned(), "core".to_owned())];
    let (requests, _) = ask([refused()], |url| {
        Arc::new(
            OpenRouterProvider::new_with_headers(KEY, url, &headers, Some(0.5), Some(routing))
                .unwrap(),
        )
    })
    .await;
    assert_eq!(requests[0].header("x-team"), ["core"]);
    let body: serde_json::Value = serde_json::from_str(&requests[0].body).unwrap();
    assert_eq!(body["temperature"], 0.5);
    let routing = serde_json::json!({ "order": ["acme"], "allow_fallbacks": false });
    assert_eq!(body["provider"], routing);
}

/// Takes every refusal for one that passes.
struct Hopeful;

impl ProviderErrorClassifier for Hopeful {
    fn classify(&self, _: &ProviderError) -> ProviderErrorKind {
        ProviderErrorKind::Transient
    }
}

#[tokio::test]
async fn attempts_and_errors_are_as_the_program_wants_them() {
    let policy = ResiliencePolicy {
        request_retry: RetryPolicy {
            max_attempts: 3,
            base_backoff: Duration::from_millis(1),
            ..RetryPolicy::default()
        },
        ..ResiliencePolicy::default()
    };
    let (requests, error) = ask([refused(), refused(), refused()], |url| {
        Arc::new(
            AnthropicProvider::new_with_headers_and_resilience(
                KEY,
                url,
                &[],
                None,
                policy,
                Arc::new(Hopeful),
            )
            .unwrap(),
        )
    })
    .await;
    assert_eq!(requests.len(), 3);
    assert_eq!(error.kind, ProviderErrorKind::Transient);
}

#[test]
fn an_address_without_a_scheme_is_refused() {
    let error = OpenAiProvider::new(KEY, "api.example.com").unwrap_err();
    assert_eq!(error.kind, ProviderErrorKind::Fatal);
    assert!(error.hint.unwrap().contains("https://"));
    let shown = format!("{:?}", GeminiProvider::new(KEY, "http://x").unwrap());
    assert!(!shown.contains(KEY), "{shown}");
}
