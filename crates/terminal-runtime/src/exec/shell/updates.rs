//! What the holder learns about a shell together with the lines for it.
//!
//! A command is told to the holder in the same message as the lines that start
//! it, so that after a crash either both have happened or neither. What is
//! known at the end of a command can wait for the next message: until then the
//! next daemon finds it in what the shell has answered.

use std::io;
use std::sync::{Arc, Mutex};

use halter_exec::host::ShellState;

use crate::exec::lock;
use crate::exec::record::{Record, ShellRecord};
use crate::exec::session::Session;
use crate::holder::{HolderLink, HolderRequest, Key, NewCommand};

/// The news of one shell. Shared by its host and its process.
pub(in crate::exec) struct ShellUpdates {
    link: HolderLink,
    session: Arc<Session>,
    /// The slot of the shell, whichever process it is.
    key: Key,
    pending: Mutex<Pending>,
}

#[derive(Default)]
struct Pending {
    /// The newest state of the driver, unless the holder has it.
    state: Option<ShellState>,
    /// The command that is about to be given to the shell.
    command: Option<NewCommand>,
    /// What goes with the next message.
    requests: Vec<HolderRequest>,
}

impl ShellUpdates {
    pub(super) fn new(link: HolderLink, session: Arc<Session>, key: Key) -> Self {
        Self {
            link,
            session,
            key,
            pending: Mutex::default(),
        }
    }

    /// The slot of the shell.
    pub(in crate::exec) fn key(&self) -> Key {
        self.key
    }

    /// The command that is started by the lines that follow its state.
    pub(in crate::exec) fn announce(&self, command: NewCommand) {
        lock(&self.pending).command = Some(command);
    }

    /// The command was not started.
    pub(in crate::exec) fn retract(&self) {
        lock(&self.pending).command = None;
    }

    /// The newest state of the driver.
    pub(in crate::exec) fn remember(&self, state: &ShellState) {
        lock(&self.pending).state = Some(state.clone());
    }

    /// Has something told with the next message.
    pub(super) fn defer(&self, request: HolderRequest) {
        lock(&self.pending).requests.push(request);
    }

    /// What is to be told to the holder now.
    pub(in crate::exec) fn take(&self) -> Vec<HolderRequest> {
        let mut pending = lock(&self.pending);
        let mut requests = std::mem::take(&mut pending.requests);
        requests.extend(pending.state.take().map(|state| self.store(Some(state))));
        requests
    }

    /// The shell's slot with this state.
    pub(super) fn store(&self, state: Option<ShellState>) -> HolderRequest {
        let record = ShellRecord { state };
        HolderRequest::Store {
            key: self.key,
            record: Record::Shell(record).encode(),
            units: Vec::new(),
        }
    }

    /// Has the holder write lines to the shell, whose process is in this slot,
    /// after it has learnt what it has to know then.
    pub(super) fn send(&self, process: Key, lines: &[u8]) -> io::Result<()> {
        if self.link.is_lost() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let mut pending = lock(&self.pending);
        // Before the state of the command is known, lines are about another.
        let ready = pending.state.as_ref().is_some_and(ShellState::is_running);
        let command = if ready { pending.command.take() } else { None };
        drop(pending);
        let mut requests = self.take();
        if command.is_some() {
            requests.push(self.session.count_request());
        }
        requests.push(HolderRequest::WriteLines {
            key: process,
            lines: lines.to_vec(),
            command,
        });
        self.link.send(&requests);
        Ok(())
    }

    /// The same with the next message, or soon.
    pub(super) fn send_later(&self, process: Key, lines: &[u8]) -> io::Result<()> {
        if self.link.is_lost() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.link.send_later(HolderRequest::WriteLines {
            key: process,
            lines: lines.to_vec(),
            command: None,
        });
        Ok(())
    }
}
