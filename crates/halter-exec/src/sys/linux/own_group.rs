//! The control group of a program that puts limits on others: the program moves
//! into a group below its own, so that its own holds no process and may put the
//! groups below it under controllers.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::cgroup::{Cgroup, direct_members, enter, kind};
use super::limit_groups::{CONTROLLERS, SUBTREE_CONTROL, lists};

/// Where this program was started, if it has moved since.
static CLAIMED: OnceLock<PathBuf> = OnceLock::new();

pub(super) fn claimed() -> Option<&'static Path> {
    CLAIMED.get().map(PathBuf::as_path)
}

/// The group that this program was started in and has to itself. Groups that
/// are made later are still made there. When this is dropped, the program moves
/// back and the group is as it was; the groups below must be gone by then.
#[derive(Debug)]
pub struct OwnGroup {
    path: PathBuf,
    leaf: PathBuf,
    /// The controllers that the groups below were under before.
    before: Vec<&'static str>,
}

impl OwnGroup {
    /// Moves this program, and with it all that it starts, into a new group
    /// below its own whose name begins with `prefix`. Does nothing, and returns
    /// `None`, where other processes are in the group too, where it cannot be
    /// changed, or where no controller could be had by it.
    pub fn claim(prefix: &str) -> Option<Self> {
        if claimed().is_some() {
            return None;
        }
        let path = Cgroup::current().ok()?;
        let pid = i32::try_from(std::process::id()).ok()?;
        let listed = |file: &str| -> Vec<&'static str> {
            let found = |controller: &&str| lists(&path, file, controller).unwrap_or(false);
            CONTROLLERS.into_iter().filter(found).collect()
        };
        let is_ours = kind(&path).is_ok_and(|kind| kind == "domain")
            && direct_members(&path).is_ok_and(|members| members == [pid]);
        if !is_ours || listed("cgroup.controllers").is_empty() {
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
        let before = listed(SUBTREE_CONTROL);
        let path = CLAIMED.get_or_init(|| path).clone();
        Some(Self { path, leaf, before })
    }

    fn give_back(&self) -> io::Result<()> {
        for controller in CONTROLLERS {
            if !self.before.contains(&controller) && lists(&self.path, SUBTREE_CONTROL, controller)?
            {
                fs::write(self.path.join(SUBTREE_CONTROL), format!("-{controller}"))?;
            }
        }
        enter(&self.path)?;
        fs::remove_dir(&self.leaf)
    }
}

impl Drop for OwnGroup {
    fn drop(&mut self) {
        if let Err(error) = self.give_back() {
            tracing::debug!(group = %self.leaf.display(), %error, "a group stays");
        }
    }
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
