//! Taking over the sessions an earlier daemon has left.

mod command;
mod found;
mod shell;
mod streams;
mod tidy;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use self::found::FoundSession;
use crate::exec::core::Core;
use crate::exec::lock;
use crate::exec::open::{self, OpenSession};
use crate::exec::session::Session;
use crate::exec::types::AdoptedSession;
use crate::holder::{FoundHolder, HolderLink, HolderRequest, Key};
use crate::session::SessionId;

impl Core {
    /// Goes on with all sessions that were open and all commands that are not
    /// forgotten.
    pub(super) async fn adopt(
        &self,
        holders: Vec<(SessionId, FoundHolder)>,
    ) -> Vec<AdoptedSession> {
        let mut adopted = Vec::new();
        for (id, holder) in holders {
            adopted.extend(self.adopt_session(id, holder).await);
        }
        for open in open::stored(&self.inner.settings.state_dir) {
            if lock(&self.inner.sessions).contains_key(&open.id) {
                // Its holder had just been started.
                open.remove_file(&self.inner.settings.state_dir);
                continue;
            }
            adopted.push(AdoptedSession {
                id: open.id,
                spec: open.spec.clone(),
                commands: 0,
                execs: Vec::new(),
            });
            lock(&self.inner.sessions).insert(open.id, Arc::new(open));
        }
        adopted
    }

    /// Goes on with the session of a holder; `None` if that has not got it.
    async fn adopt_session(&self, id: SessionId, holder: FoundHolder) -> Option<AdoptedSession> {
        let FoundHolder { link, slots } = holder;
        let (mut found, unreadable) = FoundSession::of(slots);
        forget(&link, unreadable);
        let Some((key, spec)) = found.session.take() else {
            // It had just been started.
            self.end_holder(id, &link).await;
            return None;
        };
        let open = Arc::new(OpenSession::new(id, spec));
        let (count_key, commands) = found.count.unwrap_or_else(|| (link.new_key(), 0));
        let trees = self.trees(id, found.inherited_trees());
        let keys = (key, count_key);
        let session = Arc::new(Session::new(&self.names(), link, &open, keys, trees));
        let _ = open.live.set(Arc::clone(&session));
        session.commands.store(commands, Ordering::Relaxed);
        if commands > 0
            && let Err(error) = session.ready(&self.inner.settings).await
        {
            tracing::error!(%error, session = %session.id, "a session's container is lost");
        }
        lock(&self.inner.sessions).insert(id, Arc::clone(&open));
        self.watch(&session);
        if let Some(shell) = found.shell.take() {
            self.adopt_shell(&session, shell, found.processes);
            if !found.execs.iter().any(|(_, record)| record.has_shell()) {
                shell::wait_for_command(&session);
            }
        }
        let mut execs = Vec::new();
        for (slot, record) in found.execs {
            let key = slot.key;
            match self.adopt_exec(&session, slot, record) {
                Ok(exec) => execs.extend(exec),
                Err(error) => {
                    tracing::error!(%error, "a command of an earlier runtime is lost");
                    forget(&session.link, [key]);
                }
            }
        }
        Some(AdoptedSession {
            id,
            spec: open.spec.clone(),
            commands,
            execs,
        })
    }
}

/// Has a holder drop these slots.
fn forget(link: &HolderLink, keys: impl IntoIterator<Item = Key>) {
    let requests = keys.into_iter().map(|key| HolderRequest::Remove { key });
    let requests: Vec<HolderRequest> = requests.collect();
    if !requests.is_empty() {
        link.send(&requests);
    }
}
