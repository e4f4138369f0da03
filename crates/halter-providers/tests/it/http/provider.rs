//! What goes over the wire and what comes back.

use super::scripted::{Script, Scripted};
use super::server::{Response, Server};
use super::{HELLO, chat, hello, network, provider};
use crate::support::{answer, assistant, outline, request, user};
use crate::wire_kit;
use halter_protocol::{
    ProviderError, ProviderErrorKind, ReasoningEffort, ResponseSchema, StreamEvent,
};
use halter_providers::Provider as _;
use halter_providers::catalog::{Catalog, Source, read_models};
use halter_providers::http::{Endpoint, HttpProvider, TransportError};
use halter_providers::layers::RateLimiter;
use halter_providers::limits::{ERROR_BODY_BYTES, ERROR_BODY_SECS};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const KEY: &str = "k-0123456789-secret";

fn with_key(url: &str) -> HttpProvider {
    let mut endpoint = Endpoint::new(url).with_api_key(KEY);
    endpoint.headers = vec![
        ("X-Team".to_owned(), "blue-team-token".into()),
        ("Accept".to_owned(), "*/*".into()),
    ];
    HttpProvider::new(chat(), endpoint, network())
}

async fn failure(provider: &HttpProvider) -> ProviderError {
    answer(provider, hello()).await.pop().unwrap().unwrap_err()
}

#[tokio::test]
async fn an_answer_streams_from_a_server() {
    let server = Server::start([Response::events().piece(HELLO)]).await;
    let items = answer(&with_key(&server.url), hello()).await;
    assert_eq!(
        outline(&items),
        ["start", "text {", "hello", "usage 5/1", "}", "end end_turn"]
    );
    let request = &server.requests()[0];
    assert_eq!(request.line, "POST /v1/chat/completions HTTP/1.1");
    assert_eq!(request.header("authorization"), [format!("Bearer {KEY}")]);
    assert_eq!(request.header("content-type"), ["application/json"]);
    assert_eq!(request.header("x-team"), ["blue-team-token"]);
    assert_eq!(request.header("accept"), ["*/*"], "configuration wins");
    let agent = concat!("halter/", env!("CARGO_PKG_VERSION"));
    assert_eq!(request.header("user-agent"), [agent]);
    assert_eq!(
        request.body,
        r#"{"model":"m-1","stream":true,"stream_options":{"include_usage":true},"prompt_cache_key":"ses_1","messages":[{"role":"user","content":"say hello"}]}"#
    );
}

#[tokio::test]
async fn the_first_event_arrives_while_the_model_still_answers() {
    use futures::StreamExt as _;
    use halter_providers::Provider as _;
    let gate = Arc::new(tokio::sync::Notify::new());
    let (first, rest) = HELLO.split_at(HELLO.find("\n\n").unwrap() + 2);
    let response = Response::events().piece(first).gate(&gate).piece(rest);
    let server = Server::start([response]).await;
    let provider = provider(&server.url);
    let mut stream = provider
        .stream(hello(), CancellationToken::new())
        .await
        .unwrap();
    for expected in ["start", "text {", "hello"] {
        assert_eq!(outline(&[stream.next().await.unwrap()]), [expected]);
    }
    gate.notify_one();
    assert_eq!(stream.count().await, 3);
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_understood() {
    let body = r#"{"id":"c1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}"#;
    let (first, rest) = body.split_at(30);
    let response = Response::json(200, first).piece(rest);
    let server = Server::start([response]).await;
    let items = answer(&provider(&server.url), hello()).await;
    assert_eq!(
        outline(&items),
        ["start", "text {", "hi", "usage 1/1", "}", "end end_turn"]
    );
}

#[tokio::test]
async fn an_error_after_http_200_is_an_error_in_every_form() {
    let error = r#"{"error":{"message":"busy","code":503}}"#;
    for response in [
        Response::json(200, error),
        Response::events().piece(format!("data: {error}\n\n")),
        Response::events().piece(format!("data: {error}")),
    ] {
        let server = Server::start([response.header("x-request-id", "req_9")]).await;
        let error = failure(&provider(&server.url)).await;
        assert_eq!(error.kind, ProviderErrorKind::Transient);
        assert_eq!(error.status, Some(503));
        assert_eq!(error.request_id.as_deref(), Some("req_9"));
    }
}

#[tokio::test]
async fn a_web_page_is_no_answer() {
    let response = Response::new(200, "text/html").piece("<html>");
    let server = Server::start([response]).await;
    let error = failure(&provider(&server.url)).await;
    assert_eq!(error.kind, ProviderErrorKind::Fatal);
    assert_eq!(error.hint.as_deref(), Some("check the provider's base_url"));
}

#[tokio::test]
async fn a_refusal_is_typed_and_never_shows_the_key() {
    let body = format!(
        r#"{{"error":{{"message":"key {KEY} is wrong, team blue-team-token","code":"invalid_api_key"}}}}"#
    );
    let response = Response::json(401, &body).header("x-request-id", "req_1");
    let server = Server::start([response]).await;
    let provider = with_key(&server.url);
    let error = failure(&provider).await;
    assert_eq!(error.kind, ProviderErrorKind::Authentication);
    assert_eq!(error.status, Some(401));
    assert_eq!(error.request_id.as_deref(), Some("req_1"));
    assert!(!error.retryable());
    assert_eq!(
        error.message,
        "the model service answered 401 (invalid_api_key): key [redacted] is wrong, team [redacted]"
    );
    let shown = format!("{provider:?}");
    assert!(
        !shown.contains(KEY) && !shown.contains("blue-team"),
        "{shown}"
    );
}

#[tokio::test]
async fn a_broken_connection_is_never_an_end() {
    for (at, partial) in [(0, ""), (1, "data: {\"choices\""), (2, &HELLO[..80])] {
        let response = Response::events().piece(partial).cut();
        let server = Server::start([response]).await;
        let error = failure(&provider(&server.url)).await;
        assert_eq!(error.kind, ProviderErrorKind::Transient, "{at}");
        assert!(error.message.contains("connection"), "{}", error.message);
    }
}

#[tokio::test]
async fn a_connection_that_breaks_after_the_end_harms_nothing() {
    let response = Response::events().piece(HELLO).cut();
    let server = Server::start([response]).await;
    let items = answer(&provider(&server.url), hello()).await;
    assert_eq!(outline(&items).last().unwrap(), "end end_turn");
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let response = Response::new(307, "text/plain").header("location", "http://127.0.0.1:1/");
    let server = Server::start([response]).await;
    let error = failure(&provider(&server.url)).await;
    assert_eq!(error.status, Some(307));
    assert_eq!(error.kind, ProviderErrorKind::Fatal);
}

#[tokio::test(start_paused = true)]
async fn the_body_of_an_error_is_bounded_in_size_and_time() {
    let mut long = Script::new(500, &"x".repeat(ERROR_BODY_BYTES + 1));
    long.ends = false;
    let mut slow = Script::new(500, "{}");
    slow.ends = false;
    let transport = Arc::new(Scripted::new([long, slow]));
    let provider = HttpProvider::new(chat(), Endpoint::new("http://x"), transport);
    let began = tokio::time::Instant::now();
    assert_eq!(failure(&provider).await.status, Some(500));
    assert_eq!(began.elapsed(), Duration::ZERO, "enough was read");
    assert_eq!(failure(&provider).await.status, Some(500));
    assert_eq!(began.elapsed().as_secs(), ERROR_BODY_SECS);
}

#[tokio::test]
async fn a_setting_the_model_refuses_is_left_out_and_remembered() {
    let refusal = |param: &str| {
        let body = format!(
            r#"{{"error":{{"message":"Unsupported value","param":"{param}","code":"unsupported_value"}}}}"#
        );
        Script::new(400, &body)
    };
    let transport = Scripted::new([
        refusal("temperature"),
        refusal("reasoning_effort"),
        Script::new(200, HELLO),
        Script::new(200, HELLO),
    ]);
    let endpoint = Endpoint {
        temperature: Some(0.25),
        ..Endpoint::new("http://x")
    };
    let provider = HttpProvider::new(chat(), endpoint, Arc::new(transport.clone()));
    let mut request = hello();
    request.model.reasoning = Some(ReasoningEffort::High);
    let items = answer(&provider, request.clone()).await;
    let warnings: Vec<String> = outline(&items)
        .into_iter()
        .filter(|line| line.starts_with("warning"))
        .collect();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(
        warnings
            .iter()
            .any(|warning| warning.contains("temperature"))
    );
    assert!(warnings.iter().any(|warning| warning.contains("reasoning")));

    let again = answer(&provider, request).await;
    assert!(again.iter().all(Result::is_ok));
    assert!(
        !again
            .iter()
            .any(|item| matches!(item, Ok(StreamEvent::ProviderWarning { .. }))),
        "said once per conversation"
    );
    let sent: Vec<(bool, bool)> = transport
        .bodies()
        .iter()
        .map(|body| {
            (
                body.contains("temperature"),
                body.contains("reasoning_effort"),
            )
        })
        .collect();
    assert_eq!(
        sent,
        [(true, true), (false, true), (false, false), (false, false)]
    );
}

#[tokio::test]
async fn a_schema_the_service_refuses_is_asked_for_with_a_tool_from_then_on() {
    let refusal = r#"{"error":{"message":"response_format is not supported","param":null}}"#;
    let transport = Scripted::new([
        Script::new(400, refusal),
        Script::new(200, HELLO),
        Script::new(200, HELLO),
    ]);
    let provider = HttpProvider::new(
        chat(),
        Endpoint::new("http://x"),
        Arc::new(transport.clone()),
    );
    let mut request = hello();
    request.response_schema = Some(ResponseSchema::new(serde_json::json!({"type": "object"})));
    for _ in 0..2 {
        let items = answer(&provider, request.clone()).await;
        assert!(items.iter().all(Result::is_ok), "{items:?}");
        let warned = |item: &Result<_, _>| matches!(item, Ok(StreamEvent::ProviderWarning { .. }));
        assert!(!items.iter().any(warned), "nothing is left out");
    }
    let sent: Vec<(bool, bool)> = transport
        .bodies()
        .iter()
        .map(|body| (body.contains("response_format"), body.contains("\"tools\"")))
        .collect();
    assert_eq!(sent, [(true, false), (false, true), (false, true)]);
}

#[tokio::test]
async fn images_the_model_refuses_are_described_from_then_on() {
    let refusal = r#"{"error":{"message":"this model does not support image input"}}"#;
    let transport = Scripted::new([
        Script::new(400, refusal),
        Script::new(200, HELLO),
        Script::new(200, HELLO),
    ]);
    let catalog = Catalog::new();
    let provider = HttpProvider::new(
        chat(),
        Endpoint::new("http://x"),
        Arc::new(transport.clone()),
    )
    .with_catalog(catalog.clone());
    let calls = vec![wire_kit::call(
        "call_1",
        "read",
        serde_json::json!({}),
        None,
    )];
    let request = request([
        user("look"),
        assistant(calls),
        wire_kit::result("call_1", "read", wire_kit::with_media("a page")),
    ]);
    let mut told = Vec::new();
    for _ in 0..2 {
        let items = answer(&provider, request.clone()).await;
        assert!(items.iter().all(Result::is_ok), "{items:?}");
        told.push(warnings(&items));
    }
    assert_eq!(
        told[0],
        [
            "an attached image of type image/png was left out: this model takes no images",
            "an attached image of type image/tiff was left out: this model takes no images",
        ]
    );
    assert_eq!(told[1], [""; 0], "it is said once");
    let sent: Vec<(bool, bool)> = transport
        .bodies()
        .iter()
        .map(|body| (body.contains("image_url"), body.contains("takes no images")))
        .collect();
    assert_eq!(sent, [(true, false), (false, true), (false, true)]);
    let media = provider.model_capabilities(&request.model).media;
    assert!(!media.takes("image/png"), "{media:?}");
    let images = catalog.facts(&request.model).images.unwrap();
    assert_eq!((images.value, images.source), (false, Source::Learned));
}

#[tokio::test]
async fn a_model_known_to_take_no_images_is_sent_none() {
    let catalog = Catalog::new();
    let list = br#"{"data":[{"id":"m-1","architecture":{"input_modalities":["text"]}}]}"#;
    let model = hello().model;
    catalog.take_list(&model.provider, read_models(list));
    let transport = Scripted::new([Script::new(200, HELLO)]);
    let provider = HttpProvider::new(
        chat(),
        Endpoint::new("http://x"),
        Arc::new(transport.clone()),
    )
    .with_catalog(catalog);
    let request = request([wire_kit::user(vec![wire_kit::image("image/png")])]);
    let items = answer(&provider, request).await;
    assert_eq!(
        warnings(&items),
        ["an attached image of type image/png was left out: this model takes no images"]
    );
    assert!(!transport.bodies()[0].contains("image_url"));
}

fn warnings(items: &[Result<StreamEvent, ProviderError>]) -> Vec<String> {
    items
        .iter()
        .filter_map(|item| match item {
            Ok(StreamEvent::ProviderWarning { message, .. }) => Some(message.clone()),
            _ => None,
        })
        .collect()
}

#[tokio::test]
async fn a_refusal_of_what_was_not_sent_is_an_error() {
    let body = r#"{"error":{"message":"x","param":"temperature"}}"#;
    let transport = Scripted::new([Script::new(400, body)]);
    let provider = HttpProvider::new(chat(), Endpoint::new("http://x"), Arc::new(transport));
    assert_eq!(failure(&provider).await.kind, ProviderErrorKind::Fatal);
}

#[tokio::test]
async fn the_context_window_is_learned_from_an_overflow() {
    let body = r#"{"error":{"message":"This model's maximum context length is 8192 tokens.","code":"context_length_exceeded"}}"#;
    let transport = Scripted::new([Script::new(400, body)]);
    let catalog = Catalog::new();
    let provider = HttpProvider::new(chat(), Endpoint::new("http://x"), Arc::new(transport))
        .with_catalog(catalog.clone());
    assert_eq!(
        failure(&provider).await.kind,
        ProviderErrorKind::ContextOverflow
    );
    let window = catalog.facts(&hello().model).context_window;
    assert_eq!((window.value, window.source), (8_192, Source::Learned));
}

#[tokio::test(start_paused = true)]
async fn headers_about_rates_reach_the_limiter() {
    let mut script = Script::new(200, HELLO);
    script.headers = vec![
        ("x-ratelimit-remaining-requests".to_owned(), "0".to_owned()),
        ("x-ratelimit-reset-requests".to_owned(), "20s".to_owned()),
    ];
    let rates = RateLimiter::new();
    let transport = Scripted::new([script]);
    let provider = HttpProvider::new(chat(), Endpoint::new("http://x"), Arc::new(transport))
        .with_rate_reports(rates.clone());
    answer(&provider, hello()).await;
    assert_eq!(rates.wait_for(&hello().model, 1).as_secs(), 20);
}

#[tokio::test]
async fn the_list_of_models_is_read() {
    let list = r#"{"object":"list","data":[{"id":"m-1","max_model_len":32768}]}"#;
    let server = Server::start([Response::json(200, list), Response::json(404, "{}")]).await;
    let provider = provider(&server.url);
    let cancel = CancellationToken::new();
    let models = provider.models(&cancel).await.unwrap();
    assert_eq!(models[0].claims.context_window, Some(32_768));
    assert_eq!(server.requests()[0].line, "GET /v1/models HTTP/1.1");
    assert_eq!(
        provider.models(&cancel).await.unwrap_err().status,
        Some(404)
    );
}

#[test]
fn errors_of_the_transport_say_whether_to_try_again() {
    let after = Duration::from_secs(60);
    for (error, code, retryable) in [
        (
            TransportError::Setup {
                message: "x".to_owned(),
                hint: "y",
            },
            "transport_setup",
            false,
        ),
        (
            TransportError::FirstByteTimeout { after },
            "first_byte_timeout",
            true,
        ),
        (TransportError::IdleTimeout { after }, "idle_timeout", true),
        (
            TransportError::Broken {
                message: "x".to_owned(),
            },
            "connection_broken",
            true,
        ),
        (
            TransportError::Cassette {
                message: "x".to_owned(),
            },
            "cassette",
            false,
        ),
    ] {
        assert_eq!(error.code(), code);
        assert_eq!(ProviderError::from(error).retryable(), retryable, "{code}");
    }
}

#[tokio::test]
async fn an_overflow_in_the_stream_teaches_as_well() {
    let event = "data: {\"error\":{\"message\":\"This model's maximum context length is 4096 tokens.\"}}\n\n";
    let transport = Scripted::new([Script::new(200, event)]);
    let catalog = Catalog::new();
    let provider = HttpProvider::new(chat(), Endpoint::new("http://x"), Arc::new(transport))
        .with_catalog(catalog.clone());
    failure(&provider).await;
    assert_eq!(catalog.facts(&hello().model).context_window.value, 4_096);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_for_the_rate_holds_all_sessions() {
    let mut script = Script::new(429, "{}");
    script.headers = vec![("retry-after".to_owned(), "9".to_owned())];
    let rates = RateLimiter::new();
    let transport = Scripted::new([script]);
    let provider = HttpProvider::new(chat(), Endpoint::new("http://x"), Arc::new(transport))
        .with_rate_reports(rates.clone());
    assert_eq!(
        failure(&provider).await.kind,
        ProviderErrorKind::RateLimited
    );
    assert_eq!(rates.wait_for(&hello().model, 1).as_secs(), 9);
}

#[tokio::test]
async fn a_warning_outlives_the_requests_that_failed() {
    use halter_protocol::{Message, Timestamp, UserMessage, UserPart};
    let transport = Scripted::new([Script::new(503, "{}"), Script::new(200, HELLO)]);
    let provider = HttpProvider::new(chat(), Endpoint::new("http://x"), Arc::new(transport));
    let request = crate::support::request([Message::User(UserMessage {
        id: "msg_1".into(),
        created_at: Timestamp::UNIX_EPOCH,
        parts: vec![UserPart::Document {
            media_type: "application/zip".to_owned(),
            data: Arc::from(*b"PK"),
        }],
    })]);
    assert!(answer(&provider, request.clone()).await[0].is_err());
    let lines = outline(&answer(&provider, request).await);
    assert!(lines[1].contains("application/zip"), "{lines:?}");
}
