//! Example streams and what they mean.

use super::{WIRE, check, model, wire};
use crate::wire_kit::{body, decode, message_of, result, split_body, stream};
use halter_protocol::{Message, ProviderError, StreamEvent, ToolResult};

fn decoded(name: &str) -> (Vec<StreamEvent>, Option<ProviderError>) {
    decode(&wire(), &stream(WIRE, name))
}

/// The `contents` that an answer becomes, after results for its calls.
fn replayed(name: &str) -> Vec<String> {
    let said = message_of(&decoded(name).0, &model());
    let Message::Assistant(answer) = &said else {
        panic!("not an answer")
    };
    let calls: Vec<_> = answer.tool_calls().collect();
    let mut messages = vec![said];
    messages.extend(
        calls
            .iter()
            .map(|call| result(call.id.as_str(), call.name.as_str(), ToolResult::text("ok"))),
    );
    split_body(&body(&wire(), &model(), &messages), "contents").1
}

#[test]
fn ids_are_made_up_where_the_service_gives_none() {
    let ids = |name: &str| -> Vec<String> {
        let events = decoded(name).0;
        let starts = events.into_iter().filter_map(|event| match event {
            StreamEvent::ToolCallStart { tool_call_id, .. } => Some(tool_call_id.0),
            _ => None,
        });
        starts.collect()
    };
    assert_eq!(ids("calls_without_ids"), ["call_AbC123_1", "call_AbC123_2"]);
    let made_up = ids("calls_without_any_id");
    assert_eq!(made_up, ids("calls_without_any_id"));
    assert_ne!(made_up[0], made_up[1]);
}

#[test]
fn what_the_model_said_goes_back_part_by_part_as_it_came() {
    for (name, model_content) in [
        (
            "text",
            r#"{"role":"model","parts":[{"text":"Hel"},{"text":"lo, wörld 🦀"},{"text":"","thoughtSignature":"c2ln"}]}"#,
        ),
        (
            "thoughts",
            r#"{"role":"model","parts":[{"text":"**Plan**\n","thought":true},{"text":"Do it.","thought":true},{"text":"Done."}]}"#,
        ),
        (
            "signature_after_a_call",
            r#"{"role":"model","parts":[{"functionCall":{"name":"read","args":{"path":"a"},"id":"fc-1"},"thoughtSignature":"c2ln"},{"text":"","thoughtSignature":"dHJhaWw="}]}"#,
        ),
        (
            "signed_text_in_the_middle",
            r#"{"role":"model","parts":[{"text":"One ","thoughtSignature":"b25l"},{"text":"two."}]}"#,
        ),
        (
            "unknown_things",
            r#"{"role":"model","parts":[{"executableCode":{"language":"PYTHON","code":"print(1)"},"thoughtSignature":"ZXg="},{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"1\n"}},{"text":"One.","novel":1.5}]}"#,
        ),
    ] {
        assert_eq!(replayed(name)[0], model_content, "{name}");
    }
}

#[test]
fn results_echo_the_ids_that_the_service_gave() {
    let parallel = replayed("parallel_tools");
    assert_eq!(
        parallel[1],
        r#"{"role":"user","parts":[{"functionResponse":{"id":"fc-a","name":"read","response":{"output":"ok"}}},{"functionResponse":{"id":"fc-b","name":"read","response":{"output":"ok"}}}]}"#
    );
    let nameless = replayed("calls_without_ids");
    assert_eq!(
        nameless[1],
        r#"{"role":"user","parts":[{"functionResponse":{"name":"read","response":{"output":"ok"}}},{"functionResponse":{"name":"list","response":{"output":"ok"}}}]}"#
    );
    for name in [
        "parallel_tools",
        "calls_without_ids",
        "signature_after_a_call",
    ] {
        let body = format!(r#"{{"contents":[{}]}}"#, replayed(name).join(","));
        check(&body).unwrap();
    }
}

#[test]
fn an_answer_has_so_many_calls_and_no_more() {
    let most = halter_providers::limits::ANSWER_TOOL_CALLS;
    let decoded = |calls: usize| {
        let calls = vec![r#"{"functionCall":{"name":"read"}}"#; calls].join(",");
        let chunk = format!(
            "data: {{\"candidates\":[{{\"content\":{{\"parts\":[{calls}]}},\"finishReason\":\"STOP\"}}]}}\n\n"
        );
        decode(&wire(), &chunk).1
    };
    assert_eq!(decoded(most), None);
    assert!(
        decoded(most + 1)
            .unwrap()
            .message
            .contains("function calls")
    );
}
