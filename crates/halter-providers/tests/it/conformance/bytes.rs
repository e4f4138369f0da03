//! The same answer, however its bytes arrive.

use super::cancel::{in_pieces, provider, runtime};
use super::subject::Subject;
use crate::http::hello;
use crate::support::answer;
use halter_protocol::StreamEvent;
use halter_providers::decode::decode;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

pub fn any_cutting_of_the_bytes_decodes_to_the_same_events(subject: &Subject) {
    let streams = subject.streams();
    let config = ProptestConfig {
        cases: 24,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let sizes = proptest::collection::vec(1_usize..200, 1..40);
    let mut runner = TestRunner::new(config);
    let result = runner.run(&sizes, |sizes| {
        for (name, stream) in &streams {
            let wire = (subject.wire_of)(name);
            let pieces = cut(stream.as_bytes(), &sizes);
            prop_assert_eq!(
                decode(wire.as_ref(), pieces),
                subject.items(name, stream),
                "{}",
                name
            );
        }
        Ok(())
    });
    result.unwrap();
}

/// Pieces of these sizes, over and over.
fn cut<'a>(mut bytes: &'a [u8], sizes: &[usize]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    for size in sizes.iter().cycle() {
        let (piece, rest) = bytes.split_at(bytes.len().min(*size));
        pieces.push(piece);
        bytes = rest;
        if bytes.is_empty() {
            break;
        }
    }
    pieces
}

/// One byte at a time cuts every character there is.
pub fn characters_split_between_pieces_arrive_whole(subject: &Subject) {
    let runtime = runtime();
    let mut wide = 0;
    for (name, stream) in subject.streams() {
        wide += usize::from(!stream.is_ascii());
        let provider = provider(&(subject.wire_of)(&name), in_pieces(&stream, 1));
        let mut items = runtime.block_on(answer(&provider, hello()));
        // The provider adds that usage is unknown, the wire does not.
        items.retain(
            |item| !matches!(item, Ok(StreamEvent::UsageUpdate { usage }) if usage.incomplete),
        );
        assert_eq!(items, subject.items(&name, &stream), "{name}");
    }
    assert!(wide > 0, "some stream has more than ASCII");
}

/// The streams with LF for every line end.
fn plain_streams(subject: &Subject) -> impl Iterator<Item = (String, String)> {
    let streams = subject.streams().into_iter();
    streams.map(|(name, stream)| (name, stream.replace("\r\n", "\n")))
}

fn assert_same(subject: &Subject, name: &str, plain: &str, changed: &str) {
    let expected = subject.items(name, plain);
    assert_eq!(subject.items(name, changed), expected, "{name}: {changed}");
}

pub fn lines_may_end_in_any_way(subject: &Subject) {
    for (name, plain) in plain_streams(subject) {
        for changed in [
            plain.replace('\n', "\r\n"),
            plain.replace('\n', "\r"),
            format!("\u{feff}{plain}"),
        ] {
            assert_same(subject, &name, &plain, &changed);
        }
    }
}

pub fn comments_change_nothing(subject: &Subject) {
    for (name, plain) in plain_streams(subject) {
        for changed in [
            plain.replace("\n\n", "\n\n: ping\n\n"),
            plain.replace("data: ", ": OPENROUTER PROCESSING\ndata: "),
            format!(":\n\n{plain}"),
        ] {
            assert_same(subject, &name, &plain, &changed);
        }
    }
}

pub fn a_huge_line_arrives_whole(subject: &Subject) {
    let (name, piece) = subject.text;
    let huge = "ö".repeat(1 << 20);
    let stream = subject.stream(name).replace(piece, &huge);
    let wire = (subject.wire_of)(name);
    for size in [stream.len(), 64 * 1024 + 1] {
        let items = decode(wire.as_ref(), stream.as_bytes().chunks(size));
        let text: String = items
            .iter()
            .filter_map(|item| match item {
                Ok(StreamEvent::TextDelta { delta, .. }) => Some(delta.as_str()),
                _ => None,
            })
            .collect();
        assert!(text.contains(&huge), "{} bytes arrived", text.len());
        assert!(items.iter().all(Result::is_ok));
    }
}

/// Servers forget it.
pub fn the_last_blank_line_may_be_missing(subject: &Subject) {
    for (name, stream) in subject.good_streams() {
        assert_same(subject, &name, &stream, stream.trim_end());
    }
}
