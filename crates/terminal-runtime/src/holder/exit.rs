//! The ends of processes, as the daemon waits for them.

use std::sync::Arc;

use halter_exec::host::LaunchFailure;
use tokio::sync::SetOnce;

use super::message::Exit;

/// The end of a slot's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessEnd {
    /// It ended.
    Exited(Exit),
    /// It was never made.
    Failed(LaunchFailure),
    /// The holder is gone, and nobody knows.
    Lost,
}

/// Whoever has this learns of the end of one process.
#[derive(Debug, Clone, Default)]
pub struct ExitWatch(Arc<SetOnce<ProcessEnd>>);

impl ExitWatch {
    /// The watch of a process that has ended already.
    #[must_use]
    pub fn ended(end: ProcessEnd) -> Self {
        Self(Arc::new(SetOnce::new_with(Some(end))))
    }

    /// The end, if it has come.
    #[must_use]
    pub fn now(&self) -> Option<ProcessEnd> {
        self.0.get().copied()
    }

    /// Waits for the end.
    pub async fn wait(&self) -> ProcessEnd {
        *self.0.wait().await
    }

    pub(super) fn end(&self, end: ProcessEnd) {
        // A process ends once; what is said about it later is the same.
        let _ = self.0.set(end);
    }
}
