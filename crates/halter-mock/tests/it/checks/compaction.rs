//! Compactions of Anthropic and OpenAI Responses: what is made, what must come
//! back as it was, and what is refused.

use super::refused;
use crate::speech::Talk;
use halter_mock::{MockService, MockWire, ServeOptions, serve};
use serde_json::{Value, json};

const BETA: &str = "compact-2026-09-04";

fn anthropic(change: impl FnOnce(&mut Value)) -> Talk {
    let mut talk = Talk::new(MockWire::Anthropic, "hi").with(change);
    talk.headers
        .push(("anthropic-beta".to_owned(), BETA.to_owned()));
    talk
}

fn to_compact(change: impl FnOnce(&mut Value)) -> Talk {
    anthropic(|body| {
        body["compaction"] = json!({"type": "summarize"});
        body["messages"] = json!([
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "hello"},
        ]);
        change(body);
    })
}

async fn answered(service: &MockService, talk: &Talk) -> Value {
    let reply = talk.send(service).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()
}

#[tokio::test]
async fn anthropic_makes_a_signed_summary_and_takes_it_back() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let made = answered(&service, &to_compact(|_| ())).await;
    assert_eq!(made["stop_reason"], "compaction");
    assert_eq!(made["usage"]["output_tokens"], 0);
    assert_eq!(made["usage"]["iterations"][0]["type"], "compaction");
    let block = made["content"][0].clone();
    assert_eq!(block["type"], "compaction");
    let going_on = |block: &Value| {
        let block = block.clone();
        anthropic(move |body| {
            body["messages"] = json!([
                {"role": "assistant", "content": [block]},
                {"role": "user", "content": "and now?"},
            ]);
        })
    };
    let reply = going_on(&block).send(&service).await;
    assert_eq!(reply.status, 200, "{}", reply.text());

    let mut forged = block.clone();
    forged["content"] = json!("another summary");
    refused(&service, &going_on(&forged), 400, "Invalid `signature`").await;
    let without_beta = going_on(&block).without_header("anthropic-beta");
    refused(&service, &without_beta, 400, BETA).await;
    let misplaced = anthropic(|body| {
        body["messages"] = json!([
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": [block]},
            {"role": "user", "content": "and now?"},
        ]);
    });
    refused(&service, &misplaced, 400, "compaction_block_misplaced").await;
}

#[tokio::test]
async fn anthropic_refuses_wishes_it_does_not_know() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let table: Vec<(Talk, &str)> = vec![
        (
            to_compact(|body| body["compaction"]["type"] = json!("forget")),
            "compaction.type",
        ),
        (
            to_compact(|body| body["compaction"]["tokens"] = json!(5)),
            "compaction.tokens",
        ),
        (
            to_compact(|body| body["compaction"]["instructions"] = json!("x".repeat(16_385))),
            "16384",
        ),
        (
            to_compact(|body| body["context_management"] = json!({"edits": []})),
            "context_management",
        ),
        (
            to_compact(|body| body["tool_choice"] = json!({"type": "any"})),
            "tool_choice",
        ),
        (to_compact(|_| ()).without_header("anthropic-beta"), ""),
        (
            anthropic(|body| {
                body["messages"] = json!([
                    {"role": "user", "content": "hi"},
                    {"role": "assistant", "content": "hello"},
                ]);
            }),
            "prefill",
        ),
    ];
    for (talk, words) in table {
        refused(&service, &talk, 400, words).await;
    }
}

fn openai(change: impl FnOnce(&mut Value)) -> Talk {
    let mut talk = Talk::new(MockWire::Responses, "hi").with(|body| {
        let model = body["model"].clone();
        let input = body["input"].clone();
        *body = json!({"input": input});
        if !model.is_null() {
            body["model"] = model;
        }
        change(body);
    });
    talk.path = Some("/v1/responses/compact".to_owned());
    talk.streaming = false;
    talk
}

#[tokio::test]
async fn openai_makes_an_encrypted_item_and_takes_it_back() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let made = answered(&service, &openai(|_| ())).await;
    assert_eq!(made["object"], "response.compaction");
    let output = made["output"].as_array().unwrap().clone();
    assert_eq!(output[0]["role"], "user", "the user's words stay");
    assert_eq!(output[1]["type"], "compaction");
    assert!(made["usage"]["output_tokens"].as_u64().unwrap() > 0);

    let going_on = |output: &[Value]| {
        let mut input = output.to_vec();
        input.push(json!({"role": "user", "content": "and now?"}));
        Talk::new(MockWire::Responses, "hi").with(move |body| body["input"] = json!(input))
    };
    let reply = going_on(&output).send(&service).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let mut forged = output.clone();
    forged[1]["encrypted_content"] = json!("Zm9yZ2Vk");
    refused(
        &service,
        &going_on(&forged),
        400,
        "invalid_encrypted_content",
    )
    .await;
    forged[1] = json!({"type": "compaction", "id": "cmp_1"});
    refused(&service, &going_on(&forged), 400, "encrypted_content").await;
}

#[tokio::test]
async fn openai_refuses_fields_of_an_answer() {
    let service = serve(ServeOptions::default()).await.unwrap();
    for field in ["stream", "store", "tools", "max_output_tokens"] {
        let talk = openai(|body| body[field] = json!(null));
        let words = format!("Unknown parameter: '{field}'");
        refused(&service, &talk, 400, &words).await;
    }
}
