//! Servers that run once more, for sessions in other directories than the
//! harness: a program sees the directory that it was started in.

use crate::error::McpError;
use crate::host::WorkingDirectories;
use crate::limits::INSTANCES_ELSEWHERE;
use crate::managed::{ManagedServer, ServerState};
use crate::names::ServerName;
use crate::servers::Nobody;
use crate::settings::{Connection, ServerSettings};
use crate::supervise::{Guard, ProgramSettings};
use async_trait::async_trait;
use halter_tools::ToolContext;
use std::any::Any;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

/// Knows how the program of a server is started in any directory.
#[async_trait]
pub trait AnyDirectory: Debug + Send + Sync {
    /// The program for sessions in this directory.
    ///
    /// # Errors
    /// Why it cannot run there, in words.
    async fn program_in(&self, directory: &Path) -> Result<PlacedProgram, String>;
}

/// A program, and what has to be there while it runs.
pub struct PlacedProgram {
    /// The program.
    pub program: ProgramSettings,
    /// Dropped when it has ended.
    pub kept: Option<Box<dyn Any + Send + Sync>>,
}

/// The instances of all servers of a harness in other directories.
pub(crate) struct Instances {
    pub(crate) guard: Arc<Guard>,
    pub(crate) stop: CancellationToken,
    pub(crate) running: TaskTracker,
    /// The one that was called last is the last.
    pub(crate) started: Mutex<Vec<Instance>>,
}

pub(crate) struct Instance {
    server: Arc<ManagedServer>,
    directory: PathBuf,
    stop: CancellationToken,
    task: AbortOnDropHandle<()>,
    /// Others hold it while they call.
    calls: Arc<()>,
}

/// An instance that is not ended as long as this is held.
pub(crate) struct InUse {
    pub(crate) server: Arc<ManagedServer>,
    _call: Arc<()>,
}

impl Instance {
    fn in_use(&self) -> InUse {
        InUse {
            server: Arc::clone(&self.server),
            _call: Arc::clone(&self.calls),
        }
    }

    fn is_idle(&self) -> bool {
        Arc::strong_count(&self.calls) == 1
    }

    /// Has it end by itself; whoever stops the harness waits for that.
    fn end(self) {
        self.stop.cancel();
        drop(self.task.detach());
    }
}

impl Instances {
    /// The instance of a server in a directory, which may only be starting.
    ///
    /// # Errors
    /// If it cannot be started, and why.
    pub(crate) async fn get(
        &self,
        settings: &ServerSettings,
        elsewhere: &dyn AnyDirectory,
        directory: &Path,
    ) -> Result<InUse, McpError> {
        let mut started = self.started.lock().await;
        let same = |it: &Instance| it.server.name() == &settings.name && it.directory == directory;
        if let Some(at) = started.iter().position(same) {
            let instance = started.remove(at);
            if !matches!(instance.server.status().state, ServerState::Failed(_)) {
                let in_use = instance.in_use();
                started.push(instance);
                return Ok(in_use);
            }
            // The reason may have gone.
            instance.end();
        }
        let failed = |reason| not_usable(&settings.name, directory, reason);
        if started.len() >= INSTANCES_ELSEWHERE {
            let Some(at) = started.iter().position(Instance::is_idle) else {
                return Err(failed(format!(
                    "{INSTANCES_ELSEWHERE} servers run in other directories already, and all \
                     are in use; try again when a call has ended, or name a `cwd` in its table"
                )));
            };
            started.remove(at).end();
        }
        let placed = elsewhere.program_in(directory).await.map_err(failed)?;
        if self.stop.is_cancelled() {
            let server = settings.name.clone();
            return Err(McpError::Stopped { server });
        }
        let instance = self.start(settings, placed, directory);
        let in_use = instance.in_use();
        started.push(instance);
        Ok(in_use)
    }

    fn start(
        &self,
        settings: &ServerSettings,
        placed: PlacedProgram,
        directory: &Path,
    ) -> Instance {
        let settings = ServerSettings {
            connection: placed.program.into(),
            any_directory: None,
            ..settings.clone()
        };
        let server = Arc::new(ManagedServer::new(
            settings,
            Arc::new(WorkingDirectories(vec![directory.to_path_buf()])),
            Arc::clone(&self.guard),
            // The main instance says which tools there are.
            Arc::new(Nobody),
            std::sync::Weak::new(),
        ));
        let stop = self.stop.child_token();
        let run = Arc::clone(&server).run(stop.clone());
        let kept = placed.kept;
        let task = self.running.spawn(async move {
            run.await;
            drop(kept);
        });
        Instance {
            server,
            directory: directory.to_path_buf(),
            stop,
            task: AbortOnDropHandle::new(task),
            calls: Arc::default(),
        }
    }
}

/// What a server may not be used for, where.
pub(crate) fn not_usable(server: &ServerName, directory: &Path, reason: String) -> McpError {
    McpError::Elsewhere {
        server: server.clone(),
        directory: directory.to_path_buf(),
        reason,
    }
}

/// The directory of a session, if a server has to run once more for it.
pub(crate) async fn other_directory(
    settings: &ServerSettings,
    session: &ToolContext,
) -> Option<PathBuf> {
    let Connection::Program(program) = &settings.connection else {
        return None;
    };
    // The server stays here where the session's files are on another machine.
    if session.working_dir == program.directory || session.policy.door().is_elsewhere() {
        return None;
    }
    let real = async |path: &Path| {
        let real = tokio::fs::canonicalize(path).await;
        real.unwrap_or_else(|_| path.to_path_buf())
    };
    let directory = real(&session.working_dir).await;
    (directory != real(&program.directory).await).then_some(directory)
}
