//! What commands change of what nobody keeps from them, looked at after each.

use halter_exec::ContainmentRung;
use halter_tools::exec::SandboxWatch;
use halter_tools::policy::SandboxMode;

use super::session::RuntimeSession;
use crate::lock::lock;

impl RuntimeSession {
    /// What changed since the last look of what the kernel does not keep, in words;
    /// as far as it can be it is kept from the next command.
    pub(super) async fn changes(&self) -> Option<String> {
        let mut slot = self.watch.lock().await;
        let mut watch = slot.take()?;
        let looked = tokio::task::spawn_blocking(move || {
            let seen = watch.changes();
            (watch, seen)
        });
        let looked = looked.await.inspect_err(|error| {
            tracing::warn!(%error, "what commands change is not looked at any more");
        });
        let (watch, seen) = looked.ok()?;
        *slot = Some(watch);
        lock(&self.protected).extend(seen.to_protect);
        seen.note
    }

    /// Remembers what nobody keeps commands from, as it is before the first.
    pub(super) async fn begin_watch(&self, sandbox: Option<&str>) -> anyhow::Result<()> {
        let bounds = self.spec.sandbox.clone();
        if bounds.mode == SandboxMode::Off || self.has_files_there() {
            return Ok(());
        }
        // What a session before this one changed last is kept from this one.
        if let Some(note) = self.changes().await {
            tracing::warn!(note, "found as a session was made anew");
        }
        let landlock = ContainmentRung::Landlock;
        let rung = sandbox.map(|name| match name == landlock.name() {
            true => landlock,
            // A container holds as much.
            false => ContainmentRung::Namespaces,
        });
        let looked = tokio::task::spawn_blocking(move || SandboxWatch::look(rung, &bounds));
        *self.watch.lock().await = Some(looked.await?);
        Ok(())
    }
}
