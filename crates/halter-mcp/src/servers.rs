//! All servers of a harness.

use crate::error::McpError;
use crate::host::Host;
use crate::instances::Instances;
use crate::managed::{ManagedServer, ServerState, ServerStatus};
use crate::names::ServerName;
use crate::settings::ServerSettings;
use crate::supervise::Guard;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use halter_exec::ExecError;
use halter_tools::Tool;
use indexmap::IndexMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Hears what becomes of servers. Must not block.
pub trait ServerEvents: Send + Sync {
    /// A server has these tools now, in place of those it had.
    fn tools(&self, server: &ServerName, tools: Vec<Arc<dyn Tool>>);

    /// A server is otherwise than it was.
    fn state(&self, status: &ServerStatus);
}

/// Hears of nothing.
#[derive(Debug)]
pub struct Nobody;

impl ServerEvents for Nobody {
    fn tools(&self, _: &ServerName, _: Vec<Arc<dyn Tool>>) {}

    fn state(&self, _: &ServerStatus) {}
}

/// Servers that are kept running until [`shutdown`](Self::shutdown), or until
/// this is dropped, which kills them.
pub struct McpServers {
    pub(crate) servers: Arc<ServerTable>,
    tasks: Mutex<Option<Tasks>>,
    // Dropped after the servers.
    _guard: Arc<Guard>,
}

/// Servers by name, in the order they were given.
pub(crate) type ServerTable = IndexMap<ServerName, Arc<ManagedServer>>;

struct Tasks {
    stop: CancellationToken,
    running: TaskTracker,
    handles: Vec<tokio_util::task::AbortOnDropHandle<()>>,
    /// Those in other directories, which end with this.
    instances: Arc<Instances>,
}

impl McpServers {
    /// Starts servers in the background, each by itself. Must be called within
    /// a tokio runtime.
    ///
    /// # Errors
    /// If the system has no randomness.
    pub fn start(
        settings: Vec<ServerSettings>,
        host: Arc<dyn Host>,
        events: Arc<dyn ServerEvents>,
    ) -> Result<Self, ExecError> {
        let guard = Arc::new(Guard::start()?);
        let stop = CancellationToken::new();
        let running = TaskTracker::new();
        let instances = Arc::new(Instances {
            guard: Arc::clone(&guard),
            stop: stop.clone(),
            running: running.clone(),
            started: Default::default(),
        });
        let mut servers = IndexMap::new();
        let mut handles = Vec::new();
        for settings in settings {
            let name = settings.name.clone();
            let server = Arc::new(ManagedServer::new(
                settings,
                Arc::clone(&host),
                Arc::clone(&guard),
                Arc::clone(&events),
                Arc::downgrade(&instances),
            ));
            let task = running.spawn(Arc::clone(&server).run(stop.child_token()));
            handles.push(tokio_util::task::AbortOnDropHandle::new(task));
            servers.insert(name, server);
        }
        running.close();
        Ok(Self {
            servers: Arc::new(servers),
            tasks: Mutex::new(Some(Tasks {
                stop,
                running,
                handles,
                instances,
            })),
            _guard: guard,
        })
    }

    /// Returns when each server is ready or will not be, or after `grace`.
    pub async fn settled(&self, grace: Duration) {
        let all = self.servers.values().map(|server| server.settled());
        let _ = tokio::time::timeout(grace, futures::future::join_all(all)).await;
    }

    /// Returns when the first start of each server has succeeded or failed.
    pub async fn started(&self) {
        let all = self.servers.values().map(|server| server.started());
        futures::future::join_all(all).await;
    }

    /// Returns when each required server is ready, or as soon as one has failed
    /// to start.
    ///
    /// # Errors
    /// The error of the first that failed, with its last words.
    pub async fn required_ready(&self) -> Result<(), McpError> {
        let required = self.servers.values().filter(|it| it.status().required);
        let mut starts: FuturesUnordered<_> = required
            .map(|server| async move {
                server.started().await;
                server.status()
            })
            .collect();
        while let Some(status) = starts.next().await {
            match status.state {
                ServerState::Ready => {}
                ServerState::Failed(error) | ServerState::Restarting(error) => return Err(error),
                ServerState::Starting | ServerState::Stopped => {
                    return Err(McpError::Stopped {
                        server: status.name,
                    });
                }
            }
        }
        Ok(())
    }

    /// How each server is, in the order they were given.
    pub fn status(&self) -> Vec<ServerStatus> {
        self.servers.values().map(|it| it.status()).collect()
    }

    /// Ends all servers and everything they started. Later calls of their
    /// tools fail.
    pub async fn shutdown(&self) {
        let tasks = {
            let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
            tasks.take()
        };
        if let Some(tasks) = tasks {
            tasks.stop.cancel();
            tasks.running.wait().await;
            drop((tasks.handles, tasks.instances));
        }
    }
}
