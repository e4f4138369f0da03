//! A daemon of its own for each test, reached in one of several ways.
//!
//! `HALTER_TEST_PLACE` chooses which: `socket` (without it), `https` or
//! `container`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use halter_tools::exec::{ExecBackend, ExecSession, ExecSessionSpec};
use halter_tools::policy::SandboxBounds;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use terminal_runtime::backend::{RuntimeExec, RuntimeExecSettings};
use terminal_runtime::client::{RemoteTarget, Target};
use terminal_runtime::settings::Token;

use crate::common::{Daemon, TOKEN};
use crate::support::Workspace;

/// The image that the test makes.
pub const IMAGE: &str = "halter-test:1";

/// A runtime that lives as long as this.
#[derive(Debug)]
pub struct DaemonExec {
    exec: RuntimeExec,
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
            exec: RuntimeExec::new(target, RuntimeExecSettings::default()),
            daemon,
        }
    }

    /// Behind HTTP with TLS.
    pub fn secure() -> Self {
        let daemon = Self::secure_daemon();
        let target = secure_target(&daemon, TOKEN, "ca.pem");
        Self {
            exec: RuntimeExec::new(target, RuntimeExecSettings::default()),
            daemon,
        }
    }

    pub fn secure_daemon() -> Daemon {
        let [certificate, key] = ["server.pem", "server.key"].map(fixture);
        Daemon::start_with(&[
            NUMBERS,
            ("TRL_TLS_CERT", certificate.to_str().unwrap()),
            ("TRL_TLS_KEY", key.to_str().unwrap()),
        ])
    }

    /// Behind its socket, with containers made by this program.
    pub fn with_containers(engine: &Path) -> Self {
        let daemon =
            Daemon::start_with(&[NUMBERS, ("TRL_DOCKER_PROGRAM", engine.to_str().unwrap())]);
        let target = Target::Socket(daemon.socket());
        let settings = RuntimeExecSettings::default().in_containers(IMAGE);
        Self {
            exec: RuntimeExec::new(target, settings),
            daemon,
        }
    }

    pub fn daemon(&self) -> &Daemon {
        &self.daemon
    }
}

/// A client that trusts this authority.
pub fn secure_target(daemon: &Daemon, token: &str, authority: &str) -> Target {
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
        port: daemon.http().port(),
        token: Token::new(token).unwrap(),
        tls: Some(Arc::new(config)),
    }))
}

#[async_trait]
impl ExecBackend for DaemonExec {
    fn open(&self, spec: ExecSessionSpec) -> Arc<dyn ExecSession> {
        self.exec.open(spec)
    }

    async fn check(&self, bounds: &SandboxBounds) -> anyhow::Result<Vec<String>> {
        self.exec.check(bounds).await
    }
}

/// Where the commands of the tests run.
pub fn here() -> Arc<dyn ExecBackend> {
    match std::env::var("HALTER_TEST_PLACE").as_deref() {
        Ok("https") => Arc::new(DaemonExec::secure()),
        _ => Arc::new(DaemonExec::start()),
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
