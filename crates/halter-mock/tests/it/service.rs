//! Starting, stopping, capturing, limits.

use crate::client::{Ended, PATIENCE, send};
use crate::speech::Talk;
use halter_mock::limits::{HEADER_TIMEOUT, MAX_BODY_BYTES, MAX_CONNECTIONS, STOP_GRACE};
use halter_mock::scenario::ScriptPart;
use halter_mock::{
    MockWire, ModelEntry, RequestOutcome, Scenario, ScenarioLibrary, ServeOptions, Step, serve,
};
use serde_json::json;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

#[tokio::test]
async fn a_gate_holds_the_stream_until_it_is_opened() {
    let service = serve(ServeOptions::default()).await.unwrap();
    for wire in MockWire::ALL {
        assert!(service.scenarios().get("gated").is_some());
        let mut held = Talk::new(wire, "mock:gated")
            .streaming()
            .open(&service)
            .await;
        held.read_until("Before ").await;
        assert!(
            !String::from_utf8_lossy(&held.received).contains("after."),
            "{wire}"
        );
        service
            .open_gate(if wire == MockWire::Gemini {
                "gated"
            } else {
                "another"
            })
            .unwrap();
        if wire == MockWire::Gemini {
            assert_eq!(held.finish().await.ended, Ended::Whole);
        }
    }
    let free = Talk::new(MockWire::Chat, "mock:gated")
        .streaming()
        .ask(&service)
        .await;
    assert_eq!(free.text, "Before and after.");
    service.stop().await;
}

#[tokio::test]
async fn requests_are_captured_with_what_became_of_them() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let talk = Talk::new(MockWire::Anthropic, "mock:parallel_tools").streaming();
    talk.send(&service).await;
    Talk::new(MockWire::Chat, "mock:overloaded")
        .send(&service)
        .await;
    Talk::new(MockWire::Gemini, "hi")
        .with(|body| body["x"] = json!(1))
        .send(&service)
        .await;
    let seen = service.wait_for(3, PATIENCE).await.unwrap();
    let first = &seen[0];
    assert_eq!((first.method(), first.path()), ("POST", "/v1/messages"));
    assert_eq!(
        (first.wire(), first.scenario(), first.step()),
        (MockWire::Anthropic, Some("parallel_tools"), Some(0))
    );
    assert!(first.is_streaming());
    assert_eq!(first.header("anthropic-version"), Some("2026-10-21"));
    assert_eq!(first.body().as_ref(), talk.bytes());
    assert_eq!(first.json()["messages"][0]["role"], "user");
    assert_eq!(first.outcome(), &RequestOutcome::Answered);
    assert_eq!(seen[1].outcome(), &RequestOutcome::Failed { status: 529 });
    assert!(matches!(
        seen[2].outcome(),
        RequestOutcome::Refused { status: 400, .. }
    ));
    service.clear_requests();
    assert!(service.requests().is_empty());
    service.stop().await;
}

#[tokio::test]
async fn a_wait_for_requests_that_do_not_come_says_how_many_did() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let error = service
        .wait_for(2, Duration::from_millis(5))
        .await
        .unwrap_err();
    assert_eq!(error.code(), "mock_timed_out");
    assert!(
        error.to_string().contains("2 requests and saw 0"),
        "{error}"
    );
    service.stop().await;
}

#[tokio::test]
async fn a_stopped_service_is_gone() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let address = service.address();
    Talk::new(MockWire::Chat, "hi").send(&service).await;
    service.stop().await;
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn a_dropped_service_cuts_its_connections() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let mut held = Talk::new(MockWire::Chat, "mock:interrupt")
        .streaming()
        .open(&service)
        .await;
    held.read_until("on ").await;
    drop(service);
    assert_ne!(held.finish().await.ended, Ended::Whole);
}

#[tokio::test]
async fn the_body_limit_holds_at_its_edge() {
    let talk = Talk::new(MockWire::Anthropic, "hi");
    let size = talk.bytes().len();
    for (max_body_bytes, status) in [(size, 200), (size - 1, 413)] {
        let options = ServeOptions {
            max_body_bytes,
            ..ServeOptions::default()
        };
        let service = serve(options).await.unwrap();
        let reply = talk.send(&service).await;
        assert_eq!(reply.status, status);
        if status == 413 {
            assert_eq!(reply.json()["error"]["type"], "request_too_large");
        }
        service.stop().await;
    }
}

#[test]
fn the_limits_are_those_of_the_options_nobody_sets() {
    let options = ServeOptions::default();
    assert_eq!(options.max_body_bytes, MAX_BODY_BYTES);
    assert_eq!(options.max_connections, MAX_CONNECTIONS);
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_their_turn() {
    let options = ServeOptions {
        max_connections: 1,
        ..ServeOptions::default()
    };
    let service = serve(options).await.unwrap();
    let mut first = Talk::new(MockWire::Chat, "mock:gated")
        .streaming()
        .open(&service)
        .await;
    first.read_until("Before ").await;
    let second = Talk::new(MockWire::Chat, "hi").open(&service).await;
    let early = service.wait_for(2, Duration::from_millis(100)).await;
    assert_eq!(early.unwrap_err().code(), "mock_timed_out");
    drop(first);
    assert_eq!(second.finish().await.status, 200);
    service.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_request_that_never_gets_past_its_headers_is_given_up() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let mut stream = TcpStream::connect(service.address()).await.unwrap();
    stream
        .write_all(b"POST /v1/messages HTTP/1.1\r\n")
        .await
        .unwrap();
    let started = tokio::time::Instant::now();
    let mut received = Vec::new();
    stream.read_to_end(&mut received).await.unwrap();
    assert!(started.elapsed() >= HEADER_TIMEOUT);
    service.stop().await;
}

#[tokio::test]
async fn a_stop_does_not_wait_for_a_client_that_does_not_read() {
    let mut scenarios = ScenarioLibrary::default();
    let step = Step {
        parts: vec![ScriptPart::Filler {
            bytes: 32 * 1024 * 1024,
        }],
        ..Step::default()
    };
    scenarios
        .add("flood", Scenario::new("A flood.", vec![step]))
        .unwrap();
    let options = ServeOptions {
        scenarios,
        ..ServeOptions::default()
    };
    let service = serve(options).await.unwrap();
    let unread = Talk::new(MockWire::Chat, "mock:flood")
        .streaming()
        .open(&service)
        .await;
    service.wait_for(1, PATIENCE).await.unwrap();
    let started = std::time::Instant::now();
    tokio::time::timeout(PATIENCE, service.stop())
        .await
        .unwrap();
    assert!(started.elapsed() >= STOP_GRACE);
    assert_ne!(unread.finish().await.ended, Ended::Whole);
}

#[tokio::test]
async fn a_request_that_only_fills_the_cache_gets_no_words() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let talk = Talk::new(MockWire::Anthropic, "hi").with(|body| body["max_tokens"] = json!(0));
    let answer = talk.send(&service).await.json();
    assert_eq!(
        (&answer["content"], &answer["stop_reason"]),
        (&json!([]), &json!("max_tokens"))
    );
    assert_eq!(talk.streaming().send(&service).await.status, 400);
    service.stop().await;
}

#[tokio::test]
async fn keys_models_and_the_default_scenario_can_be_set() {
    let mut scenarios = ScenarioLibrary::default();
    scenarios
        .add(
            "mine",
            Scenario::new("Mine.", vec![Step::text("Mine alone.")]),
        )
        .unwrap();
    let options = ServeOptions {
        scenarios,
        default_scenario: Some("mine".to_owned()),
        api_key: Some("right".to_owned().into()),
        models: Some(vec![ModelEntry::new("only-this", 1000, 100)]),
        ..ServeOptions::default()
    };
    let service = serve(options).await.unwrap();
    for (wire, header, prefix, status) in [
        (MockWire::Anthropic, "x-api-key", "", 401),
        (MockWire::Responses, "authorization", "Bearer ", 401),
        (MockWire::Chat, "authorization", "Bearer ", 401),
        (MockWire::Gemini, "x-goog-api-key", "", 400),
    ] {
        let talk = Talk::new(wire, "hi");
        assert_eq!(talk.send(&service).await.status, status, "{wire}");
        let mut talk = talk.with_header(header, &format!("{prefix}right"));
        assert_eq!(talk.send(&service).await.status, 404, "{wire}");
        talk.model = "only-this".to_owned();
        assert_eq!(talk.ask(&service).await.text, "Mine alone.", "{wire}");
    }
    service.stop().await;
}

#[tokio::test]
async fn bad_options_are_refused_before_anything_listens() {
    let options = ServeOptions {
        default_scenario: Some("nope".to_owned()),
        ..ServeOptions::default()
    };
    assert_eq!(
        serve(options).await.unwrap_err().code(),
        "mock_unknown_scenario"
    );
    let options = ServeOptions {
        address: ([0, 0, 0, 0], 0).into(),
        ..ServeOptions::default()
    };
    assert_eq!(
        serve(options).await.unwrap_err().code(),
        "mock_not_loopback"
    );
    let first = serve(ServeOptions::default()).await.unwrap();
    let options = ServeOptions {
        address: first.address(),
        ..ServeOptions::default()
    };
    assert_eq!(serve(options).await.unwrap_err().code(), "mock_bind");
    first.stop().await;
}

#[tokio::test]
async fn the_service_shows_itself_over_http_without_secrets() {
    let service = serve(ServeOptions::default()).await.unwrap();
    Talk::new(MockWire::Anthropic, "mock:streaming_text")
        .with_header("x-api-key", "s3cret")
        .send(&service)
        .await;
    let page = send(&service, "GET", "/mock/requests", &[], b"").await;
    assert!(!page.text().contains("s3cret"));
    assert_eq!(page.json()["requests"][0]["scenario"], "streaming_text");
    assert!(!format!("{service:?}").contains("s3cret"));
    let page = send(&service, "GET", "/mock/scenarios", &[], b"")
        .await
        .json();
    assert!(page["scenarios"]["streaming_text"].is_string());
    let opened = send(&service, "POST", "/mock/gates/gated", &[], b"").await;
    assert_eq!(opened.status, 200);
    assert_eq!(
        Talk::new(MockWire::Chat, "mock:gated")
            .ask(&service)
            .await
            .text,
        "Before and after."
    );
    service.stop().await;
}

#[tokio::test]
async fn scripts_are_read_from_files() {
    let folder = tempfile::tempdir().unwrap();
    let toml = folder.path().join("a.toml");
    let json = folder.path().join("b.json");
    std::fs::write(
        &toml,
        "[scenarios.a]\ndescription='d'\nsteps=[{parts=[{type='text',text='A'}]}]",
    )
    .unwrap();
    std::fs::write(
        &json,
        r#"{"scenarios":{"b":{"description":"d","steps":[{}]}}}"#,
    )
    .unwrap();
    let mut library = ScenarioLibrary::default();
    library.add_file(&toml).unwrap();
    library.add_file(&json).unwrap();
    assert!(library.get("a").is_some() && library.get("b").is_some());
    let missing = library.add_file(&folder.path().join("c.toml")).unwrap_err();
    assert_eq!(missing.code(), "mock_read");
}

#[tokio::test]
async fn many_sessions_at_once_do_not_disturb_one_another() {
    let service = std::sync::Arc::new(serve(ServeOptions::default()).await.unwrap());
    let mut sessions = tokio::task::JoinSet::new();
    for number in 0..40 {
        let service = service.clone();
        let wire = MockWire::ALL[number % 4];
        sessions.spawn(async move {
            let mut talk =
                Talk::new(wire, &format!("mock:many_steps path={number}.txt")).streaming();
            for step in 0..5 {
                let said = talk.ask(&service).await;
                assert_eq!(said.text, format!("Step {step}."));
                assert_eq!(said.calls[0].1["path"], format!("{number}.txt"));
                talk.answer(&said, &["ok"]);
            }
        });
    }
    while let Some(ended) = sessions.join_next().await {
        ended.unwrap();
    }
    assert_eq!(service.requests().len(), 200);
}
