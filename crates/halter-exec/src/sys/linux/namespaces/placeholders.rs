//! What takes the place of protected paths that are missing, so that something
//! can be mounted there.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{
    AtFlags, CWD, FlockOperation, Mode, OFlags, ResolveFlags, flock, linkat, mkdirat, openat,
    openat2, unlinkat,
};

use crate::sandbox::{MissingRung, is_placeholder, placeholder_content};

/// The bit by which a placeholder is known, also one that a crash left behind.
/// It means nothing to a directory of one user.
const DIRECTORY_MODE: u32 = 0o1755;
const FILE_MODE: u32 = 0o1644;

/// How often, and after which pause, a lock is asked for again.
const LOCK_ATTEMPTS: usize = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// Removed when this is dropped, if nobody has put anything there and no other
/// sandbox holds them: to remove one takes the mount off that lies on it in
/// any other.
///
/// Who holds one has locked the byte of its inode number in the writable
/// directory around it. So a sandbox has one descriptor for each of those,
/// however many placeholders there are.
#[derive(Debug, Default)]
pub(super) struct Placeholders {
    held: Vec<HeldPlace>,
    /// The writable directories by their paths, which have no links; open once
    /// something is held below.
    writable: BTreeMap<PathBuf, Option<File>>,
}

#[derive(Debug)]
struct HeldPlace {
    path: PathBuf,
    inode: u64,
    /// The writable directory around it.
    root: PathBuf,
}

impl Placeholders {
    /// None yet, for a sandbox in which these directories can be written to.
    pub(super) fn new(writable: &[PathBuf]) -> Self {
        let writable = writable.iter().filter_map(|path| path.canonicalize().ok());
        Self {
            held: Vec::new(),
            writable: writable.map(|path| (path, None)).collect(),
        }
    }

    /// Makes one for each path that is not there, at its first missing part,
    /// or joins those who hold it. Returns the places.
    pub(super) fn add(&mut self, protected: &[PathBuf]) -> Result<Vec<PathBuf>, MissingRung> {
        let mut places: Vec<PathBuf> = Vec::new();
        for path in protected {
            if places.iter().any(|place| path.starts_with(place)) {
                continue;
            }
            let is_free = |part: &&Path| part.symlink_metadata().is_err() || is_placeholder(part);
            if let Some(place) = path.ancestors().take_while(is_free).last()
                && self.hold(place)?
            {
                places.push(place.to_owned());
            }
        }
        Ok(places)
    }

    /// Whether one has been on the way to this path.
    pub(super) fn were_before(&self, path: &Path) -> bool {
        self.held.iter().any(|held| path.starts_with(&held.path))
    }

    /// Whether it is there, and kept from being removed.
    fn hold(&mut self, place: &Path) -> Result<bool, MissingRung> {
        let (Some(parent), Some(name)) = (place.parent(), place.file_name()) else {
            return Ok(false);
        };
        let Ok(parent) = parent.canonicalize() else {
            return Ok(false);
        };
        let root = parent
            .ancestors()
            .find(|it| self.writable.contains_key(*it));
        let Some(root) = root.map(Path::to_owned) else {
            // Nobody inside can make anything there, and a link that somebody
            // inside has made must not have this program do it.
            return Ok(false);
        };
        let path = parent.join(name);
        let doing = || format!("taking the place of the protected `{}`", path.display());
        let made = Turn::take(&parent).and_then(|turn| {
            create(&turn.directory, name)?;
            Ok(turn)
        });
        let _turn = match made {
            Ok(turn) => turn,
            Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                // Nobody inside can make there what this program cannot, but
                // whose directory it is can allow it to himself.
                if !is_own(&parent) {
                    return Ok(false);
                }
                let mut missing = MissingRung::of(&doing(), &error);
                missing.fix = Some(format!("chmod u+w {}", parent.display()));
                return Err(missing);
            }
            Err(error) => return Err(MissingRung::of(&doing(), &error)),
        };
        if !is_placeholder(&path) {
            // Somebody's own by now.
            return Ok(false);
        }
        let mut lock = || -> io::Result<u64> {
            let inode = path.symlink_metadata()?.ino();
            let opened = self.writable.entry(root.clone()).or_default();
            let directory = match opened {
                Some(directory) => directory,
                None => opened.insert(File::open(&root)?),
            };
            set_lock(directory, libc::F_RDLCK, inode)?;
            Ok(inode)
        };
        let inode = lock().map_err(|error| MissingRung::of(&doing(), &error))?;
        self.held.retain(|held| held.path != path);
        self.held.push(HeldPlace { path, inode, root });
        Ok(true)
    }

    /// Removes it unless another sandbox holds it.
    fn give_up(&self, held: &HeldPlace) -> io::Result<()> {
        let HeldPlace { path, inode, root } = held;
        if let Some(Some(directory)) = self.writable.get(root) {
            set_lock(directory, libc::F_UNLCK, *inode)?;
        }
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Ok(());
        };
        let turn = Turn::take(parent)?;
        // Others may write to less around it, or to more.
        let is_held = |directory: &Path| {
            let opened = File::open(directory);
            opened.is_ok_and(|directory| is_locked(&directory, *inode))
        };
        let is_same = path.symlink_metadata().is_ok_and(|it| it.ino() == *inode);
        if !is_same || !is_placeholder(path) || parent.ancestors().any(is_held) {
            return Ok(());
        }
        let flags = match placeholder_content(path) {
            Some(_) => AtFlags::empty(),
            None => AtFlags::REMOVEDIR,
        };
        Ok(unlinkat(&turn.directory, name, flags)?)
    }
}

impl Drop for Placeholders {
    fn drop(&mut self) {
        for held in self.held.iter().rev() {
            if let Err(error) = self.give_up(held) {
                tracing::debug!(path = %held.path.display(), %error, "a placeholder stays");
            }
        }
    }
}

/// Makes one unless something is there. The path to it has no links.
pub(crate) fn make_placeholder(place: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (place.parent(), place.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    create(&Turn::take(parent)?.directory, name)
}

/// Removes one. What somebody has put in its place stays.
pub(crate) fn remove_placeholder(place: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (place.parent(), place.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let turn = Turn::take(parent)?;
    if !is_placeholder(place) {
        return Ok(());
    }
    let flags = match placeholder_content(place) {
        Some(_) => AtFlags::empty(),
        None => AtFlags::REMOVEDIR,
    };
    Ok(unlinkat(&turn.directory, name, flags)?)
}

/// One sandbox at a time makes, joins or removes what is in a directory.
struct Turn {
    directory: OwnedFd,
}

impl Turn {
    /// Waits while another has its turn, which takes a moment, and no longer:
    /// programs in a sandbox can open the directory and keep a lock.
    fn take(directory: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::NO_SYMLINKS;
        let opened = openat2(CWD, directory, flags, Mode::empty(), resolve)?;
        for _ in 0..LOCK_ATTEMPTS {
            if flock(&opened, FlockOperation::NonBlockingLockExclusive).is_ok() {
                return Ok(Self { directory: opened });
            }
            std::thread::sleep(LOCK_PAUSE);
        }
        tracing::debug!(path = %directory.display(), "somebody keeps a directory locked");
        Ok(Self { directory: opened })
    }
}

/// A lock on one byte that belongs to the open file, so that it ends with this
/// program.
fn lock_of(kind: libc::c_int, inode: u64) -> libc::flock {
    // SAFETY: plain data for which all zeros are valid.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::c_short::try_from(kind).unwrap_or_default();
    lock.l_whence = libc::c_short::try_from(libc::SEEK_SET).unwrap_or_default();
    // An offset has no sign bit, and there is a byte after the last.
    lock.l_start = libc::off_t::try_from(inode & (u64::MAX >> 2)).unwrap_or_default();
    lock.l_len = 1;
    lock
}

fn set_lock(file: &File, kind: libc::c_int, inode: u64) -> io::Result<()> {
    let lock = lock_of(kind, inode);
    // SAFETY: an open descriptor and a structure that lives for the call.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether another open file has such a lock.
fn is_locked(file: &File, inode: u64) -> bool {
    let mut lock = lock_of(libc::F_WRLCK, inode);
    // SAFETY: an open descriptor and a structure that lives for the call.
    let asked = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) };
    asked == 0 && libc::c_int::from(lock.l_type) != libc::F_UNLCK
}

fn is_own(directory: &Path) -> bool {
    let user = rustix::process::geteuid().as_raw();
    directory.metadata().is_ok_and(|found| found.uid() == user)
}

/// Makes one unless something is there.
fn create(directory: &OwnedFd, name: &OsStr) -> io::Result<()> {
    let made = match placeholder_content(Path::new(name)) {
        Some(content) => create_file(directory, name, content),
        None => mkdirat(directory, name, Mode::from_raw_mode(DIRECTORY_MODE)).map_err(Into::into),
    };
    match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Whole from the start: others read it.
fn create_file(directory: &OwnedFd, name: &OsStr, content: &str) -> io::Result<()> {
    let nonce = crate::nonce::random().map_err(io::Error::other)?;
    let mut new = name.to_owned();
    new.push(format!(".{nonce}"));
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mut file = File::from(openat(
        directory,
        &new,
        flags,
        Mode::from_raw_mode(FILE_MODE),
    )?);
    let written = file.write_all(content.as_bytes());
    let linked =
        written.and_then(|()| Ok(linkat(directory, &new, directory, name, AtFlags::empty())?));
    unlinkat(directory, &new, AtFlags::empty())?;
    linked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_a_program_keeps_holds_up_no_sandbox() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let hostile = File::open(&root).unwrap();
        flock(&hostile, FlockOperation::LockExclusive).unwrap();
        let path = root.join(".vscode");
        let mut placeholders = Placeholders::new(std::slice::from_ref(&root));
        let made = placeholders.add(std::slice::from_ref(&path)).unwrap();
        assert_eq!(made, std::slice::from_ref(&path));
        drop(placeholders);
        assert!(!path.exists());
    }

    #[test]
    fn one_is_held_whichever_directory_around_it_a_sandbox_may_write_to() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let inner = root.join("inner");
        std::fs::create_dir(&inner).unwrap();
        let path = inner.join(".vscode");
        let held = |writable: &Path| {
            let mut placeholders = Placeholders::new(&[writable.to_owned()]);
            placeholders.add(std::slice::from_ref(&path)).unwrap();
            placeholders
        };
        for [first, second] in [[&root, &inner], [&inner, &root]] {
            let (first, second) = (held(first), held(second));
            drop(first);
            assert!(path.exists());
            drop(second);
            assert!(!path.exists());
        }
    }

    #[test]
    fn none_is_made_where_a_link_leads_out() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        for name in ["work", "home"] {
            std::fs::create_dir(root.join(name)).unwrap();
        }
        std::os::unix::fs::symlink(root.join("home"), root.join("work/.git")).unwrap();
        let mut placeholders = Placeholders::new(&[root.join("work")]);
        let names = ["hooks", "commondir"].map(|name| root.join("work/.git").join(name));
        assert_eq!(
            placeholders.add(&names).unwrap(),
            [""; 0].map(PathBuf::from)
        );
        assert_eq!(std::fs::read_dir(root.join("home")).unwrap().count(), 0);
    }

    #[test]
    fn what_is_in_the_way_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let long = root.join("x".repeat(300));
        let mut placeholders = Placeholders::new(std::slice::from_ref(&root));
        let missing = placeholders.add(&[long]).unwrap_err();
        let expected = io::Error::from_raw_os_error(libc::ENAMETOOLONG).to_string();
        assert!(missing.reason.contains(&expected), "{missing}");
    }
}
