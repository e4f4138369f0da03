//! Shells as children of this program.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::exchange::{ExchangeName, SandboxExchange};
use super::host::{
    DirectoryIdentity, EarlierProcesses, SharedFile, ShellFiles, ShellHost, ShellLaunch,
    ShellProcess,
};
use crate::error::ExecError;
use crate::exit::ExitStatus;
use crate::output::{Drained, OutputPipe};
use crate::process::Process;
use crate::sandbox::Sandbox;
use crate::spawn::SpawnRequest;
use crate::sys::{self, Handover, Signal};
use crate::tree::{OwnSandbox, Spared, TreeControl};

/// Starts shells as children of this program, and hands things over as
/// files and pipes that the shell opens by name.
#[derive(Debug, Default)]
pub struct LocalHost {
    /// What the shells are in, if they are.
    sandbox: Option<Arc<Sandbox>>,
    exchange: Option<SandboxExchange>,
    /// Shells that ended while something they started still runs: their
    /// uncollected number is what the session is known by.
    retired: Vec<Process>,
    /// The names of the files shared with shells.
    names: Vec<HandedName>,
}

impl LocalHost {
    /// A host without shells.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A host whose shells are in this sandbox.
    ///
    /// # Errors
    /// If there are no more descriptors to be had.
    pub fn in_sandbox(sandbox: Arc<Sandbox>) -> Result<Self, ExecError> {
        let exchange = SandboxExchange::of(&sandbox)
            .map_err(|source| ExecError::io("reaching into the sandbox", source))?;
        Ok(Self {
            sandbox: Some(sandbox),
            exchange,
            ..Self::default()
        })
    }

    /// A file with this content that a shell can open by name.
    pub(super) fn hand_file(&self, content: &[u8]) -> io::Result<(File, HandedName)> {
        match &self.exchange {
            Some(exchange) => {
                let (file, name) = exchange.file(content)?;
                Ok((file, HandedName::InSandbox(name)))
            }
            None => {
                let (file, name) = Handover::file(content)?;
                Ok((file, HandedName::Here(name)))
            }
        }
    }

    /// A pipe, read end first, whose write end a shell can open by name.
    pub(super) fn hand_pipe(&self) -> io::Result<(OwnedFd, OwnedFd, HandedName)> {
        match &self.exchange {
            Some(exchange) => {
                let (read, write, name) = exchange.pipe()?;
                Ok((read, write, HandedName::InSandbox(name)))
            }
            None => {
                let (read, write, name) = Handover::pipe()?;
                Ok((read, write, HandedName::Here(name)))
            }
        }
    }

    /// Collects ended shells that nothing is left of.
    pub(super) fn tidy(&mut self) {
        self.retired.retain_mut(|shell| !shell.collect_if_gone());
    }

    /// Brings down what ended shells left running.
    pub(super) async fn close(&mut self) {
        for mut shell in self.retired.drain(..) {
            let _ = shell.wait().await;
        }
    }
}

impl ShellHost for LocalHost {
    type Process = LocalShell;

    async fn files(&mut self) -> Result<ShellFiles, ExecError> {
        let mut names = Vec::new();
        let mut file = || -> io::Result<SharedFile> {
            let (file, name) = self.hand_file(b"")?;
            let shared = SharedFile::new(file, name.path().to_owned());
            names.push(name);
            Ok(shared)
        };
        let mut files = || -> io::Result<ShellFiles> {
            Ok(ShellFiles {
                mailbox: file()?,
                turns: [file()?, file()?],
                exit: file()?,
            })
        };
        let files = files();
        self.names.extend(names);
        files.map_err(|source| ExecError::io("preparing the shell's state", source))
    }

    async fn launch(&mut self, launch: &ShellLaunch<'_>) -> Result<LocalShell, ExecError> {
        let failed = |source: io::Error| ExecError::io("making the shell's channels", source);
        let (lines, control) = sys::pipe().map_err(failed)?;
        let (records, answers) = sys::pipe().map_err(failed)?;
        let null = File::options()
            .read(true)
            .write(true)
            .open("/dev/null")
            .map_err(failed)?;
        let request = SpawnRequest {
            program: launch.program.as_os_str(),
            args: launch.arguments,
            environment: launch.environment,
            cwd: launch.cwd,
            fds: vec![
                (lines.as_fd(), 0),
                (null.as_fd(), 1),
                (null.as_fd(), 2),
                (answers.as_fd(), ShellLaunch::RECORD_FD),
            ],
            terminal: None,
        };
        let process = Process::start_in(&request, self.sandbox.clone().map(OwnSandbox::Shared))?;
        Ok(LocalShell {
            process,
            control,
            records: OutputPipe::new(records).map_err(failed)?,
            silent: false,
        })
    }

    fn retire(&mut self, shell: LocalShell) {
        self.retired.push(shell.process);
        self.tidy();
    }

    fn directory(&self, path: &Path) -> io::Result<Option<DirectoryIdentity>> {
        match DirectoryIdentity::of(path) {
            // The sandbox has directories of its own.
            Err(_) if self.exchange.is_some() => Ok(None),
            found => found.map(Some),
        }
    }

    async fn end(&mut self, mut shell: LocalShell) {
        shell.process.terminate(Duration::ZERO).await;
        let _ = shell.process.wait().await;
    }
}

/// A shell that is a child of this program. Dropping it kills it with
/// everything it started.
#[derive(Debug)]
pub struct LocalShell {
    process: Process,
    control: OwnedFd,
    records: OutputPipe,
    /// Whether its record channel has come to its end.
    silent: bool,
}

impl ShellProcess for LocalShell {
    fn pid(&self) -> i32 {
        self.process.pid()
    }

    fn send(&self, lines: &[u8]) -> io::Result<()> {
        let mut left = lines;
        while !left.is_empty() {
            let written = rustix::io::retry_on_intr(|| rustix::io::write(&self.control, left))?;
            left = left.get(written..).unwrap_or_default();
        }
        Ok(())
    }

    fn unread(&self) -> io::Result<usize> {
        let count = rustix::io::ioctl_fionread(&self.control)?;
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }

    async fn records(&mut self) -> Option<Bytes> {
        let Self {
            process,
            records,
            silent,
            ..
        } = self;
        if !*silent {
            tokio::select! {
                biased;
                read = records.read() => match read {
                    Ok(Some(bytes)) => return Some(bytes),
                    Ok(None) | Err(_) => *silent = true,
                },
                () = process.exited() => {}
            }
        }
        process.exited().await;
        match records.read_now() {
            Ok(Drained::Chunk(bytes)) => Some(bytes),
            _ => None,
        }
    }

    async fn exited(&self) {
        self.process.exited().await;
    }

    fn has_exited(&self) -> bool {
        self.process.has_exited()
    }

    fn exit_status(&self) -> Result<ExitStatus, ExecError> {
        self.process.peek()
    }

    fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    fn followers(&self) -> EarlierProcesses {
        let members = self.process.tree().map(|tree| tree.followers());
        EarlierProcesses {
            processes: members
                .into_iter()
                .flatten()
                .map(|member| (member.pid, member.start_time))
                .collect(),
        }
    }

    fn count_others(&self, earlier: &EarlierProcesses) -> usize {
        self.process
            .tree()
            .map_or(0, |tree| tree.members_except(&spared(earlier)).len())
    }

    fn signal_others(&self, signal: Signal, earlier: &EarlierProcesses) {
        let Some(tree) = self.process.tree() else {
            return;
        };
        if signal == Signal::KILL {
            tree.kill(&spared(earlier));
        } else {
            tree.signal(signal, &spared(earlier));
        }
    }

    fn tree_control(&self) -> TreeControl {
        self.process.tree_control()
    }
}

fn spared(earlier: &EarlierProcesses) -> Spared {
    Spared {
        leader: true,
        earlier: earlier.processes.clone(),
    }
}

/// A stream of a command that this program made, and where the shell opens
/// it. Must be kept until the shell has.
#[derive(Debug)]
pub(super) struct HandedOver {
    _handle: OwnedFd,
    name: HandedName,
}

impl HandedOver {
    pub(super) fn new(handle: impl Into<OwnedFd>, name: HandedName) -> Self {
        Self {
            _handle: handle.into(),
            name,
        }
    }

    pub(super) fn path(&self) -> &Path {
        self.name.path()
    }
}

/// The name of something that was handed over. Lasts as long as this.
#[derive(Debug)]
pub(super) enum HandedName {
    Here(Handover),
    InSandbox(ExchangeName),
}

impl HandedName {
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Here(name) => name.path(),
            Self::InSandbox(name) => name.path(),
        }
    }
}
