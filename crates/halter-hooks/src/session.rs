//! What one live session keeps for its hooks.

use crate::hook::{Handler, HandlerSource, Hook};
use crate::registry::RegisteredHook;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// What one live session keeps for its hooks: the handlers that function hooks
/// made for it, and which once-only hooks have begun but are not yet in the
/// session's log. Owned by the session and gone with it; costs nothing until a
/// hook needs it.
#[derive(Default)]
pub struct SessionHooks {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    handlers: BTreeMap<String, Instance>,
    begun: BTreeSet<String>,
}

#[derive(Clone)]
struct Instance {
    made_from: Arc<Hook>,
    handler: Arc<OnceLock<Handler>>,
}

impl SessionHooks {
    /// Nothing kept yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The handler this session uses. A function hook's factory runs at most
    /// once per session, and again only if the hook was replaced by another of
    /// the same id. Panics if the factory does. A file has no closure.
    pub(crate) fn handler(&self, entry: &RegisteredHook) -> Option<Handler> {
        match &entry.hook.source {
            HandlerSource::Callback(handler) => Some(handler.clone()),
            HandlerSource::Function(factory) => {
                let cell = self.cell(entry);
                Some(cell.get_or_init(|| factory()).clone())
            }
            HandlerSource::File(_) => None,
        }
    }

    /// Claims the only run of a once-only hook; false if it is taken.
    pub(crate) fn begin_once(&self, hook_id: &str) -> bool {
        self.lock().begun.insert(hook_id.to_owned())
    }

    /// Gives a claim back: the run was cancelled or failed.
    pub(crate) fn forget_once(&self, hook_id: &str) {
        self.lock().begun.remove(hook_id);
    }

    fn cell(&self, entry: &RegisteredHook) -> Arc<OnceLock<Handler>> {
        let mut state = self.lock();
        let fresh = || Instance {
            made_from: entry.hook.clone(),
            handler: Arc::default(),
        };
        let instance = state.handlers.entry(entry.id.clone()).or_insert_with(fresh);
        if !Arc::ptr_eq(&instance.made_from, &entry.hook) {
            *instance = fresh();
        }
        instance.handler.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No user code runs under this lock, so the state is whole even if a
        // thread died holding it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for SessionHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionHooks").finish_non_exhaustive()
    }
}
