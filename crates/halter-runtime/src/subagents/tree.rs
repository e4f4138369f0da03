//! A session's place in its tree, and what all sessions of the tree share.

use crate::session::SessionCore;
use halter_tools::ToolPolicy;
use halter_tools::policy::PolicyError;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// What all sessions of a tree share.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    running: Mutex<u32>,
}

/// The sessions above a subagent.
#[derive(Clone)]
pub(crate) struct Lineage {
    /// The one that no other started.
    pub root: Weak<SessionCore>,
    pub tree: Arc<Tree>,
}

impl Tree {
    /// Takes a place among those that run, if the policy has one more start.
    pub fn take_place(
        self: &Arc<Self>,
        policy: &dyn ToolPolicy,
        depth: u32,
    ) -> Result<RunningPlace, PolicyError> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        policy.check_subagent_spawn(depth, *running)?;
        *running += 1;
        Ok(RunningPlace(self.clone()))
    }
}

/// A place among those that run, until it is dropped.
#[derive(Debug)]
pub(crate) struct RunningPlace(Arc<Tree>);

impl Drop for RunningPlace {
    fn drop(&mut self) {
        let mut running = self
            .0
            .running
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *running = running.saturating_sub(1);
    }
}
