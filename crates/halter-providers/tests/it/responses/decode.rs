//! Recorded streams and what they mean.

use super::{WIRE, model, wire};
use crate::responses::checker;
use crate::wire_kit::{
    assert_golden, assert_grammar, bless, body, decode, message_of, rendered, result, streams,
};
use halter_protocol::{AssistantPart, Message, StopReason, StreamEvent, ToolResult, UsageBuckets};
use halter_providers::wire::Wire;

fn decoded(name: &str) -> (Vec<StreamEvent>, Option<halter_protocol::ProviderError>) {
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

fn usage(name: &str) -> UsageBuckets {
    let events = decoded(name).0;
    let update = events.iter().rev().find_map(|event| match event {
        StreamEvent::UsageUpdate { usage } => Some(usage.buckets),
        _ => None,
    });
    update.unwrap()
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
fn names_of_events_are_not_needed() {
    for (name, stream) in streams(WIRE) {
        let unnamed: String = stream
            .lines()
            .filter(|line| !line.starts_with("event: "))
            .map(|line| format!("{line}\n"))
            .collect();
        assert_eq!(
            decode(wire().decoder(), &unnamed),
            decode(wire().decoder(), &stream),
            "{name}"
        );
    }
}

#[test]
fn every_end_has_its_reason() {
    for (name, reason) in [
        ("text", StopReason::EndTurn),
        ("parallel_tools", StopReason::ToolUse),
        ("items_without_deltas", StopReason::ToolUse),
        ("items_only_at_the_end", StopReason::ToolUse),
        ("refusal", StopReason::Refusal),
        ("text_cut_at_max_tokens", StopReason::MaxTokens),
        ("half_call_at_max_tokens", StopReason::MaxTokens),
        ("whole_and_half_call_at_max_tokens", StopReason::MaxTokens),
        ("content_filter", StopReason::Refusal),
        (
            "unknown_incomplete_reason",
            StopReason::Unknown("solar_flare".to_owned()),
        ),
        ("empty_answer", StopReason::EndTurn),
    ] {
        assert_eq!(stop_reason(name), reason, "{name}");
    }
}

#[test]
fn a_cut_stream_is_an_error_wherever_it_is_cut() {
    for (name, stream) in streams(WIRE) {
        let (_, error) = decode(wire().decoder(), &stream);
        if error.is_some() {
            continue;
        }
        let events: Vec<&str> = stream.split_inclusive("\n\n").collect();
        let terminal = events
            .iter()
            .position(|event| {
                event.contains("response.completed") || event.contains("incomplete\"")
            })
            .unwrap_or(0);
        for kept in 0..terminal {
            let (_, error) = decode(wire().decoder(), &events[..kept].concat());
            let error = error.unwrap_or_else(|| panic!("{name} cut after {kept} events"));
            assert!(error.retryable());
        }
    }
}

#[test]
fn half_a_call_is_never_a_call() {
    for (name, calls) in [
        ("half_call_at_max_tokens", 0),
        ("whole_and_half_call_at_max_tokens", 1),
        ("half_call_in_a_complete_response", 0),
    ] {
        let (events, _) = decoded(name);
        let ends = events
            .iter()
            .filter(|event| matches!(event, StreamEvent::ToolCallEnd { .. }));
        assert_eq!(ends.count(), calls, "{name}");
    }
}

#[test]
fn usage_lands_in_disjoint_buckets() {
    for (name, expected) in [
        (
            "reasoning",
            UsageBuckets {
                uncached_input: 36,
                cache_read: 64,
                cache_write: 0,
                output: 20,
                reasoning: 60,
            },
        ),
        (
            "unknown_things",
            UsageBuckets {
                uncached_input: 32,
                cache_read: 10,
                cache_write: 8,
                output: 20,
                reasoning: 0,
            },
        ),
    ] {
        assert_eq!(usage(name), expected, "{name}");
    }
}

#[test]
fn what_the_model_said_goes_back_byte_for_byte() {
    let stream = streams(WIRE);
    let (_, stream) = stream
        .iter()
        .find(|(name, _)| name == "parallel_tools")
        .unwrap();
    let (events, _) = decode(wire().decoder(), stream);
    let said = message_of(&events, &model());
    let conversation = [
        said,
        result("call_a", "read", ToolResult::text("A")),
        result("call_b", "read", ToolResult::text("B")),
    ];
    let body = body(&wire(), &model(), &conversation);
    checker::check(&body).unwrap();
    let done = stream
        .lines()
        .filter(|line| line.contains("\"type\":\"response.output_item.done\""));
    let items: Vec<&str> = done
        .map(|line| {
            let start = line.find("\"item\":").unwrap() + 7;
            let end = line.rfind(",\"sequence_number\"").unwrap();
            &line[start..end]
        })
        .collect();
    assert_eq!(items.len(), 4);
    assert!(body.contains(&items.join(",")), "{body}");
}

#[test]
fn items_of_other_kinds_go_back_too() {
    let (events, _) = decoded("unknown_things");
    let said = message_of(&events, &model());
    let Message::Assistant(answer) = &said else {
        panic!("not an answer")
    };
    assert!(matches!(&answer.parts[0], AssistantPart::Thinking { text, .. } if text.is_empty()));
    let body = body(&wire(), &model(), &[said]);
    assert!(body.contains(r#""type":"web_search_call","status":"completed","action":{"type":"search","query":"rust"},"novel":[1.5,"é"]}"#));
    assert!(
        body.contains(r#"{"id":"cmp_1","type":"compaction","encrypted_content":"gAAAA-cmp=="}"#)
    );
}

#[test]
fn a_response_has_so_many_items_and_no_more() {
    let most = halter_providers::limits::RESPONSES_OUTPUT_ITEMS;
    let decoded = |items: usize| {
        let mut stream: String = (0..items)
            .map(|index| {
                format!(
                    "data: {{\"type\":\"response.output_item.done\",\"output_index\":{index},\"item\":{{\"type\":\"x\"}}}}\n\n"
                )
            })
            .collect();
        stream.push_str("data: {\"type\":\"response.completed\",\"response\":{}}\n\n");
        decode(wire().decoder(), &stream).1
    };
    assert_eq!(decoded(most), None);
    assert!(decoded(most + 1).unwrap().message.contains("4096 items"));
}
