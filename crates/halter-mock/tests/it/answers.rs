//! What each wire answers.

use crate::client::send;
use crate::speech::Talk;
use halter_mock::{MockWire, ServeOptions, serve};
use serde_json::{Value, json};

#[tokio::test]
async fn text_is_the_same_whole_and_streamed_on_every_wire() {
    let service = serve(ServeOptions::default()).await.unwrap();
    for wire in MockWire::ALL {
        let whole = Talk::new(wire, "hi mock:streaming_text")
            .ask(&service)
            .await;
        let streamed = Talk::new(wire, "hi mock:streaming_text")
            .streaming()
            .ask(&service)
            .await;
        assert_eq!(whole.text, "Mock streaming says hello.", "{wire}");
        assert_eq!(streamed.text, whole.text, "{wire}");
        assert_eq!(streamed.stop, whole.stop, "{wire}");
    }
    service.stop().await;
}

#[tokio::test]
async fn parallel_calls_and_their_results_make_a_conversation_on_every_wire() {
    let service = serve(ServeOptions::default()).await.unwrap();
    for (wire, streams) in MockWire::ALL
        .into_iter()
        .flat_map(|wire| [(wire, false), (wire, true)])
    {
        let mut talk = Talk::new(wire, "look mock:parallel_tools path=x.txt");
        talk.streaming = streams;
        let said = talk.ask(&service).await;
        assert_eq!(
            said.calls,
            [
                ("read".to_owned(), json!({"path": "x.txt"})),
                ("glob".to_owned(), json!({"pattern": "**/*.txt"})),
                ("grep".to_owned(), json!({"pattern": "alpha"})),
            ],
            "{wire}"
        );
        talk.answer(&said, &["one", "two", "three"]);
        assert_eq!(
            talk.ask(&service).await.text,
            "The first result was: one",
            "{wire}"
        );
    }
    service.stop().await;
}

#[tokio::test]
async fn thoughts_are_accepted_back_as_they_were_on_every_wire() {
    let service = serve(ServeOptions::default()).await.unwrap();
    for (wire, streams) in MockWire::ALL
        .into_iter()
        .flat_map(|wire| [(wire, false), (wire, true)])
    {
        let mut talk = Talk::new(wire, "look mock:thinking_tool");
        talk.streaming = streams;
        let first = talk.ask(&service).await;
        assert_eq!(first.thinking, "First I list the files.", "{wire}");
        talk.answer(&first, &["a"]);
        let second = talk.ask(&service).await;
        assert_eq!(second.thinking, "Now I read one.", "{wire}");
        talk.answer(&second, &["b"]);
        assert_eq!(
            talk.ask(&service).await.text,
            "Both steps are done.",
            "{wire}"
        );
    }
    service.stop().await;
}

#[tokio::test]
async fn usage_is_added_up_as_each_wire_does_it() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let usage = |wire| {
        let service = &service;
        async move { Talk::new(wire, "mock:cached").send(service).await.json() }
    };
    assert_eq!(
        usage(MockWire::Anthropic).await["usage"],
        json!({
            "input_tokens": 11,
            "cache_creation_input_tokens": 340,
            "cache_read_input_tokens": 2000,
            "cache_creation": {"ephemeral_5m_input_tokens": 300, "ephemeral_1h_input_tokens": 40},
            "output_tokens": 11,
            "output_tokens_details": {"thinking_tokens": 6},
            "service_tier": "standard",
        })
    );
    assert_eq!(
        usage(MockWire::Responses).await["usage"],
        json!({
            "input_tokens": 2351,
            "input_tokens_details": {"cached_tokens": 2000, "cache_write_tokens": 340},
            "output_tokens": 11,
            "output_tokens_details": {"reasoning_tokens": 6},
            "total_tokens": 2362,
        })
    );
    assert_eq!(
        usage(MockWire::Chat).await["usage"],
        json!({
            "prompt_tokens": 2351,
            "completion_tokens": 11,
            "total_tokens": 2362,
            "prompt_tokens_details": {"cached_tokens": 2000, "cache_write_tokens": 340},
            "completion_tokens_details": {"reasoning_tokens": 6},
        })
    );
    assert_eq!(
        usage(MockWire::Gemini).await["usageMetadata"],
        json!({
            "promptTokenCount": 2351,
            "candidatesTokenCount": 5,
            "totalTokenCount": 2362,
            "cachedContentTokenCount": 2000,
            "thoughtsTokenCount": 6,
        })
    );
    service.stop().await;
}

#[tokio::test]
async fn the_same_request_has_the_same_answer_whatever_came_between() {
    let service = serve(ServeOptions::default()).await.unwrap();
    for wire in MockWire::ALL {
        let talk = Talk::new(wire, "mock:thinking_tool").streaming();
        let first = talk.send(&service).await.body;
        let mut other = Talk::new(wire, "mock:parallel_tools");
        let said = other.ask(&service).await;
        other.answer(&said, &["1", "2", "3"]);
        other.ask(&service).await;
        assert_eq!(talk.send(&service).await.body, first, "{wire}");
    }
    service.stop().await;
}

#[tokio::test]
async fn anthropic_events_come_in_their_order() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let talk = Talk::new(MockWire::Anthropic, "mock:thinking").streaming();
    let names: Vec<_> = talk
        .send(&service)
        .await
        .events()
        .into_iter()
        .map(|(name, data)| {
            let data: Value = serde_json::from_str(&data).unwrap();
            assert_eq!(data["type"], json!(name));
            let delta = data["delta"]["type"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            format!("{} {delta}", name.unwrap()).trim().to_owned()
        })
        .collect();
    assert_eq!(
        names,
        [
            "message_start",
            "content_block_start",
            "content_block_delta thinking_delta",
            "content_block_delta thinking_delta",
            "content_block_delta signature_delta",
            "content_block_stop",
            "content_block_start",
            "content_block_delta text_delta",
            "content_block_stop",
            "message_delta",
            "message_stop",
        ]
    );
    service.stop().await;
}

#[tokio::test]
async fn responses_events_are_numbered_and_only_done_items_carry_the_reasoning() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let events = Talk::new(MockWire::Responses, "mock:thinking_tool")
        .streaming()
        .send(&service)
        .await
        .data();
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], json!(number));
    }
    let names: Vec<_> = events
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    assert_eq!(names[..2], ["response.created", "response.in_progress"]);
    assert_eq!(names.last(), Some(&"response.completed"));
    let item =
        |name: &str| events.iter().find(|event| event["type"] == name).unwrap()["item"].clone();
    let added = item("response.output_item.added");
    let done = item("response.output_item.done");
    assert_ne!(added["encrypted_content"], done["encrypted_content"]);
    assert_eq!(done, events.last().unwrap()["response"]["output"][0]);
    service.stop().await;
}

#[tokio::test]
async fn without_being_asked_for_there_is_no_encrypted_reasoning() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let talk =
        Talk::new(MockWire::Responses, "mock:thinking").with(|body| body["include"] = json!([]));
    let answer = talk.send(&service).await.json();
    assert_eq!(answer["output"][0].get("encrypted_content"), None);
    service.stop().await;
}

#[tokio::test]
async fn chat_streams_end_with_usage_and_done() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let talk = Talk::new(MockWire::Chat, "mock:token_cost_reporting").streaming();
    let plain = talk.send(&service).await;
    assert!(plain.text().ends_with("data: [DONE]\n\n"));
    assert!(
        plain
            .data()
            .iter()
            .all(|chunk| chunk.get("usage").is_none())
    );
    let talk = talk.with(|body| body["stream_options"] = json!({"include_usage": true}));
    let last = talk.send(&service).await.data().pop().unwrap();
    assert_eq!(last["choices"], json!([]));
    assert_eq!(last["usage"]["prompt_tokens"], json!(1230));
    service.stop().await;
}

#[tokio::test]
async fn gemini_signs_the_first_of_parallel_calls_only() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let answer = Talk::new(MockWire::Gemini, "mock:parallel_tools")
        .send(&service)
        .await
        .json();
    let signed: Vec<_> = answer["candidates"][0]["content"]["parts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| part.get("thoughtSignature").is_some())
        .collect();
    assert_eq!(signed, [false, true, false, false]);
    service.stop().await;
}

#[tokio::test]
async fn models_are_listed_as_each_wire_lists_them() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let get = |path: &'static str, header: (&'static str, &'static str)| {
        let service = &service;
        async move {
            send(service, "GET", path, &[header, ("x-api-key", "k")], b"")
                .await
                .json()
        }
    };
    let anthropic = get("/v1/models", ("anthropic-version", "2026-10-21")).await;
    assert_eq!(anthropic["data"][0]["id"], "mock-large");
    assert_eq!(anthropic["data"][0]["max_input_tokens"], 1_000_000);
    let openai = get("/v1/models", ("authorization", "Bearer k")).await;
    assert_eq!(openai["object"], "list");
    let gemini = get("/v1beta/models", ("x-goog-api-key", "k")).await;
    assert_eq!(gemini["models"][1]["name"], "models/mock-small");
    let one = get(
        "/openai/v1/models/mock-small",
        ("authorization", "Bearer k"),
    )
    .await;
    assert_eq!(one["id"], "mock-small");
    let newer = get("/v1/models", ("x-goog-api-key", "k")).await;
    assert_eq!(newer, gemini);
    let none = get("/v1beta/models/nope", ("x-goog-api-key", "k")).await;
    assert_eq!(none["error"]["status"], "NOT_FOUND");
    service.stop().await;
}

#[tokio::test]
async fn tokens_are_counted_without_choosing_a_scenario() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let table = [
        (
            MockWire::Anthropic,
            "/v1/messages/count_tokens",
            "input_tokens",
        ),
        (
            MockWire::Responses,
            "/v1/responses/input_tokens",
            "input_tokens",
        ),
        (
            MockWire::Gemini,
            "/v1beta/models/m:countTokens",
            "totalTokens",
        ),
        (MockWire::Gemini, "/v1/models/m:countTokens", "totalTokens"),
        (
            MockWire::Anthropic,
            "/anthropic/v1/messages/count_tokens",
            "input_tokens",
        ),
    ];
    for (wire, path, key) in table {
        let reply = Talk::new(wire, "count me mock:nothing-of-this-name")
            .at(path)
            .send(&service)
            .await;
        assert!(reply.json()[key].as_u64().unwrap() > 10, "{wire}");
    }
    assert!(
        service
            .requests()
            .iter()
            .all(|request| request.scenario().is_none())
    );
    service.stop().await;
}

#[tokio::test]
async fn openrouter_has_its_own_usage_errors_and_reasoning() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let talk = Talk::new(MockWire::Chat, "mock:chat_reasoning_details")
        .at("/api/v1/chat/completions")
        .streaming();
    let chunks = talk.send(&service).await.data();
    assert!(chunks.last().unwrap()["usage"]["cost"].is_number());
    let mut talk = talk;
    let said = talk.ask(&service).await;
    talk.answer(&said, &["x"]);
    assert_eq!(talk.ask(&service).await.text, "Returned.");
    let failed = Talk::new(MockWire::Chat, "mock:overloaded")
        .at("/api/v1/chat/completions")
        .send(&service)
        .await;
    assert_eq!(failed.json()["error"]["code"], 529);
    let broken = Talk::new(MockWire::Chat, "mock:chat_error_chunk")
        .at("/api/v1/chat/completions")
        .streaming()
        .send(&service)
        .await
        .data()
        .pop()
        .unwrap();
    assert_eq!(broken["choices"][0]["finish_reason"], "error");
    assert_eq!(broken["error"]["code"], 502);
    service.stop().await;
}
