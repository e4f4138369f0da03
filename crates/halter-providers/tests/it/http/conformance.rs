//! What holds for every wire over HTTP, shown with its recorded streams.

use super::hello;
use super::scripted::{Script, Scripted};
use crate::support::answer;
use crate::wire_kit::{assert_grammar, streams};
use futures::StreamExt as _;
use halter_protocol::{ProviderError, StreamEvent};
use halter_providers::Provider as _;
use halter_providers::decode::decode;
use halter_providers::http::{Endpoint, HttpProvider};
use halter_providers::wire::Wire;
use halter_providers::wire::anthropic::Anthropic;
use halter_providers::wire::chat::{Chat, Dialect};
use halter_providers::wire::gemini::GeminiWire;
use halter_providers::wire::responses::ResponsesWire;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

type Items = Vec<Result<StreamEvent, ProviderError>>;

fn wires() -> Vec<(&'static str, Arc<dyn Wire>)> {
    vec![
        ("anthropic", Arc::new(Anthropic::new())),
        ("chat", Arc::new(Chat::new(Dialect::GENERIC))),
        ("gemini", Arc::new(GeminiWire)),
        ("responses", Arc::new(ResponsesWire)),
    ]
}

fn in_pieces(stream: &str, size: usize) -> Script {
    let pieces = stream.as_bytes().chunks(size);
    Script {
        pieces: pieces
            .map(|piece| (Duration::ZERO, Ok(piece.to_vec())))
            .collect(),
        ..Script::new(200, "")
    }
}

fn provider(wire: &Arc<dyn Wire>, script: Script) -> HttpProvider {
    let transport = Arc::new(Scripted::new([script]));
    HttpProvider::new(wire.clone(), Endpoint::new("http://x"), transport)
}

fn check_grammar(items: &Items) {
    let events: Vec<StreamEvent> = items.iter().filter_map(|item| item.clone().ok()).collect();
    let error = items.last().and_then(|item| item.as_ref().err());
    assert_grammar(&events, error);
}

#[tokio::test]
async fn any_cutting_of_the_bytes_gives_the_same_answer() {
    for (name, wire) in wires() {
        for (stream_name, stream) in streams(name) {
            let whole: Items = decode(wire.as_ref(), [stream.as_bytes()]);
            check_grammar(&whole);
            for size in [1, 7, 64, stream.len()] {
                let items = answer(&provider(&wire, in_pieces(&stream, size)), hello()).await;
                assert_eq!(items, whole, "{name}/{stream_name} in pieces of {size}");
            }
        }
    }
}

#[tokio::test]
async fn line_endings_comments_and_a_mark_at_the_start_change_nothing() {
    for (name, wire) in wires() {
        for (stream_name, stream) in streams(name) {
            let plain = stream.replace("\r\n", "\n");
            let expected: Items = decode(wire.as_ref(), [plain.as_bytes()]);
            for changed in [
                plain.replace('\n', "\r\n"),
                plain.replace('\n', "\r"),
                format!("\u{feff}{plain}"),
                plain.replace("\n\n", "\n\n: ping\n\n"),
            ] {
                let items: Items = decode(wire.as_ref(), [changed.as_bytes()]);
                assert_eq!(items, expected, "{name}/{stream_name}: {changed}");
            }
        }
    }
}

#[tokio::test]
async fn cancelling_at_each_event_ends_every_answer_there() {
    for (name, wire) in wires() {
        for (stream_name, stream) in streams(name) {
            let whole: Items = decode(wire.as_ref(), [stream.as_bytes()]);
            let events = whole.iter().filter(|item| item.is_ok()).count();
            for taken in 0..events {
                let provider = provider(&wire, in_pieces(&stream, 50));
                let cancel = CancellationToken::new();
                let mut answer = provider.stream(hello(), cancel.clone()).await.unwrap();
                for expected in whole.iter().take(taken) {
                    assert_eq!(answer.next().await.as_ref(), Some(expected));
                }
                cancel.cancel();
                let rest: Items = answer.collect().await;
                assert_eq!(
                    rest,
                    [Err(ProviderError::cancelled())],
                    "{name}/{stream_name} after {taken}"
                );
            }
        }
    }
}

#[tokio::test]
async fn a_stream_cut_at_any_event_never_ends_well_unless_its_answer_had() {
    for (name, wire) in wires() {
        for (stream_name, stream) in streams(name) {
            let whole: Items = decode(wire.as_ref(), [stream.as_bytes()]);
            let plain = stream.replace("\r\n", "\n");
            let ends: Vec<usize> = plain.match_indices("\n\n").map(|(at, _)| at + 2).collect();
            for end in ends {
                let items: Items = decode(wire.as_ref(), [&plain.as_bytes()[..end]]);
                check_grammar(&items);
                let content = |items: &Items| -> Vec<StreamEvent> {
                    let events = items.iter().filter_map(|item| item.clone().ok());
                    events
                        .filter(|event| !matches!(event, StreamEvent::UsageUpdate { .. }))
                        .collect()
                };
                if items.iter().all(Result::is_ok) {
                    assert_eq!(
                        content(&items),
                        content(&whole),
                        "{name}/{stream_name} cut at {end} lost something unnoticed"
                    );
                }
            }
        }
    }
}
