//! The holder that new sessions get, and what happens when one is gone.
//!
//! A session lives and dies with the holder it was opened with: nobody else
//! collects its processes or keeps their pipes. The runtime itself goes on: the
//! next session gets a new holder.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::exec::command::Exec;
use crate::exec::core::{Core, CoreInner};
use crate::exec::error::CoreError;
use crate::exec::lock;
use crate::holder::{FoundHolder, HolderLink, connect_or_start};
use crate::limits::TREE_END_WAIT;
use crate::session::SessionId;

impl CoreInner {
    /// The holder in use.
    pub(super) fn link(&self) -> HolderLink {
        lock(&self.link).clone()
    }
}

impl Core {
    /// The holder for a new session: a new one if the last has ended.
    pub(super) async fn live_link(&self) -> Result<HolderLink, CoreError> {
        let core = &self.inner;
        // One at a time: two would start two.
        let _starting = core.starting_holder.lock().await;
        let link = core.link();
        if !link.is_lost() || core.ending.load(Ordering::Acquire) {
            return Ok(link);
        }
        let settings = &core.settings;
        let found = connect_or_start(&settings.state_dir, &settings.program).await;
        let FoundHolder { link, process, .. } = found.map_err(|error| CoreError::Internal {
            message: error.to_string(),
        })?;
        tracing::info!("a new holder was started");
        link.prepare();
        *lock(&core.link) = link.clone();
        let ended = std::mem::replace(&mut *lock(&core.holder), process);
        if let Some(ended) = ended {
            // It has ended: this does not wait.
            let _ = ended.reap();
        }
        self.watch(link.clone());
        Ok(link)
    }

    /// Ends the sessions of a holder when it is gone.
    pub(super) fn watch(&self, link: HolderLink) {
        let core = Arc::downgrade(&self.inner);
        tokio::spawn(async move {
            link.lost().await;
            if let Some(inner) = core.upgrade() {
                Self { inner }.end_lost_sessions().await;
            }
        });
    }

    async fn end_lost_sessions(&self) {
        if self.inner.ending.load(Ordering::Acquire) {
            return;
        }
        tracing::error!("the holder has ended, and with it the sessions whose processes it held");
        let lost: Vec<SessionId> = lock(&self.inner.sessions)
            .values()
            .filter(|session| session.link.is_lost())
            .map(|session| session.id)
            .collect();
        let execs: Vec<Exec> = lock(&self.inner.execs)
            .known
            .values()
            .filter(|exec| exec.link().is_lost())
            .cloned()
            .collect();
        // They end by themselves, and say why.
        let ended = futures::future::join_all(execs.iter().map(Exec::ended));
        let _ = tokio::time::timeout(TREE_END_WAIT, ended).await;
        for id in lost {
            // One that a client has just closed is gone already.
            let _ = self.close(&id).await;
            lock(&self.inner.lost_sessions).push_back(id);
            self.inner.session_lost.notify_one();
        }
    }

    /// Waits for a session that has ended with its holder.
    pub async fn next_lost_session(&self) -> SessionId {
        loop {
            let next = lock(&self.inner.lost_sessions).pop_front();
            if let Some(id) = next {
                return id;
            }
            self.inner.session_lost.notified().await;
        }
    }
}
