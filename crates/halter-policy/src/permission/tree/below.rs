//! What a rule covers below a directory that a call changes as a whole.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::request::TouchedPath;
use crate::door::{FileDoor, FileKind};
use crate::error::PolicyError;
use crate::limits::ASK_WALK_ENTRIES;
use crate::permission::paths::{PathPattern, RuleAnchors};

/// Why a directory is covered by a rule that does not name it.
pub(super) enum CoveredBelow {
    /// The rule covers this path.
    Path(PathBuf),
    /// There is more below this directory than is looked at.
    TooMany(PathBuf),
    /// What is in this directory cannot be told.
    Unknown(PathBuf),
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
            Self::Unknown(directory) => format!(
                "{} (what is in it cannot be told now)",
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
    elsewhere: Option<&FileDoor>,
) -> Option<CoveredBelow> {
    let mut waiting = vec![(directory.spelled.clone(), directory.real.clone())];
    let mut left = ASK_WALK_ENTRIES;
    while let Some((spelled, real)) = waiting.pop() {
        let names = match elsewhere {
            Some(door) => names_elsewhere(door, &real, left),
            None => Some(names_here(&real, left)),
        };
        let Some(names) = names else {
            return Some(CoveredBelow::Unknown(spelled));
        };
        left -= names.found.len();
        for (name, is_directory) in names.found {
            let path = spelled.join(&name);
            let inside = real.join(&name);
            if pattern.covers(&path, &inside) {
                return Some(CoveredBelow::Path(path));
            }
            if is_directory {
                waiting.push((path, inside));
            }
        }
        if names.is_cut {
            return Some(CoveredBelow::TooMany(directory.spelled.clone()));
        }
    }
    None
}

/// Names in a directory, each with whether it is a directory.
#[derive(Default)]
struct Names {
    found: Vec<(OsString, bool)>,
    /// There are more than were asked for.
    is_cut: bool,
}

fn names_here(directory: &Path, max: usize) -> Names {
    let mut names = Names::default();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if names.found.len() == max {
            names.is_cut = true;
            break;
        }
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        names.found.push((entry.file_name(), is_directory));
    }
    names
}

/// None if the place does not say; what it refuses to list it does not change
/// either.
fn names_elsewhere(door: &FileDoor, directory: &Path, max: usize) -> Option<Names> {
    let listing = match door.list(directory, max) {
        Ok(listing) => listing,
        Err(PolicyError::NotFound { .. } | PolicyError::NotADirectory { .. }) => {
            return Some(Names::default());
        }
        Err(error) => return error.is_denial().then(Names::default),
    };
    let found = listing.entries.into_iter();
    let is_directory = |kind: &str| kind == FileKind::Directory.name();
    Some(Names {
        found: found.map(|it| (it.name, is_directory(it.kind))).collect(),
        is_cut: listing.truncated,
    })
}
