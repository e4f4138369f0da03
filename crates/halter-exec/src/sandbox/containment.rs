//! What a tree of processes is kept from reaching, as data.

use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::ExecError;
use crate::host::os_bytes;

/// Which mechanism contains a tree. An established sandbox never uses a
/// weaker one than was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ContainmentRung {
    /// Mount, PID, IPC and network namespaces of its own (and a user
    /// namespace, where this program may not make the others without one),
    /// no capabilities, a system call filter.
    Namespaces,
    /// Landlock rules and a system call filter. Cannot protect or hide a path
    /// below a writable one, hides no names, knows nothing of modes and times
    /// of files, gives no fresh `/tmp`, and knows no hosts.
    Landlock,
}

impl ContainmentRung {
    /// Its stable name, the level of the ladder it is.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Landlock => "landlock_and_seccomp",
        }
    }

    /// What keeps it.
    #[must_use]
    pub fn mechanism(self) -> &'static str {
        match self {
            Self::Namespaces => "mount, PID, IPC and network namespaces, seccomp",
            Self::Landlock => "Landlock, seccomp",
        }
    }
}

/// What a tree of processes reaches of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum NetworkAccess {
    /// All that this program does.
    Host,
    /// Nothing but its own loopback interface, where the rung has one.
    None,
    /// Nothing but its own loopback interface, on which somebody outside
    /// listens: [`Sandbox::proxy_listener`](crate::host::Sandbox::proxy_listener)
    /// at this port of 127.0.0.1, as the tree sees it. Takes
    /// [`ContainmentRung::Namespaces`].
    Proxy {
        /// The port; no other sandbox or program shares its number space.
        port: u16,
    },
}

/// What a tree of processes may read, change, execute and reach. Everything
/// can be read that is not hidden, nothing changed that is not writable.
/// Paths are absolute and as this program sees them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Containment {
    /// What keeps it.
    pub rung: ContainmentRung,
    /// Files, and directories with all below, that may be changed. They must
    /// exist. `/tmp`, `/var/tmp` and `/dev/shm` are fresh and writable, and
    /// what is listed here below them is there as it is outside.
    #[serde(with = "os_bytes::paths")]
    pub writable: Vec<PathBuf>,
    /// Files, and directories with all below, that can be neither read nor
    /// listed. What does not exist is left out.
    #[serde(with = "os_bytes::paths")]
    pub hidden: Vec<PathBuf>,
    /// Paths below writable ones that cannot be changed. One that does not
    /// exist cannot be made: its place is taken by an empty directory, or by a
    /// file that git reads without harm, which is removed again with the last
    /// sandbox that needs it.
    #[serde(with = "os_bytes::paths")]
    pub protected: Vec<PathBuf>,
    /// The only files, or files below directories, that can be executed; the
    /// loader of a dynamic program is one of them. `None` for all. What is
    /// written is executable only below one of these. Name spaces also keep
    /// the loader from programs that are not below one of these or below a
    /// directory of libraries, and keep what they can without Landlock.
    #[serde(with = "os_bytes::optional_paths")]
    pub executables: Option<Vec<PathBuf>>,
    /// What it reaches of the network.
    pub network: NetworkAccess,
}

impl Containment {
    /// A tree that can read everything, change nothing and reach nobody.
    #[must_use]
    pub fn new(rung: ContainmentRung) -> Self {
        Self {
            rung,
            writable: Vec::new(),
            hidden: Vec::new(),
            protected: Vec::new(),
            executables: None,
            network: NetworkAccess::None,
        }
    }
}

/// Why a rung cannot hold what was asked of it here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
#[non_exhaustive]
pub struct MissingRung {
    /// What is missing.
    pub reason: String,
    /// What would help: a setting, a package, a version of the kernel.
    pub fix: Option<String>,
}

impl MissingRung {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            fix: None,
        }
    }

    pub(crate) fn of(doing: &str, error: &io::Error) -> Self {
        Self::new(format!("{doing} failed: {error}"))
    }

    pub(crate) fn at(self, rung: ContainmentRung) -> ExecError {
        let fix = self.fix.map(|fix| format!("; what would help: {fix}"));
        ExecError::SandboxUnavailable {
            level: rung.name(),
            reason: self.reason + fix.as_deref().unwrap_or_default(),
        }
    }
}
