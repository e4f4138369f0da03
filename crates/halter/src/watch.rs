//! Resources that are taken up while sessions run.

use crate::harness::Halter;
use crate::resources::ResourceCompiler;
use std::time::Duration;
use tokio::task::AbortHandle;

/// How often resources are looked at for changes.
pub const WATCH_INTERVAL: Duration = Duration::from_secs(2);

/// Takes up resources that change, until it is dropped.
#[derive(Debug)]
#[must_use = "dropping it ends the watch"]
pub struct ResourceWatch(AbortHandle);

impl Drop for ResourceWatch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Halter {
    /// Compiles resources again every [`WATCH_INTERVAL`] and replaces those in
    /// force where they differ: sessions see them with their next turn, which
    /// announces the cut.
    pub fn watch_resources(&self, compiler: ResourceCompiler) -> ResourceWatch {
        self.watch_resources_every(WATCH_INTERVAL, compiler)
    }

    /// The same at another interval.
    pub fn watch_resources_every(
        &self,
        interval: Duration,
        compiler: ResourceCompiler,
    ) -> ResourceWatch {
        let harness = self.clone();
        let task = tokio::spawn(async move {
            loop {
                tokio::time::sleep(interval).await;
                // What cannot be compiled or replaced now may be with the next look.
                let Ok(compiled) = compiler.compile().await else {
                    continue;
                };
                let current = harness.runtime.services().resources.get();
                if compiled.snapshot.revision != current.snapshot.revision {
                    let _ = harness.replace_resources(compiled);
                }
            }
        });
        ResourceWatch(task.abort_handle())
    }
}
