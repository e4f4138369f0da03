//! Example streams and what is understood of them.

use super::decoded;
use crate::wire_kit::decode;
use halter_protocol::{StopReason, StreamEvent, UsageBuckets};
use halter_providers::wire::anthropic::Anthropic;

#[test]
fn usage_is_cumulative_and_disjoint() {
    let (events, _) = decoded("thinking");
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
fn an_answer_that_is_not_streamed_means_the_same() {
    let whole = |content: &str, reason: &str| {
        let usage = r#"{"input_tokens":25,"output_tokens":9}"#;
        let data = format!(
            r#"{{"id":"msg_01","type":"message","role":"assistant","content":[{content}],"stop_reason":"{reason}","usage":{usage}}}"#
        );
        decode(&Anthropic::new(), &format!("data: {data}\n\n"))
    };
    let call = r#"{"type":"tool_use","id":"toolu_01","name":"read","input":{"path":"a.rs"}}"#;
    let text = r#"{"type":"text","text":"Two files."}"#;
    let (events, end) = whole(&format!("{text},{call}"), "tool_use");
    assert_eq!(end, None);
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
        decode(&Anthropic::new(), "data: {\"type\":\"message\"}\n\n")
            .1
            .is_some()
    );
}
