//! Damaged streams: whatever comes, an answer ends or fails, and never in
//! disorder.

use super::{WIRE, decode, wire_of};
use crate::wire_kit::{Dice, assert_grammar, damaged, streams};

const MUTATIONS: usize = 10_000;

#[test]
fn damaged_streams_never_break_the_grammar() {
    let streams = streams(WIRE);
    let mut dice = Dice::new(3);
    for round in 0..MUTATIONS {
        let (name, stream) = &streams[round % streams.len()];
        let (_, other) = &streams[dice.roll(streams.len())];
        let damaged = damaged(stream, other, &mut dice);
        let piece = 1 + dice.roll(300);
        let wire = wire_of(name);
        let (events, error) = decode(&wire, damaged.as_bytes(), piece);
        assert_grammar(&events, error.as_ref());
        assert_eq!(
            decode(&wire, damaged.as_bytes(), usize::MAX),
            (events, error),
            "{name}, round {round}"
        );
    }
}
