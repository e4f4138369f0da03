//! Runtimes that are away, old, somebody else's, or lost in the middle.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

use halter_policy::{
    FilePlace as _, FileRules, PlacedFiles, PolicyError, Precondition, SandboxBounds,
};
use halter_tools::exec::ExecBackend as _;
use terminal_runtime::backend::{RuntimeExec, RuntimeExecSettings, RuntimeFiles};
use terminal_runtime::client::{RemoteTarget, Target};
use terminal_runtime::settings::Token;

use crate::common::{Daemon, TOKEN};
use crate::place::{DaemonExec, Stranger, secure_target};

fn exec(target: Target) -> RuntimeExec {
    RuntimeExec::new(target, RuntimeExecSettings::default())
}

fn opened(target: Target, directory: &Path) -> Arc<dyn PlacedFiles> {
    opened_of(&RuntimeFiles::new(target).unwrap(), directory)
}

fn opened_of(files: &RuntimeFiles, directory: &Path) -> Arc<dyn PlacedFiles> {
    let rules = FileRules {
        working_dir: directory.to_owned(),
        write_roots: vec![directory.to_owned()],
        ..FileRules::default()
    };
    files.open(rules).unwrap()
}

#[tokio::test]
async fn a_runtime_that_is_down_or_wants_another_token_is_said_at_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let nobody = exec(Target::Socket(directory.path().join("none.sock")));
    let error = nobody.files(directory.path()).await.unwrap_err();
    assert!(error.to_string().contains("no runtime at"), "{error}");
    let daemon = DaemonExec::secure_daemon();
    let expired = exec(secure_target(&daemon, "an-older-token", "ca.pem"));
    let error = expired.files(directory.path()).await.unwrap_err();
    assert!(error.to_string().contains("token"), "{error}");
    assert!(!error.to_string().contains("an-older-token"), "{error}");
}

/// The lines of a request's head, and its body.
fn http_request(stream: &TcpStream) -> (Vec<String>, Vec<u8>) {
    let mut asked = BufReader::new(stream);
    let (mut head, mut length) = (Vec::new(), 0);
    let mut line = String::new();
    while asked.read_line(&mut line).unwrap_or(0) > 2 {
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        head.push(std::mem::take(&mut line));
    }
    let mut body = vec![0; length];
    asked.read_exact(&mut body).unwrap();
    (head, body)
}

/// Answers every request as a runtime of an earlier version does `hello`.
fn old_runtime() -> Target {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    answer_as_an_old_runtime(listener);
    Target::Http {
        address,
        token: Token::new(TOKEN).unwrap(),
    }
}

fn answer_as_an_old_runtime(listener: TcpListener) {
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let (_, body) = http_request(&stream);
            let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
            let features = [
                "beside",
                "clean_env",
                "cwd",
                "filter_env",
                "lease",
                "mounts",
                "namespaces",
                "placeholders",
                "process",
                "protect",
                "sandbox",
            ];
            let data = serde_json::json!({"version": "0", "frames": false, "features": features});
            let reply = serde_json::json!({"id": body["id"], "ok": true, "data": data}).to_string();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", reply.len());
            let _ = stream.write_all((head + &reply).as_bytes());
        }
    });
}

/// An address has brackets in a URL, and none for whoever connects.
#[tokio::test]
async fn a_runtime_is_reached_by_its_ipv6_address() {
    let Ok(listener) = TcpListener::bind("[::1]:0") else {
        println!("skipped: needs IPv6");
        return;
    };
    let port = listener.local_addr().unwrap().port();
    answer_as_an_old_runtime(listener);
    let target = Target::Remote(Box::new(RemoteTarget {
        host: "[::1]".to_owned(),
        port,
        token: Token::new(TOKEN).unwrap(),
        tls: None,
    }));
    let directory = tempfile::tempdir().unwrap();
    let files = exec(target).files(directory.path()).await;
    assert!(files.unwrap().is_none());
}

#[tokio::test]
async fn a_runtime_without_file_methods_is_recognised() {
    let directory = tempfile::tempdir().unwrap();
    let old = exec(old_runtime());
    assert!(old.files(directory.path()).await.unwrap().is_none());
    let lacks = old.check(directory.path(), &SandboxBounds::default()).await;
    let lacks = lacks.unwrap();
    let says = |text: &str| lacks.iter().any(|it| it.contains(text));
    assert!(says("no file methods"), "{lacks:?}");
}

/// What the wire between client and runtime does with a write.
const PASS: u8 = 0;
const CUT_BEFORE: u8 = 1;
const CUT_AFTER: u8 = 2;
/// No request is answered, nor carried on.
const SILENT: u8 = 3;

/// A socket before the runtime's that can lose a connection at a write.
struct FaultyWire {
    path: PathBuf,
    fault: Arc<AtomicU8>,
}

impl FaultyWire {
    fn new(daemon: &Daemon) -> Self {
        let path = daemon.path("faulty.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let fault = Arc::new(AtomicU8::new(PASS));
        let (socket, armed) = (daemon.socket(), Arc::clone(&fault));
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, socket, armed) = (client.unwrap(), socket.clone(), armed.clone());
                std::thread::spawn(move || carry(&client, &socket, &armed));
            }
        });
        Self { path, fault }
    }
}

/// Carries one request at a time.
fn carry(client: &UnixStream, socket: &Path, armed: &AtomicU8) {
    let Ok(mut runtime) = UnixStream::connect(socket) else {
        return;
    };
    let mut replies = BufReader::new(runtime.try_clone().unwrap());
    let mut requests = BufReader::new(client);
    let mut line = String::new();
    while requests.read_line(&mut line).unwrap_or(0) > 0 {
        let is_write = line.contains("\"fs.write\"") && !line.contains("\"more\":true");
        let fault = match armed.load(Ordering::SeqCst) {
            SILENT => {
                line.clear();
                continue;
            }
            _ if is_write => armed.swap(PASS, Ordering::SeqCst),
            _ => PASS,
        };
        if fault == CUT_BEFORE || runtime.write_all(line.as_bytes()).is_err() {
            break;
        }
        line.clear();
        if replies.read_line(&mut line).unwrap_or(0) == 0 || fault == CUT_AFTER {
            break;
        }
        let mut client = client;
        if client.write_all(line.as_bytes()).is_err() {
            break;
        }
        line.clear();
    }
    let _ = client.shutdown(std::net::Shutdown::Both);
}

#[test]
fn a_connection_lost_in_the_middle_of_a_file_leaves_a_clear_state() {
    let daemon = Daemon::start();
    let wire = FaultyWire::new(&daemon);
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    let files = opened(Target::Socket(wire.path.clone()), &root);
    let file = root.join("file");
    files.write(&file, b"old", &Precondition::None).unwrap();
    for size in [3, 2 * 1024 * 1024] {
        std::fs::write(&file, "old").unwrap();
        let content = vec![b'n'; size];
        // Nothing was written, and that is found out.
        wire.fault.store(CUT_BEFORE, Ordering::SeqCst);
        let lost = files.write(&file, &content, &Precondition::None);
        let error = lost.unwrap_err();
        assert_eq!(error.code(), "outcome_unknown");
        assert!(error.to_string().contains("look at it"), "{error}");
        assert_eq!(std::fs::read(&file).unwrap(), b"old");
        // All was written, only the answer is missing: it counts once.
        wire.fault.store(CUT_AFTER, Ordering::SeqCst);
        let written = files.write(&file, &content, &Precondition::None);
        assert!(!written.unwrap().created);
        assert_eq!(std::fs::read(&file).unwrap(), content);
        // So does a file that was not there before, as a new one.
        std::fs::remove_file(&file).unwrap();
        wire.fault.store(CUT_AFTER, Ordering::SeqCst);
        let written = files.write(&file, &content, &Precondition::None);
        assert!(written.unwrap().created);
        // No part of it is anywhere.
        assert_eq!(std::fs::read_dir(&root).unwrap().count(), 1);
    }
}

#[test]
fn a_runtime_that_was_restarted_serves_files_again() {
    let daemon = Daemon::start();
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    let files = opened(Target::Socket(daemon.socket()), &root);
    let file = root.join("file");
    for round in 0..5 {
        let content = format!("{round}").repeat(600 * 1024);
        files
            .write(&file, content.as_bytes(), &Precondition::None)
            .unwrap();
        daemon.kill();
        let back = std::thread::scope(|scope| {
            let reading = scope.spawn(|| files.read(&file, 0, 10, None));
            daemon.spawn();
            reading.join().unwrap()
        });
        assert_eq!(back.unwrap().bytes, content.as_bytes()[..10]);
    }
}

#[test]
fn a_runtime_that_does_not_come_back_is_given_up() {
    let daemon = Daemon::start();
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    let files = opened(Target::Socket(daemon.socket()), &root);
    daemon.kill();
    let begun = std::time::Instant::now();
    let error = files.read(&root.join("file"), 0, 1, None).unwrap_err();
    assert!(
        matches!(
            error,
            PolicyError::Elsewhere {
                code: "files_unreachable",
                ..
            }
        ),
        "{error}"
    );
    assert!(begun.elapsed() < Duration::from_secs(40));
}

#[test]
fn a_runtime_that_becomes_slow_is_given_up_and_nothing_is_half_written() {
    let daemon = Daemon::start();
    let wire = FaultyWire::new(&daemon);
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    let target = Target::Socket(wire.path.clone());
    // Long enough for a busy machine while it answers.
    let limit = Duration::from_secs(3);
    let files = opened_of(&RuntimeFiles::with_call_time(target, limit).unwrap(), &root);
    let file = root.join("file");
    files.write(&file, b"old", &Precondition::None).unwrap();
    wire.fault.store(SILENT, Ordering::SeqCst);
    let read = files.read(&file, 0, 3, None).unwrap_err();
    assert_eq!(read.code(), "files_unreachable");
    let message = read.to_string();
    assert!(message.contains("has not answered within 3 s"), "{message}");
    let written = files.write(&file, b"new", &Precondition::None).unwrap_err();
    assert_eq!(written.code(), "outcome_unknown");
    assert!(written.to_string().contains("look at it"), "{written}");
    assert_eq!(std::fs::read(&file).unwrap(), b"old");
    wire.fault.store(PASS, Ordering::SeqCst);
    files.write(&file, b"new", &Precondition::None).unwrap();
    assert_eq!(std::fs::read(&file).unwrap(), b"new");
    assert_eq!(std::fs::read_dir(&root).unwrap().count(), 1);
}

/// Before the runtime, over HTTP: once it is told so, what asks for more than
/// the first part of a file comes with a token that has expired.
fn expiring_tokens(runtime: SocketAddr, expired: Arc<AtomicBool>) -> Target {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (mut client, expired) = (client.unwrap(), Arc::clone(&expired));
            std::thread::spawn(move || {
                let (head, body) = http_request(&client);
                let text = String::from_utf8(body).unwrap();
                let is_later = text.contains("\"fs.write\"") && !text.contains("\"offset\":0");
                let kept = |line: &&String| {
                    let line = line.to_lowercase();
                    !line.starts_with("connection:") && !line.starts_with("host:")
                };
                let mut head: String = head.iter().filter(kept).cloned().collect();
                if is_later && expired.load(Ordering::SeqCst) {
                    head = head.replace(TOKEN, "an-older-token-of-the-same-place");
                }
                let mut carried = TcpStream::connect(runtime).unwrap();
                let request = format!("{head}host: {runtime}\r\nconnection: close\r\n\r\n{text}");
                carried.write_all(request.as_bytes()).unwrap();
                let _ = std::io::copy(&mut carried, &mut client);
            });
        }
    });
    Target::Http {
        address,
        token: Token::new(TOKEN).unwrap(),
    }
}

#[test]
fn a_token_that_expires_in_the_middle_of_a_file_changes_nothing() {
    let daemon = Daemon::start();
    let expired = Arc::new(AtomicBool::new(false));
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    let files = opened(expiring_tokens(daemon.http(), Arc::clone(&expired)), &root);
    let file = root.join("file");
    files.write(&file, b"old", &Precondition::None).unwrap();
    let content = vec![b'n'; 3 * 1024 * 1024];
    expired.store(true, Ordering::SeqCst);
    let error = files.write(&file, &content, &Precondition::None);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("token"), "{error}");
    assert!(!error.contains(TOKEN), "{error}");
    assert_eq!(std::fs::read(&file).unwrap(), b"old");
    assert_eq!(std::fs::read_dir(&root).unwrap().count(), 1);
    expired.store(false, Ordering::SeqCst);
    files.write(&file, &content, &Precondition::None).unwrap();
    assert_eq!(std::fs::read(&file).unwrap(), content);
}

/// Whoever listens there as another user is told no path and no content.
#[tokio::test]
async fn somebody_elses_runtime_is_asked_for_no_file() {
    let Some(stranger) = Stranger::listen() else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().to_owned();
    let target = stranger.target();
    let session = exec(target.clone()).files(&root).await.unwrap_err();
    let work = move || {
        let files = opened(target, &root);
        let file = root.join("file");
        let read = files.read(&file, 0, 1, None).unwrap_err();
        let written = files.write(&file, b"secret", &Precondition::None);
        [read, written.unwrap_err()].map(|error| error.to_string())
    };
    let errors = tokio::task::spawn_blocking(work).await.unwrap();
    for error in errors.into_iter().chain([session.to_string()]) {
        assert!(error.contains("nothing was sent"), "{error}");
    }
    assert_eq!(stranger.heard(), b"");
}
