//! Example streams and what they mean.

use super::{WIRE, model, wire};
use crate::responses::check;
use crate::wire_kit::{body, decode, message_of, result, stream, streams};
use halter_protocol::{AssistantPart, Message, StreamEvent, ToolResult};

fn decoded(name: &str) -> (Vec<StreamEvent>, Option<halter_protocol::ProviderError>) {
    decode(&wire(), &stream(WIRE, name))
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
            decode(&wire(), &unnamed),
            decode(&wire(), &stream),
            "{name}"
        );
    }
}

#[test]
fn what_the_model_said_goes_back_byte_for_byte() {
    let stream = streams(WIRE);
    let (_, stream) = stream
        .iter()
        .find(|(name, _)| name == "parallel_tools")
        .unwrap();
    let (events, _) = decode(&wire(), stream);
    let said = message_of(&events, &model());
    let conversation = [
        said,
        result("call_a", "read", ToolResult::text("A")),
        result("call_b", "read", ToolResult::text("B")),
    ];
    let body = body(&wire(), &model(), &conversation);
    check(&body).unwrap();
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
        decode(&wire(), &stream).1
    };
    assert_eq!(decoded(most), None);
    assert!(decoded(most + 1).unwrap().message.contains("4096 items"));
}
