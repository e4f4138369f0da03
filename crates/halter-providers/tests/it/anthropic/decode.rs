//! Recorded streams and what is understood of them.

use super::{assert_golden, decode, recorded, recordings};
use halter_protocol::{ProviderErrorKind, StopReason, StreamEvent, UsageBuckets};

/// One line per event, then how it ended.
fn transcript(stream: &str) -> String {
    let (events, end) = decode(&recorded(stream));
    let mut lines: Vec<String> = events
        .iter()
        .map(|event| serde_json::to_string(event).unwrap())
        .collect();
    lines.push(match end {
        Ok(()) => "complete".to_owned(),
        Err(error) => format!("{}: {error} [{:?}]", error.kind, error.request_id),
    });
    lines.join("\n") + "\n"
}

#[test]
fn every_recorded_stream_means_what_its_golden_file_says() {
    let names = recordings();
    assert!(names.len() >= 19, "{names:?}");
    for name in names {
        assert_golden(&format!("streams/{name}.events"), &transcript(&name));
    }
}

#[test]
fn usage_is_cumulative_and_disjoint() {
    let (events, _) = decode(&recorded("thinking"));
    let usages: Vec<UsageBuckets> = events
        .iter()
        .filter_map(|event| match event {
            StreamEvent::UsageUpdate { usage } => Some(usage.buckets),
            _ => None,
        })
        .collect();
    let started = UsageBuckets {
        uncached_input: 7,
        cache_read: 2_000,
        cache_write: 120,
        output: 3,
        reasoning: 0,
    };
    let ended = UsageBuckets {
        output: 10,
        reasoning: 80,
        ..started
    };
    assert_eq!(usages, [started, ended]);
}

#[test]
fn stop_reasons_are_kept() {
    for (stream, reason) in [
        ("text", StopReason::EndTurn),
        ("parallel_tools", StopReason::ToolUse),
        ("half_call_at_max_tokens", StopReason::MaxTokens),
        ("refusal", StopReason::Refusal),
        (
            "server_tools_paused",
            StopReason::Unknown("pause_turn".into()),
        ),
        ("unknown_things", StopReason::Unknown("daydreaming".into())),
    ] {
        let (events, _) = decode(&recorded(stream));
        assert!(
            matches!(events.last(), Some(StreamEvent::MessageEnd { stop_reason, .. }) if *stop_reason == reason),
            "{stream}"
        );
    }
}

#[test]
fn a_call_that_was_cut_off_never_ends() {
    for stream in [
        "half_call_at_max_tokens",
        "bare_call_at_max_tokens",
        "open_call_at_the_end",
    ] {
        let (events, end) = decode(&recorded(stream));
        assert_eq!(end, Ok(()), "{stream}");
        let count = |wanted: fn(&StreamEvent) -> bool| events.iter().filter(|e| wanted(e)).count();
        let started = count(|event| matches!(event, StreamEvent::ToolCallStart { .. }));
        let ended = count(|event| matches!(event, StreamEvent::ToolCallEnd { .. }));
        assert_eq!(ended, started - 1, "{stream}");
        assert_eq!(
            count(|event| matches!(event, StreamEvent::ProviderWarning { .. })),
            1,
            "{stream}"
        );
    }
}

#[test]
fn a_stream_cut_anywhere_is_never_complete() {
    for name in recordings() {
        let events = recorded(&name);
        let stop = events.iter().position(|(name, _)| name == "message_stop");
        for length in 0..stop.unwrap_or(events.len()) {
            let (out, end) = decode(&events[..length]);
            let error = end.expect_err(&name);
            assert_eq!(error.kind, ProviderErrorKind::Transient, "{name}");
            assert!(
                !out.iter()
                    .any(|e| matches!(e, StreamEvent::MessageEnd { .. }))
            );
        }
    }
}

#[test]
fn an_answer_that_is_not_streamed_means_the_same() {
    let whole = |content: &str, reason: &str| {
        let usage = r#"{"input_tokens":25,"output_tokens":9}"#;
        let data = format!(
            r#"{{"id":"msg_01","type":"message","role":"assistant","content":[{content}],"stop_reason":"{reason}","usage":{usage}}}"#
        );
        decode(&[(String::new(), data)])
    };
    let call = r#"{"type":"tool_use","id":"toolu_01","name":"read","input":{"path":"a.rs"}}"#;
    let text = r#"{"type":"text","text":"Two files."}"#;
    let (events, end) = whole(&format!("{text},{call}"), "tool_use");
    assert_eq!(end, Ok(()));
    crate::support::assert_well_formed(&events);
    let (parts, reason) = crate::support::assemble(&events);
    assert_eq!((parts.len(), reason), (2, StopReason::ToolUse));
    let bare = call.replace(r#"{"path":"a.rs"}"#, "{}");
    let (events, _) = whole(&bare, "max_tokens");
    assert!(
        !events
            .iter()
            .any(|e| matches!(e, StreamEvent::ToolCallEnd { .. }))
    );
    assert!(
        decode(&[(String::new(), r#"{"type":"message"}"#.to_owned())])
            .1
            .is_err()
    );
}
