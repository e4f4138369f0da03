//! Persistent shells that the holder is the parent of.
//!
//! The logic is `halter-exec`'s; here is where its processes come from and
//! what is remembered of them. State and the lines that depend on it reach
//! the holder in one message, so that a daemon that dies in between leaves
//! either both or neither.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use halter_exec::{
    Bystanders, DescriptorMapping, ExecError, ExitStatus, HeldTree, LaunchPlan, SharedFile,
    ShellConfig, ShellFiles, ShellHost, ShellLaunch, ShellProcess, ShellState, Signal, TreeControl,
    find_program_in, watch_descriptor,
};
use rustix::pipe::{SpliceFlags, splice};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::lock;
use super::record::{Grip, Record, ShellProcessRecord, ShellRecord};
use super::session::Session;
use super::trees::Past;
use crate::holder::{
    EndWatch, GivenUnit, HolderLink, Key, ProcessEnd, Request, Role, Source, Start, UnitKind,
};
use crate::limits::MAX_RECORD_FILE_BYTES;

/// How many files a shell shares with its driver.
const FILES: usize = 4;

/// What waits for the next message to the holder.
#[derive(Debug, Default)]
struct Pending {
    /// The newest state of the driver.
    state: Option<Vec<u8>>,
    /// The command that is about to be given to the shell.
    start: Option<Start>,
    /// Whether that state is the one of this command.
    ready: bool,
}

/// Starts shells through the holder.
pub(super) struct HolderHost {
    link: HolderLink,
    session: Arc<Session>,
    /// The slot of the shell, whichever process it is.
    key: Key,
    pending: Arc<Mutex<Pending>>,
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
    pub(super) fn new(link: HolderLink, session: Arc<Session>, key: Key) -> Self {
        Self {
            link,
            session,
            key,
            pending: Arc::default(),
        }
    }

    pub(super) fn key(&self) -> Key {
        self.key
    }

    /// The command that the next lines start.
    pub(super) fn announce(&self, start: Start) {
        let mut pending = lock(&self.pending);
        pending.start = Some(start);
        pending.ready = false;
    }

    /// Takes the announcement back; the command was not started.
    pub(super) fn retract(&self) -> Option<Start> {
        lock(&self.pending).start.take()
    }

    /// What is to be told to the holder together with a command's end.
    pub(super) fn flush(&self) -> Option<Request> {
        take_state(&self.pending, self.key, &self.session)
    }

    fn keep(&self, process_key: Key, grip: &Grip, retired: bool) -> Request {
        let record = ShellProcessRecord {
            session: self.session.id,
            grip: grip.clone(),
            retired,
        };
        Request::Put {
            key: process_key,
            record: Record::ShellProcess(record).encode(),
            units: Vec::new(),
        }
    }

    /// The files of a shell that an earlier daemon left.
    pub(super) fn files_of(&self, units: Vec<GivenUnit>) -> Option<ShellFiles> {
        let files = units.into_iter().map(|mut unit| {
            let path = unit.path(self.link.holder(), 0);
            Some(SharedFile::new(File::from(unit.take(0)?), path))
        });
        let files = files.collect::<Option<Vec<_>>>()?;
        shell_files(files)
    }

    /// A shell process that an earlier daemon left.
    pub(super) fn process_of(
        &self,
        key: Key,
        units: Vec<GivenUnit>,
        pid: i32,
        grip: Grip,
        end: EndWatch,
    ) -> Option<HolderShell> {
        let [mut lines, mut records]: [GivenUnit; 2] = units.try_into().ok()?;
        HolderShell::new(
            self,
            key,
            pid,
            grip,
            end,
            lines.take(0)?,
            records.take(0)?,
            records.take(2)?,
        )
        .ok()
    }
}

fn shell_files(files: Vec<SharedFile>) -> Option<ShellFiles> {
    let [mailbox, even, odd, exit]: [SharedFile; FILES] = files.try_into().ok()?;
    Some(ShellFiles {
        mailbox,
        turns: [even, odd],
        exit,
    })
}

fn take_state(pending: &Mutex<Pending>, key: Key, session: &Session) -> Option<Request> {
    let state = lock(pending).state.take()?;
    Some(put_shell(key, session, state))
}

fn put_shell(key: Key, session: &Session, state: Vec<u8>) -> Request {
    let record = ShellRecord {
        session: session.id,
        state,
    };
    Request::Put {
        key,
        record: Record::Shell(record).encode(),
        units: Vec::new(),
    }
}

fn failed(action: &'static str) -> impl Fn(io::Error) -> ExecError {
    move |source| ExecError::Io { action, source }
}

impl ShellHost for HolderHost {
    type Process = HolderShell;

    async fn files(&mut self) -> Result<ShellFiles, ExecError> {
        let failed = failed("making the shell's files");
        let mut files = Vec::with_capacity(FILES);
        let mut units = Vec::with_capacity(FILES);
        for _ in 0..FILES {
            let mut unit = self.link.unit(UnitKind::File).await.map_err(&failed)?;
            let path = unit.path(self.link.holder(), 0);
            units.push(unit.unit.id);
            files.extend(unit.take(0).map(|file| SharedFile::new(file, path)));
        }
        let Request::Put { key, record, .. } = put_shell(self.key, &self.session, Vec::new())
        else {
            return Err(failed(io::ErrorKind::Other.into()));
        };
        self.link.send(&[Request::Put { key, record, units }]);
        shell_files(files).ok_or_else(|| failed(io::ErrorKind::BrokenPipe.into()))
    }

    async fn launch(&mut self, launch: &ShellLaunch<'_>) -> Result<HolderShell, ExecError> {
        let failed = failed("making the shell's channels");
        let mut lines = self.link.unit(UnitKind::Input).await.map_err(&failed)?;
        let mut records = self.link.unit(UnitKind::Output).await.map_err(&failed)?;
        let mut plan = LaunchPlan::new(launch.program, launch.cwd);
        plan.arguments.extend(launch.arguments.iter().cloned());
        plan.environment = launch.environment.clone();
        plan.descriptors = [(0, 0), (1, 1), (1, 2), (2, ShellLaunch::RECORD_FD)]
            .map(|(slot, target)| DescriptorMapping { slot, target })
            .to_vec();
        let grip = self
            .session
            .trees
            .plant(&self.session.spec, &mut plan)
            .map_err(|error| ExecError::ShellStart {
                program: launch.program.to_owned(),
                reason: error.to_string(),
            })?;
        let key = self.link.new_key();
        let end = self.link.end_of(key);
        let Request::Put { record, .. } = self.keep(key, &grip, false) else {
            return Err(failed(io::ErrorKind::Other.into()));
        };
        self.link.send(&[Request::Spawn {
            key,
            record,
            units: vec![lines.unit.id, records.unit.id],
            role: Role::Shell,
            slots: vec![
                Source::Part { unit: 0, part: 1 },
                Source::Null,
                Source::Part { unit: 1, part: 1 },
            ],
            plan: plan.encode(),
        }]);
        let Some(pid) = self.link.pid_of(key).await else {
            self.session
                .trees
                .release(&self.session.spec, None, &grip, Past::Killed);
            self.link.send(&[Request::Forget { key }]);
            return Err(match end.wait().await {
                ProcessEnd::Failed(failure) => {
                    failure.explain(&plan, &launch.program.to_string_lossy())
                }
                _ => ExecError::ShellStart {
                    program: launch.program.to_owned(),
                    reason: "it ended at once".to_owned(),
                },
            });
        };
        let parts = (lines.take(0), records.take(0), records.take(2));
        let (Some(lines), Some(pipe), Some(file)) = parts else {
            return Err(failed(io::ErrorKind::BrokenPipe.into()));
        };
        HolderShell::new(self, key, pid, grip, end, lines, pipe, file).map_err(failed)
    }

    fn retire(&mut self, process: HolderShell) {
        let HolderShell { key, grip, pid, .. } = process;
        let session = &self.session;
        session
            .trees
            .release(&session.spec, Some(pid), &grip, Past::Peaceful);
        self.link.send(&[self.keep(key, &grip, true)]);
    }

    async fn end(&mut self, process: HolderShell) {
        process.do_away().await;
    }

    fn remember(&mut self, state: &ShellState) {
        let mut pending = lock(&self.pending);
        pending.state = Some(state.encode());
        pending.ready = state.is_running();
    }

    fn find_shell(&self, config: &ShellConfig) -> Result<PathBuf, ExecError> {
        let root = self.session.spec.chroot.as_deref();
        let program = config.program.as_deref().unwrap_or("sh".as_ref());
        find_program_in(root, program.as_os_str(), &config.environment, &config.cwd)
    }
}

/// A shell whose parent is the holder.
pub(super) struct HolderShell {
    link: HolderLink,
    session: Arc<Session>,
    shell_key: Key,
    key: Key,
    pid: i32,
    grip: Grip,
    end: EndWatch,
    tree: HeldTree,
    /// The end of the pipe that the holder writes to; asked only how much is
    /// left in it.
    lines: OwnedFd,
    records: Records,
    pending: Arc<Mutex<Pending>>,
}

impl std::fmt::Debug for HolderShell {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("HolderShell")
            .field("pid", &self.pid)
            .finish_non_exhaustive()
    }
}

impl HolderShell {
    #[allow(clippy::too_many_arguments)]
    fn new(
        host: &HolderHost,
        key: Key,
        pid: i32,
        grip: Grip,
        end: EndWatch,
        lines: OwnedFd,
        pipe: OwnedFd,
        file: OwnedFd,
    ) -> io::Result<Self> {
        let session = Arc::clone(&host.session);
        let tree = session
            .trees
            .tree(&session.spec, pid, &grip)
            .ok_or(io::ErrorKind::NotFound)?;
        Ok(Self {
            link: host.link.clone(),
            session,
            shell_key: host.key,
            key,
            pid,
            grip,
            end,
            tree,
            lines,
            records: Records::new(pipe, file)?,
            pending: Arc::clone(&host.pending),
        })
    }

    /// The slot of this process.
    pub(super) fn key(&self) -> Key {
        self.key
    }

    /// Kills it with all it started.
    pub(super) async fn do_away(self) {
        self.tree.kill_until_gone().await;
        let _ = self.end.wait().await;
        let session = &self.session;
        let pid = Some(self.pid);
        session
            .trees
            .release(&session.spec, pid, &self.grip, Past::Killed);
        let key = self.key;
        self.link.send(&[Request::Forget { key }]);
    }
}

impl ShellProcess for HolderShell {
    fn pid(&self) -> i32 {
        self.pid
    }

    fn send(&self, lines: &[u8]) -> io::Result<()> {
        if self.link.is_lost() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let mut requests = Vec::with_capacity(2);
        requests.extend(take_state(&self.pending, self.shell_key, &self.session));
        let mut pending = lock(&self.pending);
        let start = if pending.ready {
            pending.start.take()
        } else {
            None
        };
        if start.is_some() {
            requests.push(self.session.count_request());
        }
        requests.push(Request::Tell {
            key: self.key,
            lines: lines.to_vec(),
            start,
        });
        self.link.send(&requests);
        Ok(())
    }

    fn unread(&self) -> io::Result<usize> {
        let count = rustix::io::ioctl_fionread(&self.lines)?;
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }

    async fn records(&mut self) -> Option<Bytes> {
        self.records.trim();
        tokio::select! {
            biased;
            bytes = self.records.next() => Some(bytes),
            _ = self.end.wait() => self.records.now(),
        }
    }

    async fn exited(&self) {
        let _ = self.end.wait().await;
    }

    fn has_exited(&self) -> bool {
        self.end.now().is_some()
    }

    fn exit_status(&self) -> Result<ExitStatus, ExecError> {
        match self.end.now() {
            Some(ProcessEnd::Exited(exit)) => Ok(ExitStatus {
                code: exit.code,
                signal: exit.signal,
            }),
            _ => Err(ExecError::StatusLost { pid: self.pid }),
        }
    }

    fn signal(&self, signal: Signal) {
        self.link.send(&[Request::Signal {
            key: self.key,
            signal: signal.number(),
        }]);
    }

    fn followers(&self) -> Bystanders {
        self.tree.followers()
    }

    fn count_others(&self, bystanders: &Bystanders) -> usize {
        self.tree.count_others(bystanders)
    }

    fn signal_others(&self, signal: Signal, bystanders: &Bystanders) {
        self.tree.signal_others(signal, bystanders);
    }

    fn tree_control(&self) -> TreeControl {
        self.tree.control()
    }
}

/// What a shell says, moved from its pipe to a file that survives us before
/// it is looked at.
#[derive(Debug)]
struct Records {
    pipe: AsyncFd<OwnedFd>,
    file: File,
    /// How much is in the file, and how much of that was returned.
    stored: u64,
    returned: u64,
    /// Whether that was at the end of a record.
    whole: bool,
}

impl Records {
    fn new(pipe: OwnedFd, file: OwnedFd) -> io::Result<Self> {
        let file = File::from(file);
        Ok(Self {
            pipe: watch_descriptor(pipe, Interest::READABLE)?,
            stored: file.metadata()?.len(),
            file,
            returned: 0,
            whole: true,
        })
    }

    /// The next bytes; waits forever once nobody can say anything.
    async fn next(&mut self) -> Bytes {
        loop {
            if let Some(bytes) = self.now() {
                return bytes;
            }
            match self.pipe.readable().await {
                Ok(mut ready) => {
                    match store(ready.get_inner(), &self.file, self.stored) {
                        Ok(0) => {}
                        Ok(count) => {
                            self.stored += count as u64;
                            continue;
                        }
                        Err(rustix::io::Errno::AGAIN) => {
                            ready.clear_ready();
                            continue;
                        }
                        Err(_) => {}
                    }
                    drop(ready);
                    std::future::pending::<()>().await;
                }
                Err(_) => std::future::pending().await,
            }
        }
    }

    /// What has been said and not been returned.
    fn now(&mut self) -> Option<Bytes> {
        while let Ok(count @ 1..) = store(self.pipe.get_ref(), &self.file, self.stored) {
            self.stored += count as u64;
        }
        let fresh = usize::try_from(self.stored - self.returned).unwrap_or(0);
        if fresh == 0 {
            return None;
        }
        let mut bytes = vec![0; fresh];
        self.file.read_exact_at(&mut bytes, self.returned).ok()?;
        self.returned = self.stored;
        self.whole = bytes.last() == Some(&0);
        Some(bytes.into())
    }

    /// Forgets what was said about earlier commands: by the time somebody
    /// waits for the end of the next one, the holder knows theirs.
    fn trim(&mut self) {
        if self.returned > MAX_RECORD_FILE_BYTES
            && self.returned == self.stored
            && self.whole
            && self.file.set_len(0).is_ok()
        {
            self.stored = 0;
            self.returned = 0;
        }
    }
}

fn store(pipe: &OwnedFd, file: &File, mut place: u64) -> rustix::io::Result<usize> {
    let flags = SpliceFlags::NONBLOCK;
    rustix::io::retry_on_intr(|| splice(pipe, None, file, Some(&mut place), 64 * 1024, flags))
}
