//! The system calls of the door, each on a directory handle and one name.

use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::error::{Access, PolicyError};
use crate::limits::MAX_LOOK_ATTEMPTS;

/// What a name in a directory stands for, without following it.
#[derive(Debug)]
pub(super) enum NameKind {
    Missing,
    Directory(OwnedFd),
    Link(PathBuf),
    Other(FileType),
}

/// Flags that open a directory only to resolve names in it.
fn resolving() -> OFlags {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    #[cfg(target_os = "linux")]
    let flags = flags | OFlags::PATH;
    flags
}

/// Opens a directory by its absolute path, following links: for roots, which
/// the user has named.
pub(super) fn open_root(path: &Path) -> rustix::io::Result<OwnedFd> {
    fs::open(path, resolving() - OFlags::NOFOLLOW, Mode::empty())
}

/// Looks at one name. Whatever another process does meanwhile, the answer is
/// consistent in itself: a directory comes with its handle, a link with the
/// target that was read from it.
pub(super) fn look(directory: BorrowedFd<'_>, name: &OsStr) -> rustix::io::Result<NameKind> {
    until_settled(|| look_once(directory, name))
}

fn until_settled(
    mut look: impl FnMut() -> rustix::io::Result<Option<NameKind>>,
) -> rustix::io::Result<NameKind> {
    for _ in 0..MAX_LOOK_ATTEMPTS {
        if let Some(entry) = look()? {
            return Ok(entry);
        }
    }
    Err(Errno::AGAIN)
}

/// `None`: the name became something else between two looks.
fn look_once(directory: BorrowedFd<'_>, name: &OsStr) -> rustix::io::Result<Option<NameKind>> {
    let kind = match stat(directory, name) {
        Ok(stat) => FileType::from_raw_mode(stat.st_mode),
        Err(Errno::NOENT) => return Ok(Some(NameKind::Missing)),
        Err(error) => return Err(error),
    };
    match kind {
        FileType::Directory => match open_child_dir(directory, name) {
            Ok(handle) => Ok(Some(NameKind::Directory(handle))),
            Err(Errno::NOTDIR | Errno::LOOP | Errno::NOENT) => Ok(None),
            Err(error) => Err(error),
        },
        FileType::Symlink => match fs::readlinkat(directory, name, Vec::new()) {
            Ok(target) => {
                let target = OsString::from_vec(target.into_bytes());
                Ok(Some(NameKind::Link(PathBuf::from(target))))
            }
            Err(Errno::INVAL | Errno::NOENT) => Ok(None),
            Err(error) => Err(error),
        },
        FileType::RegularFile
        | FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => Ok(Some(NameKind::Other(kind))),
    }
}

/// Metadata of a name itself, not of what it links to.
pub(super) fn stat(directory: BorrowedFd<'_>, name: &OsStr) -> rustix::io::Result<Stat> {
    fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
}

/// Opens a directory in a directory; a link is refused.
pub(super) fn open_child_dir(
    directory: BorrowedFd<'_>,
    name: &OsStr,
) -> rustix::io::Result<OwnedFd> {
    fs::openat(directory, name, resolving(), Mode::empty())
}

/// Opens a directory several levels down in one call, if no component is a
/// link. `None`: it must be walked, either because a link is on the way or
/// because this system cannot do it in one call.
pub(super) fn open_descendant(directory: BorrowedFd<'_>, below: &Path) -> Option<OwnedFd> {
    open_beneath(directory, below, resolving())
}

/// As [`open_descendant`], for a file, opened as by [`open_file`].
pub(super) fn open_descendant_file(directory: BorrowedFd<'_>, below: &Path) -> Option<OwnedFd> {
    open_beneath(directory, below, reading())
}

#[cfg(target_os = "linux")]
fn open_beneath(directory: BorrowedFd<'_>, below: &Path, flags: OFlags) -> Option<OwnedFd> {
    use rustix::fs::ResolveFlags;
    fs::openat2(
        directory,
        below,
        flags,
        Mode::empty(),
        ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS,
    )
    .ok()
}

#[cfg(not(target_os = "linux"))]
fn open_beneath(_: BorrowedFd<'_>, _: &Path, _: OFlags) -> Option<OwnedFd> {
    None
}

/// Opens a directory for listing, from a handle that only resolves names.
pub(super) fn reopen_dir(directory: BorrowedFd<'_>) -> rustix::io::Result<OwnedFd> {
    fs::openat(
        directory,
        ".",
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
}

/// Flags that open a file for reading, never waiting for a FIFO's writer and
/// never through a link.
fn reading() -> OFlags {
    OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC
}

/// Opens a file for reading.
pub(super) fn open_file(directory: BorrowedFd<'_>, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    fs::openat(directory, name, reading(), Mode::empty())
}

/// What a file is.
pub(super) fn kind_of(metadata: &Metadata) -> FileType {
    let kind = metadata.file_type();
    match () {
        () if kind.is_file() => FileType::RegularFile,
        () if kind.is_dir() => FileType::Directory,
        () if kind.is_symlink() => FileType::Symlink,
        () if kind.is_fifo() => FileType::Fifo,
        () if kind.is_socket() => FileType::Socket,
        () if kind.is_char_device() => FileType::CharacterDevice,
        () if kind.is_block_device() => FileType::BlockDevice,
        () => FileType::Unknown,
    }
}

/// What to call a file that is neither a regular file nor a directory.
pub(super) fn special_name(kind: FileType) -> Option<&'static str> {
    match kind {
        FileType::RegularFile | FileType::Directory => None,
        FileType::Fifo => Some("a FIFO"),
        FileType::Socket => Some("a socket"),
        FileType::CharacterDevice | FileType::BlockDevice => Some("a device"),
        FileType::Symlink => Some("a symbolic link put there meanwhile"),
        FileType::Unknown => Some("of an unknown kind"),
    }
}

/// Refuses a path into `/proc`: its files speak for processes, not for data.
pub(super) fn refuse_proc_path(path: &Path, access: Access) -> Result<(), PolicyError> {
    if path.starts_with("/proc") {
        return Err(in_proc(path, access));
    }
    Ok(())
}

/// Refuses what lies in `/proc`, also where that is mounted by another name.
pub(super) fn refuse_proc_handle(
    directory: BorrowedFd<'_>,
    path: &Path,
    access: Access,
) -> Result<(), PolicyError> {
    refuse_proc_path(path, access)?;
    if on_procfs(directory, path)? {
        return Err(in_proc(path, access));
    }
    Ok(())
}

fn in_proc(path: &Path, access: Access) -> PolicyError {
    PolicyError::SpecialFile {
        path: path.to_path_buf(),
        kind: "in /proc",
        access,
    }
}

#[cfg(target_os = "linux")]
fn on_procfs(directory: BorrowedFd<'_>, path: &Path) -> Result<bool, PolicyError> {
    let found = fs::fstatfs(directory)
        .map_err(|error| PolicyError::io("identify the filesystem of", path, error))?;
    Ok(found.f_type == fs::PROC_SUPER_MAGIC)
}

#[cfg(not(target_os = "linux"))]
fn on_procfs(_: BorrowedFd<'_>, _: &Path) -> Result<bool, PolicyError> {
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_never_settles_is_looked_at_so_often_and_no_more() {
        for (settles_at, settled) in [(MAX_LOOK_ATTEMPTS, true), (MAX_LOOK_ATTEMPTS + 1, false)] {
            let mut looks = 0;
            let found = until_settled(|| {
                looks += 1;
                Ok((looks == settles_at).then_some(NameKind::Missing))
            });
            assert_eq!(looks, MAX_LOOK_ATTEMPTS);
            match found {
                Ok(entry) => assert!(settled, "{entry:?}"),
                Err(error) => assert_eq!((error, settled), (Errno::AGAIN, false)),
            }
        }
    }
}
