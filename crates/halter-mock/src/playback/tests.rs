//! Framing and faults, without a socket.

use super::*;
use serde_json::json;

fn frames() -> Vec<Frame> {
    vec![
        Frame::named("open", &json!({"a": 1}), Place::Opening),
        Frame::named("delta", &json!({"t": "ä"}), Place::Delta),
        Frame::named("delta", &json!({"t": "b"}), Place::Delta),
        Frame::named("close", &json!({}), Place::Closing),
        Frame::named("last", &json!({}), Place::Last),
    ]
}

fn played(step: &Step) -> String {
    let error = Frame::named("error", &json!({}), Place::Last);
    let mut shown = Vec::new();
    for action in stream_actions(frames(), step, MockWire::Anthropic, Some(error)) {
        match action {
            BodyAction::Bytes(bytes) => shown.extend_from_slice(&bytes),
            other => shown.extend_from_slice(format!("<{other:?}>").as_bytes()),
        }
    }
    String::from_utf8(shown).unwrap()
}

fn events(step: &Step) -> Vec<String> {
    played(step)
        .lines()
        .filter_map(|line| line.strip_prefix("event: ").map(str::to_owned))
        .collect()
}

fn with_fault(fault: Fault) -> Step {
    Step::default().with_fault(fault)
}

#[test]
fn faults_come_after_the_given_number_of_deltas() {
    let at = |after| events(&with_fault(Fault::Truncate { after }));
    assert_eq!(at(Some(0)), ["open"]);
    assert_eq!(at(Some(1)), ["open", "delta"]);
    assert_eq!(at(Some(2)), ["open", "delta", "delta"]);
    assert_eq!(at(Some(9)), ["open", "delta", "delta"]);
    assert_eq!(at(None), ["open", "delta", "delta"]);
}

#[test]
fn each_fault_ends_the_stream_its_own_way() {
    let error = Fault::ErrorEvent {
        after: Some(1),
        error: crate::scenario::HttpFault::default(),
    };
    assert_eq!(events(&with_fault(error)), ["open", "delta", "error"]);
    assert!(played(&with_fault(Fault::Stall { after: Some(0) })).ends_with("<Stall>"));
    assert!(played(&with_fault(Fault::Reset { after: Some(0) })).ends_with("<Reset>"));
    let garbage = Fault::Garbage {
        after: Some(1),
        data: "%%%".to_owned(),
    };
    let shown = played(&with_fault(garbage));
    assert!(shown.contains("%%%event: delta") && shown.ends_with("event: last\ndata: {}\n\n"));
}

#[test]
fn delivery_changes_bytes_but_not_content() {
    let mut step = Step::default();
    step.delivery.line_ending = LineEnding::Crlf;
    assert!(played(&step).starts_with("event: open\r\ndata: {\"a\":1}\r\n\r\n"));
    step.delivery = Delivery {
        multiline_data: true,
        no_space: true,
        bom: true,
        ..Delivery::default()
    };
    assert!(played(&step).starts_with("\u{feff}event:open\ndata:{\ndata:  \"a\": 1\ndata:}\n\n"));
    step.delivery = Delivery {
        pings: true,
        comment: Some("hello".to_owned()),
        omit_terminator: true,
        ..Delivery::default()
    };
    let shown = played(&step);
    assert!(shown.starts_with(": hello\n\nevent: open\n"), "{shown}");
    assert!(shown.contains("event: ping\ndata: {\"type\":\"ping\"}\n\n"));
    assert!(!shown.contains("event: last"));
}

#[test]
fn small_writes_cut_through_characters_and_add_up() {
    let mut step = Step::default();
    let whole = played(&step);
    step.delivery.write_bytes = Some(1);
    let actions = stream_actions(frames(), &step, MockWire::Anthropic, None);
    assert_eq!(actions.len(), whole.len());
    assert_eq!(played(&step), whole);
}
