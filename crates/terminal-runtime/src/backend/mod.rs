//! A runtime as the place where an agent's tools run their commands.
//!
//! Owns: [`RuntimeExec`], which gives `halter-tools` its shells, background
//! commands, terminals and processes by way of a [`Client`]. Never: judges a
//! command; runs one twice; says that one has ended when nobody knows.
//!
//! A session of tools is one session of the runtime, made with its first
//! command and destroyed with it. Commands have names, so one whose connection
//! was lost, or whose runtime was killed, is found again with all of its
//! output.

mod background;
mod container;
mod files;
mod kept_stream;
mod lease;
mod placing;
mod session;
mod started;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use halter_policy::SessionFiles;
use halter_tools::exec::{ExecBackend, ExecSession, ExecSessionSpec};
use halter_tools::policy::SandboxBounds;
use tokio::sync::OnceCell;

pub use self::files::RuntimeFiles;
use self::session::RuntimeSession;
use self::started::CALL_TIME;
use crate::client::{Client, ClientError, Target};
use crate::limits::SESSION_LEASE;
use crate::protocol::{DescribedLevel, HelloParams};

/// What a runtime must be able to do to serve tools.
const NEEDED: [&str; 8] = [
    "beside",
    "clean_env",
    "cwd",
    "lease",
    "mounts",
    "namespaces",
    "process",
    "sandbox",
];

/// Runs the commands of tools by a runtime.
#[derive(Debug, Clone)]
pub struct RuntimeExec {
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub client: Client,
    pub settings: RuntimeExecSettings,
    /// What the runtime says it can do, once it was asked.
    features: OnceCell<Vec<String>>,
    /// What holds commands there, once it was asked.
    levels: OnceCell<Vec<DescribedLevel>>,
    /// The runtime's files, once they were needed.
    files: OnceLock<Arc<RuntimeFiles>>,
    /// Directories whose files are not this machine's.
    elsewhere: Mutex<HashSet<PathBuf>>,
}

/// How a runtime serves tools.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuntimeExecSettings {
    /// The shells to try, in this order; empty: `bash`, then `sh`.
    pub shells: Vec<PathBuf>,
    /// The image of the container that each session gets, in which it finds
    /// its directories under the same names.
    pub container: Option<String>,
    /// What else such a container has of the runtime's machine, under the same
    /// names: writable as the policy says.
    pub mounts: Vec<PathBuf>,
    /// How long a session goes on there once this program is gone, or cannot
    /// be reached, with all it runs.
    pub lease: Duration,
}

impl Default for RuntimeExecSettings {
    fn default() -> Self {
        Self {
            shells: Vec::new(),
            container: None,
            mounts: Vec::new(),
            lease: SESSION_LEASE,
        }
    }
}

impl RuntimeExecSettings {
    /// In containers of this image.
    #[must_use]
    pub fn in_containers(mut self, image: impl Into<String>) -> Self {
        self.container = Some(image.into());
        self
    }

    /// With sessions that end so long after this program.
    #[must_use]
    pub fn with_lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }
}

impl RuntimeExec {
    /// The runtime there. Nothing is sent before the first command.
    #[must_use]
    pub fn new(target: Target, settings: RuntimeExecSettings) -> Self {
        Self {
            shared: Arc::new(Shared {
                client: Client::new(target),
                settings,
                features: OnceCell::new(),
                levels: OnceCell::new(),
                files: OnceLock::new(),
                elsewhere: Mutex::default(),
            }),
        }
    }
}

#[async_trait]
impl ExecBackend for RuntimeExec {
    fn open(&self, spec: ExecSessionSpec) -> Arc<dyn ExecSession> {
        Arc::new(RuntimeSession::new(Arc::clone(&self.shared), spec))
    }

    async fn check(&self, bounds: &SandboxBounds) -> anyhow::Result<Vec<String>> {
        self.shared.check().await?;
        self.shared.check_container().await?;
        self.shared.lacks(bounds).await
    }

    async fn files(&self, directory: &Path) -> anyhow::Result<Option<SessionFiles>> {
        self.shared.files_of(directory).await
    }
}

impl Shared {
    /// The answer to a call that waits for no command.
    async fn called<T>(
        &self,
        call: impl Future<Output = Result<T, ClientError>>,
    ) -> anyhow::Result<T> {
        match tokio::time::timeout(CALL_TIME, call).await {
            Ok(answer) => Ok(answer?),
            Err(_) => anyhow::bail!(
                "the runtime at {} has not answered within {} s",
                self.client.target(),
                CALL_TIME.as_secs()
            ),
        }
    }

    /// Fails if the runtime is too old: it would ignore what it does not know
    /// and run commands elsewhere than they were judged for.
    async fn check(&self) -> anyhow::Result<()> {
        let asked = self.features.get_or_try_init(async || {
            let params = HelloParams::default();
            let greeting = self.called(self.client.hello(&params)).await?;
            Ok::<_, anyhow::Error>(greeting.features)
        });
        let features = asked.await?;
        let lacks = |name: &&str| !features.iter().any(|feature| feature == name);
        let missing: Vec<&str> = NEEDED.into_iter().filter(|name| lacks(name)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        anyhow::bail!(
            "the runtime at {} is too old to serve tools: it lacks {}; install a newer \
             terminal-runtime there and start it again",
            self.client.target(),
            missing.join(", ")
        )
    }
}
