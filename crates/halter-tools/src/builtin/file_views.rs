//! What a session has seen of files: the base of stale-edit detection.

use crate::limits::FILE_VIEWS;
use crate::session::{ToolSessionState, ToolSessionStore};
use indexmap::IndexMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The hash of each file as this session last read or wrote it, by resolved
/// path, oldest first.
#[derive(Default)]
pub(crate) struct FileViews(Mutex<IndexMap<PathBuf, String>>);

impl ToolSessionState for FileViews {}

impl FileViews {
    /// Remembers what the session knows of a file now.
    pub(crate) fn record(&self, path: &Path, sha256: &str) {
        let mut views = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        views.shift_remove(path);
        if views.len() >= FILE_VIEWS {
            views.shift_remove_index(0);
        }
        views.insert(path.to_owned(), sha256.to_owned());
    }

    /// The hash of the file as the session last knew it.
    pub(crate) fn last(&self, path: &Path) -> Option<String> {
        let views = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        views.get(path).cloned()
    }
}

/// The views of a session.
pub(crate) fn file_views(
    store: &ToolSessionStore,
) -> Result<std::sync::Arc<FileViews>, crate::ToolSessionClosed> {
    store.get_or_insert_with(FileViews::default)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_view_is_forgotten_first() {
        let views = FileViews::default();
        let path = |index: usize| PathBuf::from(format!("/{index}"));
        for index in 0..FILE_VIEWS {
            views.record(&path(index), "h");
        }
        views.record(&path(0), "h2");
        assert!(views.last(&path(1)).is_some());
        views.record(Path::new("/new"), "h");
        assert_eq!(views.last(&path(0)).as_deref(), Some("h2"));
        assert!(views.last(&path(1)).is_none());
    }
}
