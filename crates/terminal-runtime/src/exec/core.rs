//! All sessions and commands of one runtime.

use std::collections::{HashMap, HashSet};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use halter_exec::{Environment, IsolationLevel};
use tokio::sync::Notify;

use crate::exec::command::Exec;
use crate::exec::command::limit;
use crate::exec::error::CoreError;
use crate::exec::holders::LostSessions;
use crate::exec::open::OpenSession;
use crate::exec::session::container::check_mounts;
use crate::exec::session::isolation;
use crate::exec::session::trees::{InheritedTrees, SessionTrees, group_prefix};
use crate::exec::session::{RuntimeNames, Session};
use crate::exec::types::{
    AdoptedSession, CoreSettings, CoreStats, ExecEnd, ExecId, ExecInfo, ExecOrder, ExecWhat,
    Limits, SessionSpec,
};
use crate::exec::{holders, lock};
use crate::session::SessionId;
use crate::sys;

/// All sessions and commands of one runtime. Cheap to clone.
#[derive(Clone)]
pub struct Core {
    pub(super) inner: Arc<CoreInner>,
}

pub(super) struct CoreInner {
    pub settings: Arc<CoreSettings>,
    pub lost_sessions: Mutex<LostSessions>,
    pub session_lost: Notify,
    pub spool_dir: PathBuf,
    pub prefix: String,
    pub sessions: Mutex<HashMap<SessionId, Arc<OpenSession>>>,
    pub execs: Mutex<Table>,
    total: AtomicU64,
    /// Whether holders may go.
    pub ending: AtomicBool,
    isolation: tokio::sync::OnceCell<Vec<IsolationLevel>>,
}

/// The commands that are known by name.
#[derive(Default)]
pub(super) struct Table {
    pub known: HashMap<ExecId, Exec>,
    /// Names of commands that are about to be known.
    starting: HashSet<ExecId>,
}

impl Core {
    /// Starts, and finds the sessions an earlier runtime left in the same
    /// state directory.
    ///
    /// # Errors
    /// If the state directory cannot be used, or there is a holder of another
    /// version.
    pub async fn start(settings: CoreSettings) -> Result<(Self, Vec<AdoptedSession>), CoreError> {
        let internal = |message: String| CoreError::Internal { message };
        let spool_dir = settings.state_dir.join("spool");
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&spool_dir)
            .map_err(|error| {
                internal(format!(
                    "the state directory `{}` cannot be used: {error}",
                    settings.state_dir.display()
                ))
            })?;
        let (found, lost) = holders::find(&settings.state_dir)
            .await
            .map_err(|error| internal(error.to_string()))?;
        let core = Self {
            inner: Arc::new(CoreInner {
                prefix: group_prefix(&settings.state_dir),
                settings: Arc::new(settings),
                lost_sessions: Mutex::new(lost),
                session_lost: Notify::new(),
                spool_dir,
                sessions: Mutex::default(),
                execs: Mutex::default(),
                total: AtomicU64::new(0),
                ending: AtomicBool::new(false),
                isolation: tokio::sync::OnceCell::new(),
            }),
        };
        let adopted = core.adopt(found).await;
        core.tidy();
        Ok((core, adopted))
    }

    /// What holds sessions together here, looked at once.
    pub async fn isolation(&self) -> &[IsolationLevel] {
        let look = || isolation::levels(&self.inner.settings);
        self.inner.isolation.get_or_init(look).await
    }

    /// The variables that commands have besides their own.
    #[must_use]
    pub fn environment(&self) -> &Environment {
        &self.inner.settings.environment
    }

    /// Numbers about the runtime.
    #[must_use]
    pub fn stats(&self) -> CoreStats {
        let memory = halter_exec::host::system::resident_bytes();
        let running = |exec: &&Exec| !exec.inner.has_ended();
        let execs = lock(&self.inner.execs);
        CoreStats {
            running: execs.known.values().filter(running).count() as u64,
            total_commands: self.inner.total.load(Ordering::Relaxed),
            memory_rss_bytes: memory.unwrap_or(0),
            open_fds: sys::open_descriptors(),
        }
    }

    /// The limit of its session that was in the way of a command that ended
    /// like this, in words. To be asked once for each.
    #[must_use]
    pub fn limit_reached(&self, id: &SessionId, end: &ExecEnd) -> Option<String> {
        let open = lock(&self.inner.sessions).get(id).cloned()?;
        let limits = open.spec.limits;
        let session = open.live.get().filter(|_| limits != Limits::default())?;
        limit::reached(limits, session.trees.new_hits(), end)
    }

    /// Opens a session. No process is started yet, unless it has variables:
    /// their values are kept in memory only, and so by its holder; or a
    /// sandbox, which is refused here if it cannot be had.
    ///
    /// # Errors
    /// If its holder cannot be started, or something cannot be mounted.
    pub async fn open(&self, id: &SessionId, spec: SessionSpec) -> Result<(), CoreError> {
        check_mounts(&spec.container)?;
        let open = Arc::new(OpenSession::new(*id, spec));
        // Known before it has a holder, so that a runtime that ends closes it.
        lock(&self.inner.sessions).insert(*id, Arc::clone(&open));
        if !open.spec.environment.is_empty() || open.spec.sandbox.is_some() {
            let started = self.live(&open).await;
            return started.map(drop).inspect_err(|_| {
                lock(&self.inner.sessions).remove(id);
            });
        }
        if let Err(error) = open.store(&self.inner.settings.state_dir) {
            tracing::warn!(session = %id, %error, "an unused session would not survive a crash");
        }
        Ok(())
    }

    pub(super) fn names(&self) -> RuntimeNames<'_> {
        RuntimeNames {
            settings: &self.inner.settings,
            prefix: &self.inner.prefix,
        }
    }

    pub(super) fn trees(&self, id: SessionId, inherited: Option<InheritedTrees>) -> SessionTrees {
        SessionTrees::new(format!("{}{id}", self.inner.prefix), inherited)
    }

    /// Ends a session: everything it runs is killed, everything it kept goes.
    ///
    /// # Errors
    /// If there is no such session.
    pub async fn close(&self, id: &SessionId) -> Result<(), CoreError> {
        let open = lock(&self.inner.sessions).remove(id);
        let open = open.ok_or(CoreError::SessionUnknown { id: *id })?;
        open.closed.cancel();
        // Its first command may be starting its holder just now.
        let _starting = open.starting.lock().await;
        if let Some(session) = open.live.get() {
            self.end(session).await;
        }
        open.remove_file(&self.inner.settings.state_dir);
        Ok(())
    }

    async fn end(&self, session: &Session) {
        let execs = self.execs_of(session.id);
        for exec in &execs {
            let _ = exec.ended().await;
        }
        if let Some(mut driver) = session.shell.lock().await.take() {
            driver.close().await;
        }
        session.clear(&self.inner.settings).await;
        for exec in &execs {
            exec.remove();
        }
        self.end_holder(session.id, &session.link).await;
    }

    pub(super) fn execs_of(&self, id: SessionId) -> Vec<Exec> {
        let execs = lock(&self.inner.execs);
        let its = execs.known.values();
        its.filter(|exec| exec.inner.session.id == id)
            .cloned()
            .collect()
    }

    /// Starts a command. When this returns, it runs even if the runtime dies.
    ///
    /// # Errors
    /// If the session is not open, the name is taken or the command cannot
    /// be started.
    pub async fn exec(&self, id: &SessionId, order: ExecOrder) -> Result<Exec, CoreError> {
        let open = lock(&self.inner.sessions).get(id).cloned();
        let open = open.ok_or(CoreError::SessionUnknown { id: *id })?;
        let session = Box::pin(self.live(&open)).await?;
        if session.link.is_lost() {
            return Err(crate::exec::command::run::holder_lost());
        }
        let name = order.id.clone();
        let _reserved = self.reserve(&name)?;
        if session.container.is_some() {
            Box::pin(session.ready(&self.inner.settings)).await?;
        }
        let exec = match (&order.what, order.pty) {
            (ExecWhat::Command(text), None) => {
                let text = Arc::clone(text);
                // Much larger than the other, which must not carry it along.
                Box::pin(self.start_in_shell(&session, order, &text)).await?
            }
            _ => Box::pin(self.start_process(&session, order)).await?,
        };
        self.inner.total.fetch_add(1, Ordering::Relaxed);
        Ok(exec)
    }

    fn reserve(&self, name: &ExecId) -> Result<Reserved<'_>, CoreError> {
        let mut table = lock(&self.inner.execs);
        if table.known.contains_key(name) || !table.starting.insert(name.clone()) {
            return Err(CoreError::ExecExists { id: name.clone() });
        }
        Ok(Reserved {
            core: &self.inner,
            name: name.clone(),
        })
    }

    /// The command of that name, until it is forgotten.
    #[must_use]
    pub fn find(&self, id: &ExecId) -> Option<Exec> {
        lock(&self.inner.execs).known.get(id).cloned()
    }

    /// All commands that are not forgotten.
    #[must_use]
    pub fn list(&self) -> Vec<ExecInfo> {
        let table = lock(&self.inner.execs);
        table.known.values().map(Exec::info).collect()
    }

    /// Waits until nothing runs, at most this long.
    pub async fn drain(&self, grace: Duration) {
        let running: Vec<Exec> = lock(&self.inner.execs).known.values().cloned().collect();
        let all = async {
            for exec in running {
                let _ = exec.ended().await;
            }
        };
        let _ = tokio::time::timeout(grace, all).await;
    }

    /// Kills what is left and removes everything this runtime made.
    pub async fn shutdown(self) {
        let ids: Vec<SessionId> = lock(&self.inner.sessions).keys().copied().collect();
        futures::future::join_all(ids.iter().map(|id| self.close(id))).await;
        let _ = std::fs::remove_dir(&self.inner.spool_dir);
        let _ = std::fs::remove_dir(self.inner.settings.state_dir.join("shared"));
    }

    /// Ends this runtime as a crash would: everything goes on, and the next
    /// runtime with the same state directory finds it.
    pub fn abandon(self) {
        self.inner.ending.store(true, Ordering::Release);
        for open in lock(&self.inner.sessions).values() {
            if let Some(session) = open.live.get() {
                session.link.disconnect();
            }
        }
    }
}

/// A name that is taken while its command is being started.
struct Reserved<'a> {
    core: &'a CoreInner,
    name: ExecId,
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        lock(&self.core.execs).starting.remove(&self.name);
    }
}

impl CoreInner {
    /// Makes a command known by its name.
    pub(super) fn register(&self, exec: &Exec) {
        let mut table = lock(&self.execs);
        table.known.insert(exec.id().clone(), exec.clone());
    }

    /// Takes a command out of the table.
    pub(super) fn drop_exec(&self, exec: &Exec) {
        let mut table = lock(&self.execs);
        let same = |found: &Exec| Arc::ptr_eq(&found.inner, &exec.inner);
        if table.known.get(exec.id()).is_some_and(same) {
            table.known.remove(exec.id());
        }
    }
}
