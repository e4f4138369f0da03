//! What tools keep between the calls of one session.

use crate::exec::{ExecBackend, ExecSession, LocalExec, OpenExec};
use crate::network::{HostResolver, SystemResolver};
use crate::scratch::ScratchDir;
use async_trait::async_trait;
use std::any::{Any, TypeId};
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// State a tool keeps for a live session, such as a shell. What the model must
/// not forget belongs in [`ToolContext::remember`](crate::ToolContext::remember).
#[async_trait]
pub trait ToolSessionState: Send + Sync + 'static {
    /// Ends whatever the state keeps alive. Called once, when the session is
    /// closed.
    async fn close(&self) {}
}

/// The state of all tools of one live session, by type, and the session's
/// scratch directory. Everything in it is made on first use.
pub struct ToolSessionStore {
    opened: Instant,
    /// How old the session was then.
    age: Duration,
    scratch: Arc<ScratchDir>,
    base_environment: Arc<BTreeMap<OsString, OsString>>,
    exec: Arc<dyn ExecBackend>,
    resolver: Arc<dyn HostResolver>,
    states: Mutex<States>,
}

#[derive(Default)]
struct States {
    closed: bool,
    by_type: HashMap<TypeId, StateEntry>,
}

struct StateEntry {
    typed: Arc<dyn Any + Send + Sync>,
    closing: Arc<dyn ToolSessionState>,
}

impl ToolSessionStore {
    /// A store that holds nothing yet. Commands run with an empty environment
    /// until [`with_base_environment`](Self::with_base_environment) says
    /// otherwise.
    pub fn new(scratch: ScratchDir) -> Self {
        Self {
            opened: Instant::now(),
            age: Duration::ZERO,
            scratch: Arc::new(scratch),
            base_environment: Arc::default(),
            exec: Arc::new(LocalExec),
            resolver: Arc::new(SystemResolver),
            states: Mutex::default(),
        }
    }

    /// Sets the environment that commands of this session start with. See
    /// [`command_environment`](crate::command_environment) for what belongs in it.
    #[must_use]
    pub fn with_base_environment(mut self, environment: Arc<BTreeMap<OsString, OsString>>) -> Self {
        self.base_environment = environment;
        self
    }

    /// The environment that commands of this session start with.
    pub fn base_environment(&self) -> &Arc<BTreeMap<OsString, OsString>> {
        &self.base_environment
    }

    /// Sets the place where commands of this session run; without it,
    /// [`LocalExec`].
    #[must_use]
    pub fn with_exec(mut self, exec: Arc<dyn ExecBackend>) -> Self {
        self.exec = exec;
        self
    }

    /// The place where commands of this session run. A tool asks for its
    /// session there: [`ToolContext::exec`](crate::ToolContext::exec).
    pub fn exec_backend(&self) -> &Arc<dyn ExecBackend> {
        &self.exec
    }

    /// Sets who looks up names of hosts for this session; without it, the
    /// system.
    #[must_use]
    pub fn with_resolver(mut self, resolver: Arc<dyn HostResolver>) -> Self {
        self.resolver = resolver;
        self
    }

    /// Who looks up names of hosts for this session.
    pub fn resolver(&self) -> &Arc<dyn HostResolver> {
        &self.resolver
    }

    /// Sets how old the session is by now: it may have begun in another process.
    #[must_use]
    pub fn with_age(mut self, age: Duration) -> Self {
        self.age = age;
        self
    }

    /// How long ago the session began. In one process it only grows, whatever
    /// becomes of the clock.
    pub fn age(&self) -> Duration {
        self.age.saturating_add(self.opened.elapsed())
    }

    /// The session's private directory.
    pub fn scratch(&self) -> &Arc<ScratchDir> {
        &self.scratch
    }

    /// The state of type `T`, made now if this is its first use. `make` runs
    /// under the store's lock and must not use the store.
    pub fn get_or_insert_with<T: ToolSessionState>(
        &self,
        make: impl FnOnce() -> T,
    ) -> Result<Arc<T>, ToolSessionClosed> {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        if states.closed {
            return Err(ToolSessionClosed);
        }
        let entry = states.by_type.entry(TypeId::of::<T>()).or_insert_with(|| {
            let state = Arc::new(make());
            StateEntry {
                typed: Arc::clone(&state) as _,
                closing: state,
            }
        });
        Arc::clone(&entry.typed)
            .downcast()
            .map_err(|_| ToolSessionClosed)
    }

    /// The state of type `T`, if any call has made it.
    pub fn get<T: ToolSessionState>(&self) -> Option<Arc<T>> {
        let states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = states.by_type.get(&TypeId::of::<T>())?;
        Arc::clone(&entry.typed).downcast().ok()
    }

    /// The place where the session's commands run, if a call has opened it.
    pub fn open_exec(&self) -> Option<Arc<dyn ExecSession>> {
        self.get::<OpenExec>().map(|open| Arc::clone(&open.0))
    }

    /// Ends all state (shells are killed with everything they started) and
    /// removes the scratch directory. Later calls find the session closed.
    pub async fn close(&self) {
        let entries = {
            let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
            states.closed = true;
            std::mem::take(&mut states.by_type)
        };
        for entry in entries.into_values() {
            entry.closing.close().await;
        }
        let scratch = Arc::clone(&self.scratch);
        let removed = tokio::task::spawn_blocking(move || scratch.remove()).await;
        if let Ok(Err(error)) = removed {
            let path = self.scratch.path().display();
            tracing::warn!(%path, %error, "scratch directory not removed");
        }
    }
}

impl std::fmt::Debug for ToolSessionStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_struct("ToolSessionStore")
            .field("scratch", &self.scratch.path())
            .field("closed", &states.closed)
            .field("states", &states.by_type.len())
            .finish_non_exhaustive()
    }
}

/// A call came after its session was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the session is closed: its tools keep no state any more")]
pub struct ToolSessionClosed;

impl ToolSessionClosed {
    /// The stable name of this error.
    pub fn code(&self) -> &'static str {
        "tool_session_closed"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[derive(Default)]
    struct Counter(AtomicUsize);

    #[async_trait]
    impl ToolSessionState for Counter {
        async fn close(&self) {
            self.0.fetch_add(100, Ordering::SeqCst);
        }
    }

    fn store() -> ToolSessionStore {
        ToolSessionStore::new(ScratchDir::new("/nowhere-at-all"))
    }

    #[test]
    fn state_is_made_once_and_shared() {
        let store = store();
        assert!(store.get::<Counter>().is_none());
        let first = store.get_or_insert_with(Counter::default).unwrap();
        first.0.store(7, Ordering::SeqCst);
        let second = store.get_or_insert_with(Counter::default).unwrap();
        assert_eq!(second.0.load(Ordering::SeqCst), 7);
    }

    #[tokio::test]
    async fn closing_ends_state_and_refuses_more() {
        let store = store();
        let state = store.get_or_insert_with(Counter::default).unwrap();
        store.close().await;
        store.close().await;
        assert_eq!(state.0.load(Ordering::SeqCst), 100);
        assert_eq!(
            store.get_or_insert_with(Counter::default).err(),
            Some(ToolSessionClosed)
        );
    }
}
