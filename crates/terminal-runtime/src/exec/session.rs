//! A session as the core knows it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use halter_exec::{Environment, ShellConfig, ShellDriver};
use tokio_util::sync::CancellationToken;

use super::order::{CoreSettings, SessionSpec};
use super::record::{CountRecord, Record, SessionRecord};
use super::shell::HolderHost;
use super::trees::SessionTrees;
use crate::holder::{Key, Request};
use crate::session::SessionId;

/// Where a session's shell is, once it has one.
pub(super) type ShellSeat = Option<ShellDriver<HolderHost>>;

/// A session. It has no process until its first command.
pub(super) struct Session {
    pub id: SessionId,
    /// The slot of its record.
    pub key: Key,
    /// The slot of its counter.
    pub count_key: Key,
    pub spec: SessionSpec,
    pub trees: SessionTrees,
    pub shell: Arc<tokio::sync::Mutex<ShellSeat>>,
    pub closed: CancellationToken,
    pub commands: AtomicU64,
}

impl Session {
    pub(super) fn new(
        id: SessionId,
        keys: (Key, Key),
        spec: SessionSpec,
        trees: SessionTrees,
    ) -> Self {
        Self {
            id,
            key: keys.0,
            count_key: keys.1,
            spec,
            trees,
            shell: Arc::default(),
            closed: CancellationToken::new(),
            commands: AtomicU64::new(0),
        }
    }

    /// The variables its commands see.
    pub(super) fn environment(&self, settings: &CoreSettings) -> Environment {
        let mut environment = settings.environment.clone();
        environment.extend(self.spec.environment.iter());
        environment
    }

    pub(super) fn shell_config(&self, settings: &CoreSettings) -> ShellConfig {
        let mut config = ShellConfig::new(self.environment(settings), &self.spec.working_dir);
        config.program = Some(self.spec.shell.clone());
        config
    }

    pub(super) fn put_request(&self) -> Request {
        let record = SessionRecord {
            id: self.id,
            spec: self.spec.clone(),
        };
        Request::Put {
            key: self.key,
            record: Record::Session(record).encode(),
            units: Vec::new(),
        }
    }

    /// Counts one more command.
    pub(super) fn count_request(&self) -> Request {
        let record = CountRecord {
            session: self.id,
            commands: self.commands.fetch_add(1, Ordering::Relaxed) + 1,
        };
        Request::Put {
            key: self.count_key,
            record: Record::Count(record).encode(),
            units: Vec::new(),
        }
    }
}
