//! Whose files a session's commands see: this machine's, or others.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use halter_policy::{SessionFiles, directory_mark};
use halter_protocol::encoding::escape_path;

use super::RuntimeFiles;
use crate::backend::{FilesAt, Shared};
use crate::client::{ClientError, Target};
use crate::lock::lock;
use crate::protocol::{ErrorCode, FileEntry, FileRulesParams, FileStatParams};

/// What a runtime that gives its files to tools says of itself.
const FEATURE: &str = "fs";

impl Shared {
    /// Whether the runtime gives its files to tools; not known before it was
    /// asked.
    pub(in crate::backend) fn has_file_methods(&self) -> bool {
        lock(&self.features).iter().any(|name| name == FEATURE)
    }

    /// Whose files tools use in this directory, if somebody has looked.
    pub(in crate::backend) fn files_at(&self, directory: &Path) -> Option<FilesAt> {
        lock(&self.files_at).get(directory).copied()
    }

    /// Looks whether a directory behind an address is this machine's, or still is.
    ///
    /// # Errors
    /// If it was, and is not any more: another runtime has taken the place.
    pub(in crate::backend) async fn look_at(&self, directory: &Path) -> anyhow::Result<()> {
        let target = self.client.target();
        let known = self.files_at(directory);
        let is_given = match known {
            // A socket leads to this machine.
            None => matches!(target, Target::Socket(_)),
            Some(FilesAt::Here) => false,
            Some(FilesAt::Runtime) => true,
        };
        if is_given || !self.has_file_methods() {
            return Ok(());
        }
        match self.is_same_directory(directory).await? {
            true => {
                lock(&self.files_at).insert(directory.to_owned(), FilesAt::Here);
            }
            false if known == Some(FilesAt::Here) => bail!(
                "the runtime at {target} has other files in '{}' than the one that was there \
                 before: nothing was started; begin a new session for this one",
                directory.display()
            ),
            false => {}
        }
        Ok(())
    }

    /// Where the files of a session in this directory are.
    pub(in crate::backend) async fn files_of(
        &self,
        directory: &Path,
    ) -> anyhow::Result<Option<SessionFiles>> {
        self.check().await?;
        if !self.has_file_methods() {
            // A socket leads to this machine. Behind an address the directory is
            // looked at once a session is there.
            return Ok(None);
        }
        let is_same = self.is_same_directory(directory).await?;
        let place = if is_same {
            FilesAt::Here
        } else {
            FilesAt::Runtime
        };
        lock(&self.files_at).insert(directory.to_owned(), place);
        if is_same {
            return Ok(None);
        }
        let files = match self.files.get() {
            Some(files) => Arc::clone(files),
            None => {
                let made = RuntimeFiles::new(self.client.target().clone())
                    .context("no thread could be made for the files of the runtime")?;
                Arc::clone(self.files.get_or_init(|| Arc::new(made)))
            }
        };
        Ok(Some(SessionFiles(files)))
    }

    /// What a path leads to at the runtime, whose files below this root are
    /// looked at.
    pub(in crate::backend) async fn file_entry(
        &self,
        path: &Path,
        root: &Path,
    ) -> anyhow::Result<FileEntry> {
        let root = escape_path(root);
        let params = FileStatParams {
            rules: FileRulesParams {
                // Whatever had the name when it was asked before.
                name: uuid::Uuid::new_v4().to_string(),
                directory: root.clone(),
                read: vec![root],
                sensitive: Some(Vec::new()),
                ..FileRulesParams::default()
            },
            path: escape_path(path),
            access: Default::default(),
        };
        self.called(self.client.file_stat(&params)).await
    }

    /// Whether the directory of that name is the same one there and here.
    async fn is_same_directory(&self, directory: &Path) -> anyhow::Result<bool> {
        let target = self.client.target();
        let found = match self.file_entry(directory, directory).await {
            Ok(found) => found,
            Err(error) => match error.downcast_ref::<ClientError>() {
                Some(ClientError::Refused(refused)) if refused.code == ErrorCode::FileFailed => {
                    bail!(
                        "the runtime at {target} cannot work in '{}': {}",
                        directory.display(),
                        refused.message
                    )
                }
                _ => return Err(error),
            },
        };
        let owned = directory.to_owned();
        let looked = move || (owned.is_dir(), directory_mark(&owned));
        let (is_here, mark) = tokio::task::spawn_blocking(looked).await?;
        let is_local = matches!(target, Target::Socket(_));
        Ok(match (&found.mark, mark) {
            _ if !is_here => false,
            (Some(there), Some(here)) if is_local => *there == here,
            // A directory that a container shares with its host has the same mark
            // in both, and little else there is the same.
            (Some(there), Some(here)) => *there == here && self.has_same_root().await?,
            // Where nobody can say, a socket leads to this machine.
            _ => is_local,
        })
    }

    async fn has_same_root(&self) -> anyhow::Result<bool> {
        let root = Path::new("/");
        let there = self.file_entry(root, root).await?.mark;
        let here = tokio::task::spawn_blocking(|| directory_mark(Path::new("/"))).await?;
        Ok(there.is_some() && there == here)
    }
}
