//! The holder of a session: started with its first command, ended with it.
//!
//! A session lives and dies with its holder: nobody else collects its
//! processes or keeps their pipes. Where the system has PID namespaces for this
//! program, a command cannot signal its holder. Elsewhere one that kills it,
//! which is its shell's parent, ends its own session and no other.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::time::Instant;

use crate::exec::command::Exec;
use crate::exec::core::Core;
use crate::exec::error::CoreError;
use crate::exec::lock;
use crate::exec::open::OpenSession;
use crate::exec::session::{Session, own_procs};
use crate::holder::{FoundHolder, HolderError, HolderLink, HolderRequest, collect, connect, start};
use crate::limits::{HOLDER_END_WAIT, MAX_LOST_SESSIONS, TREE_END_WAIT};
use crate::session::SessionId;

/// The socket of the one holder that earlier versions had for all sessions.
const EARLIER_SOCKET: &str = "holder.sock";

fn socket_name(id: SessionId) -> String {
    format!("holder-{id}.sock")
}

fn socket_path(state_dir: &Path, id: SessionId) -> PathBuf {
    state_dir.join(socket_name(id))
}

/// The sessions whose holders have a socket here.
fn held_sessions(state_dir: &Path) -> Vec<SessionId> {
    let entries = fs::read_dir(state_dir).into_iter().flatten().flatten();
    let id = |name: &str| {
        let name = name.strip_prefix("holder-")?.strip_suffix(".sock")?;
        SessionId::parse(name)
    };
    entries
        .filter_map(|entry| id(entry.file_name().to_str()?))
        .collect()
}

/// The holders an earlier daemon has left. One that is gone or does not answer
/// has lost its session; its socket is removed, so that it ends if it can.
///
/// # Errors
/// If one is of another version or in use, or cannot be asked.
pub(super) async fn find(
    state_dir: &Path,
) -> Result<(Vec<(SessionId, FoundHolder)>, LostSessions), HolderError> {
    if connect(state_dir, EARLIER_SOCKET).await?.is_none() {
        let _ = fs::remove_file(state_dir.join(EARLIER_SOCKET));
    }
    let ids = held_sessions(state_dir);
    let names: Vec<String> = ids.iter().copied().map(socket_name).collect();
    let asked = names.iter().map(|name| connect(state_dir, name));
    let answers = futures::future::join_all(asked).await;
    let (mut holders, mut lost) = (Vec::new(), LostSessions::default());
    for (id, found) in ids.into_iter().zip(answers) {
        match found {
            Ok(Some(holder)) => holders.push((id, holder)),
            Ok(None) | Err(HolderError::Silent { .. }) => {
                tracing::error!(session = %id, "the holder of a session is lost, and so is the session");
                let _ = fs::remove_file(socket_path(state_dir, id));
                lost.add(id);
            }
            Err(error) => return Err(error),
        }
    }
    Ok((holders, lost))
}

/// Sessions that have ended with their holders.
#[derive(Debug, Default)]
pub(super) struct LostSessions {
    /// Whoever asks for one of these learns why it is gone.
    latest: VecDeque<SessionId>,
    /// Those that the service does not know of yet.
    unreported: VecDeque<SessionId>,
}

impl LostSessions {
    fn add(&mut self, id: SessionId) {
        if self.latest.len() == MAX_LOST_SESSIONS {
            self.latest.pop_front();
        }
        self.latest.push_back(id);
        self.unreported.push_back(id);
    }
}

impl Core {
    /// A session with its holder, which is started for its first command.
    pub(super) async fn live(&self, open: &OpenSession) -> Result<Arc<Session>, CoreError> {
        if let Some(session) = open.live.get() {
            return Ok(Arc::clone(session));
        }
        let _starting = open.starting.lock().await;
        if open.closed.is_cancelled() {
            return Err(CoreError::SessionUnknown { id: open.id });
        }
        if let Some(session) = open.live.get() {
            return Ok(Arc::clone(session));
        }
        let settings = &self.inner.settings;
        let name = socket_name(open.id);
        let procs = own_procs(settings, &open.spec);
        let started = start(&settings.state_dir, &name, &settings.program, &procs).await;
        let link = started.map_err(|error| CoreError::Internal {
            message: error.to_string(),
        })?;
        link.prepare();
        let keys = (link.new_key(), link.new_key());
        let trees = self.trees(open.id, None);
        let session = Arc::new(Session::new(&self.names(), link, open, keys, trees));
        let lease = open
            .spec
            .lease
            .map(|length| HolderRequest::Lease { length });
        let requests = [session.store_request()].into_iter().chain(lease);
        session.link.send(&requests.collect::<Vec<_>>());
        if let Err(error) = session.contain().await {
            session.clear(settings).await;
            self.end_holder(open.id, &session.link).await;
            return Err(error);
        }
        open.remove_file(&settings.state_dir);
        let _ = open.live.set(Arc::clone(&session));
        self.watch(&session);
        Ok(session)
    }

    /// Ends a session when its holder is gone.
    pub(super) fn watch(&self, session: &Session) {
        let core = Arc::downgrade(&self.inner);
        let (id, link) = (session.id, session.link.clone());
        let closed = session.closed.clone();
        tokio::spawn(async move {
            link.lost().await;
            if let Some(inner) = core.upgrade()
                && !closed.is_cancelled()
                && !inner.ending.load(Ordering::Acquire)
            {
                Self { inner }.end_lost_session(id).await;
            }
        });
    }

    async fn end_lost_session(&self, id: SessionId) {
        tracing::error!(session = %id, "the session's holder has ended, and the session with it");
        // They end by themselves, and say why.
        let execs = self.execs_of(id);
        let ended = futures::future::join_all(execs.iter().map(Exec::ended));
        let _ = tokio::time::timeout(TREE_END_WAIT, ended).await;
        // One that a client has just closed is gone already.
        let _ = self.close(&id).await;
        lock(&self.inner.lost_sessions).add(id);
        self.inner.session_lost.notify_one();
    }

    /// Waits for a session that has ended with its holder.
    pub async fn next_lost_session(&self) -> SessionId {
        loop {
            let next = lock(&self.inner.lost_sessions).unreported.pop_front();
            if let Some(id) = next {
                return id;
            }
            self.inner.session_lost.notified().await;
        }
    }

    /// Whether this session has ended with its holder, lately.
    #[must_use]
    pub fn has_lost(&self, id: &SessionId) -> bool {
        lock(&self.inner.lost_sessions).latest.contains(id)
    }

    /// Has a session's holder end, and waits for it.
    pub(super) async fn end_holder(&self, id: SessionId, link: &HolderLink) {
        link.send(&[HolderRequest::End]);
        let until = Instant::now() + HOLDER_END_WAIT;
        if tokio::time::timeout_at(until, link.lost()).await.is_err() {
            tracing::warn!(session = %id, "the session's holder does not end");
        }
        collect(
            link.holder(),
            until.saturating_duration_since(Instant::now()),
        )
        .await;
        let _ = fs::remove_file(socket_path(&self.inner.settings.state_dir, id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_latest_lost_sessions_are_remembered() {
        let mut lost = LostSessions::default();
        let ids = (0..=MAX_LOST_SESSIONS).map(|number| SessionId::from_number(number as u32));
        let ids: Vec<SessionId> = ids.collect();
        ids.iter().for_each(|id| lost.add(*id));
        assert_eq!(lost.latest, &ids[1..]);
        assert_eq!(lost.unreported, ids);
    }
}
