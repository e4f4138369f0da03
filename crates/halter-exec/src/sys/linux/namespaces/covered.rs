//! Which paths of a containment in use have lost what was mounted on them, by
//! the kernel's own list: what is at a path outside does not tell, as a new file
//! may get the number of the one whose place it takes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::mounts::{BLANK_DIRECTORY, BLANK_FILE, EXCHANGE, is_fresh};

/// What a mount keeps those inside from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cover {
    Nothing,
    Writing,
    /// Something empty is mounted there, or what is there outside is not inside.
    Reading,
}

/// How the kernel says that what is mounted has been removed.
const REMOVED: &[u8] = b"//deleted";

/// What is mounted where in a mount namespace.
#[derive(Debug)]
pub(super) struct Mounts(BTreeMap<PathBuf, Cover>);

impl Mounts {
    /// Those of a process inside.
    ///
    /// # Errors
    /// If `/proc` does not show them.
    pub(super) fn of(process: libc::pid_t) -> io::Result<Self> {
        let mounts = Self::of_container(process)?;
        match mounts.0.contains_key(Path::new(EXCHANGE)) {
            true => Ok(mounts),
            false => Err(io::Error::other(
                "`/proc` is not that of this program's PID namespace",
            )),
        }
    }

    /// Those of a process in name spaces that somebody else made.
    ///
    /// # Errors
    /// If `/proc` does not show them.
    pub(super) fn of_container(process: libc::pid_t) -> io::Result<Self> {
        let list = std::fs::read(format!("/proc/{process}/mountinfo"))?;
        Ok(Self::parse(&list))
    }

    fn parse(list: &[u8]) -> Self {
        let mounts = list.split(|byte| *byte == b'\n').filter_map(|line| {
            let mut fields = line.split(|byte| *byte == b' ').skip(3);
            let (root, at, options) = (fields.next()?, fields.next()?, fields.next()?);
            let at = unescaped(at);
            // The root of a mount is named within its file system.
            let is_blank = [BLANK_DIRECTORY, BLANK_FILE]
                .iter()
                .any(|blank| blank.strip_prefix("/dev").map(str::as_bytes) == Some(root));
            let cover = match options.split(|byte| *byte == b',').next() {
                _ if is_blank || is_fresh(&at) || root.ends_with(REMOVED) => Cover::Reading,
                Some(b"ro") => Cover::Writing,
                _ => Cover::Nothing,
            };
            Some((at, cover))
        });
        // A later line is of a mount on top of an earlier one.
        Self(mounts.collect())
    }

    /// Whether something is mounted on this very path.
    pub(super) fn are_on(&self, path: &Path) -> bool {
        self.0.contains_key(path)
    }

    /// Whether nobody inside can change what is there, or make it.
    pub(super) fn protect(&self, path: &Path) -> bool {
        self.keep(path, |cover| cover != Cover::Nothing)
    }

    /// Whether nobody inside can read what is there.
    pub(super) fn hide(&self, path: &Path) -> bool {
        self.keep(path, |cover| cover == Cover::Reading)
    }

    fn keep(&self, path: &Path, is_kept: fn(Cover) -> bool) -> bool {
        let nearest = path.ancestors().find_map(|at| self.0.get(at));
        nearest.is_some_and(|cover| is_kept(*cover))
    }
}

/// A path as the kernel lists it: blanks and backslashes in octal.
fn unescaped(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((byte, after)) = rest.split_first() {
        let octal = after.get(..3).filter(|_| *byte == b'\\');
        let code = octal.and_then(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 8).ok()
        });
        bytes.push(code.unwrap_or(*byte));
        rest = match code {
            Some(_) => after.get(3..).unwrap_or_default(),
            None => after,
        };
    }
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_kept_by_the_nearest_mount() {
        let list = b"1 0 8:1 / / ro,nosuid - ext4 /dev/x rw\n\
                     2 1 0:9 / /tmp rw - tmpfs tmpfs rw\n\
                     3 1 8:1 /home/w /home/w rw,nosuid - ext4 /dev/x rw\n\
                     4 3 8:1 /home/w/a\\040b\\134 /home/w/a\\040b\\134 ro - ext4 /dev/x rw\n\
                     5 3 0:8 /.halter/blank-file /home/w/.env ro - tmpfs tmpfs rw\n\
                     6 1 0:8 /.halter/blank-directory /home/.ssh ro - tmpfs tmpfs rw\n\
                     7 2 8:1 /x//deleted /tmp/x rw - ext4 /dev/x rw\n";
        let mounts = Mounts::parse(list);
        for (path, protected, hidden) in [
            ("/etc/file", true, false),
            ("/home/w", false, false),
            ("/home/w/absent/config", false, false),
            ("/home/w/a b\\", true, false),
            ("/home/w/a b\\/within", true, false),
            ("/home/w/.env", true, true),
            ("/home/.ssh/key", true, true),
            ("/home/.netrc", true, false),
            ("/tmp/secret", true, true),
            ("/tmp/x/.git", true, true),
        ] {
            let path = Path::new(path);
            assert_eq!(mounts.protect(path), protected, "{path:?}");
            assert_eq!(mounts.hide(path), hidden, "{path:?}");
        }
        assert!(mounts.are_on(Path::new("/home/w")));
        assert!(!mounts.are_on(Path::new("/home")));
    }
}
