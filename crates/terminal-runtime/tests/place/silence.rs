//! A connection that dies without a word: no end of it ever arrives.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use halter_tools::ExecBackend;
use serde_json::json;
use terminal_runtime::backend::{RuntimeExec, RuntimeExecSettings};
use terminal_runtime::limits::STREAM_SILENCE;

use crate::common::{Daemon, TOKEN};
use crate::place::{DaemonExec, secure_target_at};
use crate::support::{Workspace, eventually};

const SILENCE: Duration = Duration::from_millis(200);
/// How long a runtime is tried to be reached that is to be found.
const RECONNECT: Duration = Duration::from_secs(60);
/// The same where that passes.
const SHORT_RECONNECT: Duration = Duration::from_secs(4);

/// Carries bytes between a client and a runtime, until it is mute: then it
/// takes what comes and carries nothing, on connections that stay open.
struct MuteRelay {
    port: u16,
    made: Arc<AtomicU64>,
    /// Connections with a lower number are mute.
    mute_below: Arc<AtomicU64>,
    ended: Arc<AtomicBool>,
}

impl MuteRelay {
    /// A runtime behind TLS, and the relay before it, by whose name it goes.
    fn with_daemon() -> (Self, Daemon) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let host = format!("localhost:{port}");
        let daemon = DaemonExec::secure_daemon_with(&[("TRL_ALLOWED_HOSTS", &host)]);
        (Self::before(listener, &daemon), daemon)
    }

    fn before(listener: TcpListener, daemon: &Daemon) -> Self {
        let relay = Self {
            port: listener.local_addr().unwrap().port(),
            made: Arc::default(),
            mute_below: Arc::default(),
            ended: Arc::default(),
        };
        let (runtime, made) = (daemon.http(), Arc::clone(&relay.made));
        let (mute_below, ended) = (Arc::clone(&relay.mute_below), Arc::clone(&relay.ended));
        std::thread::spawn(move || {
            for client in listener.incoming() {
                if ended.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(client) = client else { continue };
                let number = made.fetch_add(1, Ordering::SeqCst);
                let Ok(there) = TcpStream::connect(runtime) else {
                    continue;
                };
                for (from, to) in [
                    (client.try_clone().unwrap(), there.try_clone().unwrap()),
                    (there, client),
                ] {
                    let mute_below = Arc::clone(&mute_below);
                    std::thread::spawn(move || carry(from, to, number, &mute_below));
                }
            }
        });
        relay
    }

    /// Makes the connections there are mute.
    fn mute(&self) {
        let made = self.made.load(Ordering::SeqCst);
        self.mute_below.store(made, Ordering::SeqCst);
    }

    /// Makes all connections mute, those to come as well.
    fn mute_all(&self) {
        self.mute_below.store(u64::MAX, Ordering::SeqCst);
    }
}

impl Drop for MuteRelay {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, number: u64, mute_below: &AtomicU64) {
    let mut bytes = [0; 4096];
    while let Ok(read @ 1..) = from.read(&mut bytes) {
        let is_mute = number < mute_below.load(Ordering::SeqCst);
        if !is_mute && to.write_all(&bytes[..read]).is_err() {
            break;
        }
    }
    if number >= mute_below.load(Ordering::SeqCst) {
        let _ = to.shutdown(Shutdown::Write);
    }
}

fn over(relay: &MuteRelay, reconnect: Duration) -> Workspace {
    let mut settings = RuntimeExecSettings::default();
    assert_eq!(settings.silence, STREAM_SILENCE);
    settings.silence = SILENCE;
    settings.reconnect = reconnect;
    let target = secure_target_at(relay.port, TOKEN, "ca.pem");
    let exec: Arc<dyn ExecBackend> = Arc::new(RuntimeExec::new(target, settings));
    Workspace::with_open_shell_in(exec)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_dies_without_a_word_loses_nothing() {
    let (relay, _daemon) = MuteRelay::with_daemon();
    let workspace = over(&relay, RECONNECT);
    let directory = workspace.dir();
    let command = "echo x >> ran; seq 1 500; touch at; while [ ! -e go ]; do sleep 0.01; done; \
                   seq 501 1000; sh -c 'exit 4'";
    let cut = async {
        eventually("the command runs", || directory.join("at").exists()).await;
        relay.mute();
        std::fs::write(directory.join("go"), "").unwrap();
    };
    let run = workspace.ok("shell", json!({"command": command}));
    let (answer, ()) = tokio::join!(run, cut);
    let whole: String = (1..=1000).map(|line| format!("{line}\n")).collect();
    assert_eq!(answer["stdout"], whole);
    assert_eq!(answer["exit_code"], 4, "{answer:#}");
    assert_eq!(workspace.get("ran"), "x\n");
    workspace.store.close().await;
}

/// What says nothing, and has nothing to say, is found again as often as that
/// takes: longer than a lost runtime is tried to be reached.
#[tokio::test(flavor = "multi_thread")]
async fn a_quiet_command_a_job_and_a_terminal_go_on() {
    let (relay, _daemon) = MuteRelay::with_daemon();
    let workspace = over(&relay, SHORT_RECONNECT);
    let directory = workspace.dir();
    let waits = "while [ ! -e go ]; do sleep 0.01; done; echo done";
    let job = json!({"command": waits, "background": true});
    let job = workspace.ok("shell", job).await;
    let terminal = json!({"action": "start", "command": waits, "timeout_ms": 0});
    let terminal = workspace.ok("pty", terminal).await;
    let periods = u64::try_from(SHORT_RECONNECT.as_millis() / SILENCE.as_millis()).unwrap();
    let before = relay.made.load(Ordering::SeqCst);
    let quiet = async {
        let made = || relay.made.load(Ordering::SeqCst) - before;
        eventually("all were found again and again", || made() > 4 * periods).await;
        std::fs::write(directory.join("go"), "").unwrap();
    };
    let run = workspace.ok("shell", json!({"command": waits}));
    let (answer, ()) = tokio::join!(run, quiet);
    assert_eq!(answer["stdout"], "done\n", "{answer:#}");
    assert_eq!(answer["exit_code"], 0);
    let job = crate::place::job_ended(&workspace, &job["job_id"]).await;
    assert_eq!(job["output"], "done\n", "{job:#}");
    assert_eq!(terminal["state"], "running", "{terminal:#}");
    let screen = loop {
        let answer = workspace.ok("pty", json!({"action": "read"})).await;
        if answer["state"] != "running" {
            break answer["screen"].to_string();
        }
    };
    assert!(
        screen.contains("done") && !screen.contains("unknown"),
        "{screen}"
    );
    workspace.store.close().await;
}

/// A job without a deadline of a runtime that nobody hears of any more does not
/// run for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_a_runtime_that_fell_silent_has_an_unknown_outcome() {
    let (relay, _daemon) = MuteRelay::with_daemon();
    let workspace = over(&relay, SHORT_RECONNECT);
    let job = json!({"command": "echo begun; sleep 1000", "background": true});
    let job = workspace.ok("shell", job).await;
    relay.mute_all();
    let ended = crate::place::job_ended(&workspace, &job["job_id"]).await;
    assert!(ended.to_string().contains("unknown"), "{ended:#}");
    // Not closed: nobody there would hear it. The lease ends what runs.
}
