//! Servers that do less than their wire says, as local ones and gateways do.

use super::scripted::{Script, Scripted};
use super::server::{Response, Server};
use super::{HELLO, hello, provider};
use crate::support::{answer, outline, request, user};
use crate::wire_kit;
use halter_protocol::{
    ProviderError, ProviderErrorKind, ResponseSchema, StreamEvent, ToolSpec, Usage,
};
use halter_providers::ProviderRequest;
use halter_providers::catalog::{Catalog, Source, read_models};
use halter_providers::http::{Endpoint, HttpProvider};
use halter_providers::limits::{EMPTY_ANSWER_TOKENS, WINDOW_PROBE_MILLIS, WINDOW_PROBES};
use halter_providers::wire::chat::{Chat, Dialect};
use halter_providers::wire::responses::ResponsesWire;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

fn generic(transport: &Scripted, catalog: &Catalog) -> HttpProvider {
    let wire = Arc::new(Chat::new(Dialect::GENERIC));
    let endpoint = Endpoint::new("http://x");
    HttpProvider::new(wire, endpoint, Arc::new(transport.clone())).with_catalog(catalog.clone())
}

fn structured() -> ProviderRequest {
    let mut request = hello();
    request.tools = Arc::from([ToolSpec::clone(&wire_kit::tools()[0])]);
    request.response_schema = Some(ResponseSchema::new(json!({
        "type": "object",
        "properties": {"greeting": {"type": "string"}},
    })));
    request
}

#[tokio::test]
async fn a_server_that_ignores_tools_is_asked_in_each_other_way_once() {
    let refusal = r#"{"error":{"message":"cannot use custom grammar constraints with tools"}}"#;
    let transport = Scripted::new([
        Script::new(200, HELLO),
        Script::new(400, refusal),
        Script::new(200, HELLO),
        Script::new(200, HELLO),
    ]);
    let provider = generic(&transport, &Catalog::new());
    for _ in 0..3 {
        let items = answer(&provider, structured()).await;
        assert!(items.iter().all(Result::is_ok), "{items:?}");
    }
    let sent: Vec<(bool, bool)> = transport
        .bodies()
        .iter()
        .map(|body| {
            let body: Value = serde_json::from_str(body).unwrap();
            let tool = body["tools"].to_string().contains("final_output");
            (tool, body.get("response_format").is_some())
        })
        .collect();
    assert_eq!(
        sent,
        [(true, false), (true, true), (true, false), (true, false)]
    );
}

#[tokio::test]
async fn a_server_that_takes_a_format_beside_tools_is_asked_with_it_from_then_on() {
    let json = HELLO.replace("hello", r#"{\"greeting\":\"hi\"}"#);
    let transport = Scripted::new([
        Script::new(200, HELLO),
        Script::new(200, &json),
        Script::new(200, &json),
    ]);
    let provider = generic(&transport, &Catalog::new());
    for _ in 0..3 {
        answer(&provider, structured()).await;
    }
    let bodies = transport.bodies();
    let formats = bodies
        .iter()
        .map(|body| body.contains("\"response_format\""));
    assert_eq!(formats.collect::<Vec<_>>(), [false, true, true]);
}

fn long() -> ProviderRequest {
    let bytes = usize::try_from(EMPTY_ANSWER_TOKENS).unwrap() * 4;
    request([user(&"x".repeat(bytes))])
}

async fn failure(provider: &HttpProvider, request: ProviderRequest) -> ProviderError {
    answer(provider, request).await.pop().unwrap().unwrap_err()
}

fn empty() -> Script {
    Script::new(200, "")
}

#[tokio::test]
async fn an_empty_answer_to_a_conversation_that_cannot_fit_is_an_overflow() {
    let catalog = Catalog::new();
    let list = br#"{"data":[{"id":"m-1","meta":{"n_ctx":2000}}]}"#;
    catalog.take_list(&hello().model.provider, read_models(list));
    let provider = generic(&Scripted::new([empty(), empty()]), &catalog);
    let error = failure(&provider, long()).await;
    assert_eq!(error.kind, ProviderErrorKind::ContextOverflow, "{error}");
    let error = failure(&provider, hello()).await;
    assert_eq!(error.kind, ProviderErrorKind::Transient, "it fits: {error}");
}

#[tokio::test]
async fn where_the_window_is_unknown_the_second_empty_answer_in_a_row_is_an_overflow() {
    let hello_again = Script::new(200, HELLO);
    let transport = Scripted::new([empty(), empty(), hello_again, empty(), empty()]);
    let provider = generic(&transport, &Catalog::new());
    let first = failure(&provider, long()).await;
    assert_eq!(first.kind, ProviderErrorKind::Transient);
    let second = failure(&provider, long()).await;
    assert_eq!(second.kind, ProviderErrorKind::ContextOverflow);
    assert!(answer(&provider, hello()).await.iter().all(Result::is_ok));
    for _ in 0..2 {
        let error = failure(&provider, hello()).await;
        assert_eq!(error.kind, ProviderErrorKind::Transient, "it is short");
    }
}

/// A message that ends without any content, as a stream and as a document.
fn contentless() -> [Script; 2] {
    let stream = concat!(
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
        "data: [DONE]\n\n",
    );
    let document = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":""},"finish_reason":"length"}],"usage":{"prompt_tokens":2000,"completion_tokens":0}}"#;
    let mut whole = Script::new(200, document);
    whole.headers = vec![("content-type".to_owned(), "application/json".to_owned())];
    [Script::new(200, stream), whole]
}

#[tokio::test]
async fn a_message_without_content_to_a_conversation_that_cannot_fit_is_an_overflow() {
    let catalog = Catalog::new();
    let list = br#"{"data":[{"id":"m-1","meta":{"n_ctx":2000}}]}"#;
    catalog.take_list(&hello().model.provider, read_models(list));
    for script in contentless() {
        let provider = generic(&Scripted::new([script.clone(), script]), &catalog);
        let error = failure(&provider, long()).await;
        assert_eq!(error.kind, ProviderErrorKind::ContextOverflow, "{error}");
        let items = answer(&provider, hello()).await;
        assert!(items.iter().all(Result::is_ok), "it fits: {items:?}");
    }
}

#[tokio::test]
async fn a_second_message_without_content_is_an_overflow_where_the_window_is_unknown() {
    for script in contentless() {
        let transport = Scripted::new([script.clone(), script]);
        let provider = generic(&transport, &Catalog::new());
        let items = answer(&provider, long()).await;
        assert!(items.iter().all(Result::is_ok), "{items:?}");
        let error = failure(&provider, long()).await;
        assert_eq!(error.kind, ProviderErrorKind::ContextOverflow, "{error}");
    }
}

#[tokio::test]
async fn a_model_that_says_nothing_on_purpose_is_left_alone() {
    let usage = r#""usage":{"prompt_tokens":2000,"completion_tokens":2}"#;
    let [_, mut whole] = contentless();
    let body = r#"{"choices":[{"index":0,"message":{"content":""},"finish_reason":"stop"}],"#;
    whole.pieces = Script::new(200, &format!("{body}{usage}}}")).pieces;
    let catalog = Catalog::new();
    let list = br#"{"data":[{"id":"m-1","meta":{"n_ctx":2000}}]}"#;
    catalog.take_list(&hello().model.provider, read_models(list));
    let provider = generic(&Scripted::new([whole]), &catalog);
    let items = answer(&provider, long()).await;
    assert!(items.iter().all(Result::is_ok), "{items:?}");
}

#[tokio::test]
async fn a_local_server_is_asked_for_an_unknown_window_at_the_first_request_only() {
    let list = r#"{"data":[{"id":"m-1","meta":{"n_ctx":4096}}]}"#;
    for (list, asked) in [
        (Script::new(200, list), vec!["/models"]),
        (
            Script::new(404, "{}"),
            vec!["/models", "/props", "/api/show"],
        ),
    ] {
        let silence = (1..asked.len()).map(|_| Script::new(404, "{}"));
        let answers = (0..2).map(|_| Script::new(200, HELLO));
        let known = asked.len() == 1;
        let scripts = std::iter::once(list).chain(silence).chain(answers);
        let transport = Scripted::new(scripts);
        let catalog = Catalog::new();
        let wire = Arc::new(Chat::new(Dialect::GENERIC));
        let endpoint = Endpoint::new("http://127.0.0.1:1");
        let provider = HttpProvider::new(wire, endpoint, Arc::new(transport.clone()))
            .with_catalog(catalog.clone());
        for _ in 0..2 {
            let items = answer(&provider, hello()).await;
            assert!(items.iter().all(Result::is_ok), "{items:?}");
        }
        let requests = transport.requests.lock().unwrap();
        let paths: Vec<&str> = requests
            .iter()
            .map(|request| request.url.split_once(":1").unwrap().1)
            .map(|path| path.strip_prefix("/v1").unwrap_or(path))
            .collect();
        let completions = ["/chat/completions"; 2];
        assert_eq!(paths, [asked, completions.to_vec()].concat());
        let window = catalog.facts(&hello().model).context_window;
        assert_eq!(window.source == Source::Provider, known, "{window:?}");
    }
}

#[tokio::test]
async fn an_overflow_in_the_words_of_a_gateway_is_one_on_the_responses_wire() {
    let body = r#"{"error":{"message":"litellm.BadRequestError: Requested tokens (4109) exceed context window of 2048","type":null,"code":"500"}}"#;
    let transport = Scripted::new([Script::new(500, body)]);
    let catalog = Catalog::new();
    let endpoint = Endpoint::new("http://x");
    let provider = HttpProvider::new(Arc::new(ResponsesWire), endpoint, Arc::new(transport))
        .with_catalog(catalog.clone());
    let error = failure(&provider, hello()).await;
    assert_eq!(error.kind, ProviderErrorKind::ContextOverflow, "{error}");
    let window = catalog.facts(&hello().model).context_window;
    assert_eq!((window.value, window.source), (2_048, Source::Learned));
}

#[tokio::test]
async fn usage_that_a_server_does_not_send_is_unknown() {
    let usage = r#","usage":{"prompt_tokens":5,"completion_tokens":1}"#;
    let without = HELLO.replace(usage, "");
    let transport = Scripted::new([Script::new(200, &without), Script::new(200, HELLO)]);
    let provider = generic(&transport, &Catalog::new());
    let items = answer(&provider, hello()).await;
    let said = items.iter().find_map(|item| match item {
        Ok(StreamEvent::UsageUpdate { usage }) => Some(*usage),
        _ => None,
    });
    assert_eq!(said, Some(Usage::unknown()), "{:?}", outline(&items));
    let items = answer(&provider, hello()).await;
    let known = items
        .iter()
        .all(|item| !matches!(item, Ok(StreamEvent::UsageUpdate { usage }) if usage.incomplete));
    assert!(known);
}

/// The windows of the models that a server lists, and what it was asked.
async fn windows_of(responses: Vec<Response>) -> (Vec<Option<u32>>, Vec<String>) {
    let server = Server::start(responses).await;
    let provider = provider(&server.url);
    let models = provider.models(&CancellationToken::new()).await.unwrap();
    let windows = models.iter().map(|model| model.claims.context_window);
    let lines = server.requests().into_iter().map(|request| request.line);
    (windows.collect(), lines.collect())
}

#[tokio::test]
async fn a_local_server_is_asked_for_the_window_that_its_list_leaves_open() {
    let list = |models: &str| Response::json(200, &format!(r#"{{"data":[{models}]}}"#));
    let props = r#"{"default_generation_settings":{"n_ctx":2048}}"#;
    let (llama, asked) = windows_of(vec![list(r#"{"id":"a"}"#), Response::json(200, props)]).await;
    assert_eq!(llama, [Some(2_048)]);
    assert_eq!(asked[1], "GET /props HTTP/1.1");

    let shown = r#"{"model_info":{"llama.context_length":8192}}"#;
    let (ollama, asked) = windows_of(vec![
        list(r#"{"id":"a","max_model_len":9},{"id":"b"}"#),
        Response::json(404, "{}"),
        Response::json(200, shown),
    ])
    .await;
    assert_eq!(ollama, [Some(9), Some(8_192)]);
    assert_eq!(asked[2], "POST /api/show HTTP/1.1");

    let (known, asked) = windows_of(vec![list(r#"{"id":"a","max_model_len":9}"#)]).await;
    assert_eq!((known, asked.len()), (vec![Some(9)], 1));
}

#[tokio::test]
async fn so_many_models_are_asked_about_and_no_more() {
    let models: Vec<String> = (0..=WINDOW_PROBES)
        .map(|number| format!(r#"{{"id":"m{number}"}}"#))
        .collect();
    let list = format!(r#"{{"data":[{}]}}"#, models.join(","));
    let refusals = (0..=WINDOW_PROBES).map(|_| Response::json(404, "{}"));
    let responses = std::iter::once(Response::json(200, &list)).chain(refusals);
    let (windows, asked) = windows_of(responses.collect()).await;
    assert!(windows.iter().all(Option::is_none));
    assert_eq!(asked.len(), 2 + WINDOW_PROBES, "the list, /props, and each");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_says_nothing_about_windows_is_left_in_time() {
    let slow = || Script {
        head: Duration::from_secs(3_600),
        ..Script::new(200, "{}")
    };
    let list = Script::new(200, r#"{"data":[{"id":"a"}]}"#);
    let transport = Scripted::new([list, slow(), slow()]);
    let wire = Arc::new(Chat::new(Dialect::GENERIC));
    let endpoint = Endpoint::new("http://127.0.0.1:1");
    let provider = HttpProvider::new(wire, endpoint, Arc::new(transport));
    let start = tokio::time::Instant::now();
    let models = provider.models(&CancellationToken::new()).await.unwrap();
    assert_eq!(models[0].claims.context_window, None);
    let waited = Duration::from_millis(2 * WINDOW_PROBE_MILLIS);
    assert_eq!(start.elapsed(), waited);
}
