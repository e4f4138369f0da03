//! What OpenAI Responses refuses.

use super::{refused, with_results};
use crate::speech::Talk;
use halter_mock::{MockWire, ServeOptions, serve};
use serde_json::{Value, json};

#[tokio::test]
async fn responses_checks_fields_and_tools() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let with = |change: &dyn Fn(&mut Value)| {
        Talk::new(MockWire::Responses, "hi").with(|body| change(body))
    };
    let strict = json!({"type": "function", "name": "a", "strict": true,
        "parameters": {"type": "object", "properties": {"x": {"type": "string"}}, "additionalProperties": false}});
    let table: Vec<(Talk, u16, &str)> = vec![
        (
            with(&|_| ()).without_header("authorization"),
            401,
            "missing_api_key",
        ),
        (
            with(&|body| body["max_tokens"] = json!(5)),
            400,
            "Unknown parameter: 'max_tokens'",
        ),
        (
            with(&|body| body["temperature"] = json!(0.5)),
            400,
            "'temperature' is not supported with this model",
        ),
        (
            with(&|body| body["max_output_tokens"] = json!(15)),
            400,
            "below minimum value",
        ),
        (
            with(&|body| body["reasoning"] = json!({"effort": "huge"})),
            400,
            "reasoning.effort",
        ),
        (
            with(&|body| {
                body["tools"] =
                    json!([{"type": "function", "name": "a.b", "parameters": {"type": "object"}}])
            }),
            400,
            "does not match pattern",
        ),
        (
            with(&|body| body["tools"] = json!([{"type": "function", "function": {"name": "a"}}])),
            400,
            "tools[0].name",
        ),
        (
            with(&|body| body["tools"] = json!([strict])),
            400,
            "Missing 'x'",
        ),
        (
            with(&|body| drop(body.as_object_mut().unwrap().remove("input"))),
            400,
            "'input'",
        ),
        (
            with(&|body| {
                body["input"] =
                    json!([{"role": "user", "content": [{"type": "output_text", "text": "x"}]}])
            }),
            400,
            "output_text",
        ),
        (
            with(&|body| body["input"] = json!([{"role": "tool", "content": "x"}])),
            400,
            "Supported values",
        ),
    ];
    for (talk, status, words) in table {
        refused(&service, &talk, status, words).await;
    }
    service.stop().await;
}

#[tokio::test]
async fn responses_pairs_calls_and_keeps_reasoning() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let (talk, said) = with_results(&service, MockWire::Responses, "mock:thinking_tool").await;
    let changed = |change: &dyn Fn(&mut Vec<Value>)| {
        let mut changed = talk.clone();
        change(changed.body["input"].as_array_mut().unwrap());
        changed
    };
    // 0 user, 1 reasoning, 2 call, 3 output
    refused(
        &service,
        &changed(&|items| drop(items.remove(3))),
        400,
        "No tool output found for function call",
    )
    .await;
    refused(
        &service,
        &changed(&|items| drop(items.remove(2))),
        400,
        "without its required following item",
    )
    .await;
    refused(
        &service,
        &changed(&|items| drop(items.drain(1..3))),
        400,
        "No tool call found",
    )
    .await;
    refused(
        &service,
        &changed(&|items| drop(items.remove(1))),
        400,
        "without its required 'reasoning' item",
    )
    .await;
    let by_id = changed(&|items| items[3]["call_id"] = items[2]["id"].clone());
    refused(&service, &by_id, 400, "No tool call found").await;
    let edited = changed(&|items| items[1]["summary"][0]["text"] = json!("other"));
    refused(&service, &edited, 400, "invalid_encrypted_content").await;
    let emptied = changed(&|items| {
        drop(
            items[1]
                .as_object_mut()
                .unwrap()
                .remove("encrypted_content"),
        )
    });
    refused(&service, &emptied, 404, "Items are not persisted").await;
    let mut switched = talk.clone();
    switched.model = "gpt-5.5".to_owned();
    refused(&service, &switched, 400, "invalid_encrypted_content").await;
    let mut stripped = changed(&|items| drop(items.remove(1)));
    stripped.model = "gpt-5.5".to_owned();
    assert_eq!(stripped.send(&service).await.status, 200);
    assert_eq!(said.call_ids.len(), 1);
    service.stop().await;
}
