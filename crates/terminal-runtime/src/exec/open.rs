//! A session that is open, whether or not it has been given a command.
//!
//! Before its first command a session has no process, unless it has variables.
//! What a restarted daemon has to know of it is in a file then, and later with
//! its holder.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

use crate::exec::record::Record;
use crate::exec::session::Session;
use crate::exec::types::SessionSpec;
use crate::holder::VERSION;
use crate::session::SessionId;

/// The beginning of the name of such a file; the session's name follows.
const FILE_PREFIX: &str = "session-";

/// An open session.
pub(super) struct OpenSession {
    pub id: SessionId,
    pub spec: SessionSpec,
    pub closed: CancellationToken,
    /// Held while its holder is started, and once more when it is closed.
    pub starting: tokio::sync::Mutex<()>,
    /// With its holder, from its first command on.
    pub live: OnceLock<Arc<Session>>,
}

impl OpenSession {
    pub(super) fn new(id: SessionId, spec: SessionSpec) -> Self {
        Self {
            id,
            spec,
            closed: CancellationToken::new(),
            starting: tokio::sync::Mutex::default(),
            live: OnceLock::new(),
        }
    }

    /// Keeps what a restarted daemon needs in a file that only this user can
    /// read.
    pub(super) fn store(&self, state_dir: &Path) -> io::Result<()> {
        let mut bytes = VERSION.to_le_bytes().to_vec();
        bytes.extend(Record::Session(Box::new(self.spec.clone())).encode());
        let path = path_of(state_dir, self.id);
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        file.write_all(&bytes)
    }

    /// Removes that file, if it is there.
    pub(super) fn remove_file(&self, state_dir: &Path) {
        let _ = fs::remove_file(path_of(state_dir, self.id));
    }
}

fn path_of(state_dir: &Path, id: SessionId) -> PathBuf {
    state_dir.join(format!("{FILE_PREFIX}{id}"))
}

/// The sessions that an earlier daemon has left in files. A file that cannot
/// be used is removed: nothing has run in its session.
pub(super) fn stored(state_dir: &Path) -> Vec<OpenSession> {
    let entries = fs::read_dir(state_dir).into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| {
        let name = entry.file_name();
        SessionId::parse(name.to_str()?.strip_prefix(FILE_PREFIX)?)
    });
    let read = |id| {
        let path = path_of(state_dir, id);
        let spec = fs::read(&path).ok().and_then(|bytes| decode(&bytes));
        if spec.is_none() {
            tracing::warn!(session = %id, "the record of a session that ran nothing is unusable");
            let _ = fs::remove_file(path);
        }
        Some(OpenSession::new(id, spec?))
    };
    ids.filter_map(read).collect()
}

/// `None` if they are of another version, or were not written to their end.
fn decode(bytes: &[u8]) -> Option<SessionSpec> {
    let (version, record) = bytes.split_first_chunk()?;
    match Record::decode(record) {
        Ok(Record::Session(spec)) if u64::from_le_bytes(*version) == VERSION => Some(*spec),
        _ => None,
    }
}
