//! What a session has seen of files: the base of stale-edit detection.

use halter_protocol::encoding::escape_path;
use halter_protocol::{MemoryChange, SessionMemory};
use std::path::Path;

/// The session knows a file now.
pub(crate) fn file_seen(resolved: &Path, sha256: &str) -> MemoryChange {
    MemoryChange::FileSeen {
        path: escape_path(resolved),
        sha256: sha256.to_owned(),
    }
}

/// The hash of a file as the session last knew it.
pub(crate) fn last_seen(memory: &SessionMemory, resolved: &Path) -> Option<String> {
    memory.file_view(&escape_path(resolved)).map(str::to_owned)
}
