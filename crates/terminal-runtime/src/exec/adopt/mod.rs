//! Taking over what an earlier daemon has left with the holder.

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
use crate::exec::session::Session;
use crate::exec::types::AdoptedSession;
use crate::holder::{FoundSlot, Key, Request};

impl Core {
    /// Goes on with all sessions that were open and all commands that are not
    /// forgotten.
    pub(super) async fn adopt(&self, slots: Vec<FoundSlot>) -> Vec<AdoptedSession> {
        let (sessions, unreadable) = found::by_session(slots);
        self.forget(unreadable);
        let mut adopted = Vec::new();
        for found in sessions.into_values() {
            adopted.extend(self.adopt_session(found).await);
        }
        adopted
    }

    /// Has the holder drop these slots.
    fn forget(&self, keys: impl IntoIterator<Item = Key>) {
        let requests = keys.into_iter().map(|key| Request::Remove { key });
        let requests: Vec<Request> = requests.collect();
        if !requests.is_empty() {
            self.inner.link().send(&requests);
        }
    }

    /// Goes on with one session; `None` if it was closed.
    async fn adopt_session(&self, mut found: FoundSession) -> Option<AdoptedSession> {
        let link = self.inner.link();
        let Some((key, record)) = found.session.take() else {
            // This was on its way out.
            self.forget(found.keys());
            return None;
        };
        let (count_key, commands) = found.count.unwrap_or_else(|| (link.new_key(), 0));
        let trees = self.trees(record.id, found.inherited_trees());
        let keys = (key, count_key);
        let spec = record.spec.clone();
        let names = self.names();
        let session = Arc::new(Session::new(&names, link, record.id, keys, spec, trees));
        session.commands.store(commands, Ordering::Relaxed);
        if commands > 0
            && let Err(error) = session.ready(&self.inner.settings).await
        {
            tracing::error!(%error, session = %session.id, "a session's container is lost");
        }
        lock(&self.inner.sessions).insert(record.id, Arc::clone(&session));
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
                    self.forget([key]);
                }
            }
        }
        Some(AdoptedSession {
            id: record.id,
            spec: record.spec,
            commands,
            execs,
        })
    }
}
