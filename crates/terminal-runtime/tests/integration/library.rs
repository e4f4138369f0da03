//! The client library against a runtime.

use std::collections::BTreeMap;

use terminal_runtime::client::{Client, ClientError, OutputEvent};
use terminal_runtime::protocol::{
    AttachParams, CreateParams, DestroyParams, ErrorCode, ExecParams, ReadParams, SessionParams,
    StreamName, Variables, WaitParams,
};
use terminal_runtime::settings::Token;

use crate::gate::Gate;
use crate::runtime::{Runtime, TOKEN};

fn clients(runtime: &Runtime) -> [Client; 2] {
    [
        Client::socket(runtime.socket()),
        Client::http(runtime.http(), Token::new(TOKEN).unwrap()),
    ]
}

fn order(session: &str, command: &str) -> ExecParams {
    ExecParams {
        session_id: session.to_owned(),
        command: Some(command.to_owned()),
        ..ExecParams::default()
    }
}

async fn session(client: &Client) -> String {
    let params = CreateParams {
        shell: Some("/bin/bash".to_owned()),
        ..CreateParams::default()
    };
    client.create_session(&params).await.unwrap().session_id
}

#[tokio::test]
async fn every_call_has_its_type() {
    let runtime = Runtime::start();
    for client in clients(&runtime) {
        assert_eq!(
            client.ping().await.unwrap().version,
            env!("CARGO_PKG_VERSION")
        );
        let session_id = session(&client).await;
        let mut params = order(&session_id, "echo $A");
        params.env = Variables(BTreeMap::from([("A".to_owned(), "b".to_owned())]));
        params.exec_id = Some(format!("typed-{session_id}"));
        let result = client.run(&params).await.unwrap();
        assert_eq!((result.stdout.as_str(), result.exit_code), ("b\n", 0));
        let exec_id = params.exec_id.unwrap();
        let read = ReadParams {
            exec_id: exec_id.clone(),
            offset: 0,
            stream: Some(StreamName::Stdout),
            max: None,
            wait_ms: None,
        };
        assert_eq!(client.read(&read).await.unwrap().data, "b\n");
        let wait = WaitParams {
            exec_id,
            timeout_s: Some(1.0),
        };
        assert_eq!(*client.wait(&wait).await.unwrap().result.unwrap(), result);
        assert!(
            client
                .sessions()
                .await
                .unwrap()
                .sessions
                .iter()
                .any(|found| found.session_id == session_id)
        );
        assert_eq!(client.stats().await.unwrap().running_commands, 0);
        assert!(!client.describe().await.unwrap().transports.is_empty());
        assert!(!client.execs().await.unwrap().execs.is_empty());
        let gone = DestroyParams {
            session_id: session_id.clone(),
            force: false,
        };
        assert_eq!(
            client.destroy_session(&gone).await.unwrap().state,
            "terminated"
        );
        match client.session(&SessionParams { session_id }).await {
            Err(ClientError::Refused(error)) => assert_eq!(error.code, ErrorCode::SessionNotFound),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn calls_of_one_client_do_not_wait_for_each_other() {
    let runtime = Runtime::start();
    for client in clients(&runtime) {
        let gate = Gate::at(runtime.path(&format!("gate-{}", client.target().to_string().len())));
        let first = session(&client).await;
        let wait = format!("{gate}; echo slow");
        let slow = tokio::spawn({
            let client = client.clone();
            async move { client.run(&order(&first, &wait)).await.unwrap().stdout }
        });
        let second = session(&client).await;
        assert_eq!(
            client
                .run(&order(&second, "echo quick"))
                .await
                .unwrap()
                .stdout,
            "quick\n"
        );
        assert!(!slow.is_finished());
        gate.open();
        assert_eq!(slow.await.unwrap(), "slow\n");
    }
}

/// Everything a stream says, with the bytes of each stream put together.
async fn collect(mut next: impl AsyncFnMut() -> OutputEvent) -> (Vec<u8>, Vec<u8>, i32) {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    loop {
        match next().await {
            OutputEvent::Data {
                stream,
                offset,
                bytes,
            } => {
                let into = match stream {
                    StreamName::Stdout => &mut stdout,
                    StreamName::Stderr => &mut stderr,
                };
                assert_eq!(offset, into.len() as u64);
                into.extend_from_slice(&bytes);
            }
            OutputEvent::Exit(ending) => return (stdout, stderr, ending.exit_code),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn streams_carry_every_byte() {
    let runtime = Runtime::start();
    for client in clients(&runtime) {
        let session_id = session(&client).await;
        let line = "head -c 300000 /dev/zero | tr '\\0' 'z'; printf '\\377' >&2; exit 6";
        let mut stream = client.stream(&order(&session_id, line)).await.unwrap();
        let (stdout, stderr, code) = collect(async || stream.next().await.unwrap()).await;
        assert_eq!(
            (stdout.len(), stderr.as_slice(), code),
            (300_000, &b"\xff"[..], 6)
        );
        assert!(stdout.iter().all(|&byte| byte == b'z'));
        let attach = AttachParams {
            exec_id: "nobody".to_owned(),
            offset: 0,
            stderr_offset: 0,
        };
        match client.attach(&attach).await {
            Err(ClientError::Refused(error)) => assert_eq!(error.code, ErrorCode::ExecNotFound),
            other => panic!("{other:?}"),
        }
    }
}

/// Carries bytes to a runtime until it is told to break every connection.
struct Bridge {
    path: std::path::PathBuf,
    cut: std::sync::Arc<tokio::sync::Notify>,
}

impl Bridge {
    fn to(runtime: &Runtime) -> Self {
        let path = runtime.path("bridge.sock");
        let cut = std::sync::Arc::new(tokio::sync::Notify::new());
        let listener = tokio::net::UnixListener::bind(&path).unwrap();
        let (target, cutting) = (runtime.socket(), cut.clone());
        tokio::spawn(async move {
            loop {
                let (mut near, _) = listener.accept().await.unwrap();
                let mut far = tokio::net::UnixStream::connect(&target).await.unwrap();
                let cutting = cutting.clone();
                tokio::spawn(async move {
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                        () = cutting.notified() => {}
                    }
                });
            }
        });
        Self { path, cut }
    }
}

#[tokio::test]
async fn a_follower_comes_back_where_it_was() {
    let runtime = Runtime::start();
    let bridge = Bridge::to(&runtime);
    let client = Client::socket(&bridge.path);
    let session_id = session(&client).await;
    let line = "for n in $(seq 1 200); do echo line $n; sleep 0.005; done; exit 8";
    let mut follower = client.follow_new(order(&session_id, line)).await.unwrap();
    let mut seen = 0;
    let (stdout, stderr, code) = collect(async || {
        seen += 1;
        if seen % 10 == 0 {
            bridge.cut.notify_waiters();
        }
        follower.next().await.unwrap()
    })
    .await;
    let expected: String = (1..=200).map(|n| format!("line {n}\n")).collect();
    assert_eq!(String::from_utf8(stdout).unwrap(), expected);
    assert_eq!((stderr.as_slice(), code), (&b""[..], 8));
}

#[tokio::test]
async fn a_lost_connection_is_an_error_and_the_next_call_connects_again() {
    let runtime = Runtime::start();
    let bridge = Bridge::to(&runtime);
    let client = Client::socket(&bridge.path);
    let session_id = session(&client).await;
    let mut params = order(&session_id, "sleep 0.5; echo done");
    params.exec_id = Some("once".to_owned());
    let running = tokio::spawn({
        let (client, params) = (client.clone(), params.clone());
        async move { client.run(&params).await }
    });
    let direct = Client::socket(runtime.socket());
    while direct.execs().await.unwrap().execs.is_empty() {
        tokio::task::yield_now().await;
    }
    bridge.cut.notify_waiters();
    assert_eq!(
        running.await.unwrap().unwrap_err().code(),
        "connection_lost"
    );
    // The name makes it safe to ask again: it has run once.
    let result = client.run(&params).await.unwrap();
    assert_eq!(result.stdout, "done\n");
    let info = client.session(&SessionParams { session_id }).await.unwrap();
    assert_eq!(info.command_count, 1);
}

#[tokio::test]
async fn what_cannot_be_reached_is_said_by_its_reason() {
    let directory = tempfile::tempdir().unwrap();
    let missing = Client::socket(directory.path().join("missing"));
    assert_eq!(missing.ping().await.unwrap_err().code(), "not_running");
    let stale = directory.path().join("stale");
    drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
    assert_eq!(
        Client::socket(&stale).ping().await.unwrap_err().code(),
        "stale_socket"
    );
    let runtime = Runtime::start();
    let wrong = Client::http(runtime.http(), Token::new("wrong").unwrap());
    match wrong.ping().await {
        Err(ClientError::Refused(error)) => assert_eq!(error.code, ErrorCode::AuthFailed),
        other => panic!("{other:?}"),
    }
    assert!(!format!("{wrong:?}").contains("wrong"));
}
