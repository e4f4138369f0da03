//! The files of a runtime's machine, for doors of this one.
//!
//! Owns: [`RuntimeFiles`]. Never: repeats a change whose outcome is not known;
//! touches a file of this machine.

mod calls;
mod place;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use halter_policy::{
    Access, DirectoryEntry, FileKind, FilePiece, FilePlace, FileRules, Listing, PlacedEntry,
    PlacedFiles, PlacedWalk, PlacedWalkPlan, PolicyError, Precondition, RenameOver, WalkedEntry,
    Written,
};
use halter_protocol::ContentHash;
use halter_protocol::encoding::{escape_path, unescape_path};

use self::calls::{CallFailure, FileCalls, unreachable};
use super::started::CALL_TIME;
use crate::client::{Client, ClientError, Target};
use crate::limits::{FILE_CHUNK_BYTES, MAX_FILE_WRITE_BYTES};
use crate::protocol::{
    ErrorCode, FileAccess, FileEntry, FileListParams, FileMkdirParams, FileReadParams,
    FileRemoveParams, FileRenameParams, FileRulesParams, FileStatParams, FileWalkParams,
    FileWriteParams, FileWritten, WireError,
};

/// The files of a runtime's machine.
#[derive(Debug)]
pub struct RuntimeFiles {
    calls: Arc<FileCalls>,
}

impl RuntimeFiles {
    /// Files of the runtime there. Nothing is sent yet.
    ///
    /// # Errors
    /// If the system gives no thread for it.
    pub fn new(target: Target) -> std::io::Result<Self> {
        Self::with_call_time(target, CALL_TIME)
    }

    /// The same, of a runtime that is given up if a call takes longer than this.
    ///
    /// # Errors
    /// If the system gives no thread for it.
    pub fn with_call_time(target: Target, call_time: Duration) -> std::io::Result<Self> {
        Ok(Self {
            calls: Arc::new(FileCalls::new(target, call_time)?),
        })
    }
}

impl FilePlace for RuntimeFiles {
    fn open(&self, rules: FileRules) -> Result<Arc<dyn PlacedFiles>, PolicyError> {
        let opened = OpenedFiles {
            calls: Arc::clone(&self.calls),
            rules: rules_params(&rules),
        };
        Ok(Arc::new(opened))
    }
}

/// Rules as the wire has them, under a name of their own.
pub(super) fn rules_params(rules: &FileRules) -> FileRulesParams {
    let texts = |paths: &[PathBuf]| paths.iter().map(|path| escape_path(path)).collect();
    FileRulesParams {
        name: uuid::Uuid::new_v4().to_string(),
        directory: escape_path(&rules.working_dir),
        write: texts(&rules.write_roots),
        read: texts(&rules.read_roots),
        sensitive: rules.sensitive.clone(),
        closed: texts(&rules.closed),
        home: rules.home.as_deref().map(escape_path),
    }
}

/// The files under one set of rules.
#[derive(Debug)]
struct OpenedFiles {
    calls: Arc<FileCalls>,
    rules: FileRulesParams,
}

/// What a change does, for messages.
#[derive(Debug, Clone, Copy)]
enum FileChange {
    Write,
    Remove,
    Rename,
    MakeDirectory,
}

impl FileChange {
    const fn verb(self) -> &'static str {
        match self {
            Self::Write => "written",
            Self::Remove => "deleted",
            Self::Rename => "renamed",
            Self::MakeDirectory => "made",
        }
    }
}

impl OpenedFiles {
    fn stat(&self, path: &Path, access: FileAccess) -> Result<PlacedEntry, PolicyError> {
        let params = FileStatParams {
            rules: self.rules.clone(),
            path: escape_path(path),
            access,
        };
        let found = self.looked(path, move |client| {
            let params = params.clone();
            async move { client.file_stat(&params).await }
        })?;
        entry(&found)
    }

    /// Makes a call that changes nothing.
    fn looked<T, Call>(&self, path: &Path, call: impl Fn(Client) -> Call) -> Result<T, PolicyError>
    where
        T: Send + 'static,
        Call: Future<Output = Result<T, ClientError>> + Send + 'static,
    {
        // What the runtime says about a file is told apart from what keeps it
        // from saying anything.
        let answer = self.calls.repeated(move |client| {
            let call = call(client);
            async move {
                match call.await {
                    Ok(data) => Ok(Ok(data)),
                    Err(ClientError::Refused(error)) if error.code == ErrorCode::FileFailed => {
                        Ok(Err(error))
                    }
                    Err(error) => Err(error),
                }
            }
        })?;
        answer.map_err(|error| read_refusal(&error, path))
    }

    /// Makes a call that changes something, once.
    fn changed<T, Call>(
        &self,
        path: &Path,
        change: FileChange,
        call: impl Fn(Client) -> Call,
    ) -> Result<T, PolicyError>
    where
        T: Send + 'static,
        Call: Future<Output = Result<T, ClientError>> + Send + 'static,
    {
        self.calls.once(call).map_err(|failure| match failure {
            CallFailure::Refused(ClientError::Refused(error))
                if error.code == ErrorCode::FileFailed =>
            {
                read_refusal(&error, path)
            }
            CallFailure::Refused(error) => self.calls.failed(&error),
            CallFailure::Lost(reason) | CallFailure::Late(reason) => {
                outcome_unknown(path, change, &reason)
            }
        })
    }

    /// Sends one part of a write.
    fn send(&self, path: &Path, params: FileWriteParams) -> Result<FileWritten, PolicyError> {
        self.changed(path, FileChange::Write, move |client| {
            let params = params.clone();
            async move { client.file_write(&params).await }
        })
    }

    /// Sends all parts but the last; gives the name of the write and what is
    /// left of it.
    fn send_parts<'a>(
        &self,
        path: &Path,
        bytes: &'a [u8],
        params: &FileWriteParams,
    ) -> Result<(FileWriteParams, &'a [u8]), PolicyError> {
        let mut params = params.clone();
        params.upload = Some(uuid::Uuid::new_v4().to_string());
        let mut rest = bytes;
        while rest.len() > FILE_CHUNK_BYTES {
            let (part, behind) = rest.split_at(FILE_CHUNK_BYTES);
            let sent = FileWriteParams {
                data: STANDARD.encode(part),
                more: true,
                ..params.clone()
            };
            self.looked(path, move |client| {
                let sent = sent.clone();
                async move { client.file_write(&sent).await }
            })?;
            params.offset += part.len() as u64;
            rest = behind;
        }
        Ok((params, rest))
    }

    /// Whether a file that was being written when the connection was lost has
    /// its new content.
    fn is_written(&self, path: &Path, bytes: &[u8]) -> bool {
        let Ok(found) = self.stat(path, FileAccess::Write) else {
            return false;
        };
        if found.len != bytes.len() as u64 {
            return false;
        }
        let mut hash = ContentHash::default();
        let mut offset = 0;
        while offset < found.len {
            let piece = self.read(path, offset, FILE_CHUNK_BYTES, Some(&found.version));
            let Ok(piece) = piece else { return false };
            if piece.bytes.is_empty() {
                return false;
            }
            hash.update(&piece.bytes);
            offset += piece.bytes.len() as u64;
        }
        hash.hex() == ContentHash::hex_of(bytes)
    }
}

impl PlacedFiles for OpenedFiles {
    fn look(&self, path: &Path, access: Access) -> Result<PlacedEntry, PolicyError> {
        let access = match access {
            Access::Read => FileAccess::Read,
            _ => FileAccess::Write,
        };
        self.stat(path, access)
    }

    fn look_name(&self, path: &Path) -> Result<PlacedEntry, PolicyError> {
        self.stat(path, FileAccess::Name)
    }

    fn read(
        &self,
        path: &Path,
        offset: u64,
        max: usize,
        version: Option<&str>,
    ) -> Result<FilePiece, PolicyError> {
        let params = FileReadParams {
            rules: self.rules.clone(),
            path: escape_path(path),
            offset,
            max: Some(max as u64),
            version: version.map(str::to_owned),
        };
        let data = self.looked(path, move |client| {
            let params = params.clone();
            async move { client.file_read(&params).await }
        })?;
        let bytes = STANDARD.decode(&data.data);
        Ok(FilePiece {
            file: entry(&data.file)?,
            bytes: bytes.map_err(|_| unreadable("its content is not base64"))?,
        })
    }

    fn write(
        &self,
        path: &Path,
        bytes: &[u8],
        precondition: &Precondition,
    ) -> Result<Written, PolicyError> {
        if bytes.len() > MAX_FILE_WRITE_BYTES {
            return Err(PolicyError::Elsewhere {
                code: "write_too_large",
                denies: false,
                message: format!(
                    "'{}' would have more than {MAX_FILE_WRITE_BYTES} bytes; make it with a command",
                    path.display()
                ),
            });
        }
        let mut params = FileWriteParams {
            rules: self.rules.clone(),
            path: escape_path(path),
            data: String::new(),
            upload: None,
            offset: 0,
            more: false,
            unchanged: None,
            new: *precondition == Precondition::MustNotExist,
        };
        if let Precondition::Unchanged(hash) = precondition {
            params.unchanged = Some(hash.clone());
        }
        let mut last = bytes;
        if bytes.len() > FILE_CHUNK_BYTES {
            (params, last) = self.send_parts(path, bytes, &params)?;
        }
        params.data = STANDARD.encode(last);
        // Asked before: afterwards nobody could say it any more.
        let is_new = match precondition {
            Precondition::MustNotExist => true,
            Precondition::Unchanged(_) => false,
            _ => self
                .stat(path, FileAccess::Write)
                .is_ok_and(|found| found.kind.is_none()),
        };
        match self.send(path, params) {
            Ok(written) => Ok(Written::new(written.created)),
            Err(PolicyError::Elsewhere {
                code: OUTCOME_UNKNOWN,
                ..
            }) if self.is_written(path, bytes) => Ok(Written::new(is_new)),
            Err(error) => Err(error),
        }
    }

    fn list(&self, path: &Path, max: usize) -> Result<Listing, PolicyError> {
        let mut listing = Listing {
            entries: Vec::new(),
            truncated: true,
        };
        let mut after = None;
        while listing.entries.len() <= max {
            let params = FileListParams {
                rules: self.rules.clone(),
                path: escape_path(path),
                after: after.take(),
                max: Some((max - listing.entries.len()).saturating_add(1) as u64),
            };
            let page = self.looked(path, move |client| {
                let params = params.clone();
                async move { client.file_list(&params).await }
            })?;
            after = page.entries.last().map(|last| last.name.clone());
            for listed in page.entries {
                listing.entries.push(DirectoryEntry {
                    name: read_path(&listed.name)?.into_os_string(),
                    kind: FileKind::named(&listed.kind).name(),
                });
            }
            if !page.more || after.is_none() {
                listing.truncated = listing.entries.len() > max;
                break;
            }
        }
        listing.entries.truncate(max);
        Ok(listing)
    }

    fn walk(&self, path: &Path, plan: &PlacedWalkPlan) -> Result<PlacedWalk, PolicyError> {
        let params = FileWalkParams {
            rules: self.rules.clone(),
            path: escape_path(path),
            hidden: plan.hidden.clone(),
            max_depth: plan.max_depth.map(|depth| depth as u64),
            max: Some(plan.max as u64),
        };
        let walk = self.looked(path, move |client| {
            let params = params.clone();
            async move { client.file_walk(&params).await }
        })?;
        let root = read_path(&walk.path)?;
        let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let mut entries = Vec::with_capacity(walk.entries.len());
        for found in walk.entries {
            let after = found.modified_ns.map(Duration::from_nanos);
            entries.push(WalkedEntry {
                path: root.join(read_path(&found.path)?),
                kind: FileKind::named(&found.kind),
                modified: after.and_then(|after| SystemTime::UNIX_EPOCH.checked_add(after)),
            });
        }
        Ok(PlacedWalk {
            entries,
            closed: count(walk.closed),
            unreadable: count(walk.unreadable),
            is_cut: walk.more,
        })
    }

    fn check_tree(&self, path: &Path, max: usize) -> Result<usize, PolicyError> {
        let params = FileRemoveParams {
            rules: self.rules.clone(),
            path: escape_path(path),
            identity: String::new(),
            names: Some(max as u64),
            only_count: true,
        };
        let counted = self.looked(path, move |client| {
            let params = params.clone();
            async move { client.file_remove(&params).await }
        })?;
        Ok(usize::try_from(counted.names).unwrap_or(usize::MAX))
    }

    fn remove(&self, found: &PlacedEntry, tree: Option<usize>) -> Result<(), PolicyError> {
        let params = FileRemoveParams {
            rules: self.rules.clone(),
            path: escape_path(&found.path),
            identity: found.identity.clone(),
            names: tree.map(|names| names as u64),
            only_count: false,
        };
        let removed = self.changed(&found.path, FileChange::Remove, move |client| {
            let params = params.clone();
            async move { client.file_remove(&params).await }
        });
        removed.map(drop)
    }

    fn rename(&self, found: &PlacedEntry, to: &Path, over: RenameOver) -> Result<(), PolicyError> {
        let params = FileRenameParams {
            rules: self.rules.clone(),
            path: escape_path(&found.path),
            identity: found.identity.clone(),
            to: escape_path(to),
            over: over == RenameOver::File,
        };
        let renamed = self.changed(&found.path, FileChange::Rename, move |client| {
            let params = params.clone();
            async move { client.file_rename(&params).await }
        });
        // What is in the way is at the new name.
        renamed.map(drop).map_err(|error| match error {
            PolicyError::AlreadyExists { .. } => PolicyError::AlreadyExists {
                path: to.to_path_buf(),
            },
            other => other,
        })
    }

    fn create_dir(&self, path: &Path) -> Result<bool, PolicyError> {
        let params = FileMkdirParams {
            rules: self.rules.clone(),
            path: escape_path(path),
        };
        let made = self.changed(path, FileChange::MakeDirectory, move |client| {
            let params = params.clone();
            async move { client.file_mkdir(&params).await }
        })?;
        Ok(made.created)
    }
}

/// The code of a change that may or may not have happened.
const OUTCOME_UNKNOWN: &str = "outcome_unknown";

fn outcome_unknown(path: &Path, change: FileChange, reason: &str) -> PolicyError {
    let (path, verb) = (path.display(), change.verb());
    PolicyError::Elsewhere {
        code: OUTCOME_UNKNOWN,
        denies: false,
        message: format!(
            "whether '{path}' was {verb} is unknown ({reason}): it was {verb} as a whole or not \
             at all; look at it before you do it again"
        ),
    }
}

fn unreadable(problem: &str) -> PolicyError {
    unreachable(format!(
        "what the runtime says about a file cannot be understood: {problem}; are both of the same \
         version?"
    ))
}

fn read_path(text: &str) -> Result<PathBuf, PolicyError> {
    unescape_path(text).map_err(|error| unreadable(&error.to_string()))
}

fn entry(found: &FileEntry) -> Result<PlacedEntry, PolicyError> {
    Ok(PlacedEntry {
        path: read_path(&found.path)?,
        kind: found.kind.as_deref().map(FileKind::named),
        missing: usize::try_from(found.missing).unwrap_or_default(),
        len: found.size,
        owner: found.owner,
        identity: found.identity.clone(),
        version: found.version.clone(),
    })
}

/// What the runtime said about a file, as a door here would say it.
fn read_refusal(error: &WireError, path: &Path) -> PolicyError {
    let path = path.to_path_buf();
    let (code, denies) = match error.reason.as_deref().unwrap_or_default() {
        "not_found" => return PolicyError::NotFound { path },
        "not_a_file" => return PolicyError::NotAFile { path },
        "not_a_directory" => return PolicyError::NotADirectory { path },
        "changed" => return PolicyError::Changed { path },
        "already_exists" => return PolicyError::AlreadyExists { path },
        "tree_too_large" => return PolicyError::TreeTooLarge { path },
        "not_in_root" => ("not_in_root", true),
        "sensitive_path" => ("sensitive_path", true),
        "protected_path" => ("protected_path", true),
        "symlink_escape" => ("symlink_escape", true),
        "special_file" => ("special_file", true),
        "nonexistent_root" => ("nonexistent_root", false),
        "upload_lost" => ("upload_lost", false),
        "io" => ("io", false),
        _ => ("files_refused", false),
    };
    PolicyError::Elsewhere {
        code,
        denies,
        message: error.message.clone(),
    }
}
