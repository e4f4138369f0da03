//! Whatever arrives, the decoder answers and never panics.

use super::{decode, recorded, recordings};
use halter_protocol::StreamEvent;
use std::collections::HashSet;

/// A small generator of the same numbers every time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }
}

const SPLICES: [&str; 14] = [
    "\"",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "null",
    "-1",
    "1e999",
    "\\u0000",
    "\\",
    "é",
    "\"type\":",
];

fn mutate(events: &mut Vec<(String, String)>, all: &[(String, String)], numbers: &mut Numbers) {
    let place = numbers.below(events.len());
    match numbers.below(7) {
        0 => _ = events.remove(place),
        1 => events.insert(place, all[numbers.below(all.len())].clone()),
        2 => {
            let other = numbers.below(events.len());
            events.swap(place, other);
        }
        3 => events[place].0 = "?".to_owned(),
        _ => {
            let data = &mut events[place].1;
            let boundary = |at: usize| {
                (0..=at)
                    .rev()
                    .find(|at| data.is_char_boundary(*at))
                    .unwrap()
            };
            let start = boundary(numbers.below(data.len() + 1));
            let end = boundary((start + numbers.below(12)).min(data.len())).max(start);
            let splice = SPLICES[numbers.below(SPLICES.len())];
            data.replace_range(start..end, splice);
        }
    }
}

/// Starts come before growth and ends, each block starts and ends once, and
/// nothing follows the end of the message.
fn assert_orderly(events: &[StreamEvent]) {
    let mut open = HashSet::new();
    let mut seen = HashSet::new();
    for (place, event) in events.iter().enumerate() {
        match event {
            StreamEvent::MessageStart { .. } => assert_eq!(place, 0),
            StreamEvent::TextStart { id }
            | StreamEvent::ThinkingStart { id }
            | StreamEvent::ToolCallStart { id, .. } => {
                assert!(seen.insert(id.clone()) && open.insert(id.clone()));
            }
            StreamEvent::TextDelta { id, .. }
            | StreamEvent::ThinkingDelta { id, .. }
            | StreamEvent::ToolArgsDelta { id, .. } => assert!(open.contains(id)),
            StreamEvent::TextEnd { id, .. }
            | StreamEvent::ThinkingEnd { id, .. }
            | StreamEvent::ToolCallEnd { id, .. } => assert!(open.remove(id)),
            StreamEvent::MessageEnd { .. } => assert_eq!(place, events.len() - 1),
            _ => {}
        }
    }
}

#[test]
fn ten_thousand_mutations_of_recorded_streams_are_survived() {
    let corpus: Vec<_> = recordings().iter().map(|name| recorded(name)).collect();
    let all: Vec<_> = corpus.iter().flatten().cloned().collect();
    let mut numbers = Numbers(0x5EED_CAFE_F00D_0001);
    let mut complete = 0;
    for round in 0..10_000 {
        let mut events = corpus[round % corpus.len()].clone();
        for _ in 0..=numbers.below(3) {
            if !events.is_empty() {
                mutate(&mut events, &all, &mut numbers);
            }
        }
        let (out, end) = decode(&events);
        assert_orderly(&out);
        let ended = matches!(out.last(), Some(StreamEvent::MessageEnd { .. }));
        assert_eq!(end.is_ok(), ended, "{events:?}");
        complete += usize::from(ended);
    }
    assert!((500..9_500).contains(&complete), "{complete}");
}
