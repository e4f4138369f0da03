//! Files of this machine, for clients elsewhere.
//!
//! Owns: the doors by which clients reach files, and the parts of writes that
//! are not complete. Never: opens a file but through a door; puts a part of a
//! file in place.

mod bounds;
mod uploads;

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use halter_policy::{
    Access, FileDoor, FileRules, PlacedEntry, PlacedFiles as _, PlacedWalkPlan, PolicyError,
    Precondition, RenameOver, directory_mark,
};
use halter_protocol::encoding::{escape_path, unescape_path};

pub use self::bounds::bounds;
use self::uploads::Uploads;
use crate::limits::{FILE_CHUNK_BYTES, MAX_FILE_DOORS, MAX_FILE_NAMES, MAX_FILE_WALK_NAMES};
use crate::lock::lock;
use crate::protocol::{
    ErrorCode, FileAccess, FileData, FileEntry, FileListParams, FileListing, FileMkdirData,
    FileMkdirParams, FileReadParams, FileRemoveParams, FileRemoved, FileRenameParams,
    FileRulesParams, FileStatParams, FileWalkData, FileWalkParams, FileWriteParams, FileWritten,
    ListedFile, Nothing, WalkedFile, WireError,
};

/// All that clients have of files. Every method blocks.
#[derive(Debug, Default)]
pub struct Files {
    /// The doors that were used last, the newest at the end.
    doors: Mutex<VecDeque<(FileRulesParams, Arc<FileDoor>)>>,
    uploads: Mutex<Uploads>,
}

impl Files {
    /// The door for these rules, bound now if it is not known.
    fn door(&self, rules: &FileRulesParams) -> Result<Arc<FileDoor>, WireError> {
        let known = |(known, _): &(FileRulesParams, Arc<FileDoor>)| known == rules;
        let mut doors = lock(&self.doors);
        if let Some(index) = doors.iter().position(known)
            && let Some(found) = doors.remove(index)
        {
            let door = Arc::clone(&found.1);
            doors.push_back(found);
            return Ok(door);
        }
        drop(doors);
        let door = FileDoor::for_rules(&read_rules(rules)?).map_err(|error| refused(&error))?;
        let door = Arc::new(door);
        let mut doors = lock(&self.doors);
        if doors.len() >= MAX_FILE_DOORS {
            doors.pop_front();
        }
        doors.push_back((rules.clone(), Arc::clone(&door)));
        Ok(door)
    }

    /// `fs.stat`
    pub fn stat(&self, params: &FileStatParams) -> Result<FileEntry, WireError> {
        let (door, path) = (self.door(&params.rules)?, path(&params.path)?);
        let found = match params.access {
            FileAccess::Read => door.look(&path, Access::Read),
            FileAccess::Write => door.look(&path, Access::Write),
            FileAccess::Name => door.look_name(&path),
        };
        let found = found.map_err(|error| refused(&error))?;
        let mark = directory_mark(&found.path).filter(|_| found.is_directory());
        Ok(FileEntry {
            mark,
            ..entry(&found)
        })
    }

    /// `fs.read`
    pub fn read(&self, params: &FileReadParams) -> Result<FileData, WireError> {
        let (door, path) = (self.door(&params.rules)?, path(&params.path)?);
        let max = bounded(params.max, FILE_CHUNK_BYTES);
        let piece = door.read(&path, params.offset, max, params.version.as_deref());
        let piece = piece.map_err(|error| refused(&error))?;
        Ok(FileData {
            file: entry(&piece.file),
            data: STANDARD.encode(&piece.bytes),
        })
    }

    /// `fs.write`
    pub fn write(&self, params: FileWriteParams) -> Result<FileWritten, WireError> {
        let (door, path) = (self.door(&params.rules)?, path(&params.path)?);
        let part = STANDARD
            .decode(&params.data)
            .map_err(|_| WireError::invalid("params: `data` is not base64"))?;
        if part.len() > FILE_CHUNK_BYTES {
            return Err(WireError::invalid(format!(
                "params: `data` has more than {FILE_CHUNK_BYTES} bytes; send it in parts, with \
                 `upload`"
            )));
        }
        let bytes = match &params.upload {
            None if params.more || params.offset > 0 => {
                return Err(WireError::invalid(
                    "params: what comes in parts needs an `upload`",
                ));
            }
            None => part,
            Some(name) => {
                let mut uploads = lock(&self.uploads);
                let size = uploads.add(name, params.offset, &part, Instant::now())?;
                if params.more {
                    return Ok(FileWritten {
                        offset: size,
                        created: false,
                    });
                }
                uploads.take(name)
            }
        };
        let precondition = match (params.unchanged, params.new) {
            (Some(_), true) => {
                return Err(WireError::invalid(
                    "params: a file is either `new` or `unchanged`",
                ));
            }
            (Some(hash), false) => Precondition::Unchanged(hash),
            (None, true) => Precondition::MustNotExist,
            (None, false) => Precondition::None,
        };
        let written = door.write(&path, &bytes, &precondition);
        let written = written.map_err(|error| refused(&error))?;
        Ok(FileWritten {
            offset: bytes.len() as u64,
            created: written.created,
        })
    }

    /// `fs.list`
    pub fn list(&self, params: &FileListParams) -> Result<FileListing, WireError> {
        let (door, directory) = (self.door(&params.rules)?, path(&params.path)?);
        let after = params.after.as_deref().map(path).transpose()?;
        let after = after.as_deref().map_or(OsStr::new(""), Path::as_os_str);
        let listing = FileDoor::list(&door, &directory, usize::MAX);
        let listing = listing.map_err(|error| refused(&error))?;
        let max = bounded(params.max, MAX_FILE_NAMES);
        let mut rest = listing.entries.into_iter();
        let mut rest = rest.by_ref().skip_while(|it| it.name.as_os_str() <= after);
        let entries = rest.by_ref().take(max).map(|it| ListedFile {
            name: escape_path(Path::new(&it.name)),
            kind: it.kind.to_owned(),
        });
        Ok(FileListing {
            entries: entries.collect(),
            more: rest.next().is_some(),
        })
    }

    /// `fs.walk`
    pub fn walk(&self, params: &FileWalkParams) -> Result<FileWalkData, WireError> {
        let (door, path) = (self.door(&params.rules)?, path(&params.path)?);
        let root = door.open_dir(&path).map_err(|error| refused(&error))?;
        let root = root.path();
        let plan = PlacedWalkPlan {
            hidden: params.hidden.clone(),
            max_depth: params
                .max_depth
                .map(|depth| bounded(Some(depth), usize::MAX)),
            max: bounded(params.max, MAX_FILE_WALK_NAMES),
        };
        let walk = door.walk(root, &plan).map_err(|error| refused(&error))?;
        let entries = walk.entries.iter().map(|entry| {
            let since = |at: SystemTime| at.duration_since(SystemTime::UNIX_EPOCH).ok();
            let modified = entry.modified.and_then(since);
            WalkedFile {
                path: escape_path(entry.path.strip_prefix(root).unwrap_or(&entry.path)),
                kind: entry.kind.name().to_owned(),
                modified_ns: modified.and_then(|it| u64::try_from(it.as_nanos()).ok()),
            }
        });
        Ok(FileWalkData {
            path: escape_path(root),
            entries: entries.collect(),
            closed: walk.closed as u64,
            unreadable: walk.unreadable as u64,
            more: walk.is_cut,
        })
    }

    /// `fs.remove`
    pub fn remove(&self, params: &FileRemoveParams) -> Result<FileRemoved, WireError> {
        let (door, path) = (self.door(&params.rules)?, path(&params.path)?);
        let names = params.names.map(|max| bounded(Some(max), usize::MAX));
        if params.only_count {
            let counted = door.check_tree(&path, names.unwrap_or(0));
            let counted = counted.map_err(|error| refused(&error))?;
            return Ok(FileRemoved {
                names: counted as u64,
            });
        }
        door.remove(&named(path, &params.identity), names)
            .map_err(|error| refused(&error))?;
        Ok(FileRemoved { names: 0 })
    }

    /// `fs.rename`
    pub fn rename(&self, params: &FileRenameParams) -> Result<Nothing, WireError> {
        let (door, from) = (self.door(&params.rules)?, path(&params.path)?);
        let over = match params.over {
            true => RenameOver::File,
            false => RenameOver::Nothing,
        };
        door.rename(&named(from, &params.identity), &path(&params.to)?, over)
            .map_err(|error| refused(&error))?;
        Ok(Nothing {})
    }

    /// `fs.mkdir`
    pub fn mkdir(&self, params: &FileMkdirParams) -> Result<FileMkdirData, WireError> {
        let (door, path) = (self.door(&params.rules)?, path(&params.path)?);
        let created = FileDoor::create_dir(&door, &path).map_err(|error| refused(&error))?;
        Ok(FileMkdirData { created })
    }
}

fn bounded(asked: Option<u64>, most: usize) -> usize {
    asked.map_or(most, |asked| {
        usize::try_from(asked).unwrap_or(most).min(most)
    })
}

fn named(path: PathBuf, identity: &str) -> PlacedEntry {
    PlacedEntry {
        path,
        identity: identity.to_owned(),
        ..PlacedEntry::default()
    }
}

fn entry(found: &PlacedEntry) -> FileEntry {
    FileEntry {
        path: escape_path(&found.path),
        kind: found.kind.map(|kind| kind.name().to_owned()),
        missing: found.missing as u64,
        size: found.len,
        owner: found.owner,
        identity: found.identity.clone(),
        version: found.version.clone(),
        mark: None,
    }
}

fn path(text: &str) -> Result<PathBuf, WireError> {
    unescape_path(text).map_err(|error| WireError::invalid(format!("params: a path: {error}")))
}

fn absolute(text: &str) -> Result<PathBuf, WireError> {
    let path = path(text)?;
    match path.is_absolute() {
        true => Ok(path),
        false => Err(WireError::invalid(
            "params: the paths of `rules` must be absolute",
        )),
    }
}

fn read_rules(rules: &FileRulesParams) -> Result<FileRules, WireError> {
    let all = |paths: &[String]| -> Result<Vec<PathBuf>, WireError> {
        paths.iter().map(|path| absolute(path)).collect()
    };
    Ok(FileRules {
        working_dir: absolute(&rules.directory)?,
        write_roots: all(&rules.write)?,
        read_roots: all(&rules.read)?,
        sensitive: rules.sensitive.clone(),
        closed: all(&rules.closed)?,
        home: rules.home.as_deref().map(absolute).transpose()?,
    })
}

/// What the door said. Its code is the reason.
fn refused(error: &PolicyError) -> WireError {
    WireError::new(ErrorCode::FileFailed, error.to_string()).with_reason(error.code())
}

#[cfg(test)]
mod tests;
