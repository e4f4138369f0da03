//! Requests that a strict server refuses, and the words it does it with.

use crate::speech::{Said, Talk};
use halter_mock::{MockService, Outcome, ServeOptions, Wire, serve};
use serde_json::{Value, json};

async fn refused(service: &MockService, talk: &Talk, status: u16, words: &str) {
    let reply = talk.send(service).await;
    let text = String::from_utf8_lossy(&reply.body).into_owned();
    assert_eq!(reply.status, status, "{words}: {text}");
    assert!(text.contains(words), "wanted {words:?} in {text}");
    let noted = service.requests().pop().unwrap();
    assert!(
        matches!(noted.outcome(), Outcome::Refused { .. }),
        "{:?}",
        noted.outcome()
    );
}

/// A conversation whose last request carries the results of three calls.
async fn with_results(service: &MockService, wire: Wire, scenario: &str) -> (Talk, Said) {
    let mut talk = Talk::new(wire, scenario);
    let said = talk.ask(service).await;
    let results: Vec<_> = said.call_ids.iter().map(|_| "r").collect();
    talk.answer(&said, &results);
    assert_eq!(talk.send(service).await.status, 200);
    (talk, said)
}

#[tokio::test]
async fn anthropic_needs_its_headers() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let talk = || Talk::new(Wire::Anthropic, "hi");
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
    let with =
        |change: &dyn Fn(&mut Value)| Talk::new(Wire::Anthropic, "hi").with(|body| change(body));
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
    let (talk, _) = with_results(&service, Wire::Anthropic, "mock:parallel_tools").await;
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
    let mut orphan = Talk::new(Wire::Anthropic, "hi");
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
    let mut last = Talk::new(Wire::Anthropic, "hi");
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
    let first = Talk::new(Wire::Anthropic, "hi").with(|body| {
        body["messages"].as_array_mut().unwrap().insert(0, system);
    });
    refused(&service, &first, 400, "first message").await;
    service.stop().await;
}

#[tokio::test]
async fn anthropic_wants_thoughts_back_unmodified_for_the_same_model() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let (talk, _) = with_results(&service, Wire::Anthropic, "mock:thinking_tool").await;
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
        Talk::new(Wire::Anthropic, "hi").with(|body| {
            let blocks: Vec<_> = (0..count)
                .map(|number| json!({"type": "text", "text": format!("{number}"), "cache_control": mark}))
                .collect();
            body["system"] = json!(blocks);
        })
    };
    assert_eq!(marked(4).send(&service).await.status, 200);
    refused(
        &service,
        &marked(5),
        400,
        "A maximum of 4 blocks with cache_control",
    )
    .await;
    let automatic = marked(4).with(|body| body["cache_control"] = mark.clone());
    refused(&service, &automatic, 400, "Found 5").await;
    let ordered = marked(2).with(|body| body["system"][1]["cache_control"]["ttl"] = json!("1h"));
    refused(&service, &ordered, 400, "must not come after").await;
    let (mut talk, _) = with_results(&service, Wire::Anthropic, "mock:thinking_tool").await;
    talk.body["messages"][1]["content"][0]["cache_control"] = mark;
    refused(&service, &talk, 400, "cannot be set for thinking blocks").await;
    service.stop().await;
}

#[tokio::test]
async fn responses_checks_fields_and_tools() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let with =
        |change: &dyn Fn(&mut Value)| Talk::new(Wire::Responses, "hi").with(|body| change(body));
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
            with(&|body| body["previous_response_id"] = json!("resp_1")),
            400,
            "previous_response_not_found",
        ),
        (
            with(&|body| body["input"] = json!([{"type": "item_reference", "id": "msg_1"}])),
            404,
            "not found",
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
    let (talk, said) = with_results(&service, Wire::Responses, "mock:thinking_tool").await;
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

#[tokio::test]
async fn chat_checks_fields_and_pairs() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let with = |change: &dyn Fn(&mut Value)| Talk::new(Wire::Chat, "hi").with(|body| change(body));
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

    let (talk, _) = with_results(&service, Wire::Chat, "mock:parallel_tools").await;
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
        let (talk, _) = with_results(&service, Wire::Chat, scenario).await;
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
    let empty = Talk::new(Wire::Chat, "hi").with(|body| {
        body["messages"].as_array_mut().unwrap().insert(
            0,
            json!({"role": "assistant", "content": "x", "reasoning_content": ""}),
        );
    });
    refused(&service, &empty, 400, "must not be empty").await;
    service.stop().await;
}

#[tokio::test]
async fn gemini_checks_fields_and_tools() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let with =
        |change: &dyn Fn(&mut Value)| Talk::new(Wire::Gemini, "hi").with(|body| change(body));
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
            with(&|body| body["system_instruction"] = json!({})),
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
    let array = Talk::new(Wire::Gemini, "hi").at("/v1beta/models/m:streamGenerateContent");
    refused(&service, &array, 400, "alt=sse").await;
    service.stop().await;
}

#[tokio::test]
async fn gemini_pairs_in_order_and_keeps_signatures() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let (talk, _) = with_results(&service, Wire::Gemini, "mock:parallel_tools").await;
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

#[tokio::test]
async fn what_is_not_json_or_not_there_has_the_wires_error() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let headers = [
        ("content-type", "application/json"),
        ("x-api-key", "k"),
        ("anthropic-version", "2026-10-21"),
    ];
    let send = |method: &'static str, path: &'static str, body: &'static [u8]| {
        let service = &service;
        async move { crate::client::send(service, method, path, &headers, body).await }
    };
    let broken = send("POST", "/v1/messages", b"{").await;
    assert_eq!(
        (broken.status, broken.json()["error"]["type"].clone()),
        (400, json!("invalid_request_error"))
    );
    let nowhere = send("POST", "/v1/nowhere", b"{}").await;
    assert_eq!(
        (nowhere.status, nowhere.json()["error"]["type"].clone()),
        (404, json!("not_found_error"))
    );
    assert_eq!(send("GET", "/v1/messages", b"").await.status, 405);
    assert_eq!(send("POST", "/v1/messages", b"").await.status, 400);
    let unknown = Talk::new(Wire::Gemini, "mock:no-such-scenario");
    refused(
        &service,
        &unknown,
        400,
        "no mock scenario is called `no-such-scenario`",
    )
    .await;
    service.stop().await;
}
