//! Taking over what an earlier daemon has left with the holder.

mod command;
mod estate;
mod shell;
mod streams;
mod tidy;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use self::estate::Estate;
use super::core::Core;
use super::handle::Exec;
use super::lock;
use super::order::AdoptedSession;
use super::session::Session;
use crate::holder::{FoundSlot, Key, Request};

impl Core {
    /// Goes on with all sessions that were open and all commands that are not
    /// forgotten.
    pub(super) async fn adopt(&self, slots: Vec<FoundSlot>) -> Vec<AdoptedSession> {
        let (mut estates, unreadable) = estate::by_session(slots);
        self.forget(unreadable);
        // Before any name is given: those in journals are taken.
        for estate in estates.values_mut() {
            let moves = estate.read_journal();
            for key in estate.keys() {
                self.inner.link.reserve(key);
            }
            if !moves.is_empty() {
                self.inner.link.send(&moves);
            }
        }
        let mut adopted = Vec::new();
        for estate in estates.into_values() {
            adopted.extend(self.adopt_session(estate).await);
        }
        self.keep_results(&adopted);
        adopted
    }

    /// Has the holder drop these slots.
    fn forget(&self, keys: impl IntoIterator<Item = Key>) {
        let requests = keys.into_iter().map(|key| Request::Forget { key });
        let requests: Vec<Request> = requests.collect();
        if !requests.is_empty() {
            self.inner.link.send(&requests);
        }
    }

    /// Keeps the results of ended commands, as long as others of their age.
    fn keep_results(&self, adopted: &[AdoptedSession]) {
        let mut ended: Vec<(u64, &Exec)> = adopted
            .iter()
            .flat_map(|session| &session.execs)
            .filter_map(|exec| {
                let record = lock(&exec.inner.record);
                let end = record.end.as_ref()?;
                let took = u64::try_from(end.duration.as_micros()).unwrap_or(u64::MAX);
                Some((record.started_us.saturating_add(took), exec))
            })
            .collect();
        ended.sort_by_key(|(at, _)| *at);
        for (_, exec) in ended {
            self.inner.ended(exec);
        }
    }

    /// Goes on with one session; `None` if it was closed.
    async fn adopt_session(&self, mut estate: Estate) -> Option<AdoptedSession> {
        let link = &self.inner.link;
        let Some((key, record)) = estate.session.take() else {
            // This was on its way out.
            self.forget(estate.keys());
            return None;
        };
        let (count_key, counted) = estate.count.unwrap_or_else(|| (link.new_key(), 0));
        let commands = counted.max(estate.noted_commands);
        let taken = estate.highest_group();
        let trees = self.trees(record.id, (commands > 0 || taken > 0).then_some(taken));
        let keys = (key, count_key);
        let spec = record.spec.clone();
        let grounds = self.grounds();
        let session = Arc::new(Session::new(&grounds, record.id, keys, spec, trees));
        session.commands.store(commands, Ordering::Relaxed);
        if commands > 0
            && let Err(error) = session.ready(&self.inner.settings).await
        {
            tracing::error!(%error, session = %session.id, "a session's container is lost");
        }
        lock(&self.inner.sessions).insert(record.id, Arc::clone(&session));
        if let Some(shell) = estate.shell.take() {
            self.adopt_shell(&session, shell, estate.processes);
            if !estate.execs.iter().any(|(_, record)| record.has_shell()) {
                shell::see_out_command(&session);
            }
        }
        let mut execs = Vec::new();
        for (slot, record) in estate.execs {
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
