//! Traffic recorded and played back.

use crate::http::scripted::{Script, Scripted};
use crate::http::{HELLO, chat};
use crate::support::{answer, outline, request, user};
use futures::StreamExt as _;
use halter_protocol::{ProviderError, ProviderErrorKind, StreamEvent};
use halter_providers::cassette::{CassetteError, Player, Recorder, Scrubber};
use halter_providers::http::{Endpoint, HttpProvider, Transport, TransportError};
use halter_providers::layers::{Retry, RetryPolicy};
use halter_providers::secrets::Secrets;
use halter_providers::{Provider as _, ProviderRequest};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const KEY: &str = "k-0123456789-secret";

fn provider(transport: impl Transport) -> HttpProvider {
    let endpoint = Endpoint::new("http://models.test").with_api_key(KEY);
    HttpProvider::new(chat(), endpoint, Arc::new(transport))
}

fn scrubber() -> Scrubber {
    Scrubber::new(Secrets::new([KEY.to_owned()]))
}

fn asking(text: &str) -> ProviderRequest {
    request([user(text)])
}

struct Tape {
    file: PathBuf,
    _directory: tempfile::TempDir,
}

impl Tape {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self {
            file: directory.path().join("cassette.jsonl"),
            _directory: directory,
        }
    }

    /// Records the scripts while the texts are asked.
    async fn record(&self, scripts: Vec<Script>, texts: &[&str]) -> Vec<Vec<String>> {
        let recorder = Recorder::create(Scripted::new(scripts), &self.file, scrubber()).unwrap();
        let provider = provider(recorder);
        let mut answers = Vec::new();
        for text in texts {
            answers.push(outline(&answer(&provider, asking(text)).await));
        }
        answers
    }

    fn player(&self) -> Player {
        Player::open(&self.file, Scrubber::default()).unwrap()
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.file).unwrap()
    }
}

fn saying(word: &str) -> Script {
    Script::new(200, &HELLO.replace("hello", word))
}

async fn failure(provider: &HttpProvider, text: &str) -> ProviderError {
    answer(provider, asking(text))
        .await
        .pop()
        .unwrap()
        .unwrap_err()
}

#[tokio::test]
async fn what_was_recorded_is_played_byte_for_byte() {
    let tape = Tape::new();
    let scripts = vec![
        saying("one"),
        Script::new(500, r#"{"error":{"message":"oops"}}"#),
        Script {
            pieces: vec![
                (Duration::ZERO, Ok(HELLO.as_bytes()[..90].to_vec())),
                (
                    Duration::ZERO,
                    Err(TransportError::Broken {
                        message: "reset".to_owned(),
                    }),
                ),
            ],
            ..saying("three")
        },
    ];
    let texts = ["a", "b", "c"];
    let recorded = tape.record(scripts, &texts).await;

    let player = Arc::new(tape.player());
    assert_eq!(player.left(), 3);
    let endpoint = Endpoint::new("http://elsewhere.test:8080");
    let replay = HttpProvider::new(chat(), endpoint, player.clone());
    let mut played = Vec::new();
    for text in texts {
        played.push(outline(&answer(&replay, asking(text)).await));
    }
    assert_eq!(played[..2], recorded[..2]);
    assert!(recorded[2].last().unwrap().contains("connection"));
    assert!(played[2].last().unwrap().contains("connection"));
    assert_eq!(player.left(), 0);
}

#[tokio::test]
async fn requests_are_matched_by_content_and_not_by_order() {
    let tape = Tape::new();
    tape.record(
        vec![saying("one"), saying("two"), saying("again")],
        &["a", "b", "a"],
    )
    .await;
    let replay = provider(tape.player());
    let mut said = Vec::new();
    for text in ["b", "a", "a"] {
        said.push(outline(&answer(&replay, asking(text)).await)[2].clone());
    }
    assert_eq!(said, ["two", "one", "again"]);
}

#[tokio::test]
async fn a_request_that_was_not_recorded_fails_with_the_first_difference() {
    let tape = Tape::new();
    tape.record(vec![saying("one")], &["tell me about crabs"])
        .await;
    let replay = provider(tape.player());
    let error = failure(&replay, "tell me about cats").await;
    assert_eq!(error.kind, ProviderErrorKind::Fatal);
    assert!(
        error.message.ends_with(
            "the first difference to exchange 1 of 1: body.messages[0].content, character 16: \
             recorded \"tell me about crabs\", sent \"tell me about cats\""
        ),
        "{}",
        error.message
    );
    answer(&replay, asking("tell me about crabs")).await;
    let error = failure(&replay, "tell me about crabs").await;
    assert!(
        error.message.ends_with("all 1 exchanges are played"),
        "{}",
        error.message
    );
}

#[tokio::test]
async fn no_key_is_in_the_file_and_it_is_private() {
    let tape = Tape::new();
    let mut script = saying(&format!("your key is {KEY}"));
    script.headers = vec![
        ("set-cookie".to_owned(), "session=hunter2".to_owned()),
        ("x-ratelimit-remaining-tokens".to_owned(), "7".to_owned()),
    ];
    let question = format!("is {KEY} my key, or sk-proj-abcdefghijklmnop?");
    tape.record(vec![script], &[&question]).await;
    let text = tape.text();
    for secret in [KEY, "sk-proj", "hunter2", "Bearer"] {
        assert!(!text.contains(secret), "{secret} is in {text}");
    }
    assert!(text.contains("x-ratelimit-remaining-tokens"), "{text}");
    let mode = std::fs::metadata(&tape.file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let replay = provider(Player::open(&tape.file, scrubber()).unwrap());
    let said = outline(&answer(&replay, asking(&question)).await);
    assert_eq!(said[2], "your key is [redacted]");
}

#[tokio::test(start_paused = true)]
async fn retries_are_recorded_and_happen_again() {
    let tape = Tape::new();
    let scripts = vec![Script::new(503, "{}"), saying("late")];
    let recorder = Recorder::create(Scripted::new(scripts), &tape.file, scrubber()).unwrap();
    let retry = Retry::new(Arc::new(provider(recorder)), RetryPolicy::default());
    let recorded = outline(&answer(&retry, asking("a")).await);
    assert!(recorded.contains(&"late".to_owned()), "{recorded:?}");
    drop(retry);
    let retry = Retry::new(Arc::new(provider(tape.player())), RetryPolicy::default());
    let played = outline(&answer(&retry, asking("a")).await);
    assert_eq!(played.last(), recorded.last());
    assert!(played.contains(&"late".to_owned()), "{played:?}");
}

/// A turn ends with the last event of its answer, and the recording may be
/// finished before anybody has let go of the connection.
#[tokio::test]
async fn an_answer_is_recorded_though_its_response_is_still_open() {
    let tape = Tape::new();
    let script = Script {
        ends: false,
        ..saying("one")
    };
    let scripted = Scripted::new([saying("zero"), script]);
    let recorder = Arc::new(Recorder::create(scripted, &tape.file, scrubber()).unwrap());
    let recording = provider(recorder.clone());
    answer(&recording, asking("a")).await;
    let cancel = CancellationToken::new();
    let mut events = recording.stream(asking("b"), cancel).await.unwrap();
    let mut recorded = Vec::new();
    while !matches!(recorded.last(), Some(Ok(StreamEvent::MessageEnd { .. }))) {
        recorded.push(events.next().await.unwrap());
    }
    recorder.finish().unwrap();
    let text = tape.text();
    let player = tape.player();
    assert_eq!(player.left(), 2);
    let played = answer(&provider(player), asking("b")).await;
    assert_eq!(outline(&played), outline(&recorded));
    drop((events, recording, recorder));
    assert_eq!(tape.text(), text);
}

#[test]
fn files_that_are_no_cassette_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let open = |name: &str, text: Option<&str>| {
        let file = directory.path().join(name);
        if let Some(text) = text {
            std::fs::write(&file, text).unwrap();
        }
        Player::open(&file, Scrubber::default()).unwrap_err()
    };
    assert_eq!(open("none", None).code(), "cassette_read");
    for (name, text, line) in [
        ("empty", "", 1),
        ("other", "hello\n", 1),
        ("newer", "{\"cassette\":2}\n", 1),
        ("torn", "{\"cassette\":1}\n{\"request\":", 2),
    ] {
        match open(name, Some(text)) {
            CassetteError::Damaged { line: found, .. } => assert_eq!(found, line, "{name}"),
            other => panic!("{name}: {other}"),
        }
    }
    let unwritable = Recorder::create(
        Scripted::default(),
        Path::new("/no/such/directory/x"),
        Scrubber::default(),
    );
    assert_eq!(unwritable.err().unwrap().code(), "cassette_write");
}
