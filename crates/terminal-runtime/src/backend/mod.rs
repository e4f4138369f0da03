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
mod kept_stream;
mod placing;
mod session;
mod started;

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use halter_tools::exec::{ExecBackend, ExecSession, ExecSessionSpec};
use halter_tools::policy::SandboxBounds;
use tokio::sync::OnceCell;

use self::session::RuntimeSession;
use crate::client::{Client, ClientError, Target};
use crate::protocol::HelloParams;

/// What a runtime must be able to do to serve tools.
const NEEDED: [&str; 6] = ["beside", "clean_env", "cwd", "mounts", "process", "sandbox"];

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
}

/// How a runtime serves tools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuntimeExecSettings {
    /// The shells to try, in this order; empty: `bash`, then `sh`.
    pub shells: Vec<PathBuf>,
    /// The image of the container that each session gets, in which it finds
    /// its directories under the same names.
    pub container: Option<String>,
}

impl RuntimeExecSettings {
    /// In containers of this image.
    #[must_use]
    pub fn in_containers(mut self, image: impl Into<String>) -> Self {
        self.container = Some(image.into());
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
        self.shared.lacks(bounds)
    }
}

impl Shared {
    /// Fails if the runtime is too old: it would ignore what it does not know
    /// and run commands elsewhere than they were judged for.
    async fn check(&self) -> anyhow::Result<()> {
        let asked = self.features.get_or_try_init(async || {
            let greeting = self.client.hello(&HelloParams::default()).await?;
            Ok::<_, ClientError>(greeting.features)
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
