//! Whatever a service sends, the decoder answers with events or an error.

use super::{WIRE, wire};
use crate::wire_kit::{Dice, assert_grammar, damaged, decode, streams};
use halter_providers::wire::{ErrorResponse, Wire};

const MUTATIONS: u64 = 10_000;

#[test]
fn damaged_streams_never_break_the_decoder() {
    let corpus = streams(WIRE);
    for seed in 0..MUTATIONS {
        let mut dice = Dice::new(seed);
        let (_, stream) = &corpus[dice.roll(corpus.len())];
        let (_, other) = &corpus[dice.roll(corpus.len())];
        let stream = damaged(stream, other, &mut dice);
        let (events, error) = decode(wire().decoder(), &stream);
        assert_grammar(&events, error.as_ref());
        // The same bytes as an error body.
        let headers = crate::wire_kit::Headers(Vec::new());
        wire().error(&ErrorResponse {
            status: 400,
            headers: &headers,
            body: stream.as_bytes(),
        });
    }
}
