//! Example streams and what they mean.

use super::subject::{Items, Subject};
use crate::fuzz_bodies::assert_answer;
use crate::wire_kit::{assert_golden, rendered};
use halter_protocol::StreamEvent;

fn golden(subject: &Subject) -> impl Iterator<Item = (String, Items)> {
    let streams = subject.streams().into_iter();
    streams.map(|(name, stream)| {
        let items = subject.items(&name, &stream);
        (format!("{}/streams/{name}", subject.name), items)
    })
}

pub fn streams_decode_to_their_golden_events(subject: &Subject) {
    for (file, items) in golden(subject) {
        assert_answer(&items);
        assert_golden(&file, &rendered(&items));
    }
}

pub fn an_answer_has_its_reason_to_end(subject: &Subject) {
    for (name, reason) in &subject.reasons {
        match subject.decoded(name).last() {
            Some(Ok(StreamEvent::MessageEnd { stop_reason, .. })) => {
                assert_eq!(stop_reason, reason, "{name}");
            }
            other => panic!("{name} ends with {other:?}"),
        }
    }
}

pub fn usage_lands_in_disjoint_buckets(subject: &Subject) {
    for (name, expected) in &subject.usage {
        let items = subject.decoded(name);
        let last = items.iter().rev().find_map(|item| match item {
            Ok(StreamEvent::UsageUpdate { usage }) => Some(usage.buckets),
            _ => None,
        });
        assert_eq!(last.as_ref(), Some(expected), "{name}");
    }
}
