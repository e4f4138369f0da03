//! A caller may leave at any point.

use super::scripted::{Script, Scripted};
use super::server::{Response, Server};
use super::{HELLO, chat, hello, provider};
use crate::support::outline;
use futures::StreamExt as _;
use halter_protocol::ProviderError;
use halter_providers::Provider as _;
use halter_providers::http::{Endpoint, HttpProvider};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn cancelling_at_each_event_ends_the_stream_there() {
    let events = 6;
    for taken in 0..=events {
        let transport = Arc::new(Scripted::new([Script::new(200, HELLO)]));
        let provider = HttpProvider::new(chat(), Endpoint::new("http://x"), transport);
        let cancel = CancellationToken::new();
        let mut stream = provider.stream(hello(), cancel.clone()).await.unwrap();
        for _ in 0..taken {
            stream.next().await.unwrap().unwrap();
        }
        cancel.cancel();
        let rest: Vec<_> = stream.collect().await;
        match taken {
            6 => assert_eq!(rest, [], "the answer had ended"),
            _ => assert_eq!(rest, [Err(ProviderError::cancelled())], "after {taken}"),
        }
    }
}

#[tokio::test]
async fn cancelling_before_the_head_fails_the_request() {
    let transport = Arc::new(Scripted::new([Script {
        head: Duration::from_secs(3_600),
        ..Script::new(200, HELLO)
    }]));
    let provider = HttpProvider::new(chat(), Endpoint::new("http://x"), transport);
    let cancel = CancellationToken::new();
    let (opened, ()) = tokio::join!(provider.stream(hello(), cancel.clone()), async {
        tokio::task::yield_now().await;
        cancel.cancel();
    });
    let Err(error) = opened else {
        panic!("it was cancelled");
    };
    assert!(error.downcast::<ProviderError>().unwrap().is_cancelled());
}

#[tokio::test]
async fn cancelling_lets_go_of_the_connection() {
    let gate = Arc::new(Notify::new());
    let response = Response::events().piece(&HELLO[..80]).gate(&gate);
    let server = Server::start([response]).await;
    let provider = provider(&server.url);
    let cancel = CancellationToken::new();
    let stream = provider.stream(hello(), cancel.clone()).await.unwrap();
    let (items, ()) = tokio::join!(stream.collect::<Vec<_>>(), async {
        tokio::task::yield_now().await;
        cancel.cancel();
    });
    assert_eq!(
        outline(&items).last().unwrap(),
        "error cancelled: the request was cancelled"
    );
    let patience = Duration::from_secs(10);
    tokio::time::timeout(patience, server.client_gone())
        .await
        .expect("the connection is closed");
}
