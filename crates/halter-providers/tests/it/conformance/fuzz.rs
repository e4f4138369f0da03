//! Whatever a service sends, the decoder answers with events or an error.

use super::subject::Subject;
use crate::damage::{Dice, damaged};

const MUTATIONS: u64 = 10_000;

/// The first byte chooses pieces; the rest is the stream.
fn feed(subject: &Subject, first: u8, stream: &[u8]) {
    (subject.fuzz_body)(&[&[first], stream].concat());
}

pub fn whole_and_damaged_streams_never_break_the_decoder(subject: &Subject) {
    let corpus = subject.streams();
    for (number, (_, stream)) in corpus.iter().enumerate() {
        feed(subject, number as u8, stream.as_bytes());
    }
    for seed in 0..MUTATIONS {
        let mut dice = Dice::new(seed);
        let (_, stream) = &corpus[dice.roll(corpus.len())];
        let (_, other) = &corpus[dice.roll(corpus.len())];
        let stream = damaged(stream, other, &mut dice);
        feed(subject, dice.roll(256) as u8, &stream);
    }
}
