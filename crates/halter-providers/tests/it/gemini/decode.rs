//! Recorded streams and what they mean.

use super::{WIRE, checker, model, wire};
use crate::wire_kit::{
    assert_golden, assert_grammar, bless, body, decode, message_of, rendered, result, split_body,
    streams,
};
use halter_protocol::{
    Message, ProviderError, ProviderErrorKind, StopReason, StreamEvent, ToolResult, UsageBuckets,
};
use halter_providers::wire::Wire;

fn decoded(name: &str) -> (Vec<StreamEvent>, Option<ProviderError>) {
    let streams = streams(WIRE);
    let (_, stream) = streams.iter().find(|(found, _)| found == name).unwrap();
    decode(wire().decoder(), stream)
}

fn stop_reason(name: &str) -> StopReason {
    match decoded(name).0.last() {
        Some(StreamEvent::MessageEnd { stop_reason, .. }) => stop_reason.clone(),
        other => panic!("{name} ends with {other:?}"),
    }
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
fn recorded_streams_decode_to_their_golden_events() {
    for (name, stream) in streams(WIRE) {
        let (events, error) = decode(wire().decoder(), &stream);
        assert_grammar(&events, error.as_ref());
        let actual = rendered(&events, error.as_ref());
        assert_golden(&format!("{WIRE}/streams/{name}.jsonl"), &actual);
    }
}

#[test]
#[ignore = "writes the golden files"]
fn write_golden_events() {
    for (name, stream) in streams(WIRE) {
        let (events, error) = decode(wire().decoder(), &stream);
        let actual = rendered(&events, error.as_ref());
        bless(&format!("{WIRE}/streams/{name}.jsonl"), &actual);
    }
}

#[test]
fn every_end_has_its_reason() {
    for (name, reason) in [
        ("text", StopReason::EndTurn),
        ("parallel_tools", StopReason::ToolUse),
        ("max_tokens", StopReason::MaxTokens),
        ("max_tokens_in_thoughts", StopReason::MaxTokens),
        ("safety", StopReason::Refusal),
        (
            "unknown_finish_reason",
            StopReason::Unknown("solar_flare".to_owned()),
        ),
        ("empty_stop", StopReason::EndTurn),
        ("second_candidate_is_ignored", StopReason::EndTurn),
    ] {
        assert_eq!(stop_reason(name), reason, "{name}");
    }
}

#[test]
fn what_went_wrong_has_its_kind() {
    for (name, kind) in [
        ("malformed_call", ProviderErrorKind::Transient),
        ("unexpected_call", ProviderErrorKind::Transient),
        ("blocked_prompt", ProviderErrorKind::Fatal),
        ("truncated", ProviderErrorKind::Transient),
        ("truncated_after_a_call", ProviderErrorKind::Transient),
        ("call_in_pieces", ProviderErrorKind::Transient),
        ("error_after_text", ProviderErrorKind::Transient),
        ("error_quota", ProviderErrorKind::RateLimited),
        ("broken_json", ProviderErrorKind::Transient),
    ] {
        assert_eq!(decoded(name).1.unwrap().kind, kind, "{name}");
    }
}

#[test]
fn a_cut_stream_is_an_error_wherever_it_is_cut() {
    for (name, stream) in streams(WIRE) {
        if decode(wire().decoder(), &stream).1.is_some() {
            continue;
        }
        let chunks: Vec<&str> = stream.split_inclusive("\r\n\r\n").collect();
        let last = chunks
            .iter()
            .position(|chunk| chunk.contains("finishReason"))
            .unwrap();
        for kept in 0..=last {
            let (_, error) = decode(wire().decoder(), &chunks[..kept].concat());
            let error = error.unwrap_or_else(|| panic!("{name} cut after {kept} chunks"));
            assert!(error.retryable());
        }
    }
}

#[test]
fn usage_lands_in_disjoint_buckets() {
    let usage = |name: &str| {
        let events = decoded(name).0;
        let updates = events.into_iter().filter_map(|event| match event {
            StreamEvent::UsageUpdate { usage } => Some(usage.buckets),
            _ => None,
        });
        updates.last().unwrap()
    };
    assert_eq!(
        usage("parallel_tools"),
        UsageBuckets {
            uncached_input: 388,
            cache_read: 512,
            cache_write: 0,
            output: 31,
            reasoning: 20,
        }
    );
    assert_eq!(
        usage("usage_after_the_end"),
        UsageBuckets {
            uncached_input: 10,
            cache_read: 30,
            cache_write: 0,
            output: 3,
            reasoning: 6,
        }
    );
    let with_tools = usage("unknown_things");
    assert_eq!((with_tools.uncached_input, with_tools.output), (12, 3));
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
        checker::check(&body).unwrap();
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
        decode(wire().decoder(), &chunk).1
    };
    assert_eq!(decoded(most), None);
    assert!(
        decoded(most + 1)
            .unwrap()
            .message
            .contains("function calls")
    );
}
