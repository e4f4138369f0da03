//! A daemon of its own for each test, reached in one of several ways.
//!
//! `HALTER_TEST_PLACE` chooses which: `socket` (without it), `https` or
//! `container`.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use halter_tools::exec::{ExecBackend, ExecSession, ExecSessionSpec};
use halter_tools::policy::{SandboxBounds, SessionFiles};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use terminal_runtime::backend::{RuntimeExec, RuntimeExecSettings, RuntimeFiles};
use terminal_runtime::client::{RemoteTarget, Target};
use terminal_runtime::settings::Token;

use crate::common::{Daemon, TOKEN};
use crate::engine::{Image, engine_with, mounted_programs};
use crate::support::Workspace;

/// The image that the test makes.
pub const IMAGE: &str = "halter-test:1";

/// A runtime that lives as long as this.
#[derive(Debug)]
pub struct DaemonExec {
    exec: RuntimeExec,
    target: Target,
    daemon: Daemon,
}

/// The tests look at processes by the numbers that commands print.
const NUMBERS: (&str, &str) = ("TRL_PID_NAMESPACE", "0");

fn fixture(name: &str) -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    crates
        .join("halter-providers/tests/fixtures/tls")
        .join(name)
}

impl DaemonExec {
    /// Behind its socket.
    pub fn start() -> Self {
        let daemon = Daemon::start_with(&[NUMBERS]);
        let target = Target::Socket(daemon.socket());
        Self {
            exec: RuntimeExec::new(target.clone(), RuntimeExecSettings::default()),
            target,
            daemon,
        }
    }

    /// Behind its socket, started by another program.
    pub fn start_by(words: &[&str]) -> Self {
        let daemon = Daemon::start_by(words, &[NUMBERS]);
        let target = Target::Socket(daemon.socket());
        Self {
            exec: RuntimeExec::new(target.clone(), RuntimeExecSettings::default()),
            target,
            daemon,
        }
    }

    /// Behind HTTP with TLS.
    pub fn secure() -> Self {
        let daemon = Self::secure_daemon();
        let target = secure_target(&daemon, TOKEN, "ca.pem");
        Self {
            exec: RuntimeExec::new(target.clone(), RuntimeExecSettings::default()),
            target,
            daemon,
        }
    }

    pub fn secure_daemon() -> Daemon {
        Self::secure_daemon_with(&[])
    }

    pub fn secure_daemon_with(variables: &[(&str, &str)]) -> Daemon {
        let [certificate, key] = ["server.pem", "server.key"].map(fixture);
        let own = [
            NUMBERS,
            ("TRL_TLS_CERT", certificate.to_str().unwrap()),
            ("TRL_TLS_KEY", key.to_str().unwrap()),
        ];
        Daemon::start_with(&[&own, variables].concat())
    }

    /// Behind its socket, with another directory than ours at this path.
    pub fn with_other_files(directory: &Path) -> Self {
        Self::with_files_made_by(directory, "true", RuntimeExecSettings::default(), &[])
    }

    /// The same with what a script makes in it, and variables of the daemon.
    pub fn with_files_made_by(
        directory: &Path,
        script: &str,
        settings: RuntimeExecSettings,
        variables: &[(&str, &str)],
    ) -> Self {
        let script = format!(
            "mount -t tmpfs -o size=1m tmpfs \"$0\" && cd \"$0\" && {{ {script}; }} && cd / && \
             exec \"$@\""
        );
        let own = directory.to_str().unwrap();
        let words = ["unshare", "-m", "sh", "-c", &script, own];
        let daemon = Daemon::start_by(&words, &[&[NUMBERS], variables].concat());
        let target = Target::Socket(daemon.socket());
        Self {
            exec: RuntimeExec::new(target.clone(), settings),
            target,
            daemon,
        }
    }

    /// Behind HTTP with TLS, with copies of our files at this path.
    pub fn secure_with_copies(directory: &Path) -> Self {
        let script = "copy=$(mktemp -d) && cp -a \"$0/.\" \"$copy\" && \
                      mount -t tmpfs -o size=4m tmpfs \"$0\" && cp -a \"$copy/.\" \"$0\" && \
                      rm -rf \"$copy\" && exec \"$@\"";
        let own = directory.to_str().unwrap();
        let [certificate, key] = ["server.pem", "server.key"].map(fixture);
        let variables = [
            NUMBERS,
            ("TRL_TLS_CERT", certificate.to_str().unwrap()),
            ("TRL_TLS_KEY", key.to_str().unwrap()),
        ];
        let daemon = Daemon::start_by(&["unshare", "-m", "sh", "-c", script, own], &variables);
        let target = secure_target(&daemon, TOKEN, "ca.pem");
        Self {
            exec: RuntimeExec::new(target.clone(), RuntimeExecSettings::default()),
            target,
            daemon,
        }
    }

    /// On another machine, as it were: behind HTTP with TLS, with containers
    /// made by this program, and with another directory than ours at this path,
    /// in which `work` is a link to a directory.
    pub fn remote_with_containers(directory: &Path, engine: &Path) -> Self {
        let script = "mount -t tmpfs -o size=1m tmpfs \"$0\" && mkdir \"$0/real\" && \
                      ln -s real \"$0/work\" && exec \"$@\"";
        let own = directory.to_str().unwrap();
        let [certificate, key] = ["server.pem", "server.key"].map(fixture);
        let variables = [
            NUMBERS,
            ("TRL_DOCKER_PROGRAM", engine.to_str().unwrap()),
            ("TRL_TLS_CERT", certificate.to_str().unwrap()),
            ("TRL_TLS_KEY", key.to_str().unwrap()),
        ];
        let daemon = Daemon::start_by(&["unshare", "-m", "sh", "-c", script, own], &variables);
        let target = secure_target(&daemon, TOKEN, "ca.pem");
        let settings = RuntimeExecSettings::default().in_containers(IMAGE);
        Self {
            exec: RuntimeExec::new(target.clone(), settings),
            target,
            daemon,
        }
    }

    /// The place as a harness has it.
    pub fn exec(&self) -> &RuntimeExec {
        &self.exec
    }

    /// Behind its socket, with containers made by this program.
    pub fn with_containers(engine: &Path) -> Self {
        let settings = RuntimeExecSettings::default().in_containers(IMAGE);
        Self::in_containers(engine, settings, &[])
    }

    /// The same with other settings, and variables of the daemon.
    pub fn in_containers(
        engine: &Path,
        settings: RuntimeExecSettings,
        variables: &[(&str, &str)],
    ) -> Self {
        let engine = ("TRL_DOCKER_PROGRAM", engine.to_str().unwrap());
        let variables = [&[NUMBERS, engine], variables].concat();
        let daemon = Daemon::start_with(&variables);
        let target = Target::Socket(daemon.socket());
        Self {
            exec: RuntimeExec::new(target.clone(), settings),
            target,
            daemon,
        }
    }

    pub fn daemon(&self) -> &Daemon {
        &self.daemon
    }
}

/// Whether this process can give another one a directory of its own.
pub fn may_mount() -> bool {
    let tried = std::process::Command::new("unshare")
        .args(["-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"])
        .output();
    let may = tried.is_ok_and(|done| done.status.success());
    if !may {
        println!("skipped: needs mount namespaces");
    }
    may
}

/// A client that trusts this authority.
pub fn secure_target(daemon: &Daemon, token: &str, authority: &str) -> Target {
    secure_target_at(daemon.http().port(), token, authority)
}

/// The same of whatever listens at this port.
pub fn secure_target_at(port: u16, token: &str, authority: &str) -> Target {
    let mut roots = rustls::RootCertStore::empty();
    let authority = CertificateDer::from_pem_file(fixture(authority)).unwrap();
    roots.add(authority).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Target::Remote(Box::new(RemoteTarget {
        host: "localhost".to_owned(),
        port,
        token: Token::new(token).unwrap(),
        tls: Some(Arc::new(config)),
    }))
}

#[async_trait]
impl ExecBackend for DaemonExec {
    fn open(&self, spec: ExecSessionSpec) -> Arc<dyn ExecSession> {
        self.exec.open(spec)
    }

    async fn check(&self, directory: &Path, bounds: &SandboxBounds) -> anyhow::Result<Vec<String>> {
        self.exec.check(directory, bounds).await
    }

    async fn files(&self, directory: &Path) -> anyhow::Result<Option<SessionFiles>> {
        match crate::FILES_ELSEWHERE {
            true => {
                let files = RuntimeFiles::new(self.target.clone())?;
                Ok(Some(SessionFiles(Arc::new(files))))
            }
            false => self.exec.files(directory).await,
        }
    }
}

/// Where the files of a test are: in the program for that, at the runtime also
/// where that has the same.
pub fn files_of(exec: &Arc<dyn ExecBackend>, directory: &Path) -> Option<SessionFiles> {
    if !crate::FILES_ELSEWHERE {
        return None;
    }
    let asked = std::pin::pin!(exec.files(directory));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match asked.poll(&mut context) {
        std::task::Poll::Ready(files) => files.unwrap(),
        std::task::Poll::Pending => panic!("a place of these tests does not wait"),
    }
}

/// Variables that commands have there besides those they are given.
pub fn variables() -> &'static [&'static str] {
    match chosen().as_str() {
        // The engine's.
        "container" => &["HOME", "TERM", "container"],
        _ => &[],
    }
}

/// Whether a process lives that a command in this directory knows by this
/// number.
pub fn is_running(pid: i32, directory: &Path) -> bool {
    if chosen() != "container" {
        let line = std::fs::read(format!("/proc/{pid}/cmdline"));
        return line.is_ok_and(|line| !line.is_empty());
    }
    let number = pid.to_string();
    processes_in(directory).iter().any(|process| {
        let status = std::fs::read_to_string(process.join("status")).unwrap_or_default();
        let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        numbers.and_then(|line| line.split_whitespace().last()) == Some(&number)
    })
}

/// The processes that work in this directory, by their directories in `/proc`.
pub fn processes_in(directory: &Path) -> Vec<PathBuf> {
    let directory = directory.to_str().unwrap();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let is_inside = |process: &PathBuf| {
        // One that was removed has a name with a remark.
        std::fs::read_link(process.join("cwd"))
            .is_ok_and(|cwd| cwd.to_string_lossy().starts_with(directory))
    };
    entries
        .map(|entry| entry.path())
        .filter(is_inside)
        .collect()
}

/// What `HALTER_TEST_PLACE` says.
fn chosen() -> String {
    std::env::var("HALTER_TEST_PLACE").unwrap_or_else(|_| "socket".to_owned())
}

/// Whether a sandbox there lets commands reach single hosts.
pub fn filters_hosts() -> bool {
    false
}

/// Whether what holds commands there is the sandbox of this machine.
pub fn has_rungs() -> bool {
    chosen() == "socket"
}

/// A container for each session, of this machine's programs.
fn in_containers() -> DaemonExec {
    // One engine for all: it makes the image once.
    static ENGINE: LazyLock<(tempfile::TempDir, PathBuf)> = LazyLock::new(|| {
        let directory = tempfile::tempdir().unwrap();
        let program = engine_with(directory.path(), Image::Mounted);
        let program = program.expect("HALTER_TEST_PLACE=container needs podman");
        (directory, program)
    });
    let mut settings = RuntimeExecSettings::default().in_containers(IMAGE);
    settings.mounts = mounted_programs();
    DaemonExec::in_containers(&ENGINE.1, settings, &[])
}

/// Where the commands of the tests run.
pub fn here() -> Arc<dyn ExecBackend> {
    match chosen().as_str() {
        "socket" => Arc::new(DaemonExec::start()),
        "https" => Arc::new(DaemonExec::secure()),
        "container" => Arc::new(in_containers()),
        other => panic!("HALTER_TEST_PLACE is none of socket, https, container: {other}"),
    }
}

/// Another user where a runtime is expected.
#[derive(Debug)]
pub struct Stranger {
    directory: tempfile::TempDir,
    listening: std::thread::JoinHandle<Vec<u8>>,
}

/// What ends it.
const LAST_WORD: &[u8] = b"that is all";

impl Stranger {
    /// Listens, and notes what it is told; `None` where that cannot be.
    pub fn listen() -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let open = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(directory.path(), open).unwrap();
        let socket = directory.path().join("s");
        let (listens, ready) = std::sync::mpsc::channel();
        let listening = std::thread::spawn(move || {
            // Of this thread alone; whoever connects is told who has listened.
            let other = rustix::process::Uid::from_raw(65534);
            if rustix::thread::set_thread_res_uid(other, other, other).is_err() {
                println!("skipped: needs the right to become another user");
                return Vec::new();
            }
            let listener = UnixListener::bind(socket).unwrap();
            listens.send(()).unwrap();
            let mut heard = Vec::new();
            for stream in listener.incoming() {
                stream.unwrap().read_to_end(&mut heard).unwrap();
                if heard.ends_with(LAST_WORD) {
                    break;
                }
            }
            heard.truncate(heard.len() - LAST_WORD.len());
            heard
        });
        ready.recv().ok()?;
        Some(Self {
            directory,
            listening,
        })
    }

    pub fn target(&self) -> Target {
        Target::Socket(self.directory.path().join("s"))
    }

    /// What it was told until now, when it ends.
    pub fn heard(self) -> Vec<u8> {
        // Connections are served one after the other.
        let mut last = UnixStream::connect(self.directory.path().join("s")).unwrap();
        last.write_all(LAST_WORD).unwrap();
        drop(last);
        self.listening.join().unwrap()
    }
}

/// Waits for the end of a job; what it printed.
pub async fn job_ended(workspace: &Workspace, id: &Value) -> Value {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let poll = json!({"action": "poll", "job_id": id});
        let polled = workspace.ok("process", poll).await;
        if polled["state"] != "running" {
            let log = json!({"action": "read", "job_id": id, "offset": 0});
            return workspace.ok("process", log).await;
        }
        assert!(Instant::now() < deadline, "{polled:#}");
    }
}
