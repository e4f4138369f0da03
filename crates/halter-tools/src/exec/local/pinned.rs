//! A directory that stays what it was when it was looked at, whatever takes
//! its name.

use anyhow::{Context as _, bail};
use halter_exec::DirectoryIdentity;
use halter_protocol::encoding::escape_path;
use rustix::fs::{CWD, Mode, OFlags, fstat, openat};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Component, Path, PathBuf};

/// A directory of a session, held open. No component of its name below the
/// session's own directory is a link: programs in the sandbox can change
/// links, and would choose where a command outside runs.
#[derive(Debug)]
pub(super) struct PinnedDirectory {
    handle: OwnedFd,
    path: PathBuf,
}

impl PinnedDirectory {
    /// Blocks for a moment.
    pub(super) fn open(path: &Path, working_dir: &Path) -> anyhow::Result<Self> {
        let shown = escape_path(path);
        // The session's own directory may be named by a link of the user's.
        let (start, rest) = match path.strip_prefix(working_dir) {
            Ok(rest) => (working_dir.canonicalize()?, rest),
            Err(_) => (
                PathBuf::from("/"),
                path.strip_prefix("/").unwrap_or(Path::new("..")),
            ),
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut handle = openat(CWD, &start, flags, Mode::empty())
            .with_context(|| format!("cannot open '{}'", escape_path(&start)))?;
        for component in rest.components() {
            let Component::Normal(name) = component else {
                bail!("'{shown}' is no plain name of a directory");
            };
            handle = openat(&handle, name, flags | OFlags::NOFOLLOW, Mode::empty()).with_context(
                || {
                    format!(
                        "'{shown}' is no directory outside the sandbox, or is reached by a link, \
                         which programs inside could change; `cd` to its real name first"
                    )
                },
            )?;
        }
        Ok(Self {
            handle,
            path: start.join(rest),
        })
    }

    /// Its real name, when it was opened.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// A name that leads to it alone while this is kept, for processes that
    /// are in no name space of their own.
    pub(super) fn held_path(&self) -> PathBuf {
        let pid = std::process::id();
        PathBuf::from(format!("/proc/{pid}/fd/{}", self.handle.as_raw_fd()))
    }

    pub(super) fn is(&self, found: DirectoryIdentity) -> anyhow::Result<bool> {
        let own = fstat(&self.handle)?;
        Ok(own.st_dev == found.device && own.st_ino == found.inode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt as _, symlink};

    #[test]
    fn a_directory_is_found_by_plain_names_only_and_stays_what_it_was() {
        let root = tempfile::tempdir().unwrap();
        let real = root.path().join("real");
        std::fs::create_dir_all(real.join("sub/deep")).unwrap();
        symlink(&real, root.path().join("named")).unwrap();
        symlink(real.join("sub"), real.join("link")).unwrap();
        std::fs::write(real.join("file"), "").unwrap();
        let named = root.path().join("named");
        let open = |rest: &str| PinnedDirectory::open(&named.join(rest), &named);
        let pinned = open("sub").unwrap();
        assert_eq!(
            pinned.path(),
            real.join("sub").canonicalize().unwrap().as_path()
        );
        for refused in ["link", "link/deep", "file", "gone", "sub/.."] {
            assert!(open(refused).is_err(), "{refused}");
        }
        for refused in ["relative", ""] {
            let opened = PinnedDirectory::open(Path::new(refused), &named);
            assert!(opened.is_err(), "{refused:?}");
        }
        assert!(PinnedDirectory::open(Path::new("/usr"), &named).is_ok());
        std::fs::rename(real.join("sub"), real.join("moved")).unwrap();
        symlink("/", real.join("sub")).unwrap();
        let found = |path: &Path| {
            let found = std::fs::metadata(path).unwrap();
            let mut identity = halter_exec::DirectoryIdentity {
                device: 0,
                inode: 0,
            };
            (identity.device, identity.inode) = (found.dev(), found.ino());
            identity
        };
        assert!(pinned.is(found(&real.join("moved"))).unwrap());
        assert!(pinned.is(found(&pinned.held_path())).unwrap());
        assert!(!pinned.is(found(&real.join("sub"))).unwrap());
    }
}
