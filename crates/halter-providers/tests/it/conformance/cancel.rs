//! A caller may leave at any point.

use super::subject::{Items, Subject};
use crate::http::hello;
use crate::http::scripted::{Script, Scripted};
use futures::StreamExt as _;
use halter_protocol::ProviderError;
use halter_providers::Provider as _;
use halter_providers::http::{Endpoint, HttpProvider};
use halter_providers::wire::Wire;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

pub fn in_pieces(stream: &str, size: usize) -> Script {
    let pieces = stream.as_bytes().chunks(size);
    Script {
        pieces: pieces
            .map(|piece| (Duration::ZERO, Ok(piece.to_vec())))
            .collect(),
        ..Script::new(200, "")
    }
}

pub fn provider(wire: &Arc<dyn Wire>, script: Script) -> HttpProvider {
    let transport = Arc::new(Scripted::new([script]));
    HttpProvider::new(wire.clone(), Endpoint::new("http://x"), transport)
}

/// Runs with an answer of which so many events were taken.
async fn after_each_event(
    subject: &Subject,
    mut then: impl AsyncFnMut(halter_providers::EventStream, CancellationToken, &str),
) {
    for (name, stream) in subject.streams() {
        let whole: Items = subject.items(&name, &stream);
        let events = whole.iter().filter(|item| item.is_ok()).count();
        for taken in 0..events {
            let provider = provider(&(subject.wire_of)(&name), in_pieces(&stream, 50));
            let cancel = CancellationToken::new();
            let mut answer = provider.stream(hello(), cancel.clone()).await.unwrap();
            for expected in whole.iter().take(taken) {
                assert_eq!(answer.next().await.as_ref(), Some(expected));
            }
            then(answer, cancel, &format!("{name} after {taken}")).await;
        }
    }
}

pub fn runtime() -> Runtime {
    let mut builder = Builder::new_current_thread();
    builder.enable_time().build().unwrap()
}

pub fn cancelling_at_each_event_ends_the_answer_there(subject: &Subject) {
    runtime().block_on(after_each_event(subject, async |answer, cancel, place| {
        cancel.cancel();
        let rest: Items = answer.collect().await;
        assert_eq!(rest, [Err(ProviderError::cancelled())], "{place}");
    }));
}

pub fn an_answer_let_go_at_each_event_leaves_nothing_behind(subject: &Subject) {
    runtime().block_on(after_each_event(subject, async |answer, _, place| {
        drop(answer);
        tokio::task::yield_now().await;
        let tasks = tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks();
        assert_eq!(tasks, 0, "{place}");
    }));
}
