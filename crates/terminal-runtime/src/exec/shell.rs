//! Persistent shells that the holder is the parent of.
//!
//! The logic is `halter-exec`'s; here is where its processes come from and
//! what is remembered of them.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use halter_exec::{
    Bystanders, DescriptorMapping, DirectoryIdentity, ExecError, ExitStatus, LaunchPlan, PidFd,
    SharedFile, ShellConfig, ShellFiles, ShellHost, ShellLaunch, ShellProcess, ShellState, Signal,
    TreeControl, find_program_in,
};

use super::error::CoreError;
use super::handle::Exec;
use super::ledger::Ledger;
use super::order::CoreSettings;
use super::record::{Grip, Record, ShellProcessRecord};
use super::record_pipe::Records;
use super::session::Session;
use super::sets::{self, StreamSet};
use super::tree::Tree;
use super::trees::Past;
use crate::holder::{
    Birth, EndWatch, GivenUnit, HolderLink, Journal, Key, ProcessEnd, Request, Role, Source,
    UnitKind,
};
use crate::limits::CONTAINER_DEADLINE;
use crate::sys;

/// How many files a shell shares with its driver.
const FILES: usize = 4;

/// Starts shells through the holder.
pub(super) struct HolderHost {
    link: HolderLink,
    settings: Arc<CoreSettings>,
    session: Arc<Session>,
    /// The slot of the shell, whichever process it is.
    key: Key,
    /// Shells that have ended, and what they left running may not have.
    retired: Vec<Key>,
    ledger: Arc<Ledger>,
    /// Streams that no command has.
    set: Option<StreamSet>,
    /// The last command that was given streams of the shell's.
    last: Option<Exec>,
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
    pub(super) fn new(
        link: HolderLink,
        settings: Arc<CoreSettings>,
        session: Arc<Session>,
        key: Key,
    ) -> Self {
        let ledger = Ledger::new(link.clone(), Arc::clone(&session), key);
        Self {
            link,
            settings,
            session,
            key,
            retired: Vec::new(),
            ledger: Arc::new(ledger),
            set: None,
            last: None,
        }
    }

    pub(super) fn key(&self) -> Key {
        self.key
    }

    /// A shell that had ended before this daemon began.
    pub(super) fn remember_retired(&mut self, key: Key) {
        self.retired.push(key);
    }

    /// The slots that are of no use once the session is gone.
    pub(super) fn slots(&self) -> Vec<Key> {
        let retired = self.retired.iter().copied();
        retired.chain([self.key]).collect()
    }

    /// What is known and told about the shell.
    pub(super) fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    /// Streams for the next command, if some are free.
    pub(super) fn take_set(&mut self) -> Option<StreamSet> {
        let returned = self.last.take().and_then(sets::take_back);
        returned.or_else(|| self.set.take())
    }

    /// Streams that were not used.
    pub(super) fn keep_set(&mut self, set: Option<StreamSet>) {
        self.set = set;
    }

    /// A command was given the shell's streams.
    pub(super) fn lend_to(&mut self, exec: &Exec) {
        self.last = Some(exec.clone());
    }

    /// A journal, where shells can open what the holder has.
    async fn journal(&self, units: &mut Vec<u64>) -> io::Result<Option<Journal>> {
        let named = sys::descriptor_path(self.link.holder(), 0).is_some();
        if !named || self.session.shared.is_some() {
            return Ok(None);
        }
        let mut unit = self.link.unit(UnitKind::Journal).await?;
        units.push(unit.unit.id);
        Ok(unit.take(0).map(|file| Journal::new(file.into())))
    }

    fn process_record(&self, grip: &Grip, retired: bool) -> Vec<u8> {
        let record = ShellProcessRecord {
            session: self.session.id,
            shell: self.key,
            grip: grip.clone(),
            retired,
        };
        Record::ShellProcess(record).encode()
    }

    /// The channel that a shell answers on: a pipe that it inherits, or in a
    /// container one that it opens by name.
    async fn records(&self, key: Key) -> io::Result<Channel> {
        let missing = || io::Error::from(io::ErrorKind::BrokenPipe);
        if let (Some(_), Some(shared)) = (&self.session.container, &self.session.shared) {
            let (pipe, write, path) = shared.fifo(&format!("{key}.records"))?;
            let file = OwnedFd::from(halter_exec::Spool::memory_file()?);
            let parts = [pipe.as_fd(), write.as_fd(), file.as_fd()];
            return Ok(Channel {
                unit: self.link.give(UnitKind::Output, &parts),
                pipe,
                file,
                named: Some((path, write)),
            });
        }
        let mut unit = self.link.unit(UnitKind::Output).await?;
        Ok(Channel {
            unit: unit.unit.id,
            pipe: unit.take(0).ok_or_else(missing)?,
            file: unit.take(2).ok_or_else(missing)?,
            named: None,
        })
    }

    fn plan(&self, launch: &ShellLaunch<'_>, records: &Channel) -> LaunchPlan {
        let mut plan = LaunchPlan::new(launch.program, launch.cwd);
        plan.arguments.extend(launch.arguments.iter().cloned());
        plan.environment = launch.environment.clone();
        let mut descriptors = vec![(0, 0), (1, 1), (1, 2)];
        match &records.named {
            None => descriptors.push((2, ShellLaunch::RECORD_FD)),
            Some((path, _)) => {
                let opened = format!("exec {}>\"$0\" && exec \"$@\"", ShellLaunch::RECORD_FD);
                let mut words: Vec<OsString> = vec!["/bin/sh".into(), "-c".into(), opened.into()];
                words.push(path.clone().into());
                words.append(&mut plan.arguments);
                plan.arguments = words;
            }
        }
        plan.descriptors = descriptors
            .into_iter()
            .map(|(slot, target)| DescriptorMapping { slot, target })
            .collect();
        plan
    }

    fn planted(&self, mut plan: LaunchPlan) -> Result<(LaunchPlan, Grip), CoreError> {
        let grip = self.session.plant(&self.settings, &mut plan, false)?;
        Ok((plan, grip))
    }

    /// The number of the shell's process, once it is there: in a container,
    /// the client's process comes first.
    async fn begun(&self, pid: i32, grip: &Grip, end: &EndWatch) -> Option<i32> {
        if self.session.container.is_none() {
            return Some(pid);
        }
        let deadline = tokio::time::Instant::now() + CONTAINER_DEADLINE;
        while end.now().is_none() && tokio::time::Instant::now() < deadline {
            let tree = self.session.tree(pid, grip);
            if tree
                .and_then(|tree| tree.contained_leader())
                .is_some_and(|leader| leader != 0)
            {
                return Some(pid);
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        None
    }

    /// The files of a shell that an earlier daemon left.
    pub(super) fn files_of(&self, units: Vec<GivenUnit>) -> Option<ShellFiles> {
        if let Some(shared) = &self.session.shared {
            return shell_files(shared.files().ok()?);
        }
        let files = units
            .into_iter()
            .filter(|unit| unit.unit.kind == UnitKind::File);
        let files = files.map(|mut unit| {
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

/// Our side of the channel that a shell answers on.
struct Channel {
    unit: u64,
    pipe: OwnedFd,
    file: OwnedFd,
    /// Where it is opened, if it is not inherited, and an end to write to:
    /// until the shell has opened its own, nobody must take it for closed.
    named: Option<(PathBuf, OwnedFd)>,
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
            Some(shared) => shared.files().map_err(&failed)?,
            None => {
                let mut files = Vec::with_capacity(FILES);
                for _ in 0..FILES {
                    let mut unit = self.link.unit(UnitKind::File).await.map_err(&failed)?;
                    let path = unit.path(self.link.holder(), 0);
                    units.push(unit.unit.id);
                    files.extend(unit.take(0).map(|file| SharedFile::new(file, path)));
                }
                files
            }
        };
        let journal = self.journal(&mut units).await.map_err(&failed)?;
        self.ledger.open(0, journal);
        let mut put = self.ledger.put_request(0, Vec::new());
        if let Request::Put { units: kept, .. } = &mut put {
            *kept = units;
        }
        self.link.send(&[put]);
        shell_files(files).ok_or_else(|| failed(io::ErrorKind::BrokenPipe.into()))
    }

    async fn launch(&mut self, launch: &ShellLaunch<'_>) -> Result<HolderShell, ExecError> {
        let failed = failed("making the shell's channels");
        let key = self.link.new_key();
        let mut lines = self.link.unit(UnitKind::Input).await.map_err(&failed)?;
        let records = self.records(key).await.map_err(&failed)?;
        let plan = self.plan(launch, &records);
        let (plan, grip) = self.planted(plan).map_err(|error| ExecError::Io {
            action: "giving the shell its place",
            source: io::Error::other(error),
        })?;
        let end = self.link.end_of(key);
        self.link.send(&[Request::Spawn(Birth {
            key,
            record: self.process_record(&grip, false),
            units: vec![lines.unit.id, records.unit],
            role: Role::Shell,
            slots: vec![
                Source::Part { unit: 0, part: 1 },
                Source::Null,
                Source::Part { unit: 1, part: 1 },
            ],
            plan: plan.encode(),
        })]);
        let begun = match self.link.pid_of(key).await {
            Some(pid) => self.begun(pid, &grip, &end).await,
            None => None,
        };
        let Some(pid) = begun else {
            let trees = &self.session.trees;
            trees.release(&self.session.spec, None, &grip, Past::Killed);
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
        let Some(lines) = lines.take(0) else {
            return Err(failed(io::ErrorKind::BrokenPipe.into()));
        };
        let Channel {
            pipe, file, named, ..
        } = records;
        let shell = HolderShell::new(self, key, pid, grip, end, lines, pipe, file);
        let mut shell = shell.map_err(failed)?;
        shell._held_open = named.map(|(_, write)| write);
        Ok(shell)
    }

    fn retire(&mut self, process: HolderShell) {
        let HolderShell { key, grip, pid, .. } = process;
        let session = &self.session;
        session
            .trees
            .release(&session.spec, Some(pid), &grip, Past::Peaceful);
        session.forget_names(key);
        // What it left running is found by the session's group; without one,
        // only by what is kept of it.
        // Told together with the end of its last command, which nobody could
        // find out about without it.
        if matches!(grip, Grip::Cgroup(_)) {
            self.ledger.defer(Request::Forget { key });
            return;
        }
        self.retired.push(key);
        self.ledger.defer(Request::Put {
            key,
            record: self.process_record(&grip, true),
            units: Vec::new(),
        });
    }

    async fn end(&mut self, process: HolderShell) {
        process.do_away().await;
    }

    fn remember(&mut self, state: &ShellState) {
        self.ledger.remember(state.encode(), state.is_running());
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

/// A shell whose parent is the holder.
pub(super) struct HolderShell {
    link: HolderLink,
    session: Arc<Session>,
    key: Key,
    pid: i32,
    /// The shell itself, so that a signal reaches it before this program does
    /// anything else; `None` if no handle was to be had.
    leader: Option<PidFd>,
    grip: Grip,
    end: EndWatch,
    tree: Tree,
    /// The pipe that the holder or we write to.
    lines: OwnedFd,
    records: Records,
    /// Another end of what its records come by.
    _held_open: Option<OwnedFd>,
    ledger: Arc<Ledger>,
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
        // The number of one that has ended may be another's by now.
        let lives = end.now().is_none();
        let leader = if lives { pid } else { 0 };
        let tree = session.tree(leader, &grip).ok_or(io::ErrorKind::NotFound)?;
        let pid = tree.contained_leader().unwrap_or(pid);
        Ok(Self {
            link: host.link.clone(),
            session,
            key,
            pid,
            leader: lives.then(|| PidFd::open(pid).ok()).flatten(),
            grip,
            end,
            tree,
            lines,
            records: Records::new(pipe, file)?,
            _held_open: None,
            ledger: Arc::clone(&host.ledger),
        })
    }

    /// The slot of this process.
    pub(super) fn key(&self) -> Key {
        self.key
    }

    /// Kills it with all it started.
    pub(super) async fn do_away(self) {
        let lived = self.end.now().is_none();
        self.tree.kill_until_gone().await;
        let _ = self.end.wait().await;
        let session = &self.session;
        let pid = lived.then_some(self.pid);
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
        self.ledger.say(self.key, &self.lines, lines)
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

    /// Not by way of the holder: a command that is interrupted must not die
    /// before its shell knows, or the shell goes on with what comes next.
    fn signal(&self, signal: Signal) {
        if let Some(leader) = &self.leader {
            let _ = leader.send(signal);
        } else if self.tree.contained_leader().is_none() {
            self.link.send(&[Request::Signal {
                key: self.key,
                signal: signal.number(),
            }]);
        }
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
