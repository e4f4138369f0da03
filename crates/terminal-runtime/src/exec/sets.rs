//! Streams of a shell's commands that are used again and again.
//!
//! Making pipes and files costs more than a short command. A set of them
//! stays in the shell's slot with the holder and passes from command to
//! command, as long as nobody can tell: nobody writes to its pipes any more,
//! nobody reads its files any more. Nobody keeps an end to write to: the shell
//! opens one by the name of the end that is read, so that the end of all
//! writers shows.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use halter_exec::Spool;

use super::core::CoreInner;
use super::handle::{Exec, ExecInner};
use super::ledger::Ledger;
use super::lock;
use super::start::Streams;
use crate::holder::{HolderLink, Key, Request, UnitKind};

/// The two streams of a command that are written.
pub(super) struct StreamSet {
    /// Their names with the holder.
    units: [u64; 2],
    /// Where the shell opens them.
    paths: [PathBuf; 2],
    pipes: [OwnedFd; 2],
    /// Empty.
    memory: [File; 2],
}

impl StreamSet {
    /// A new one in a shell's slot. The holder has it when this returns.
    pub(super) async fn make(link: &HolderLink, shell: Key) -> io::Result<Self> {
        let missing = || io::Error::from(io::ErrorKind::BrokenPipe);
        let mut out = link.unit(UnitKind::Output).await?;
        let mut err = link.unit(UnitKind::Output).await?;
        let units = [out.unit.id, err.unit.id];
        link.send(&[Request::Keep {
            key: shell,
            units: units.to_vec(),
        }]);
        link.pid_of(shell).await;
        let holder = link.holder();
        let mut part = |number| Some([out.take(number)?, err.take(number)?]);
        Ok(Self {
            units,
            pipes: part(0).ok_or_else(missing)?,
            memory: part(2).ok_or_else(missing)?.map(File::from),
            paths: [out.path(holder, 0), err.path(holder, 0)],
        })
    }

    pub(super) fn units(&self) -> Vec<u64> {
        self.units.to_vec()
    }

    /// The streams of one command.
    pub(super) fn lend(self, core: &CoreInner, ledger: &Arc<Ledger>, key: Key) -> Streams {
        let Self {
            units,
            paths,
            pipes,
            memory,
        } = self;
        let [out_path, err_path] = paths.clone();
        Streams {
            paths: ["/dev/null".into(), out_path, err_path],
            loan: Some(Loan {
                ledger: Arc::clone(ledger),
                units,
                paths,
                pipes: None,
            }),
            ..Streams::used(core, key, pipes, memory)
        }
    }
}

impl Streams {
    /// The set of a command that was not started after all.
    pub(super) fn take_back(self) -> Option<StreamSet> {
        let loan = self.loan?;
        let pipes = self.flows.into_pipes()?;
        loan.returned(pipes, self.stdout, self.stderr?)
    }
}

/// What a command has of a shell's set, while it has no slot of its own.
pub(super) struct Loan {
    pub ledger: Arc<Ledger>,
    units: [u64; 2],
    paths: [PathBuf; 2],
    /// The pipes, once they are at their end.
    pub pipes: Option<[OwnedFd; 2]>,
}

impl Loan {
    /// Makes a slot of the command's own out of this.
    pub(super) fn move_request(&self, key: Key, record: Vec<u8>, working: bool) -> Request {
        self.ledger.release(key);
        Request::Move {
            from: self.ledger.key(),
            key,
            record,
            units: self.units.to_vec(),
            working,
        }
    }

    /// The set, if nobody else has a part of it.
    fn returned(self, pipes: [OwnedFd; 2], stdout: Spool, stderr: Spool) -> Option<StreamSet> {
        let memory = stdout.reclaim().zip(stderr.reclaim());
        match memory {
            Some((out, err)) => Some(StreamSet {
                units: self.units,
                paths: self.paths,
                pipes,
                memory: [out, err],
            }),
            None => {
                self.discard();
                None
            }
        }
    }

    /// Has the holder drop the set: whoever still has a part keeps that.
    fn discard(&self) {
        let link = self.ledger.link();
        let key = link.new_key();
        let moved = self.move_request(key, Vec::new(), false);
        link.send(&[moved, Request::Forget { key }]);
    }
}

/// Takes the set of the last command back for the next one. One that is still
/// of interest to somebody keeps its streams, in a slot of its own.
pub(super) fn take_back(last: Exec) -> Option<StreamSet> {
    match Arc::try_unwrap(last.inner) {
        Ok(inner) => inner.take_back(),
        Err(inner) => {
            let exec = Exec { inner };
            if exec.inner.is_removed() {
                if let Some(loan) = lock(&exec.inner.loan).take() {
                    loan.discard();
                }
            } else if lock(&exec.inner.loan).is_some() {
                exec.put_record();
            }
            None
        }
    }
}

impl ExecInner {
    fn take_back(self) -> Option<StreamSet> {
        let removed = self.is_removed();
        let loan = lock(&self.loan).take();
        let mut loan = loan?;
        match (loan.pipes.take(), self.stderr) {
            (Some(pipes), Some(stderr)) if removed => loan.returned(pipes, self.stdout, stderr),
            _ => {
                loan.discard();
                None
            }
        }
    }
}
