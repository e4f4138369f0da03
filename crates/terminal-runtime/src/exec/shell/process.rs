//! The process of a shell whose parent is the holder.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytes::Bytes;
use halter_exec::host::{EarlierProcesses, PidFd, ShellProcess};
use halter_exec::{ExecError, ExitStatus, Signal, TreeControl};

use super::record_pipe::Records;
use super::{HolderHost, ShellUpdates};
use crate::exec::record::TreeId;
use crate::exec::session::Session;
use crate::exec::session::tree::Tree;
use crate::exec::session::trees::TreeEnd;
use crate::holder::{ExitWatch, HolderLink, HolderRequest, Key, ProcessEnd, SignalTarget};
use crate::limits::TREE_END_WAIT;

/// What is known of a shell's process, just started or found.
pub(super) struct Parts {
    pub key: Key,
    pub pid: i32,
    pub tree: TreeId,
    pub end: ExitWatch,
    /// The pipe that the shell reads.
    pub lines: OwnedFd,
    /// The pipe that it answers on, and the file for its answers.
    pub records: OwnedFd,
    pub record_file: OwnedFd,
    /// Another end of that pipe, if one has to be kept open.
    pub held_open: Option<OwnedFd>,
}

/// A shell whose parent is the holder.
pub(in crate::exec) struct HolderShell {
    link: HolderLink,
    session: Arc<Session>,
    pub(super) key: Key,
    pub(super) pid: i32,
    /// The shell itself, so that a signal reaches it before this program does
    /// anything else; `None` if no handle was to be had.
    leader: Option<PidFd>,
    pub(super) tree: TreeId,
    end: ExitWatch,
    members: Tree,
    /// Our end of the pipe that the holder writes to.
    lines: OwnedFd,
    records: Records,
    /// Another end of what its records come by.
    _held_open: Option<OwnedFd>,
    updates: Arc<ShellUpdates>,
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
    pub(super) fn new(host: &HolderHost, parts: Parts) -> io::Result<Self> {
        let Parts {
            key,
            pid,
            tree,
            end,
            lines,
            records,
            record_file,
            held_open,
        } = parts;
        let session = Arc::clone(&host.session);
        // The number of one that has ended may be another's by now.
        let lives = end.now().is_none();
        let leader = if lives { pid } else { 0 };
        let members = session.tree(leader, &tree);
        let pid = members.contained_leader().unwrap_or(pid);
        Ok(Self {
            link: host.link.clone(),
            session,
            key,
            pid,
            leader: lives.then(|| PidFd::open(pid).ok()).flatten(),
            tree,
            end,
            members,
            lines,
            records: Records::new(records, record_file)?,
            _held_open: held_open,
            updates: Arc::clone(&host.updates),
        })
    }

    /// The number of the shell itself, as this machine counts.
    pub(in crate::exec) fn number(&self) -> i32 {
        match self.members.contained_leader() {
            Some(leader) => leader,
            None => self.pid,
        }
    }

    /// The slot of this process.
    pub(in crate::exec) fn key(&self) -> Key {
        self.key
    }

    /// Kills it with all it started.
    pub(in crate::exec) async fn kill(self) {
        let lived = self.end.now().is_none();
        // All of it first: what it started is found by way of it where there
        // is no control group. Then itself, should the group not be reachable.
        self.members.kill_until_gone().await;
        self.signal(Signal::KILL);
        // One that is stuck in the kernel is not waited for.
        let _ = tokio::time::timeout(TREE_END_WAIT, self.end.wait()).await;
        let pid = lived.then_some(self.pid);
        self.session.trees.release(pid, &self.tree, TreeEnd::Killed);
        let key = self.key;
        self.link.send(&[HolderRequest::Remove { key }]);
    }
}

impl ShellProcess for HolderShell {
    fn pid(&self) -> i32 {
        self.pid
    }

    fn is_elsewhere(&self) -> bool {
        self.members.contained_leader().is_some()
    }

    fn send(&self, lines: &[u8]) -> io::Result<()> {
        self.updates.send(self.key, lines)
    }

    fn send_later(&self, lines: &[u8]) -> io::Result<()> {
        self.updates.send_later(self.key, lines)
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

    fn is_lost(&self) -> bool {
        self.end.now() == Some(ProcessEnd::Lost)
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
        } else if self.members.contained_leader().is_none() {
            self.link.send(&[HolderRequest::Signal {
                key: self.key,
                signal: signal.number(),
                target: SignalTarget::Process,
            }]);
        }
    }

    fn followers(&self) -> EarlierProcesses {
        self.members.followers()
    }

    fn count_others(&self, earlier: &EarlierProcesses) -> usize {
        self.members.count_others(earlier)
    }

    fn signal_others(&self, signal: Signal, earlier: &EarlierProcesses) {
        self.members.signal_others(signal, earlier);
    }

    fn tree_control(&self) -> TreeControl {
        self.members.control()
    }
}
