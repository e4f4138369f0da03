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
mod held;
mod kept_stream;
mod lease;
mod placing;
mod session;
mod started;
mod watch;

use std::collections::HashMap;
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
use crate::limits::{SESSION_LEASE, SESSION_RECONNECT_TIME, STREAM_SILENCE};
use crate::lock::lock;
use crate::protocol::{Description, HelloParams};

/// What a runtime must be able to do to serve tools.
const NEEDED: [&str; 11] = [
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

/// Runs the commands of tools by a runtime.
#[derive(Debug, Clone)]
pub struct RuntimeExec {
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub client: Client,
    pub settings: RuntimeExecSettings,
    /// What the runtime said it can do, when it was last asked.
    features: Mutex<Vec<String>>,
    /// What it says of itself, once it was asked.
    described: OnceCell<Description>,
    /// The runtime's files, once they were needed.
    files: OnceLock<Arc<RuntimeFiles>>,
    /// Whose files there are in directories, as it was when it was last looked.
    files_at: Mutex<HashMap<PathBuf, FilesAt>>,
}

/// Whose files a directory has at the runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FilesAt {
    /// This machine's: the very same.
    Here,
    /// Its own.
    Runtime,
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
    /// Variables of this machine, by name, that commands on another one or in a
    /// container have too; with a `*` at the end, all that begin so and would
    /// be withheld otherwise.
    pub added_variables: Vec<String>,
    /// Variables of the runtime that commands do not have, by name or with a `*`
    /// at the end.
    pub removed_variables: Vec<String>,
    /// How long nothing may come of a command over a network before its
    /// connection is made anew.
    pub silence: Duration,
    /// How long a runtime that was lost while it ran a command is tried to be
    /// reached.
    pub reconnect: Duration,
}

impl Default for RuntimeExecSettings {
    fn default() -> Self {
        Self {
            shells: Vec::new(),
            container: None,
            mounts: Vec::new(),
            lease: SESSION_LEASE,
            added_variables: Vec::new(),
            removed_variables: Vec::new(),
            silence: STREAM_SILENCE,
            reconnect: SESSION_RECONNECT_TIME,
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
                client: Client::new(target)
                    .with_silence(settings.silence)
                    .with_reconnect(settings.reconnect),
                settings,
                features: Mutex::default(),
                described: OnceCell::new(),
                files: OnceLock::new(),
                files_at: Mutex::default(),
            }),
        }
    }
}

#[async_trait]
impl ExecBackend for RuntimeExec {
    fn open(&self, spec: ExecSessionSpec) -> Arc<dyn ExecSession> {
        Arc::new(RuntimeSession::new(Arc::clone(&self.shared), spec))
    }

    async fn check(&self, directory: &Path, bounds: &SandboxBounds) -> anyhow::Result<Vec<String>> {
        self.shared.check().await?;
        self.shared.check_container().await?;
        self.shared.look_at(directory).await?;
        self.shared.lacks(directory, bounds).await
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
    /// and run commands elsewhere than they were judged for. Asked before anything
    /// is made there: another one may have taken its place.
    async fn check(&self) -> anyhow::Result<()> {
        let params = HelloParams::default();
        let features = self.called(self.client.hello(&params)).await?.features;
        let lacks = |name: &&str| !features.iter().any(|feature| feature == name);
        let missing: Vec<&str> = NEEDED.into_iter().filter(|name| lacks(name)).collect();
        *lock(&self.features) = features;
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
