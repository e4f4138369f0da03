//! How what takes the place of a missing protected path is told from what a
//! user has made.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Nobody gives it to an ordinary file, or to a directory of one user.
const STICKY: u32 = 0o1000;

/// What stands in a placeholder that is a file; absent: it is a directory. Git
/// reads these files of its directory, and works on with them: one that says
/// that everything is in this directory, and one without settings.
pub(crate) fn placeholder_content(path: &Path) -> Option<&'static str> {
    match path.file_name()?.to_str()? {
        "commondir" => Some(".\n"),
        "config.worktree" => Some(""),
        _ => None,
    }
}

/// Whether this stands in for a protected path that is not there, put by a
/// sandbox that is in use or was never ended properly. It holds nothing.
#[must_use]
pub fn is_placeholder(path: &Path) -> bool {
    let Ok(found) = path.symlink_metadata() else {
        return false;
    };
    if found.mode() & STICKY == 0 {
        return false;
    }
    match placeholder_content(path) {
        Some(content) => {
            let is_short = found.is_file() && found.len() <= content.len() as u64;
            is_short && std::fs::read(path).is_ok_and(|read| read == content.as_bytes())
        }
        None => {
            let mut entries = std::fs::read_dir(path);
            found.is_dir() && entries.as_mut().is_ok_and(|it| it.next().is_none())
        }
    }
}
