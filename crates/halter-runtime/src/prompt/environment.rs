//! What a session's surroundings look like.

use crate::services::RuntimeServices;
use halter_protocol::{EnvironmentSnapshot, GitSnapshot, Timestamp};
use halter_tools::policy::limits::FILE_PIECE_BYTES;
use halter_tools::policy::{FileRules, SessionFiles};
use jiff::tz::TimeZone;
use std::fs;
use std::path::{Path, PathBuf};

/// Looks at the surroundings of a session.
#[derive(Debug, Clone)]
pub struct EnvironmentProbe {
    time_zone: TimeZone,
}

impl EnvironmentProbe {
    /// A probe that tells dates in a time zone.
    pub fn new(time_zone: TimeZone) -> Self {
        Self { time_zone }
    }

    /// The surroundings of a directory at a moment. Reads a few small files;
    /// runs nothing.
    pub fn look(&self, directory: &Path, at: Timestamp) -> EnvironmentSnapshot {
        EnvironmentSnapshot {
            platform: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            date: at.to_zoned(self.time_zone.clone()).date().to_string(),
            git: git_snapshot(directory),
        }
    }
}

impl Default for EnvironmentProbe {
    fn default() -> Self {
        Self::new(TimeZone::UTC)
    }
}

/// The git checkout a directory lies in, read from its files: running `git`
/// would obey the configuration of a repository nobody has trusted yet.
pub fn git_snapshot(directory: &Path) -> Option<GitSnapshot> {
    let root = directory
        .ancestors()
        .find(|candidate| candidate.join(".git").exists())?;
    let head = fs::read_to_string(git_dir(root)?.join("HEAD")).ok()?;
    Some(GitSnapshot {
        head: head_name(&head),
        root: root.to_owned(),
    })
}

/// What surrounds a session in this directory: of its files elsewhere, only
/// what can be read there.
pub(crate) fn look_around(
    services: &RuntimeServices,
    directory: &Path,
    files: Option<&SessionFiles>,
    at: Timestamp,
) -> EnvironmentSnapshot {
    let mut snapshot = services.probe.look(directory, at);
    if let Some(files) = files {
        snapshot.git = git_snapshot_elsewhere(files, directory);
    }
    snapshot
}

/// The git checkout whose top is this directory elsewhere. What lies above it
/// is not the session's to read.
pub(crate) fn git_snapshot_elsewhere(
    files: &SessionFiles,
    directory: &Path,
) -> Option<GitSnapshot> {
    let rules = FileRules {
        working_dir: directory.to_owned(),
        read_roots: vec![directory.to_owned()],
        ..FileRules::default()
    };
    let opened = files.0.open(rules).ok()?;
    let head = directory.join(".git/HEAD");
    let piece = opened.read(&head, 0, FILE_PIECE_BYTES, None).ok()?;
    Some(GitSnapshot {
        head: head_name(&String::from_utf8(piece.bytes).ok()?),
        root: directory.to_owned(),
    })
}

/// The branch that `HEAD` names, or the start of a commit.
fn head_name(head: &str) -> String {
    let head = head.trim();
    let name = match head.strip_prefix("ref: ") {
        Some(reference) => reference.strip_prefix("refs/heads/").unwrap_or(reference),
        None => head.get(..12).unwrap_or(head),
    };
    name.to_owned()
}

/// `.git` itself, or where a worktree's `.git` file points.
fn git_dir(root: &Path) -> Option<PathBuf> {
    let dot_git = root.join(".git");
    if dot_git.is_dir() {
        return Some(dot_git);
    }
    let pointer = fs::read_to_string(&dot_git).ok()?;
    let target = pointer.trim().strip_prefix("gitdir: ")?;
    Some(root.join(target))
}

/// How to tell a model that its environment has changed.
pub fn describe_change(before: &EnvironmentSnapshot, now: &EnvironmentSnapshot) -> String {
    let mut changes = Vec::new();
    if before.date != now.date {
        changes.push(format!("the date is now {}", now.date));
    }
    match (&before.git, &now.git) {
        (before, now) if before == now => {}
        (_, Some(git)) => changes.push(format!("git is now at {}", git.head)),
        (_, None) => changes.push("the directory is no longer in a git checkout".to_owned()),
    }
    if before.platform != now.platform {
        changes.push(format!("the platform is now {}", now.platform));
    }
    format!("The environment has changed: {}.", changes.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_is_read_without_running_it() {
        let root = tempfile::tempdir().unwrap();
        let nested = root.path().join("a/b");
        fs::create_dir_all(&nested).unwrap();
        assert_eq!(git_snapshot(&nested), None);
        fs::create_dir(root.path().join(".git")).unwrap();
        fs::write(root.path().join(".git/HEAD"), "ref: refs/heads/feature/x\n").unwrap();
        assert_eq!(
            git_snapshot(&nested),
            Some(GitSnapshot {
                head: "feature/x".into(),
                root: root.path().into()
            })
        );
    }

    #[test]
    fn a_worktree_points_elsewhere() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("real")).unwrap();
        fs::write(root.path().join("real/HEAD"), "0123456789abcdef0123\n").unwrap();
        fs::write(root.path().join(".git"), "gitdir: real\n").unwrap();
        assert_eq!(git_snapshot(root.path()).unwrap().head, "0123456789ab");
    }

    #[test]
    fn only_what_changed_is_told() {
        let before = EnvironmentSnapshot {
            platform: "linux x86_64".into(),
            date: "2026-01-02".into(),
            git: None,
        };
        let now = EnvironmentSnapshot {
            date: "2026-01-03".into(),
            ..before.clone()
        };
        assert_eq!(
            describe_change(&before, &now),
            "The environment has changed: the date is now 2026-01-03."
        );
    }
}
