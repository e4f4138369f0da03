//! What survives a process that dies at any moment.

use halter_session::conformance::blueprint;
use halter_session::{
    AppendBatch, Blob, Durability, EventRecord, SessionRecord, SessionStore, SqliteSessionStore,
};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const FILE: &str = "HALTER_TEST_KILLED_WRITER_FILE";

fn line(sequence: u64) -> String {
    format!(
        "{{\"event\":{sequence},\"padding\":\"{}\"}}",
        "p".repeat((sequence % 3_000) as usize)
    )
}

/// Not a test of its own: the process the tests below kill. It appends and
/// prints each acknowledged sequence until it dies.
#[test]
fn child_that_appends_until_it_is_killed() {
    let Some(path) = std::env::var_os(FILE) else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let store = SqliteSessionStore::open(Path::new(&path)).await.unwrap();
        let id = "ses_1".into();
        let (token, mut head) = match store.create(SessionRecord::new(blueprint("ses_1"))).await {
            Ok(token) => (token, 0),
            Err(_) => {
                let token = store.acquire(&id).await.unwrap();
                (token, store.open(&id).await.unwrap().head)
            }
        };
        loop {
            let batch = AppendBatch {
                events: vec![EventRecord {
                    sequence: head + 1,
                    json: line(head + 1).into(),
                }],
                blobs: vec![Blob::new(line(head + 1))],
                ..AppendBatch::default()
            };
            head = store
                .append(&token, head, batch, Durability::Durable)
                .await
                .unwrap();
            let mut out = std::io::stdout();
            writeln!(out, "acknowledged {head}").unwrap();
            out.flush().unwrap();
        }
    });
}

fn start_child(path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "durability::child_that_appends_until_it_is_killed",
        ])
        .args(["--nocapture", "--test-threads=1"])
        .env(FILE, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Lets the child acknowledge some appends, kills it in the middle of the
/// next ones, and returns the last sequence it acknowledged.
fn run_and_kill(path: &Path, appends: u64) -> u64 {
    let mut child = start_child(path);
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut last = 0;
    let mut seen = 0;
    let mut text = String::new();
    loop {
        text.clear();
        if output.read_line(&mut text).unwrap() == 0 {
            break;
        }
        if let Some(number) = text.trim().strip_prefix("acknowledged ") {
            last = number.parse().unwrap();
            seen += 1;
            if seen == appends {
                child.kill().unwrap();
            }
        }
    }
    child.wait().unwrap();
    assert!(seen >= appends, "the child died early");
    last
}

#[tokio::test]
async fn every_acknowledged_event_survives_kill_9() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sessions.db");
    let id = "ses_1".into();
    // The kill lands wherever the child is by then; the counts only spread it.
    for appends in [1, 2, 17, 5, 230, 3, 90, 41, 7, 400] {
        let acknowledged = run_and_kill(&path, appends);
        let store = SqliteSessionStore::open(&path).await.unwrap();
        let head = store.open(&id).await.unwrap().head;
        assert!(
            head == acknowledged || head == acknowledged + 1,
            "acknowledged {acknowledged}, found {head}"
        );
        let mut after = 0;
        while after < head {
            for event in store.read(&id, after, 1_000).await.unwrap() {
                after += 1;
                assert_eq!(
                    (event.sequence, &*event.json),
                    (after, line(after).as_str())
                );
            }
        }
        let last = Blob::new(line(head));
        assert_eq!(store.blob(&last.hash).await.unwrap(), Some(last.bytes));
        store.close().await.unwrap();
    }
}
