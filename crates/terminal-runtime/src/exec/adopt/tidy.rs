//! Clearing away what an earlier daemon left and nobody goes on with.

use std::collections::HashSet;
use std::sync::Arc;

use halter_exec::host::{Cgroup, Sandbox};

use crate::exec::core::Core;
use crate::exec::lock;
use crate::exec::session::container::{self, ALIVE};

impl Core {
    /// Removes what no session has any more: groups, containers, shared files
    /// and spools.
    pub(in crate::exec) fn tidy(&self) {
        let sessions: HashSet<String> = lock(&self.inner.sessions)
            .keys()
            .map(|id| format!("{}{id}", self.inner.prefix))
            .collect();
        let keep = |name: &str| sessions.contains(name);
        for left in Sandbox::sweep(&self.inner.prefix, keep) {
            tracing::warn!(group = %left.display(), "an old group cannot be removed");
        }
        if let Ok(own) = Cgroup::own() {
            let _ = Cgroup::sweep(&own, &self.inner.prefix, keep);
        }
        // Containers are called like the directories they share with us.
        let mut containers = Vec::new();
        let shared = std::fs::read_dir(self.inner.settings.state_dir.join("shared"));
        for entry in shared.into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if keep(&name) {
                continue;
            }
            if entry.path().join(ALIVE).exists() {
                containers.push(name);
            }
            let _ = std::fs::remove_dir_all(entry.path());
        }
        let settings = Arc::clone(&self.inner.settings);
        let mut named = container::placeholders::named(&settings.state_dir);
        named.retain(|name| !keep(name));
        // An engine may take long, and nobody waits for this.
        tokio::spawn(async move {
            for name in containers {
                container::remove_left(&settings, &name).await;
            }
            for name in named {
                container::placeholders::remove(&settings.state_dir, &name);
            }
        });
        let keys: HashSet<String> = lock(&self.inner.execs)
            .known
            .values()
            .map(|exec| format!("{}.{}", exec.inner.session.id, exec.inner.key))
            .collect();
        let Ok(entries) = std::fs::read_dir(&self.inner.spool_dir) else {
            return;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let key = name.rsplit_once('.').map_or("", |(key, _)| key);
            if !keys.contains(key) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}
