//! What Chat Completions refuses.

use super::{refused, with_results};
use crate::speech::Talk;
use halter_mock::{MockWire, ServeOptions, serve};
use serde_json::{Value, json};

#[tokio::test]
async fn chat_checks_fields_and_pairs() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let with =
        |change: &dyn Fn(&mut Value)| Talk::new(MockWire::Chat, "hi").with(|body| change(body));
    let table: Vec<(Talk, u16, &str)> = vec![
        (
            with(&|_| ()).without_header("authorization"),
            401,
            "missing_api_key",
        ),
        (
            with(&|body| body["novelty"] = json!(5)),
            400,
            "Unrecognized request argument supplied: novelty",
        ),
        (
            with(&|body| body["stream_options"] = json!({})),
            400,
            "only allowed when 'stream' is enabled",
        ),
        (
            with(&|body| body["tools"] = json!([])),
            400,
            "minimum length 1",
        ),
        (
            with(&|body| {
                body["tools"] =
                    json!([{"type": "function", "function": {"name": "a", "parameters": {}}}])
            }),
            400,
            "invalid_function_parameters",
        ),
        (
            with(&|body| body["messages"] = json!([])),
            400,
            "minimum length 1",
        ),
        (
            with(&|body| body["messages"] = json!([{"role": "assistant", "content": null}])),
            400,
            "no tool calls",
        ),
        (
            with(&|body| body["messages"] = json!([{"role": "robot", "content": "x"}])),
            400,
            "Supported values",
        ),
        (
            with(&|body| {
                body["model"] = json!("gpt-5.6");
                body["max_tokens"] = json!(5);
            }),
            400,
            "max_completion_tokens",
        ),
        (
            with(&|body| {
                body["model"] = json!("o3");
                body["temperature"] = json!(1);
            }),
            400,
            "unsupported_parameter",
        ),
    ];
    for (talk, status, words) in table {
        refused(&service, &talk, status, words).await;
    }
    let local = with(&|body| body["think"] = json!(true)).without_header("authorization");
    assert_eq!(
        local
            .at("/local/v1/chat/completions")
            .send(&service)
            .await
            .status,
        200
    );

    let (talk, _) = with_results(&service, MockWire::Chat, "mock:parallel_tools").await;
    let changed = |change: &dyn Fn(&mut Vec<Value>)| {
        let mut changed = talk.clone();
        change(changed.body["messages"].as_array_mut().unwrap());
        changed
    };
    // 0 user, 1 assistant, 2..5 tool
    let unanswered = "must be followed by tool messages";
    refused(
        &service,
        &changed(&|messages| drop(messages.pop())),
        400,
        unanswered,
    )
    .await;
    let between = changed(&|messages| messages.insert(3, json!({"role": "user", "content": "x"})));
    refused(&service, &between, 400, unanswered).await;
    refused(
        &service,
        &changed(&|messages| drop(messages.remove(1))),
        400,
        "must be a response to a preceding message",
    )
    .await;
    let doubled = changed(&|messages| messages.push(messages[2].clone()));
    refused(&service, &doubled, 400, "must be a response").await;
    let pictured = changed(&|messages| {
        messages[2]["content"] = json!([{"type": "image_url", "image_url": {"url": "data:"}}])
    });
    refused(&service, &pictured, 400, "image_url").await;
    let object =
        changed(&|messages| messages[1]["tool_calls"][0]["function"]["arguments"] = json!({}));
    refused(&service, &object, 400, "arguments").await;
    service.stop().await;
}

#[tokio::test]
async fn chat_servers_that_want_their_reasoning_back_insist() {
    let service = serve(ServeOptions::default()).await.unwrap();
    for (scenario, field) in [
        ("mock:chat_reasoning_content", "reasoning_content"),
        ("mock:chat_reasoning_details", "reasoning_details"),
    ] {
        let (talk, _) = with_results(&service, MockWire::Chat, scenario).await;
        let mut stripped = talk.clone();
        let message = stripped.body["messages"][1].as_object_mut().unwrap();
        assert!(message.remove(field).is_some());
        message.remove("reasoning");
        refused(
            &service,
            &stripped,
            400,
            "passed back to the API unmodified",
        )
        .await;
    }
    let empty = Talk::new(MockWire::Chat, "hi").with(|body| {
        body["messages"].as_array_mut().unwrap().insert(
            0,
            json!({"role": "assistant", "content": "x", "reasoning_content": ""}),
        );
    });
    refused(&service, &empty, 400, "must not be empty").await;
    service.stop().await;
}
