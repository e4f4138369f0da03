//! Requests that a strict server refuses, and the words it does it with.

mod anthropic;
mod chat;
mod compaction;
mod gemini;
mod media;
mod responses;

use crate::speech::{Said, Talk};
use halter_mock::{MockService, MockWire, RequestOutcome, ServeOptions, serve};
use serde_json::json;

async fn refused(service: &MockService, talk: &Talk, status: u16, words: &str) {
    let reply = talk.send(service).await;
    let text = String::from_utf8_lossy(&reply.body).into_owned();
    assert_eq!(reply.status, status, "{words}: {text}");
    assert!(text.contains(words), "wanted {words:?} in {text}");
    let noted = service.requests().pop().unwrap();
    assert!(
        matches!(noted.outcome(), RequestOutcome::Refused { .. }),
        "{:?}",
        noted.outcome()
    );
}

/// A conversation whose last request carries the results of three calls.
async fn with_results(service: &MockService, wire: MockWire, scenario: &str) -> (Talk, Said) {
    let mut talk = Talk::new(wire, scenario);
    let said = talk.ask(service).await;
    let results: Vec<_> = said.call_ids.iter().map(|_| "r").collect();
    talk.answer(&said, &results);
    assert_eq!(talk.send(service).await.status, 200);
    (talk, said)
}

#[tokio::test]
async fn schemas_of_answers_are_checked_on_every_wire() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let open = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let closed = json!({
        "type": "object", "properties": {"a": {"type": "string"}},
        "required": ["a"], "additionalProperties": false,
    });
    let asking = |wire: MockWire, schema: &serde_json::Value| {
        let named = json!({"name": "answer", "schema": schema, "strict": true});
        Talk::new(wire, "hi").with(|body| match wire {
            MockWire::Anthropic => {
                body["output_config"] =
                    json!({"format": {"type": "json_schema", "schema": schema}});
            }
            MockWire::Responses => {
                body["text"] = json!({"format": {
                    "type": "json_schema", "name": "answer", "schema": schema, "strict": true,
                }});
            }
            MockWire::Chat => {
                body["response_format"] = json!({"type": "json_schema", "json_schema": named});
            }
            _ => body["generationConfig"] = json!({"responseJsonSchema": schema}),
        })
    };
    for (wire, words) in [
        (
            MockWire::Anthropic,
            "output_config.format.schema: 'additionalProperties'",
        ),
        (MockWire::Responses, "invalid_json_schema"),
        (MockWire::Chat, "invalid_json_schema"),
        (MockWire::Gemini, "without response_mime_type"),
    ] {
        refused(&service, &asking(wire, &open), 400, words).await;
        if wire != MockWire::Gemini {
            assert_eq!(asking(wire, &closed).send(&service).await.status, 200);
        }
    }
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
    let unknown = Talk::new(MockWire::Gemini, "mock:no-such-scenario");
    refused(
        &service,
        &unknown,
        400,
        "no mock scenario is called `no-such-scenario`",
    )
    .await;
    service.stop().await;
}

/// A request that offers one tool, as each wire spells it.
fn offering(wire: MockWire, scenario: &str, name: &str) -> Talk {
    let schema = json!({"type": "object", "properties": {}});
    Talk::new(wire, scenario).with(|body| {
        body["tools"] = match wire {
            MockWire::Anthropic => json!([{"name": name, "input_schema": schema}]),
            MockWire::Responses => {
                json!([{"type": "function", "name": name, "parameters": schema, "strict": false}])
            }
            MockWire::Chat => {
                json!([{"type": "function", "function": {"name": name, "parameters": schema}}])
            }
            _ => {
                json!([{"functionDeclarations": [{"name": name, "parametersJsonSchema": schema}]}])
            }
        };
    })
}

#[tokio::test]
async fn a_tool_that_was_never_sent_is_not_called_on_any_wire() {
    let service = serve(ServeOptions::default()).await.unwrap();
    for wire in MockWire::ALL {
        let other = offering(wire, "mock:read_file_roundtrip", "other");
        refused(
            &service,
            &other,
            400,
            "calls the tool `read`, which was never sent",
        )
        .await;
        let sent = offering(wire, "mock:read_file_roundtrip", "read");
        assert_eq!(sent.send(&service).await.status, 200, "{wire}");
        let invented = offering(wire, "mock:tool_search_skipped", "read");
        assert_eq!(invented.send(&service).await.status, 200, "{wire}");
    }
    service.stop().await;
}

#[tokio::test]
async fn a_tool_that_a_result_describes_is_called_through_the_tool_for_that() {
    let mut options = ServeOptions::default();
    let carried = r#"
        [scenarios.carried]
        description = "Carries a call."
        steps = [{ parts = [{ type = "call", tool = "call_tool", input = { name = "task" } }] }]
    "#;
    options.scenarios.add_toml(carried).unwrap();
    let service = serve(options).await.unwrap();
    let schema = json!({"type": "object", "properties": {}});
    let ask = |scenario: &str, carrier: &str, told: &str| {
        let function = |name: &str| json!({"type": "function", "function": {"name": name, "parameters": schema}});
        Talk::new(MockWire::Chat, scenario).with(|body| {
            body["tools"] = json!([function("tool_search"), function(carrier)]);
            let user = body["messages"][0].clone();
            let call = json!({"id": "call_1", "type": "function", "function": {"name": "tool_search", "arguments": "{}"}});
            body["messages"] = json!([
                user,
                {"role": "assistant", "content": "", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "call_1", "content": told},
            ]);
        })
    };
    let described = format!(
        "Loaded.\n{}",
        json!({"name": "task", "description": "Tasks.", "parameters": schema})
    );
    let fine = ask("mock:tool_search", "call_tool", &described);
    let answer = fine.send(&service).await;
    assert_eq!(answer.status, 200);
    let text = answer.text();
    assert!(text.contains("call_tool"), "{text}");
    for (carrier, told) in [("call_tool", "Loaded: task"), ("other", &described)] {
        let never = ask("mock:tool_search", carrier, told);
        refused(&service, &never, 400, "`task`, which was never sent").await;
    }
    let unknown = ask("mock:carried", "call_tool", "nothing").with(|body| {
        let opening = body["messages"][0].clone();
        body["messages"] = json!([opening]);
    });
    refused(&service, &unknown, 400, "`task`, which was never sent").await;
    service.stop().await;
}

#[tokio::test]
async fn a_tool_may_be_sent_in_the_midst_of_a_conversation() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let schema = json!({"type": "object", "properties": {}});
    let deferred = json!({"name": "task", "input_schema": schema, "defer_loading": true});
    let search = json!({"name": "tool_search", "input_schema": schema});
    let ask = |content: serde_json::Value, tools: serde_json::Value| {
        Talk::new(MockWire::Anthropic, "mock:tool_search").with(|body| {
            body["tools"] = tools;
            let user = body["messages"][0].clone();
            let call =
                json!({"type": "tool_use", "id": "toolu_1", "name": "tool_search", "input": {}});
            let result =
                json!({"type": "tool_result", "tool_use_id": "toolu_1", "content": content});
            body["messages"] = json!([
                user,
                {"role": "assistant", "content": [call]},
                {"role": "user", "content": [result]},
            ]);
        })
    };
    let reference = json!({"type": "tool_reference", "tool_name": "task"});
    let both = json!([search, deferred]);
    let fine = ask(json!([reference]), both.clone());
    assert_eq!(fine.send(&service).await.status, 200);
    refused(
        &service,
        &ask(json!("found"), both.clone()),
        400,
        "`task`, which was never sent",
    )
    .await;
    let text = json!({"type": "text", "text": "found"});
    refused(
        &service,
        &ask(json!([text, reference]), both),
        400,
        "cannot be mixed",
    )
    .await;
    let gone = ask(json!([reference]), json!([search]));
    refused(&service, &gone, 400, "Tool reference 'task' not found").await;
    let mut marked = deferred;
    marked["cache_control"] = json!({"type": "ephemeral"});
    let marked = ask(json!([reference]), json!([search, marked]));
    refused(&service, &marked, 400, "cache_control cannot be set").await;

    let later = |role: &str| {
        Talk::new(MockWire::Responses, "mock:background_job").with(|body| {
            let tool = json!({"type": "function", "name": "shell", "parameters": schema, "strict": false});
            body["tools"] = json!([{"type": "function", "name": "read", "parameters": schema, "strict": false}]);
            let items = body["input"].as_array_mut().unwrap();
            items.push(json!({"type": "additional_tools", "role": role, "tools": [tool]}));
        })
    };
    assert_eq!(later("developer").send(&service).await.status, 200);
    refused(&service, &later("user"), 400, "only 'developer'").await;
    service.stop().await;
}
