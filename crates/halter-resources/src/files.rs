//! Reading files and directories that others wrote.

use rustix::fs::{Mode, OFlags};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Why a file gave no text.
#[derive(Debug)]
pub(crate) enum Unread {
    /// A link that leads out of the root, or nowhere.
    LeadsAway,
    NotAFile,
    TooLarge,
    NotUtf8 {
        line: u64,
    },
    Io(io::Error),
}

impl Unread {
    /// What happened and what to do, for a file of at most `max` bytes.
    pub fn reason(&self, max: u64) -> String {
        match self {
            Self::LeadsAway => "it is a link that leads out of the root or nowhere; \
                                put the file itself there"
                .to_owned(),
            Self::NotAFile => "it is not a regular file".to_owned(),
            Self::TooLarge => format!(
                "it has more than {max} bytes; move what is not needed at once into other files"
            ),
            Self::NotUtf8 { .. } => "it is not UTF-8; save it in that encoding".to_owned(),
            Self::Io(error) => format!("it cannot be read: {error}"),
        }
    }

    pub fn line(&self) -> Option<u64> {
        match self {
            Self::NotUtf8 { line } => Some(*line),
            _ => None,
        }
    }
}

/// The text of a regular file under `root`, which is a canonical path. A link
/// is followed only if it stays under the root.
pub(crate) fn read_text(root: &Path, path: &Path, max: u64) -> Result<String, Unread> {
    whole_text(open_under(root, path)?, max)
}

/// The text of an open file of at most `max` bytes.
pub(crate) fn whole_text(file: impl Read, max: u64) -> Result<String, Unread> {
    match read_start(file, max)? {
        (_, true) => Err(Unread::TooLarge),
        (bytes, false) => utf8(bytes),
    }
}

/// Opens a regular file under `root`, which is a canonical path. A link is
/// followed only if it stays under the root.
pub(crate) fn open_under(root: &Path, path: &Path) -> Result<File, Unread> {
    let resolved = fs::canonicalize(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Unread::LeadsAway,
        _ => Unread::Io(error),
    })?;
    if !resolved.starts_with(root) {
        return Err(Unread::LeadsAway);
    }
    // Non-blocking, so that a pipe in the file's place cannot hold us up.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::open(&resolved, flags, Mode::empty())
        .map_err(|error| Unread::Io(error.into()))?;
    let file = File::from(file);
    if !file.metadata().map_err(Unread::Io)?.is_file() {
        return Err(Unread::NotAFile);
    }
    Ok(file)
}

/// The first `max` bytes of a file, and whether there are more.
pub(crate) fn read_start(file: impl Read, max: u64) -> Result<(Vec<u8>, bool), Unread> {
    let mut bytes = Vec::new();
    file.take(max.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(Unread::Io)?;
    let more = bytes.len() as u64 > max;
    if more {
        bytes.pop();
    }
    Ok((bytes, more))
}

/// Bytes as text.
pub(crate) fn utf8(bytes: Vec<u8>) -> Result<String, Unread> {
    String::from_utf8(bytes).map_err(|error| {
        let valid = error
            .as_bytes()
            .iter()
            .take(error.utf8_error().valid_up_to());
        let newlines = valid.filter(|byte| **byte == b'\n').count() as u64;
        Unread::NotUtf8 { line: newlines + 1 }
    })
}

/// The entries of a directory, sorted by name, so that what is found does not
/// depend on the file system's order. At most `max`, and whether there are
/// more.
pub(crate) fn sorted_entries(dir: &Path, max: usize) -> io::Result<(Vec<fs::DirEntry>, bool)> {
    let mut entries = Vec::new();
    let mut more = false;
    for entry in fs::read_dir(dir)? {
        if entries.len() == max {
            more = true;
            break;
        }
        entries.push(entry?);
    }
    entries.sort_by_key(fs::DirEntry::file_name);
    Ok((entries, more))
}

/// True if something has that name, even a link that leads nowhere.
pub(crate) fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// The root as a canonical directory, or what is wrong with it.
pub(crate) fn canonical_root(root: &Path) -> Result<PathBuf, String> {
    let canonical = fs::canonicalize(root).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => "it does not exist; create it or remove it from the \
                                    configuration"
            .to_owned(),
        _ => format!("it cannot be read: {error}"),
    })?;
    if !canonical.is_dir() {
        return Err("it is not a directory".to_owned());
    }
    if !is_showable(&canonical) {
        return Err("its path is not printable UTF-8; move it".to_owned());
    }
    Ok(canonical)
}

/// True if a model can be shown the path and spell it.
pub(crate) fn is_showable(path: &Path) -> bool {
    path.to_str()
        .is_some_and(|text| !text.chars().any(char::is_control))
}
