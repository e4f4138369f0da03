//! Streams that break off, fail, or say what nobody has heard of.

use super::subject::{Items, Subject};
use crate::fuzz_bodies::assert_answer;
use crate::support::outline;
use halter_protocol::StreamEvent;

/// What an answer says, its token counts aside: some servers tell those after
/// the end, where a cut does not hurt.
fn content(items: &Items) -> Vec<&StreamEvent> {
    let events = items.iter().filter_map(|item| item.as_ref().ok());
    let counts = |event: &&StreamEvent| !matches!(event, StreamEvent::UsageUpdate { .. });
    events.filter(counts).collect()
}

pub fn a_cut_is_never_taken_for_the_end(subject: &Subject) {
    for (name, stream) in subject.good_streams() {
        let whole = subject.items(&name, &stream);
        // All bytes of a short stream, some of a long one and all line ends.
        let stride = 1 + stream.len() / 400;
        let cuts = (0..stream.len()).filter(|at| {
            let line_end = stream.as_bytes()[at.saturating_sub(1)] == b'\n';
            (at % stride == 0 || line_end) && stream.is_char_boundary(*at)
        });
        for cut in cuts {
            let items = subject.items(&name, &stream[..cut]);
            assert_answer(&items);
            match items.last() {
                Some(Err(error)) => assert!(error.retryable(), "{name} at {cut}: {error:?}"),
                _ => assert_eq!(content(&items), content(&whole), "{name} at {cut}"),
            }
        }
    }
}

pub fn an_error_after_status_200_ends_the_answer(subject: &Subject) {
    for (name, kind) in &subject.errors {
        let items = subject.decoded(name);
        assert_answer(&items);
        let error = items.last().unwrap().as_ref().unwrap_err();
        assert_eq!(error.kind, *kind, "{name}");
        assert!(!error.message.is_empty());
    }
}

pub fn half_a_call_is_never_a_call(subject: &Subject) {
    for (name, whole) in subject.half_calls {
        let items = subject.decoded(name);
        let count = |wanted: fn(&StreamEvent) -> bool| {
            let events = items.iter().filter_map(|item| item.as_ref().ok());
            events.filter(|event| wanted(event)).count()
        };
        let ended = count(|event| matches!(event, StreamEvent::ToolCallEnd { .. }));
        assert_eq!(ended, *whole, "{name}");
        let failed = items.last().is_some_and(Result::is_err);
        let warned = count(|event| matches!(event, StreamEvent::ProviderWarning { .. })) > 0;
        assert!(failed || warned, "{name} says nothing of the half call");
    }
}

/// Written with new events, blocks, members and a new reason to end.
pub fn unknown_things_are_ignored(subject: &Subject) {
    let name = match subject.name {
        "chat" => "openai_unknown_things",
        _ => "unknown_things",
    };
    let items = subject.decoded(name);
    assert!(items.iter().all(Result::is_ok), "{items:?}");
    let texts = |event: &&StreamEvent| matches!(event, StreamEvent::TextDelta { .. });
    assert!(content(&items).into_iter().any(|event| texts(&event)));
}

/// Ids that a service does not give are made of what it sends: they may differ.
pub fn unknown_events_anywhere_change_nothing(subject: &Subject) {
    for (name, stream) in subject.good_streams() {
        let stream = stream.replace("\r\n", "\n");
        let whole = outline(&subject.items(&name, &stream));
        for (at, _) in stream.match_indices("\n\n") {
            let (before, after) = stream.split_at(at + 2);
            let changed = format!("{before}{}{after}", subject.unknown_event);
            let items = subject.items(&name, &changed);
            assert_eq!(outline(&items), whole, "{name} at {at}");
        }
    }
}

pub fn unknown_members_anywhere_change_nothing(subject: &Subject) {
    for (name, stream) in subject.good_streams() {
        let changed = stream.replace("data: {", "data: {\"novel\":{\"a\":[1.5,null]},");
        let whole = outline(&subject.items(&name, &stream));
        assert_eq!(outline(&subject.items(&name, &changed)), whole, "{name}");
    }
}

/// What only some servers send is not waited for; what all send is.
pub fn a_missing_terminator_is_told_from_a_cut(subject: &Subject) {
    let (name, _) = subject.text;
    let stream = subject.stream(name).replace("\r\n", "\n");
    let whole = subject.items(name, &stream);
    match subject.terminator {
        Some(terminator) => {
            let without = stream.replace(terminator, "");
            assert_ne!(without, stream);
            assert_eq!(subject.items(name, &without), whole);
        }
        None => {
            let end = stream.trim_end().rfind("\n\n").unwrap() + 2;
            let items = subject.items(name, &stream[..end]);
            let error = items.last().unwrap().as_ref().unwrap_err();
            assert!(error.retryable(), "{error:?}");
        }
    }
}
