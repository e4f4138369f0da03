//! What Anthropic Messages refuses.

use super::{refused, with_results};
use crate::speech::Talk;
use halter_mock::limits::MAX_CACHE_MARKS;
use halter_mock::{MockWire, ServeOptions, serve};
use serde_json::{Value, json};

#[tokio::test]
async fn anthropic_needs_its_headers() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let talk = || Talk::new(MockWire::Anthropic, "hi");
    let table = [
        (
            talk().without_header("x-api-key"),
            401,
            "authentication_error",
        ),
        (
            talk().without_header("anthropic-version"),
            400,
            "anthropic-version",
        ),
        (
            talk().with_header("anthropic-version", "2031-01-01"),
            400,
            "not a valid version",
        ),
        (talk().without_header("content-type"), 400, "content-type"),
    ];
    for (talk, status, words) in table {
        refused(&service, &talk, status, words).await;
    }
    let bearer = talk()
        .without_header("x-api-key")
        .with_header("authorization", "Bearer k");
    assert_eq!(bearer.send(&service).await.status, 200);
    service.stop().await;
}

#[tokio::test]
async fn anthropic_checks_fields_tools_and_thinking() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let with = |change: &dyn Fn(&mut Value)| {
        Talk::new(MockWire::Anthropic, "hi").with(|body| change(body))
    };
    let schema = json!({"type": "object"});
    let table: Vec<(Talk, &str)> = vec![
        (
            with(&|body| drop(body.as_object_mut().unwrap().remove("max_tokens"))),
            "max_tokens: Field required",
        ),
        (
            with(&|body| body["temperature"] = json!(1.0)),
            "temperature: Extra inputs are not permitted",
        ),
        (
            with(&|body| body["novelty"] = json!(1)),
            "novelty: Extra inputs are not permitted",
        ),
        (
            with(&|body| body["thread"] = json!({})),
            "thread: Extra inputs",
        ),
        (
            with(&|body| body["tools"] = json!([{"name": "a b", "input_schema": schema}])),
            "String should match pattern",
        ),
        (
            with(&|body| {
                body["tools"] = json!([{"name": "a", "input_schema": {"type": "string"}}])
            }),
            "type \\\"object\\\"",
        ),
        (
            with(&|body| {
                body["tools"] =
                    json!([{"name": "a", "input_schema": {"type": "object", "required": 1}}])
            }),
            "not valid JSON Schema",
        ),
        (
            with(
                &|body| body["tools"] = json!([{"name": "a", "input_schema": schema}, {"name": "a", "input_schema": schema}]),
            ),
            "names must be unique",
        ),
        (
            with(&|body| body["tool_choice"] = json!({"type": "tool", "name": "nope"})),
            "not found in provided tools",
        ),
        (
            with(&|body| body["thinking"] = json!({"type": "enabled", "budget_tokens": 2000})),
            "not supported by claude-sonnet-5",
        ),
        (
            with(&|body| body["system"] = json!([{"type": "text", "text": ""}])),
            "must be non-empty",
        ),
        (
            with(&|body| body["messages"] = json!([])),
            "at least one message",
        ),
        (
            with(&|body| body["messages"] = json!([{"role": "user", "content": "   "}])),
            "non-empty content",
        ),
        (
            with(&|body| body["messages"] = json!([{"role": "assistant", "content": "x"}])),
            "first message must use",
        ),
        (
            with(&|body| {
                body["messages"] =
                    json!([{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}])
            }),
            "prefill",
        ),
        (
            with(
                &|body| body["messages"] = json!([{"role": "user", "content": [{"type": "image", "source": {"type": "base64", "media_type": "image/tiff", "data": "AA=="}}]}]),
            ),
            "media_type",
        ),
    ];
    for (talk, words) in table {
        refused(&service, &talk, 400, words).await;
    }
    let old = with(&|body| body["temperature"] = json!(0.5))
        .with_header("anthropic-version", "2023-06-01");
    assert_eq!(old.send(&service).await.status, 200);
    let beta = with(&|body| body["thread"] = json!({"type": "create"}))
        .with_header("anthropic-beta", "message-threads-2026-08-12");
    assert_eq!(beta.send(&service).await.status, 200);
    service.stop().await;
}

#[tokio::test]
async fn anthropic_wants_every_result_first_and_at_once() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let (talk, _) = with_results(&service, MockWire::Anthropic, "mock:parallel_tools").await;
    let blocks = |talk: &mut Talk, change: &dyn Fn(&mut Vec<Value>)| {
        change(talk.body["messages"][2]["content"].as_array_mut().unwrap());
    };
    let text = json!({"type": "text", "text": "and also"});
    let changed = |change: &dyn Fn(&mut Vec<Value>)| {
        let mut changed = talk.clone();
        blocks(&mut changed, change);
        changed
    };
    let missing = "`tool_use` ids were found without `tool_result` blocks immediately after";
    refused(
        &service,
        &changed(&|blocks| drop(blocks.pop())),
        400,
        missing,
    )
    .await;
    refused(
        &service,
        &changed(&|blocks| blocks.insert(0, text.clone())),
        400,
        missing,
    )
    .await;
    refused(
        &service,
        &changed(&|blocks| blocks.insert(1, text.clone())),
        400,
        missing,
    )
    .await;
    let doubled = changed(&|blocks| blocks.push(blocks[0].clone()));
    refused(&service, &doubled, 400, "single result").await;
    let stranger = changed(&|blocks| blocks[0]["tool_use_id"] = json!("toolu_x"));
    refused(&service, &stranger, 400, missing).await;
    let after = changed(&|blocks| blocks.push(text.clone()));
    assert_eq!(after.send(&service).await.status, 200);
    let shuffled = changed(&|blocks| blocks.reverse());
    assert_eq!(shuffled.send(&service).await.status, 200);
    let mut orphan = Talk::new(MockWire::Anthropic, "hi");
    orphan.push(
        "messages",
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_x"}]}),
    );
    refused(&service, &orphan, 400, "unexpected `tool_use_id`").await;
    let mut between = talk.clone();
    between.body["messages"]
        .as_array_mut()
        .unwrap()
        .insert(2, json!({"role": "user", "content": "wait"}));
    refused(&service, &between, 400, missing).await;
    service.stop().await;
}

#[tokio::test]
async fn anthropic_places_system_messages() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let system = json!({"role": "system", "content": "Be brief."});
    let mut last = Talk::new(MockWire::Anthropic, "hi");
    last.push("messages", system.clone());
    assert_eq!(last.send(&service).await.status, 200);
    let mut followed = last.clone();
    followed.push("messages", json!({"role": "user", "content": "x"}));
    refused(
        &service,
        &followed,
        400,
        "must directly follow a user message",
    )
    .await;
    let first = Talk::new(MockWire::Anthropic, "hi").with(|body| {
        body["messages"].as_array_mut().unwrap().insert(0, system);
    });
    refused(&service, &first, 400, "first message").await;
    service.stop().await;
}

#[tokio::test]
async fn anthropic_wants_thoughts_back_unmodified_for_the_same_model() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let (talk, _) = with_results(&service, MockWire::Anthropic, "mock:thinking_tool").await;
    let changed = |change: &dyn Fn(&mut Vec<Value>)| {
        let mut changed = talk.clone();
        change(
            changed.body["messages"][1]["content"]
                .as_array_mut()
                .unwrap(),
        );
        changed
    };
    let edited = changed(&|blocks| blocks[0]["thinking"] = json!("I thought better of it."));
    refused(
        &service,
        &edited,
        400,
        "Invalid `signature` in `thinking` block",
    )
    .await;
    let dropped = changed(&|blocks| drop(blocks.remove(0)));
    refused(&service, &dropped, 400, "cannot be modified").await;
    let mut switched = talk.clone();
    switched.model = "claude-opus-5".to_owned();
    refused(&service, &switched, 400, "Invalid `signature`").await;
    let mut stripped = dropped.clone();
    stripped.model = "claude-opus-5".to_owned();
    assert_eq!(stripped.send(&service).await.status, 200);
    service.stop().await;
}

#[tokio::test]
async fn anthropic_counts_and_places_cache_marks() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let mark = json!({"type": "ephemeral"});
    let marked = |count: usize| {
        Talk::new(MockWire::Anthropic, "hi").with(|body| {
            let blocks: Vec<_> = (0..count)
                .map(|number| json!({"type": "text", "text": format!("{number}"), "cache_control": mark}))
                .collect();
            body["system"] = json!(blocks);
        })
    };
    assert_eq!(marked(MAX_CACHE_MARKS).send(&service).await.status, 200);
    let too_many = marked(MAX_CACHE_MARKS + 1);
    let told = "A maximum of 4 blocks with cache_control";
    refused(&service, &too_many, 400, told).await;
    let automatic = marked(MAX_CACHE_MARKS).with(|body| body["cache_control"] = mark.clone());
    refused(&service, &automatic, 400, "Found 5").await;
    let ordered = marked(2).with(|body| body["system"][1]["cache_control"]["ttl"] = json!("1h"));
    refused(&service, &ordered, 400, "must not come after").await;
    let (mut talk, _) = with_results(&service, MockWire::Anthropic, "mock:thinking_tool").await;
    talk.body["messages"][1]["content"][0]["cache_control"] = mark;
    refused(&service, &talk, 400, "cannot be set for thinking blocks").await;
    service.stop().await;
}
