//! What shipped clients send, and how strictly it is taken.

use crate::client::send;
use crate::speech::Talk;
use halter_mock::{MockService, MockWire, ServeOptions, check_body, serve};
use serde_json::{Value, json};

async fn lenient() -> MockService {
    let options = ServeOptions {
        strict: false,
        ..ServeOptions::default()
    };
    serve(options).await.unwrap()
}

async fn status(service: &MockService, talk: &Talk) -> u16 {
    talk.send(service).await.status
}

#[tokio::test]
async fn responses_takes_the_metadata_of_a_client() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let talk = Talk::new(MockWire::Responses, "hi")
        .with(|body| body["client_metadata"] = json!({"session_id": "1"}));
    assert_eq!(status(&service, &talk).await, 200);
    service.stop().await;
}

#[tokio::test]
async fn unknown_fields_are_refused_by_a_strict_service_alone() {
    let (strict, lenient) = (
        serve(ServeOptions::default()).await.unwrap(),
        lenient().await,
    );
    for wire in MockWire::ALL {
        let talk = Talk::new(wire, "hi").with(|body| body["novelty"] = json!(1));
        assert_eq!(status(&strict, &talk).await, 400, "{wire}");
        assert_eq!(status(&lenient, &talk).await, 200, "{wire}");
    }
    let removed = Talk::new(MockWire::Anthropic, "hi").with(|body| body["top_k"] = json!(1));
    assert_eq!(status(&lenient, &removed).await, 400);
    strict.stop().await;
    lenient.stop().await;
}

#[tokio::test]
async fn unknown_betas_are_refused_by_a_strict_service_alone() {
    let (strict, lenient) = (
        serve(ServeOptions::default()).await.unwrap(),
        lenient().await,
    );
    let with =
        |betas: &str| Talk::new(MockWire::Anthropic, "hi").with_header("anthropic-beta", betas);
    let known = with("claude-code-20250219, interleaved-thinking-2025-05-14");
    assert_eq!(status(&strict, &known).await, 200);
    let nonsense = with("interleaved-thinking-2025-05-14,make-it-so-2026-01-01");
    let refused = nonsense.send(&strict).await;
    assert_eq!(refused.status, 400);
    assert!(refused.text().contains("`make-it-so-2026-01-01`"));
    assert_eq!(status(&lenient, &nonsense).await, 200);
    strict.stop().await;
    lenient.stop().await;
}

#[tokio::test]
async fn signatures_of_another_service_are_taken_by_a_lenient_one_alone() {
    let (strict, lenient) = (
        serve(ServeOptions::default()).await.unwrap(),
        lenient().await,
    );
    let foreign = |wire: MockWire, signature: &str| {
        let mut talk = Talk::new(wire, "hi");
        match wire {
            MockWire::Anthropic => {
                let thought = json!({"type": "thinking", "thinking": "t", "signature": signature});
                let said = json!({"type": "text", "text": "x"});
                talk.push(
                    "messages",
                    json!({"role": "assistant", "content": [thought, said]}),
                );
                talk.push("messages", json!({"role": "user", "content": "go on"}));
            }
            MockWire::Responses => {
                let thought = json!({"type": "reasoning", "id": "rs_1", "summary": [],
                    "encrypted_content": signature});
                talk.push("input", thought);
                talk.push("input", json!({"role": "assistant", "content": "x"}));
            }
            _ => {
                let part = json!({"text": "x", "thoughtSignature": signature});
                talk.push("contents", json!({"role": "model", "parts": [part]}));
                talk.push(
                    "contents",
                    json!({"role": "user", "parts": [{"text": "go on"}]}),
                );
            }
        }
        talk
    };
    for wire in [MockWire::Anthropic, MockWire::Responses, MockWire::Gemini] {
        let talk = foreign(wire, "c2lnbmVkIGVsc2V3aGVyZQ==");
        assert_eq!(status(&strict, &talk).await, 400, "{wire}");
        assert_eq!(status(&lenient, &talk).await, 200, "{wire}");
    }
    let unsigned = foreign(MockWire::Anthropic, "");
    assert_eq!(status(&lenient, &unsigned).await, 400);
    strict.stop().await;
    lenient.stop().await;
}

#[tokio::test]
async fn gemini_bodies_may_be_in_snake_case() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let talk = Talk::new(MockWire::Gemini, "mock:read_file_roundtrip").with(|body| {
        let schema = json!({"type": "object", "properties": {"file_path": {"type": "string"}}});
        body["system_instruction"] = json!({"parts": [{"text": "Be brief."}]});
        body["generation_config"] =
            json!({"max_output_tokens": 5, "thinking_config": {"thinking_level": "LOW"}});
        body["tools"] = json!([{"function_declarations": [
            {"name": "read", "parameters_json_schema": schema},
            {"name": "look", "parameters": schema},
        ]}]);
        body["contents"].as_array_mut().unwrap().extend([
            json!({"role": "model", "parts": [{
                "function_call": {"id": "1", "name": "read", "args": {"file_path": "a"}},
                "thought_signature": "skip_thought_signature_validator",
            }]}),
            json!({"role": "user", "parts": [{"function_response":
                {"id": "1", "name": "read", "response": {"output": r#"{"content":"hello"}"#}}}]}),
        ]);
    });
    assert_eq!(talk.ask(&service).await.text, "The file says: hello");
    let wrong = talk.with(|body| {
        body["generation_config"]["thinking_config"]["thinking_level"] = json!("HUGE")
    });
    assert_eq!(status(&service, &wrong).await, 400);
    service.stop().await;
}

#[tokio::test]
async fn gemini_results_need_no_ids_but_right_ones() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let mut talk = Talk::new(MockWire::Gemini, "mock:parallel_tools");
    let said = talk.ask(&service).await;
    talk.answer(&said, &["one", "two", "three"]);
    let without = talk.clone().with(|body| {
        for part in body["contents"][2]["parts"].as_array_mut().unwrap() {
            part["functionResponse"]
                .as_object_mut()
                .unwrap()
                .remove("id");
        }
    });
    assert_eq!(
        without.ask(&service).await.text,
        "The first result was: one"
    );
    let swapped = without.with(|body| {
        body["contents"][2]["parts"]
            .as_array_mut()
            .unwrap()
            .swap(0, 1)
    });
    assert_eq!(status(&service, &swapped).await, 400);
    let half = talk.with(|body| {
        let part = &mut body["contents"][2]["parts"][0]["functionResponse"];
        part.as_object_mut().unwrap().remove("id");
    });
    assert_eq!(status(&service, &half).await, 400);
    service.stop().await;
}

#[tokio::test]
async fn gemini_takes_each_chunk_of_a_stream_as_a_turn() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let mut talk = Talk::new(MockWire::Gemini, "mock:parallel_tools").streaming();
    let said = talk.ask(&service).await;
    talk.answer(&said, &["one", "two", "three"]);
    talk.body["contents"].as_array_mut().unwrap().remove(1);
    for (place, part) in said.turn.iter().enumerate() {
        let turn = json!({"role": "model", "parts": [part]});
        talk.body["contents"]
            .as_array_mut()
            .unwrap()
            .insert(1 + place, turn);
    }
    assert_eq!(talk.ask(&service).await.text, "The first result was: one");
    service.stop().await;
}

#[tokio::test]
async fn a_thread_that_is_not_kept_has_the_code_that_clients_replay_on() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let with = |thread: Value| {
        Talk::new(MockWire::Anthropic, "hi")
            .with(|body| body["thread"] = thread)
            .with_header("anthropic-beta", "message-threads-2026-08-12")
    };
    assert_eq!(
        status(&service, &with(json!({"type": "create"}))).await,
        200
    );
    // Only the results of the calls before are sent, which must not be what is refused.
    let goes_on = with(json!({"type": "continue", "previous_message_id": "msg_1"})).with(|body| {
        body["messages"] = json!([{"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "x"},
        ]}]);
    });
    let refused = goes_on.send(&service).await;
    assert_eq!(refused.status, 404);
    let error = &refused.json()["error"];
    assert_eq!(error["type"], "not_found_error");
    assert_eq!(error["details"]["error_code"], "thread_not_found");
    let without_beta = with(json!({"type": "create"})).without_header("anthropic-beta");
    assert_eq!(status(&service, &without_beta).await, 400);
    service.stop().await;
}

#[tokio::test]
async fn a_stored_response_can_be_gone_on_from_and_got() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let stored = |prompt: &str| {
        Talk::new(MockWire::Responses, prompt).with(|body| {
            let body = body.as_object_mut().unwrap();
            body.remove("store");
            body.remove("include");
        })
    };
    let first = stored("mock:thinking_tool").send(&service).await.json();
    let call = &first["output"][1];
    assert_eq!(call["type"], "function_call");
    let output =
        json!([{"type": "function_call_output", "call_id": call["call_id"], "output": "a"}]);
    let second = stored("").with(|body| {
        body["previous_response_id"] = first["id"].clone();
        body["input"] = output.clone();
    });
    let second = second
        .streaming()
        .send(&service)
        .await
        .data()
        .pop()
        .unwrap()["response"]
        .clone();
    assert_eq!(second["previous_response_id"], first["id"]);
    assert_eq!(second["output"][0]["summary"][0]["text"], "Now I read one.");
    // By references to the stored items instead.
    let referred = stored("mock:thinking_tool").with(|body| {
        for item in first["output"].as_array().unwrap() {
            let reference = json!({"type": "item_reference", "id": item["id"]});
            body["input"].as_array_mut().unwrap().push(reference);
        }
        body["input"]
            .as_array_mut()
            .unwrap()
            .push(output[0].clone());
    });
    assert_eq!(referred.ask(&service).await.thinking, "Now I read one.");
    let path = format!("/v1/responses/{}", first["id"].as_str().unwrap());
    let got = send(
        &service,
        "GET",
        &path,
        &[("authorization", "Bearer k")],
        b"",
    )
    .await;
    assert_eq!(got.json(), first);
    service.stop().await;
}

#[tokio::test]
async fn what_was_not_stored_is_not_found() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let unstored = Talk::new(MockWire::Responses, "hi")
        .send(&service)
        .await
        .json();
    let with = |key: &str, value: Value| {
        Talk::new(MockWire::Responses, "hi").with(|body| body[key] = value)
    };
    let goes_on = with("previous_response_id", unstored["id"].clone());
    let refused = goes_on.send(&service).await;
    assert_eq!(refused.status, 400);
    assert_eq!(
        refused.json()["error"]["code"],
        "previous_response_not_found"
    );
    let item = json!([{"type": "item_reference", "id": unstored["output"][0]["id"]}]);
    assert_eq!(status(&service, &with("input", item)).await, 404);
    assert_eq!(
        status(&service, &with("conversation", json!("conv_1"))).await,
        404
    );
    service.stop().await;
}

#[tokio::test]
async fn a_custom_tool_is_called_with_plain_text() {
    let mut options = ServeOptions::default();
    let script = r#"
        [scenarios.patch]
        description = "Calls a tool that takes plain text."
        steps = [
          { parts = [{ type = "call", tool = "apply", input = { patch = "*** Begin\n+ hello\n*** End, and some more" } }] },
          { parts = [{ type = "text", text = "It says {{result}}." }] },
        ]
    "#;
    options.scenarios.add_toml(script).unwrap();
    let service = serve(options).await.unwrap();
    let input = "*** Begin\n+ hello\n*** End, and some more";
    for streaming in [false, true] {
        let mut talk = Talk::new(MockWire::Responses, "mock:patch").with(|body| {
            body["tools"] =
                json!([{"type": "custom", "name": "apply", "format": {"type": "text"}}]);
        });
        talk.streaming = streaming;
        let reply = talk.send(&service).await;
        let response = match streaming {
            true => reply.data().pop().unwrap()["response"].clone(),
            false => reply.json(),
        };
        let call = &response["output"][0];
        assert_eq!(
            (&call["type"], &call["input"]),
            (&json!("custom_tool_call"), &json!(input))
        );
        if streaming {
            let deltas: String = reply
                .data()
                .iter()
                .filter(|event| event["type"] == "response.custom_tool_call_input.delta")
                .map(|event| event["delta"].as_str().unwrap().to_owned())
                .collect();
            assert_eq!(deltas, input);
        }
        talk.push("input", call.clone());
        assert_eq!(status(&service, &talk).await, 400, "the result is missing");
        let result = json!({"type": "custom_tool_call_output", "call_id": call["call_id"], "output": "done"});
        talk.push("input", result);
        assert_eq!(talk.ask(&service).await.text, "It says done.");

        let mut talk = Talk::new(MockWire::Chat, "mock:patch").with(|body| {
            body["tools"] = json!([{"type": "custom", "custom": {"name": "apply"}}]);
        });
        talk.streaming = streaming;
        let reply = talk.send(&service).await;
        let (id, text) = if streaming {
            let fragments: Vec<Value> = reply
                .data()
                .iter()
                .filter_map(|chunk| chunk.pointer("/choices/0/delta/tool_calls/0").cloned())
                .collect();
            let pieces = fragments
                .iter()
                .map(|one| one["custom"]["input"].as_str().unwrap());
            (fragments[0]["id"].clone(), pieces.collect::<String>())
        } else {
            let call = reply.json()["choices"][0]["message"]["tool_calls"][0].clone();
            assert_eq!(call["type"], "custom");
            (
                call["id"].clone(),
                call["custom"]["input"].as_str().unwrap().to_owned(),
            )
        };
        assert_eq!(text, input);
        let call = json!({"id": id, "type": "custom", "custom": {"name": "apply", "input": text}});
        talk.push(
            "messages",
            json!({"role": "assistant", "tool_calls": [call]}),
        );
        talk.push(
            "messages",
            json!({"role": "tool", "tool_call_id": id, "content": "done"}),
        );
        assert_eq!(talk.ask(&service).await.text, "It says done.");
    }
    service.stop().await;
}

#[tokio::test]
async fn a_scenario_behind_a_quote_is_played_with_its_arguments() {
    let service = serve(ServeOptions::default()).await.unwrap();
    for prompt in [
        "\"mock:parallel_tools path=x.txt\"",
        "<task>mock:parallel_tools</task> 'path=x.txt'",
    ] {
        let said = Talk::new(MockWire::Chat, prompt).ask(&service).await;
        assert_eq!(
            said.calls[0],
            ("read".to_owned(), json!({"path": "x.txt"})),
            "{prompt}"
        );
    }
    service.stop().await;
}

#[test]
fn a_body_is_checked_without_a_service() {
    let body =
        |content: &str| json!({"model": "m", "messages": [{"role": "user", "content": content}]});
    assert_eq!(check_body(MockWire::Chat, "m", &body("hi")), Ok(()));
    let refused = check_body(MockWire::Anthropic, "m", &body("hi")).unwrap_err();
    assert_eq!(refused, "max_tokens: Field required");
}
