//! Servers as processes: a script plays them.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::connection::Connection;
use crate::error::LspError;
use crate::limits::*;
use crate::published::Published;
use crate::server::LanguageServer;
use crate::settings::ServerSettings;
use halter_exec::Environment;
use halter_exec::limits::LAST_WORDS_BYTES;
use halter_exec::supervise::Guard;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

fn settings(kind: &str) -> ServerSettings {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake-server.sh");
    let entry = json!({
        "command": "/bin/sh",
        "args": [script, kind],
        "extensionToLanguage": {".x": "x"},
    });
    ServerSettings::parse("demo:x", &entry, Path::new("/")).unwrap()
}

fn environment() -> Environment {
    Environment::from_iter([("PATH", "/usr/bin:/bin")])
}

async fn start(kind: &str) -> Result<LanguageServer, LspError> {
    start_as(&settings(kind)).await
}

async fn start_as(settings: &ServerSettings) -> Result<LanguageServer, LspError> {
    let guard = Arc::new(Guard::start().unwrap());
    LanguageServer::start(settings, environment(), Path::new("/"), guard).await
}

fn file(number: usize) -> PathBuf {
    PathBuf::from(format!("/project/{number}.x"))
}

#[tokio::test]
async fn a_file_is_looked_at_again_when_it_changes() {
    let server = start("good").await.unwrap();
    let path = file(1);
    for (text, problems) in [("broken", 1), ("fine", 0), ("broken again", 1)] {
        let document = server.show(&path, "x", text.into()).await.unwrap();
        let said = server
            .diagnostics(&path, &document, DIAGNOSTICS_WAIT)
            .await
            .unwrap();
        assert_eq!(said.unwrap().shown.len(), problems, "{text}");
        // What it was shown already it is not shown again.
        let again = server.show(&path, "x", text.into()).await.unwrap();
        let said = server
            .diagnostics(&path, &again, DIAGNOSTICS_WAIT)
            .await
            .unwrap();
        assert_eq!(said.unwrap().shown.len(), problems, "{text}");
    }
    server.stop().await;
    assert!(server.has_ended());
}

/// Asks for something, and so has read all that the server has said before.
async fn ask(server: &LanguageServer, method: &'static str, path: &Path) {
    let uri = format!("file://{}", path.display());
    let params = json!({"textDocument": {"uri": uri}});
    server.request(method, params).await.unwrap();
}

#[tokio::test]
async fn what_was_wrong_before_a_change_is_not_told_of_what_is_there_now() {
    let server = start("late").await.unwrap();
    let path = file(1);
    server.show(&path, "x", "broken".into()).await.unwrap();
    let fine = server.show(&path, "x", "fine".into()).await.unwrap();
    ask(&server, "textDocument/definition", &path).await;
    tokio::time::pause();
    let said = server.diagnostics(&path, &fine, EDIT_WAIT).await.unwrap();
    assert!(said.is_none());
    tokio::time::resume();
    ask(&server, "textDocument/references", &path).await;
    let said = server.diagnostics(&path, &fine, EDIT_WAIT).await.unwrap();
    assert_eq!(said.unwrap().shown.len(), 0);
    // One that only ever says half as much is heard in the end.
    server.show(&path, "x", "worse".into()).await.unwrap();
    let more = server.show(&path, "x", "more".into()).await.unwrap();
    ask(&server, "textDocument/definition", &path).await;
    tokio::time::pause();
    let said = server.diagnostics(&path, &more, DIAGNOSTICS_WAIT).await;
    assert_eq!(said.unwrap().unwrap().shown.len(), 1);
    tokio::time::resume();
    server.stop().await;
}

#[tokio::test]
async fn what_was_said_of_a_file_before_it_was_closed_is_not_told_again() {
    let server = start("old").await.unwrap();
    let path = file(0);
    let document = server.show(&path, "x", "broken".into()).await.unwrap();
    let said = server.diagnostics(&path, &document, DIAGNOSTICS_WAIT).await;
    assert_eq!(said.unwrap().unwrap().shown.len(), 1);
    for number in 1..=OPEN_DOCUMENTS {
        let path = file(number);
        server.show(&path, "x", "fine".into()).await.unwrap();
    }
    let document = server.show(&path, "x", "broken".into()).await.unwrap();
    ask(&server, "textDocument/definition", &path).await;
    tokio::time::pause();
    let said = server.diagnostics(&path, &document, EDIT_WAIT).await;
    assert!(said.unwrap().is_none());
    tokio::time::resume();
    server.stop().await;
}

#[tokio::test]
async fn so_many_files_are_open_and_the_oldest_is_closed() {
    let server = start("good").await.unwrap();
    for number in 0..=OPEN_DOCUMENTS {
        let document = server
            .show(&file(number), "x", "fine".into())
            .await
            .unwrap();
        server
            .diagnostics(&file(number), &document, DIAGNOSTICS_WAIT)
            .await
            .unwrap();
    }
    let closed = || {
        server
            .gone()
            .to_string()
            .contains("closed file:///project/0.x")
    };
    while !closed() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    server.stop().await;
}

#[tokio::test]
async fn a_server_that_ends_leaves_its_last_words() {
    let error = start("crashing").await.err().unwrap();
    assert_eq!(error.code(), "lsp_ended");
    let told = error.to_string();
    assert!(
        told.contains("demo:x") && told.contains("no license found"),
        "{told}"
    );
    let mut settings = settings("good");
    settings.command = "no-such-server".to_owned();
    let error = start_as(&settings).await;
    assert_eq!(error.err().unwrap().code(), "lsp_start_failed");
}

#[tokio::test]
async fn last_words_are_the_last_ones() {
    let mut settings = settings("good");
    let flood = format!(
        "yes | head -c {} >&2; echo the end >&2",
        LAST_WORDS_BYTES * 4
    );
    settings.arguments = vec!["-c".to_owned(), flood];
    let Err(LspError::Ended { last_words, .. }) = start_as(&settings).await else {
        panic!("it went on");
    };
    assert!(last_words.len() <= LAST_WORDS_BYTES);
    assert!(last_words.ends_with("the end"), "{last_words}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_is_waited_for_so_long() {
    let began = Instant::now();
    let error = start("hanging").await.err().unwrap();
    assert_eq!(error.code(), "lsp_timed_out");
    assert_eq!(began.elapsed().as_secs(), START_WAIT.as_secs());
    tokio::time::resume();
    let server = start("quiet").await.unwrap();
    let document = server.show(&file(1), "x", "broken".into()).await.unwrap();
    tokio::time::pause();
    let began = Instant::now();
    let said = server
        .diagnostics(&file(1), &document, EDIT_WAIT)
        .await
        .unwrap();
    assert!(said.is_none());
    assert_eq!(began.elapsed().as_secs(), EDIT_WAIT.as_secs());
    let began = Instant::now();
    let error = server
        .request("textDocument/hover", json!({}))
        .await
        .unwrap_err();
    assert_eq!(error.code(), "lsp_timed_out");
    assert_eq!(began.elapsed().as_secs(), REQUEST_WAIT.as_secs());
    tokio::time::resume();
    server.stop().await;
}

#[tokio::test]
async fn a_server_that_ignores_its_end_is_killed() {
    let server = start("stubborn").await.unwrap();
    let began = Instant::now();
    let stopped = tokio::time::timeout(STOP_WAIT * 30, server.stop());
    stopped.await.unwrap();
    assert!(server.has_ended());
    assert!(began.elapsed() >= STOP_WAIT);
}

#[tokio::test]
async fn questions_of_a_server_are_answered_and_requests_are_bounded() {
    let (near, far) = connection();
    // A server that asks and is answered without anybody's doing.
    near.take(json!({"id": 1, "method": "workspace/configuration", "params": {"items": [{"section": "a.b"}, {"section": "c"}]}}));
    near.take(json!({"id": 2, "method": "made/up"}));
    let mut far = far;
    let sent = [far.recv().await.unwrap(), far.recv().await.unwrap()];
    let sent = sent.map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(
        sent[0].ends_with("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[7,null]}"),
        "{sent:?}"
    );
    assert!(sent[1].contains("-32601"), "{sent:?}");
    // More than fit into the queue are dropped, and nothing waits.
    for _ in 0..OUTGOING_MESSAGES * 2 {
        near.take(json!({"id": 2, "method": "made/up"}));
    }
    while far.try_recv().is_ok() {}
    let near = Arc::new(near);
    let mut asked = tokio::task::JoinSet::new();
    for _ in 0..OPEN_REQUESTS {
        let near = near.clone();
        asked.spawn(async move { near.request("x", json!(null)).await });
        far.recv().await.unwrap();
    }
    let refused = near.request("x", json!(null)).await.unwrap();
    assert!(refused.unwrap_err().contains("wait already"));
}

#[tokio::test]
async fn so_many_files_are_known_and_no_more() {
    let (near, _far) = connection();
    let publish = |number: usize| {
        let params = json!({"uri": format!("file:///project/{number}.x"), "diagnostics": []});
        near.take(json!({"method": "textDocument/publishDiagnostics", "params": params}));
    };
    (0..=KNOWN_FILES).for_each(publish);
    let known = |number| near.published(&file(number)).times;
    assert_eq!((known(KNOWN_FILES - 1), known(KNOWN_FILES)), (1, 0));
    publish(0);
    assert_eq!(known(0), 2);
    let _: Published = near.published(&file(0));
}

fn connection() -> (Connection, tokio::sync::mpsc::Receiver<Vec<u8>>) {
    Connection::for_test(Some(json!({"a": {"b": 7}})))
}
