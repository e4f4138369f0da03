//! What Gemini refuses.

use super::{refused, with_results};
use crate::speech::Talk;
use halter_mock::{MockWire, ServeOptions, serve};
use serde_json::{Value, json};

#[tokio::test]
async fn gemini_checks_fields_and_tools() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let with =
        |change: &dyn Fn(&mut Value)| Talk::new(MockWire::Gemini, "hi").with(|body| change(body));
    let declared = |function: Value| json!([{"functionDeclarations": [function]}]);
    let table: Vec<(Talk, u16, &str)> = vec![
        (
            with(&|_| ()).without_header("x-goog-api-key"),
            403,
            "PERMISSION_DENIED",
        ),
        (
            with(&|body| body["novelty"] = json!(5)),
            400,
            "Unknown name \\\"novelty\\\"",
        ),
        (
            with(&|body| body["systemInstructions"] = json!({})),
            400,
            "Unknown name",
        ),
        (
            with(&|body| body["generationConfig"] = json!({"max_tokens": 1})),
            400,
            "generation_config",
        ),
        (
            with(&|body| {
                body["generationConfig"] =
                    json!({"thinkingConfig": {"thinkingLevel": "LOW", "thinkingBudget": 5}})
            }),
            400,
            "only one of",
        ),
        (
            with(&|body| body["tools"] = declared(json!({"name": "1a"}))),
            400,
            "Invalid function name",
        ),
        (
            with(&|body| {
                body["tools"] =
                    declared(json!({"name": "a", "parametersJsonSchema": {"type": "array"}}))
            }),
            400,
            "type \\\"object\\\"",
        ),
        (
            with(&|body| {
                body["tools"] =
                    declared(json!({"name": "a", "parameters": {"type": "OBJECT", "$schema": "x"}}))
            }),
            400,
            "$schema",
        ),
        (
            with(&|body| {
                body["tools"] = declared(
                    json!({"name": "a", "parameters": {}, "parametersJsonSchema": {"type": "object"}}),
                )
            }),
            400,
            "mutually exclusive",
        ),
        (
            with(&|body| body["contents"] = json!([])),
            400,
            "contents is not specified",
        ),
        (
            with(&|body| {
                body["contents"] = json!([{"role": "assistant", "parts": [{"text": "x"}]}])
            }),
            400,
            "valid role",
        ),
        (
            with(&|body| body["contents"] = json!([{"role": "user", "parts": [{}]}])),
            400,
            "oneof field",
        ),
        (
            with(&|body| body["contents"] = json!([{"role": "user", "parts": []}])),
            400,
            "must not be empty",
        ),
    ];
    for (talk, status, words) in table {
        refused(&service, &talk, status, words).await;
    }
    let array = Talk::new(MockWire::Gemini, "hi").at("/v1beta/models/m:streamGenerateContent");
    refused(&service, &array, 400, "alt=sse").await;
    service.stop().await;
}

#[tokio::test]
async fn gemini_pairs_in_order_and_keeps_signatures() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let (talk, _) = with_results(&service, MockWire::Gemini, "mock:parallel_tools").await;
    let changed = |content: usize, change: &dyn Fn(&mut Vec<Value>)| {
        let mut changed = talk.clone();
        change(
            changed.body["contents"][content]["parts"]
                .as_array_mut()
                .unwrap(),
        );
        changed
    };
    // 1 is the model's turn (text, three calls), 2 the responses
    let unequal = "number of function response parts is equal";
    refused(
        &service,
        &changed(2, &|parts| drop(parts.pop())),
        400,
        unequal,
    )
    .await;
    refused(
        &service,
        &changed(2, &|parts| parts.reverse()),
        400,
        "in the order of the function calls",
    )
    .await;
    let unnamed = changed(2, &|parts| {
        drop(
            parts[0]["functionResponse"]
                .as_object_mut()
                .unwrap()
                .remove("id"),
        )
    });
    refused(&service, &unnamed, 400, "same ids").await;
    let text = changed(2, &|parts| {
        parts[0]["functionResponse"]["response"] = json!("plain")
    });
    refused(&service, &text, 400, "Struct").await;
    let unsigned = changed(1, &|parts| {
        drop(parts[1].as_object_mut().unwrap().remove("thoughtSignature"))
    });
    refused(&service, &unsigned, 400, "missing a thought_signature").await;
    let edited = changed(1, &|parts| {
        parts[1]["functionCall"]["args"] = json!({"path": "other"})
    });
    refused(&service, &edited, 400, "Invalid thought signature").await;
    let moved = changed(1, &|parts| {
        let signature = parts[1]
            .as_object_mut()
            .unwrap()
            .remove("thoughtSignature")
            .unwrap();
        parts[2]["thoughtSignature"] = signature;
    });
    refused(&service, &moved, 400, "thought").await;
    let imported = changed(1, &|parts| {
        parts[1]["thoughtSignature"] = json!("skip_thought_signature_validator")
    });
    assert_eq!(imported.send(&service).await.status, 200);
    let mut switched = talk.clone();
    switched.model = "gemini-3.5-pro".to_owned();
    refused(&service, &switched, 400, "Invalid thought signature").await;
    let mut split = talk.clone();
    let contents = split.body["contents"].as_array_mut().unwrap();
    let last = contents[2]["parts"].as_array_mut().unwrap().pop().unwrap();
    contents.push(json!({"role": "user", "parts": [last]}));
    refused(&service, &split, 400, unequal).await;
    let mut later = talk.clone();
    later.push(
        "contents",
        json!({"role": "model", "parts": [{"text": "done"}]}),
    );
    later.push(
        "contents",
        json!({"role": "user", "parts": [{"text": "next mock:images"}]}),
    );
    later.body["contents"][1]["parts"][1]
        .as_object_mut()
        .unwrap()
        .remove("thoughtSignature");
    assert_eq!(
        later.send(&service).await.status,
        200,
        "earlier turns may lose theirs"
    );
    service.stop().await;
}
