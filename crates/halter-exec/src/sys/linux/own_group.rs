//! The control group of a program that puts limits on others: the program moves
//! into a group below its own, so that its own holds no process and may put the
//! groups below it under controllers.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::getxattr;

use super::cgroup::{Cgroup, direct_members, directories_in, enter, kind};
use super::limit_groups::{CONTROLLERS, SUBTREE_CONTROL, lists};

/// Where this program was started, if it has moved since.
static CLAIMED: OnceLock<PathBuf> = OnceLock::new();

pub(super) fn claimed() -> Option<&'static Path> {
    CLAIMED.get().map(PathBuf::as_path)
}

/// The group that this program was started in and has to itself. Groups that
/// are made later are still made there. When this is dropped, the program moves
/// back, and nothing below is under a controller any more; the groups below
/// must be gone by then.
#[derive(Debug)]
pub struct OwnGroup {
    path: PathBuf,
    /// The group it has moved into; `None` if it was started in one already.
    leaf: Option<PathBuf>,
}

impl OwnGroup {
    /// Moves this program, and with it all that it starts, into a new group
    /// below its own whose name begins with `prefix`. Where a service manager
    /// has started it in a group below the one that it delegates, it stays
    /// there. Does nothing, and returns `None`, where other processes are in
    /// the group too, where it cannot be changed, or where no controller could
    /// be had by it.
    pub fn claim(prefix: &str) -> Option<Self> {
        if claimed().is_some() {
            return None;
        }
        let path = Cgroup::current().ok()?;
        if let Some(parent) = path.parent().filter(|parent| is_delegated(parent)) {
            let path = CLAIMED.get_or_init(|| parent.to_owned()).clone();
            let leaf = None;
            return Some(Self { path, leaf });
        }
        let pid = i32::try_from(std::process::id()).ok()?;
        let is_ours = kind(&path).is_ok_and(|kind| kind == "domain")
            && direct_members(&path).is_ok_and(|members| members == [pid]);
        if !is_ours || listed(&path, "cgroup.controllers").is_empty() {
            return None;
        }
        remove_empty(&path, prefix);
        let leaf = Cgroup::create(&path, format!("{prefix}{pid}")).ok()?;
        let leaf = leaf.path().to_owned();
        if let Err(error) = enter(&leaf) {
            tracing::debug!(%error, "this program stays in its group");
            let _ = fs::remove_dir(&leaf);
            return None;
        }
        let path = CLAIMED.get_or_init(|| path).clone();
        let leaf = Some(leaf);
        Some(Self { path, leaf })
    }

    fn give_back(&self) -> io::Result<()> {
        // Also what an earlier run has left that was killed; unless somebody
        // else has made groups here.
        if directories_in(&self.path).len() <= 1 {
            for controller in listed(&self.path, SUBTREE_CONTROL) {
                fs::write(self.path.join(SUBTREE_CONTROL), format!("-{controller}"))?;
            }
        }
        match &self.leaf {
            Some(leaf) => {
                enter(&self.path)?;
                fs::remove_dir(leaf)
            }
            None => Ok(()),
        }
    }
}

impl Drop for OwnGroup {
    fn drop(&mut self) {
        if let Err(error) = self.give_back() {
            tracing::debug!(group = %self.path.display(), %error, "a group stays as it is");
        }
    }
}

/// The controllers that a file of a group names.
fn listed(group: &Path, file: &str) -> Vec<&'static str> {
    let found = |controller: &&str| lists(group, file, controller).unwrap_or(false);
    CONTROLLERS.into_iter().filter(found).collect()
}

/// Whether a service manager has marked the group as delegated, and no process
/// is in the group itself.
fn is_delegated(group: &Path) -> bool {
    let marked = |name: &str| {
        let mut value = [0; 8];
        getxattr(group, name, &mut value).is_ok_and(|length| value.get(..length) == Some(b"1"))
    };
    (marked("user.delegate") || marked("trusted.delegate"))
        && direct_members(group).is_ok_and(|members| members.is_empty())
}

/// Removes what programs of this kind left that did not end by themselves.
fn remove_empty(parent: &Path, prefix: &str) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| name.starts_with(prefix)) {
            // Refused for a group with processes.
            let _ = fs::remove_dir(entry.path());
        }
    }
}
