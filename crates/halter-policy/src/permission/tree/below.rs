//! What a rule covers below a directory that a call changes as a whole.

use std::fs;
use std::path::PathBuf;

use super::request::TouchedPath;
use crate::limits::ASK_WALK_ENTRIES;
use crate::permission::paths::{PathPattern, RuleAnchors};

/// Why a directory is covered by a rule that does not name it.
pub(super) enum CoveredBelow {
    /// The rule covers this path.
    Path(PathBuf),
    /// There is more below this directory than is looked at.
    TooMany(PathBuf),
}

impl CoveredBelow {
    /// It, for people.
    pub(super) fn described(&self, anchors: &RuleAnchors) -> String {
        match self {
            Self::Path(path) => anchors.shown(path),
            Self::TooMany(directory) => format!(
                "{} (more than {ASK_WALK_ENTRIES} entries below it, so none is looked up)",
                anchors.shown(directory)
            ),
        }
    }
}

/// The first path below a directory that the pattern covers; links are not
/// followed. What cannot be read cannot be changed either.
pub(super) fn first_covered(
    pattern: &PathPattern,
    directory: &TouchedPath,
) -> Option<CoveredBelow> {
    let mut waiting = vec![(directory.spelled.clone(), directory.real.clone())];
    let mut left = ASK_WALK_ENTRIES;
    while let Some((spelled, real)) = waiting.pop() {
        for entry in fs::read_dir(&real).into_iter().flatten().flatten() {
            if left == 0 {
                return Some(CoveredBelow::TooMany(directory.spelled.clone()));
            }
            left -= 1;
            let name = entry.file_name();
            let path = spelled.join(&name);
            let inside = real.join(&name);
            if pattern.covers(&path, &inside) {
                return Some(CoveredBelow::Path(path));
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                waiting.push((path, inside));
            }
        }
    }
    None
}
