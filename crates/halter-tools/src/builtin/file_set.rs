//! Changing several files at once: all of them or none.

mod commit;

use super::change::{lock_path, resolve_file, unified_diff};
use super::file_views::{file_seen, last_seen};
use super::support::{blocking, shown, spelled};
use crate::context::ToolContext;
use crate::limits::{CHANGED_FILES, CHANGED_TOTAL_BYTES, EDIT_FILE_BYTES, WRITE_BYTES};
use anyhow::{anyhow, bail};
use commit::{FilePlace, Step};
use halter_policy::{PolicyError, WriteTicket};
use halter_protocol::ContentHash;
use indexmap::IndexMap;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Files as a call found them, and as it wants to leave them. Nothing changes
/// before [`commit`](Self::commit).
pub(super) struct FileSet {
    context: ToolContext,
    /// By resolved path, in the order in which they were named.
    files: IndexMap<PathBuf, PlannedFile>,
    held_bytes: usize,
}

struct PlannedFile {
    /// The path as the model spelled it.
    target: PathBuf,
    /// The path as results show it.
    path: String,
    before: Option<FileBefore>,
    now: FileNow,
    /// The file that shall get this name, by its resolved path.
    moved_from: Option<PathBuf>,
}

struct FileBefore {
    sha256: String,
    /// None if it is no text, or too long to be changed.
    text: Option<String>,
    bytes: u64,
}

enum FileNow {
    AsBefore,
    Absent,
    Text(String),
}

/// What became of one file.
#[derive(Debug, Serialize)]
pub(super) struct ChangedFile {
    pub(super) path: String,
    /// `added`, `changed`, `deleted` or `moved`.
    pub(super) change: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    moved_from: Option<String>,
    /// Of the new content.
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
}

/// A file of a set, by its resolved path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileKey(PathBuf);

/// Waits for the files that the paths lead to, plans what becomes of them and
/// changes them, on a thread for blocking work.
pub(super) async fn change_files<T: Send + 'static>(
    context: ToolContext,
    paths: Vec<String>,
    plan: impl FnOnce(&mut FileSet) -> anyhow::Result<T> + Send + 'static,
) -> anyhow::Result<(T, Vec<ChangedFile>)> {
    let mut resolved = BTreeSet::new();
    for path in &paths {
        resolved.insert(resolve_file(&context, spelled(path)).await?);
    }
    // In one order for all, so that two calls never wait for each other.
    let mut guards = Vec::new();
    for path in resolved {
        guards.push(lock_path(&context, path).await?);
    }
    blocking(move || {
        let _guards = guards;
        let mut files = FileSet::new(context);
        let planned = plan(&mut files)?;
        let changed = files.commit()?;
        Ok((planned, changed))
    })
    .await
}

/// What a plan would change, as unified diffs one after the other.
pub(super) async fn diff_files(
    context: ToolContext,
    plan: impl FnOnce(&mut FileSet) -> anyhow::Result<()> + Send + 'static,
) -> Option<String> {
    let diff = blocking(move || {
        let mut files = FileSet::new(context);
        plan(&mut files)?;
        Ok(files.diff())
    });
    diff.await.ok().filter(|diff| !diff.is_empty())
}

impl FileSet {
    fn new(context: ToolContext) -> Self {
        Self {
            context,
            files: IndexMap::new(),
            held_bytes: 0,
        }
    }

    /// Looks at a file, which need not exist, once.
    pub(super) fn open(&mut self, path: &str) -> anyhow::Result<FileKey> {
        let target = spelled(path);
        let door = self.context.policy.door();
        let ticket = door.prepare_write(&target)?;
        let key = ticket.resolved().to_owned();
        if self.files.contains_key(&key) {
            return Ok(FileKey(key));
        }
        if self.files.len() == CHANGED_FILES {
            bail!("one call changes {CHANGED_FILES} files at most; change the rest in another");
        }
        let path = shown(door, &key);
        let before = look_at(&ticket)?;
        let seen = last_seen(&self.context.memory, &key);
        if let (Some(before), Some(seen)) = (&before, seen)
            && before.sha256 != seen
        {
            bail!(
                "'{path}' has changed since you last read it; read it again, then repeat the \
                 change"
            );
        }
        let held = before.as_ref().and_then(|it| it.text.as_ref());
        self.count(held.map_or(0, String::len))?;
        let file = PlannedFile {
            target,
            path,
            before,
            now: FileNow::AsBefore,
            moved_from: None,
        };
        self.files.insert(key.clone(), file);
        Ok(FileKey(key))
    }

    /// The path as results show it.
    pub(super) fn shown(&self, key: &FileKey) -> String {
        let file = self.files.get(&key.0);
        file.map(|file| file.path.clone()).unwrap_or_default()
    }

    /// Whether the file is there, as planned so far.
    pub(super) fn exists(&self, key: &FileKey) -> bool {
        self.files.get(&key.0).is_some_and(PlannedFile::exists)
    }

    /// The text of a file, as planned so far.
    pub(super) fn text(&self, key: &FileKey) -> anyhow::Result<&str> {
        let file = self.file(key)?;
        match (&file.now, &file.before) {
            (FileNow::Text(text), _) => Ok(text),
            (FileNow::AsBefore, Some(before)) => match &before.text {
                Some(text) => Ok(text),
                None if before.bytes > EDIT_FILE_BYTES => bail!(
                    "'{}' has {} bytes, over the {EDIT_FILE_BYTES} that can be edited; change it \
                     with a program",
                    file.path,
                    before.bytes
                ),
                None => bail!("'{}' is not UTF-8 text and cannot be edited", file.path),
            },
            _ => Err(PolicyError::NotFound {
                path: file.target.clone(),
            }
            .into()),
        }
    }

    /// Plans a file's new text.
    pub(super) fn put(&mut self, key: &FileKey, text: String) -> anyhow::Result<()> {
        if text.len() > WRITE_BYTES {
            bail!(
                "'{}' would have {} bytes, over the limit of {WRITE_BYTES}",
                self.shown(key),
                text.len()
            );
        }
        self.count(text.len())?;
        self.file_mut(key)?.now = FileNow::Text(text);
        Ok(())
    }

    /// Plans that a file goes away.
    pub(super) fn remove(&mut self, key: &FileKey) -> anyhow::Result<()> {
        self.refuse_link(key)?;
        let file = self.file_mut(key)?;
        if !file.exists() {
            return Err(PolicyError::NotFound {
                path: file.target.clone(),
            }
            .into());
        }
        file.now = FileNow::Absent;
        file.moved_from = None;
        Ok(())
    }

    /// Plans that a file gets another name, which must be free.
    pub(super) fn rename(&mut self, from: &FileKey, to: &FileKey) -> anyhow::Result<()> {
        if self.exists(to) {
            bail!(
                "'{}' exists already, so '{}' is not moved there; delete it first, or choose \
                 another name",
                self.shown(to),
                self.shown(from)
            );
        }
        let text = self.text(from)?.to_owned();
        let file = self.file(from)?;
        let origin = match &file.before {
            Some(_) if file.moved_from.is_none() => Some(from.0.clone()),
            _ => file.moved_from.clone(),
        };
        self.remove(from)?;
        self.put(to, text)?;
        self.file_mut(to)?.moved_from = origin;
        Ok(())
    }

    /// What would change, as unified diffs one after the other.
    fn diff(&self) -> String {
        let mut out = String::new();
        for (key, file) in &self.files {
            let moved = self.source(file);
            let (old_name, before) = match moved {
                Some((_, source)) => (source.path.as_str(), source.text_before()),
                None => (file.path.as_str(), file.text_before()),
            };
            let before = before.unwrap_or_default();
            match &file.now {
                FileNow::AsBefore => {}
                FileNow::Absent if file.before.is_none() || self.is_source(key) => {}
                FileNow::Absent => match unified_diff(&file.path, &file.path, before, "") {
                    Some(diff) => out.push_str(&format!("deleted {}\n{diff}", file.path)),
                    None => out.push_str(&format!("deleted {}\n", file.path)),
                },
                FileNow::Text(text) => {
                    if moved.is_some() {
                        out.push_str(&format!("moved {old_name} to {}\n", file.path));
                    }
                    let diff = unified_diff(old_name, &file.path, before, text);
                    out.push_str(&diff.unwrap_or_default());
                }
            }
        }
        out
    }

    fn file(&self, key: &FileKey) -> anyhow::Result<&PlannedFile> {
        let file = self.files.get(&key.0);
        file.ok_or_else(|| anyhow!("the file has not been looked at"))
    }

    fn file_mut(&mut self, key: &FileKey) -> anyhow::Result<&mut PlannedFile> {
        let file = self.files.get_mut(&key.0);
        file.ok_or_else(|| anyhow!("the file has not been looked at"))
    }

    fn count(&mut self, bytes: usize) -> anyhow::Result<()> {
        self.held_bytes += bytes;
        if self.held_bytes > CHANGED_TOTAL_BYTES {
            bail!(
                "the files of this call have more than {CHANGED_TOTAL_BYTES} bytes together; \
                 change them in several calls"
            );
        }
        Ok(())
    }

    /// Fails for a path that is a link: its name and its file are two things.
    fn refuse_link(&self, key: &FileKey) -> anyhow::Result<()> {
        let file = self.file(key)?;
        if file.before.is_none() {
            return Ok(());
        }
        let name = self.context.policy.door().prepare_delete(&file.target)?;
        if name.resolved() != key.0 {
            bail!(
                "'{}' is a link to '{}'; name the file itself, or delete the link with `delete`",
                file.target.display(),
                file.path
            );
        }
        Ok(())
    }

    /// The file that is renamed to this one, if that is how it comes about.
    fn source(&self, file: &PlannedFile) -> Option<(&Path, &PlannedFile)> {
        let (key, source) = self.files.get_key_value(file.moved_from.as_ref()?)?;
        let fits = file.before.is_none() && matches!(source.now, FileNow::Absent);
        (fits && matches!(file.now, FileNow::Text(_))).then_some((key.as_path(), source))
    }

    fn is_source(&self, key: &Path) -> bool {
        self.files
            .values()
            .any(|file| file.moved_from.as_deref() == Some(key) && self.source(file).is_some())
    }

    /// Makes the plan true, or changes nothing.
    fn commit(self) -> anyhow::Result<Vec<ChangedFile>> {
        self.context.check_cancelled()?;
        let steps = self.steps();
        let changed = self.reports();
        commit::run(&self.context, steps)?;
        for (key, file) in &self.files {
            if let FileNow::Text(text) = &file.now {
                let sha256 = ContentHash::hex_of(text.as_bytes());
                self.context.remember(file_seen(key, &sha256));
            }
        }
        Ok(changed)
    }

    /// What to do, in an order in which names become free before they are taken.
    fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for (key, file) in &self.files {
            let leaves = match &file.now {
                FileNow::AsBefore => false,
                FileNow::Absent => !self.is_source(key),
                // What cannot be written back is kept until all is done.
                FileNow::Text(_) => file.text_before().is_none(),
            };
            if leaves && file.before.is_some() {
                steps.push(Step::SetAside(file.place(key)));
            }
        }
        for (key, file) in &self.files {
            if let Some((from, source)) = self.source(file) {
                let (from, to) = (source.place(from), file.place(key));
                steps.push(Step::Rename { from, to });
            }
        }
        for (key, file) in &self.files {
            let FileNow::Text(text) = &file.now else {
                continue;
            };
            let before = match self.source(file) {
                Some((_, source)) => source.text_before(),
                None => file.text_before(),
            };
            if before != Some(text) {
                steps.push(Step::Write {
                    place: file.place(key),
                    before: before.map(str::to_owned),
                    after: text.clone(),
                });
            }
        }
        steps
    }

    fn reports(&self) -> Vec<ChangedFile> {
        let mut reports = Vec::new();
        for (key, file) in &self.files {
            let source = self.source(file);
            let (change, sha256) = match &file.now {
                FileNow::AsBefore => continue,
                FileNow::Absent if file.before.is_none() || self.is_source(key) => continue,
                FileNow::Absent => ("deleted", None),
                FileNow::Text(text) => {
                    let change = match (source.is_some(), file.before.is_some()) {
                        (true, _) => "moved",
                        (_, true) => "changed",
                        (_, false) => "added",
                    };
                    (change, Some(ContentHash::hex_of(text.as_bytes())))
                }
            };
            reports.push(ChangedFile {
                path: file.path.clone(),
                change,
                moved_from: source.map(|(_, source)| source.path.clone()),
                sha256,
            });
        }
        reports
    }
}

impl PlannedFile {
    fn exists(&self) -> bool {
        match &self.now {
            FileNow::AsBefore => self.before.is_some(),
            FileNow::Absent => false,
            FileNow::Text(_) => true,
        }
    }

    fn text_before(&self) -> Option<&str> {
        self.before.as_ref()?.text.as_deref()
    }

    fn place(&self, resolved: &Path) -> FilePlace {
        FilePlace {
            target: self.target.clone(),
            resolved: resolved.to_owned(),
        }
    }
}

fn look_at(ticket: &WriteTicket) -> anyhow::Result<Option<FileBefore>> {
    let Some(mut file) = ticket.existing()? else {
        return Ok(None);
    };
    let bytes = file.metadata().len();
    if bytes > EDIT_FILE_BYTES {
        let (sha256, text) = (file.sha256()?, None);
        return Ok(Some(FileBefore {
            sha256,
            text,
            bytes,
        }));
    }
    let content = file.read_bounded(EDIT_FILE_BYTES)?;
    Ok(Some(FileBefore {
        sha256: ContentHash::hex_of(&content),
        text: String::from_utf8(content).ok(),
        bytes,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::testing::context;

    /// What was there counts as what is planned does.
    #[test]
    fn a_call_holds_so_much_text_and_no_more() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("one"), "x").unwrap();
        let mut files = FileSet::new(context(directory.path()));
        let key = files.open("new").unwrap();
        for _ in 0..CHANGED_TOTAL_BYTES / WRITE_BYTES {
            files.put(&key, "x".repeat(WRITE_BYTES)).unwrap();
        }
        let refusals = [files.open("one").map(drop), files.put(&key, "x".to_owned())];
        for refused in refusals {
            let message = refused.unwrap_err().to_string();
            assert!(message.contains("in several calls"), "{message}");
        }
        assert_eq!(CHANGED_TOTAL_BYTES % WRITE_BYTES, 0, "full before");
    }
}
