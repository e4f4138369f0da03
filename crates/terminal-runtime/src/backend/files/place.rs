//! Whose files a session's commands see: this machine's, or others.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use halter_policy::{SessionFiles, directory_mark};
use halter_protocol::encoding::escape_path;

use super::RuntimeFiles;
use crate::backend::Shared;
use crate::client::{ClientError, Target};
use crate::lock::lock;
use crate::protocol::{ErrorCode, FileEntry, FileRulesParams, FileStatParams};

/// What a runtime that gives its files to tools says of itself.
const FEATURE: &str = "fs";

impl Shared {
    /// Whether the runtime gives its files to tools; not known before it was
    /// asked.
    pub(in crate::backend) fn has_file_methods(&self) -> bool {
        let features = self.features.get();
        features.is_some_and(|features| features.iter().any(|name| name == FEATURE))
    }

    /// Whether tools use the runtime's files in this directory.
    pub(in crate::backend) fn is_elsewhere(&self, directory: &Path) -> bool {
        lock(&self.elsewhere).contains(directory)
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
        if self.is_same_directory(directory).await? {
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
        lock(&self.elsewhere).insert(directory.to_owned());
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
        Ok(match (&found.mark, mark) {
            _ if !is_here => false,
            (Some(there), Some(here)) => *there == here,
            // Where nobody can say, a socket leads to this machine.
            _ => matches!(target, Target::Socket(_)),
        })
    }
}
