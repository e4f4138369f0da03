//! Servers that misbehave, as a client sees them.

use crate::client::{Ended, PATIENCE};
use crate::speech::{Talk, understand_stream};
use halter_mock::{MockWire, ServeOptions, serve};
use serde_json::json;

#[tokio::test]
async fn a_truncated_stream_is_well_formed_http_without_an_end() {
    let service = serve(ServeOptions::default()).await.unwrap();
    for wire in MockWire::ALL {
        let reply = Talk::new(wire, "mock:truncate")
            .streaming()
            .send(&service)
            .await;
        assert_eq!((reply.status, reply.ended), (200, Ended::Whole), "{wire}");
        let text = reply.text();
        assert!(
            text.contains("Half a ") && !text.contains("sentence."),
            "{wire}"
        );
        for end in [
            "message_stop",
            "response.completed",
            "[DONE]",
            "finishReason",
        ] {
            assert!(!text.contains(end), "{wire} {end}");
        }
        let cut = Talk::new(wire, "mock:truncate").send(&service).await;
        assert!(
            serde_json::from_slice::<serde_json::Value>(&cut.body).is_err(),
            "{wire}"
        );
    }
    service.stop().await;
}

#[tokio::test]
async fn a_reset_is_a_reset_and_not_an_end() {
    let service = serve(ServeOptions::default()).await.unwrap();
    for wire in MockWire::ALL {
        for streaming in [false, true] {
            let mut talk = Talk::new(wire, "mock:reset");
            talk.streaming = streaming;
            assert_eq!(
                talk.send(&service).await.ended,
                Ended::Reset,
                "{wire} {streaming}"
            );
        }
    }
    service.stop().await;
}

#[tokio::test]
async fn a_missing_terminator_leaves_the_reason_for_stopping() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let anthropic = Talk::new(MockWire::Anthropic, "mock:missing_terminator")
        .streaming()
        .send(&service)
        .await
        .text();
    assert!(anthropic.contains("end_turn") && !anthropic.contains("message_stop"));
    let chat = Talk::new(MockWire::Chat, "mock:missing_terminator")
        .streaming()
        .send(&service)
        .await
        .text();
    assert!(chat.contains(r#""finish_reason":"stop""#) && !chat.contains("[DONE]"));
    service.stop().await;
}

#[tokio::test]
async fn a_stall_lasts_until_the_client_leaves_or_the_service_stops() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let mut stalled = Talk::new(MockWire::Anthropic, "mock:stall")
        .streaming()
        .open(&service)
        .await;
    stalled.read_until("Half a ").await;
    let mut left = Talk::new(MockWire::Chat, "mock:stall")
        .streaming()
        .open(&service)
        .await;
    left.read_until("Half a ").await;
    drop(left);
    tokio::time::timeout(PATIENCE, service.stop())
        .await
        .unwrap();
    let reply = stalled.finish().await;
    assert_ne!(reply.ended, Ended::Whole);
    assert!(!String::from_utf8_lossy(&reply.body).contains("sentence"));
}

#[tokio::test]
async fn a_hang_sends_nothing_while_the_service_runs() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let hanging = Talk::new(MockWire::Gemini, "mock:hang")
        .open(&service)
        .await;
    let seen = service.wait_for(1, PATIENCE).await.unwrap();
    assert_eq!(seen[0].outcome(), &halter_mock::RequestOutcome::Hung);
    service.stop().await;
    assert_eq!(hanging.finish().await.status, 503);
}

#[tokio::test]
async fn an_error_after_ok_is_the_wires_own_event() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let last = |wire| {
        let service = &service;
        async move {
            let reply = Talk::new(wire, "mock:error_after_ok")
                .streaming()
                .send(service)
                .await;
            assert_eq!(reply.status, 200);
            let (name, data) = reply.events().pop().unwrap();
            (
                name,
                serde_json::from_str::<serde_json::Value>(&data).unwrap(),
            )
        }
    };
    let (name, data) = last(MockWire::Anthropic).await;
    assert_eq!(
        (name.as_deref(), &data["error"]["type"]),
        (Some("error"), &json!("overloaded_error"))
    );
    let (name, data) = last(MockWire::Responses).await;
    assert_eq!(name.as_deref(), Some("response.failed"));
    assert_eq!(data["response"]["error"]["code"], "server_error");
    let (name, data) = last(MockWire::Chat).await;
    assert_eq!(
        (name, &data["error"]["type"]),
        (None, &json!("server_error"))
    );
    let (_, data) = last(MockWire::Gemini).await;
    assert_eq!(data["error"]["status"], "UNAVAILABLE");
    let reply = Talk::new(MockWire::Responses, "mock:invalid_after_ok")
        .streaming()
        .send(&service)
        .await;
    assert_eq!(reply.events().pop().unwrap().0.as_deref(), Some("error"));
    let whole = Talk::new(MockWire::Anthropic, "mock:error_after_ok")
        .send(&service)
        .await;
    assert_eq!(whole.status, 529);
    service.stop().await;
}

#[tokio::test]
async fn http_errors_have_the_wires_body_and_the_scripts_headers() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let limited = |wire| {
        let service = &service;
        async move { Talk::new(wire, "mock:rate_limited").send(service).await }
    };
    for wire in MockWire::ALL {
        let reply = limited(wire).await;
        assert_eq!(reply.status, 429, "{wire}");
        assert_eq!(reply.headers["retry-after"], "1", "{wire}");
        assert!(
            reply.headers["request-id"].starts_with("req_mock"),
            "{wire}"
        );
    }
    let body = limited(MockWire::Anthropic).await.json();
    assert_eq!(body["error"]["type"], "rate_limit_error");
    assert!(body["request_id"].is_string());
    assert_eq!(
        limited(MockWire::Chat).await.json()["error"]["code"],
        "rate_limit_exceeded"
    );
    let gemini = limited(MockWire::Gemini).await.json();
    assert_eq!(gemini["error"]["status"], "RESOURCE_EXHAUSTED");
    assert_eq!(gemini["error"]["details"][1]["retryDelay"], "1s");
    let page = Talk::new(MockWire::Chat, "mock:unavailable")
        .send(&service)
        .await;
    assert_eq!(
        (page.status, page.headers["content-type"].as_str()),
        (503, "text/html")
    );
    service.stop().await;
}

#[tokio::test]
async fn first_attempts_fail_per_request_and_no_longer() {
    let service = serve(ServeOptions::default()).await.unwrap();
    for wire in MockWire::ALL {
        let talk = Talk::new(wire, "mock:rate_limited_twice").streaming();
        let other = Talk::new(wire, "another mock:rate_limited_twice").streaming();
        let mut statuses = Vec::new();
        for talk in [&talk, &other, &talk, &talk, &other, &other] {
            statuses.push(talk.send(&service).await.status);
        }
        assert_eq!(statuses, [429, 429, 429, 200, 429, 200], "{wire}");
    }
    service.stop().await;
}

#[tokio::test]
async fn odd_delivery_says_the_same() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let table = [
        ("crlf", "Two-byte line ends: ü"),
        ("cr", "One-byte line ends."),
        ("comments", "Between the lines."),
        ("split_bytes", "ä€😀 one byte at a time"),
        ("unicode", "Grüße, 世界! Привет \u{2014} مرحبا 👩‍👩‍👧‍👦🇪🇺"),
        ("slow", "Slow but steady."),
    ];
    for (name, expected) in table {
        for wire in MockWire::ALL {
            let reply = Talk::new(wire, &format!("mock:{name}"))
                .streaming()
                .send(&service)
                .await;
            let said = understand_stream(wire, &reply.data());
            assert_eq!(said.text, expected, "{name} {wire}");
        }
    }
    service.stop().await;
}

#[tokio::test]
async fn a_huge_line_is_one_line() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let reply = Talk::new(MockWire::Chat, "mock:huge_line")
        .streaming()
        .send(&service)
        .await;
    let longest = reply.text().lines().map(str::len).max().unwrap();
    assert!(longest > 4_000_000);
    service.stop().await;
}

#[tokio::test]
async fn a_prompt_beyond_the_scripted_context_is_too_long() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let long = format!("mock:context_overflow {}", "word ".repeat(20_000));
    let table = [
        (MockWire::Anthropic, None, "prompt is too long"),
        (MockWire::Responses, None, "exceeds the context window"),
        (MockWire::Chat, None, "context_length_exceeded"),
        (
            MockWire::Chat,
            Some("/openrouter/v1/chat/completions"),
            "This endpoint's maximum",
        ),
        (
            MockWire::Chat,
            Some("/local/v1/chat/completions"),
            "exceed_context_size_error",
        ),
        (
            MockWire::Gemini,
            None,
            "exceeds the maximum number of tokens",
        ),
    ];
    let talk = |wire: MockWire, path: Option<&str>, text: &str| match path {
        Some(path) => Talk::new(wire, text).at(path),
        None => Talk::new(wire, text),
    };
    for (wire, path, words) in table {
        let reply = talk(wire, path, &long).send(&service).await;
        assert_eq!(reply.status, 400);
        assert!(reply.text().contains(words), "{wire}: {}", reply.text());
        let short = talk(wire, path, "mock:context_overflow");
        assert_eq!(short.ask(&service).await.text, "It fits.");
    }
    service.stop().await;
}
