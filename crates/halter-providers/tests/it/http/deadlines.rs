//! Deadlines, under virtual time.

use super::scripted::{Script, Scripted};
use super::{HELLO, chat, hello};
use crate::support::{answer, outline};
use halter_protocol::ProviderErrorKind;
use halter_providers::http::{Deadlines, Endpoint, HttpProvider};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

const FIRST_BYTE: Duration = Duration::from_secs(60);
const IDLE: Duration = Duration::from_secs(30);

fn provider(script: Script) -> HttpProvider {
    let transport = Deadlines::new(Scripted::new([script]), FIRST_BYTE, IDLE);
    HttpProvider::new(chat(), Endpoint::new("http://x"), Arc::new(transport))
}

#[tokio::test(start_paused = true)]
async fn a_server_has_until_the_deadline_to_begin() {
    for (head, fails) in [(59, false), (61, true)] {
        let script = Script {
            head: Duration::from_secs(head),
            ..Script::new(200, HELLO)
        };
        let began = Instant::now();
        let items = answer(&provider(script), hello()).await;
        let error = items.last().unwrap().as_ref().err().cloned();
        assert_eq!(error.is_some(), fails, "{head}");
        if let Some(error) = error {
            assert_eq!(began.elapsed(), FIRST_BYTE);
            assert_eq!(error.kind, ProviderErrorKind::Transient);
            assert_eq!(
                error.message,
                "the server did not begin to answer within 60 seconds"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_given_up_and_what_it_said_is_kept() {
    let first = &HELLO[..HELLO.find("\n\n").unwrap() + 2];
    let script = Script {
        ends: false,
        ..Script::new(200, first)
    };
    let began = Instant::now();
    let items = answer(&provider(script), hello()).await;
    assert_eq!(began.elapsed(), IDLE);
    assert_eq!(
        outline(&items),
        [
            "start",
            "text {",
            "hello",
            "error transient: the server sent nothing for 30 seconds"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn comments_are_life_and_a_healthy_stream_has_no_limit() {
    let ping = || (Duration::from_secs(29), Ok(b": ping\n\n".to_vec()));
    let mut script = Script::new(200, HELLO);
    script.pieces = (0..1_000).map(|_| ping()).collect();
    script
        .pieces
        .push((Duration::ZERO, Ok(HELLO.as_bytes().to_vec())));
    let began = Instant::now();
    let items = answer(&provider(script), hello()).await;
    assert_eq!(outline(&items).last().unwrap(), "end end_turn");
    assert_eq!(began.elapsed().as_secs(), 29_000);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_has_ended_does_not_wait_for_its_server() {
    let script = Script {
        ends: false,
        ..Script::new(200, HELLO)
    };
    let began = Instant::now();
    let items = answer(&provider(script), hello()).await;
    assert_eq!(outline(&items).last().unwrap(), "end end_turn");
    let patience = Duration::from_millis(halter_providers::limits::DRAIN_MILLIS);
    assert_eq!(began.elapsed(), patience);
}
