//! The scenarios that come with the crate.

use crate::client::Ended;
use crate::speech::Talk;
use halter_mock::{MockWire, ScenarioLibrary, ServeOptions, script_schema, serve};
use serde_json::json;

#[test]
fn the_built_in_scripts_fit_the_schema() {
    let schema = jsonschema::draft202012::new(&script_schema()).unwrap();
    let library = ScenarioLibrary::built_in().unwrap();
    for (name, scenario) in library.iter() {
        let script = json!({"scenarios": {name: scenario}});
        assert!(schema.is_valid(&script), "{name}");
    }
    assert!(!schema.is_valid(&json!({"scenarios": {"x": {"steps": []}}})));
}

#[tokio::test]
async fn every_scenario_without_a_fault_answers_on_each_of_its_wires_both_ways() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let names: Vec<_> = service
        .scenarios()
        .iter()
        // The huge line has its own test; eight of them take long.
        .filter(|(name, _)| *name != "huge_line")
        .filter(|(_, scenario)| {
            let first = &scenario.steps[0];
            let prompt = first.delivery.first_byte_ms == 0 && first.hold.is_none();
            let fits = first.context_bytes != Some(1);
            first.fault.is_none() && first.fail_first.is_none() && prompt && fits
        })
        .map(|(name, scenario)| (name.to_owned(), scenario.wires.clone()))
        .collect();
    assert!(names.len() > 60);
    for (name, wires) in names {
        for wire in MockWire::ALL {
            for streaming in [false, true] {
                let mut talk = Talk::new(wire, &format!("mock:{name}"));
                talk.streaming = streaming;
                let reply = talk.send(&service).await;
                if wires.is_empty() || wires.contains(&wire) {
                    assert_eq!(reply.status, 200, "{name} {wire}");
                    assert_eq!(reply.ended, Ended::Whole, "{name} {wire}");
                    assert!(if streaming {
                        !reply.data().is_empty()
                    } else {
                        reply.json().is_object()
                    });
                } else {
                    assert_eq!(reply.status, 400, "{name} {wire}");
                }
            }
        }
    }
    service.stop().await;
}

#[tokio::test]
async fn results_are_quoted_in_later_steps() {
    let service = serve(ServeOptions::default()).await.unwrap();
    for wire in MockWire::ALL {
        let mut talk = Talk::new(wire, "mock:multi_tool_turn_roundtrip").streaming();
        let said = talk.ask(&service).await;
        talk.answer(
            &said,
            &[r#"{"content":"parity line"}"#, r#"{"total_matches":2}"#],
        );
        assert_eq!(
            talk.ask(&service).await.text,
            "Read parity line and found 2.",
            "{wire}"
        );
    }
    service.stop().await;
}

#[tokio::test]
async fn a_half_call_at_the_output_limit_is_told_as_each_wire_tells_it() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let ask = |wire| {
        let service = &service;
        async move {
            Talk::new(wire, "mock:max_tokens_in_call")
                .streaming()
                .send(service)
                .await
                .data()
        }
    };
    let events = ask(MockWire::Anthropic).await;
    let fragments: String = events
        .iter()
        .filter_map(|event| event["delta"]["partial_json"].as_str())
        .collect();
    assert_eq!(fragments, r#"{"path":"half.txt","cont"#);
    assert_eq!(
        events[events.len() - 2]["delta"]["stop_reason"],
        "max_tokens"
    );
    let events = ask(MockWire::Responses).await;
    let last = events.last().unwrap();
    assert_eq!(last["type"], "response.incomplete");
    assert_eq!(last["response"]["output"][1]["status"], "incomplete");
    assert_eq!(
        last["response"]["incomplete_details"]["reason"],
        "max_output_tokens"
    );
    let events = ask(MockWire::Chat).await;
    assert_eq!(
        events.last().unwrap()["choices"][0]["finish_reason"],
        "length"
    );
    let events = ask(MockWire::Gemini).await;
    assert_eq!(
        events.last().unwrap()["candidates"][0]["finishReason"],
        "MAX_TOKENS"
    );
    service.stop().await;
}

#[tokio::test]
async fn chat_dialects_differ_in_their_fragments() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let fragments = |name: &'static str| {
        let service = &service;
        async move {
            let talk = Talk::new(MockWire::Chat, &format!("mock:{name}")).streaming();
            let chunks = talk.send(service).await.data();
            let fragments: Vec<_> = chunks
                .iter()
                .filter_map(|chunk| chunk["choices"][0]["delta"]["tool_calls"].get(0).cloned())
                .collect();
            fragments
        }
    };
    let found = fragments("chat_missing_index").await;
    assert!(found.iter().all(|fragment| fragment.get("index").is_none()));
    let found = fragments("chat_repeated_id").await;
    assert!(found.iter().all(|fragment| fragment["id"].is_string()));
    let found = fragments("chat_empty_id").await;
    assert_eq!(found[1]["id"], "");
    let found = fragments("chat_whole_call").await;
    assert_eq!(found.len(), 2);
    assert_eq!(found[1]["function"]["arguments"], r#"{"pattern":"*.rs"}"#);
    let found = fragments("chat_split_name").await;
    assert_eq!(
        (&found[0]["function"]["name"], &found[1]["function"]["name"]),
        (&json!("re"), &json!("ad"))
    );
    let found = fragments("chat_arguments_object").await;
    assert_eq!(found[0]["function"]["arguments"], json!({"path": "a.txt"}));
    let found = fragments("chat_shared_index").await;
    assert!(found.iter().all(|fragment| fragment["index"] == 0));
    let found = fragments("chat_empty_arguments").await;
    assert_eq!(
        (found.len(), &found[0]["function"]["arguments"]),
        (1, &json!(""))
    );
    service.stop().await;
}

#[tokio::test]
async fn chat_dialects_differ_in_their_endings_and_reasoning() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let text = |name: &'static str| {
        let service = &service;
        async move {
            let talk = Talk::new(MockWire::Chat, &format!("mock:{name}"))
                .streaming()
                .with(|body| body["stream_options"] = json!({"include_usage": true}));
            talk.send(service).await.text()
        }
    };
    assert!(
        text("chat_stop_with_calls")
            .await
            .contains(r#""finish_reason":"stop""#)
    );
    assert!(
        text("chat_usage_on_choice")
            .await
            .contains(r#""finish_reason":"stop"}],"usage""#)
    );
    assert!(!text("chat_no_usage").await.contains("usage"));
    assert!(!text("chat_missing_done").await.contains("[DONE]"));
    assert!(
        text("chat_reasoning")
            .await
            .contains(r#""delta":{"reasoning":"Let me see."}"#)
    );
    assert!(
        text("chat_reasoning_text")
            .await
            .contains("reasoning_opaque")
    );
    assert!(
        text("chat_think_tags")
            .await
            .contains(r#""content":"<think>""#)
    );
    assert!(
        text("chat_processing_comments")
            .await
            .starts_with(": OPENROUTER PROCESSING\n\n")
    );
    service.stop().await;
}

#[tokio::test]
async fn unknown_things_are_in_the_answer_and_accepted_back() {
    let service = serve(ServeOptions::default()).await.unwrap();
    for wire in MockWire::ALL {
        let mut talk = Talk::new(wire, "mock:unknown_everything").streaming();
        if wire == MockWire::Chat {
            talk.body["stream_options"] = json!({"include_usage": true});
        }
        let reply = talk.send(&service).await.text();
        for novelty in ["clear", "green", "since", "dream"] {
            assert!(reply.contains(novelty), "{wire} {novelty}");
        }
        let said = talk.ask(&service).await;
        talk.answer(&said, &["fine"]);
        assert_eq!(talk.ask(&service).await.text, "And it went well.", "{wire}");
    }
    service.stop().await;
}
