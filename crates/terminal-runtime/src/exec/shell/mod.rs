//! Persistent shells that the holder is the parent of.
//!
//! The logic is `halter-exec`'s; here is where its processes come from and
//! what is remembered of them.

mod launch;
mod process;
mod record_pipe;
mod updates;

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use halter_exec::host::{
    DirectoryIdentity, SharedFile, ShellFiles, ShellHost, ShellLaunch, ShellState, find_program_in,
};
use halter_exec::{ExecError, ShellConfig};

pub(super) use self::process::HolderShell;
use self::process::Parts;
pub(super) use self::updates::ShellUpdates;
use crate::exec::record::{Record, ShellProcessRecord, TreeId};
use crate::exec::session::Session;
use crate::exec::session::trees::TreeEnd;
use crate::exec::types::CoreSettings;
use crate::holder::{ExitWatch, GivenUnit, HolderLink, HolderRequest, Key, UnitKind};

/// How many files a shell shares with its driver.
const FILES: usize = 4;

/// Starts shells through the holder.
pub(super) struct HolderHost {
    link: HolderLink,
    settings: Arc<CoreSettings>,
    session: Arc<Session>,
    /// The slot of the shell, whichever process it is.
    key: Key,
    updates: Arc<ShellUpdates>,
}

impl std::fmt::Debug for HolderHost {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("HolderHost")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

impl HolderHost {
    pub(super) fn new(settings: Arc<CoreSettings>, session: Arc<Session>, key: Key) -> Self {
        let link = session.link.clone();
        let updates = ShellUpdates::new(link.clone(), Arc::clone(&session), key);
        Self {
            link,
            settings,
            session,
            key,
            updates: Arc::new(updates),
        }
    }

    pub(super) fn key(&self) -> Key {
        self.key
    }

    /// What the holder is told about the shell.
    pub(super) fn updates(&self) -> &Arc<ShellUpdates> {
        &self.updates
    }

    fn process_record(&self, tree: &TreeId, retired: bool) -> Vec<u8> {
        let record = ShellProcessRecord {
            shell: self.key,
            tree: tree.clone(),
            retired,
        };
        Record::ShellProcess(record).encode()
    }

    /// The files of a shell that an earlier daemon left.
    pub(super) fn files_of(&self, units: Vec<GivenUnit>) -> Option<ShellFiles> {
        let units = units
            .into_iter()
            .filter(|unit| unit.unit.kind == UnitKind::File);
        let mut files = Vec::with_capacity(FILES);
        let mut paths = Vec::with_capacity(FILES);
        for mut unit in units {
            paths.push(unit.path(self.link.descriptor_owner(), 0));
            files.push(File::from(unit.take(0)?));
        }
        shell_files(match &self.session.shared {
            Some(shared) => shared.named(files),
            None => named(files, paths),
        })
    }

    /// A shell process that an earlier daemon left.
    pub(super) fn process_of(
        &self,
        key: Key,
        units: Vec<GivenUnit>,
        pid: i32,
        tree: TreeId,
        end: ExitWatch,
    ) -> Option<HolderShell> {
        let [mut lines, mut records]: [GivenUnit; 2] = units.try_into().ok()?;
        let parts = Parts {
            key,
            pid,
            tree,
            end,
            lines: lines.take(0)?,
            records: records.take(0)?,
            record_file: records.take(2)?,
            held_open: None,
        };
        HolderShell::new(self, parts).ok()
    }
}

fn named(files: Vec<File>, paths: Vec<PathBuf>) -> Vec<SharedFile> {
    let named = files.into_iter().zip(paths);
    named
        .map(|(file, path)| SharedFile::new(file, path))
        .collect()
}

fn shell_files(files: Vec<SharedFile>) -> Option<ShellFiles> {
    let [mailbox, even, odd, exit]: [SharedFile; FILES] = files.try_into().ok()?;
    Some(ShellFiles {
        mailbox,
        turns: [even, odd],
        exit,
    })
}

fn failed(action: &'static str) -> impl Fn(io::Error) -> ExecError {
    move |source| ExecError::Io { action, source }
}

impl ShellHost for HolderHost {
    type Process = HolderShell;

    async fn files(&mut self) -> Result<ShellFiles, ExecError> {
        let failed = failed("making the shell's files");
        let mut units = Vec::with_capacity(FILES);
        let files = match &self.session.shared {
            Some(shared) => {
                let files = shared.files().map_err(&failed)?;
                // The next daemon is given them, and opens nothing by name.
                let give = |file: &File| self.link.give(UnitKind::File, &[file.as_fd()]);
                units.extend(files.iter().map(give));
                shared.named(files)
            }
            None => {
                let mut files = Vec::with_capacity(FILES);
                for _ in 0..FILES {
                    let mut unit = self.link.unit(UnitKind::File).await.map_err(&failed)?;
                    let path = unit.path(self.link.descriptor_owner(), 0);
                    units.push(unit.unit.id);
                    files.extend(unit.take(0).map(|file| SharedFile::new(file, path)));
                }
                files
            }
        };
        let mut store = self.updates.store(None);
        if let HolderRequest::Store { units: kept, .. } = &mut store {
            *kept = units;
        }
        self.link.send(&[store]);
        shell_files(files).ok_or_else(|| failed(io::ErrorKind::BrokenPipe.into()))
    }

    async fn launch(&mut self, launch: &ShellLaunch<'_>) -> Result<HolderShell, ExecError> {
        self.start(launch).await
    }

    fn retire(&mut self, process: HolderShell) {
        let HolderShell { key, tree, pid, .. } = process;
        let session = &self.session;
        session.trees.release(Some(pid), &tree, TreeEnd::ByItself);
        session.forget_names(key);
        // What it left running is found by the session's group; without one,
        // only by what is kept of it. That is told together with the end of
        // its last command, which nobody could find out about without it.
        if matches!(tree, TreeId::Cgroup(_)) {
            self.updates.defer(HolderRequest::Remove { key });
            return;
        }
        self.updates.defer(HolderRequest::Store {
            key,
            record: self.process_record(&tree, true),
            units: Vec::new(),
        });
    }

    async fn end(&mut self, process: HolderShell) {
        process.kill().await;
    }

    fn remember(&mut self, state: &ShellState) {
        self.updates.remember(state);
    }

    fn find_shell(&self, config: &ShellConfig) -> Result<PathBuf, ExecError> {
        let root = self.session.spec.chroot.as_deref();
        let program = config.program.as_deref().unwrap_or("sh".as_ref());
        if self.session.container.is_some() {
            return Ok(program.to_owned());
        }
        find_program_in(root, program.as_os_str(), &config.environment, &config.cwd)
    }

    fn directory(&self, path: &Path) -> io::Result<Option<DirectoryIdentity>> {
        if self.session.container.is_some() {
            return Ok(None);
        }
        let seen = match &self.session.spec.chroot {
            Some(root) => root.join(path.strip_prefix("/").unwrap_or(path)),
            None => path.to_owned(),
        };
        let found = std::fs::metadata(seen)?;
        if !found.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Some(DirectoryIdentity {
            device: found.dev(),
            inode: found.ino(),
        }))
    }
}
