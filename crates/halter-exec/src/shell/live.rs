//! A running shell and what it has said.

use std::io;
use std::path::Path;

use tokio::time::Instant;

use super::dialect::{Dialect, Invocation};
use super::host::{EarlierProcesses, ShellProcess};
use super::record::{EndRecord, RecordBuffer};
use crate::error::ExecError;
use crate::limits::{INTERRUPT_GRACE, POLL_PAUSE, SHELL_ANSWER_LOOK, SHELL_START_DEADLINE};
use crate::nonce;
use crate::sys::process_table;

/// A new shell that is idle as often in a row will never answer. Fewer would
/// give up one whose answer is on its way on a busy machine.
const IDLE_LOOKS: u32 = 6;

/// How a new shell does not answer.
#[derive(Debug, thiserror::Error)]
enum NoAnswer {
    #[error(
        "no answer within {} s; it must be a POSIX shell",
        SHELL_START_DEADLINE.as_secs()
    )]
    Late,
    #[error("it has read its first lines and does nothing; it must be a POSIX shell")]
    Idle,
}

/// A shell process that takes lines and answers records.
#[derive(Debug)]
pub(super) struct LiveShell<P> {
    pub process: P,
    pub dialect: Dialect,
    records: RecordBuffer,
}

impl<P: ShellProcess> LiveShell<P> {
    pub(super) fn new(process: P, dialect: Dialect) -> Self {
        Self {
            process,
            dialect,
            records: RecordBuffer::default(),
        }
    }

    /// Has a new shell read the prologue, and returns the record of that.
    pub(super) async fn prepare(
        &mut self,
        program: &Path,
        prologue: &Path,
        invocation: Invocation,
    ) -> Result<EndRecord, ExecError> {
        let nonce = nonce::random()?;
        let failed = |reason: String| ExecError::ShellStart {
            program: program.to_owned(),
            reason,
        };
        self.send(&self.dialect.prologue_lines(&nonce, prologue, invocation))
            .map_err(|error| failed(error.to_string()))?;
        let answer = self.first_answer(&nonce).await;
        match answer.map_err(|silence| failed(silence.to_string()))? {
            Some(record) if record.status == 0 => Ok(record),
            Some(record) => Err(failed(format!(
                "preparing it ended with status {}; it must be able to open {}",
                record.status,
                prologue.display(),
            ))),
            None => Err(failed(
                "it exited at once; it must be a POSIX shell".to_owned(),
            )),
        }
    }

    /// What a new shell says; `None` if it has ended.
    async fn first_answer(&mut self, nonce: &str) -> Result<Option<EndRecord>, NoAnswer> {
        let until = Instant::now() + SHELL_START_DEADLINE;
        let mut idle_looks = 0;
        loop {
            let look = until.min(Instant::now() + SHELL_ANSWER_LOOK);
            if let Ok(answer) = tokio::time::timeout_at(look, self.ended(nonce)).await {
                return Ok(answer);
            }
            if Instant::now() >= until {
                return Err(NoAnswer::Late);
            }
            idle_looks = if self.is_idle() { idle_looks + 1 } else { 0 };
            if idle_looks == IDLE_LOOKS {
                return Err(NoAnswer::Idle);
            }
        }
    }

    /// Whether the shell has read all that it was sent and does nothing about
    /// it. One that does not get to run, because others do, is not idle.
    fn is_idle(&self) -> bool {
        let process = &self.process;
        let asleep = || process_table::stat(process.pid()).is_some_and(|stat| stat.state == 'S');
        !process.is_elsewhere()
            && process.unread().is_ok_and(|unread| unread == 0)
            && asleep()
            && process.count_others(&EarlierProcesses::default()) == 0
    }

    /// Writes lines. They always fit: a shell is sent something only when it
    /// has read what came before, or once more to wake it.
    pub(super) fn send(&self, lines: &[u8]) -> io::Result<()> {
        self.process.send(lines)
    }

    /// Waits, but not forever, until the shell has read all that it was sent
    /// but the last `rest` bytes, or has ended.
    pub(super) async fn read_but(&mut self, rest: usize) {
        let until = Instant::now() + INTERRUPT_GRACE;
        while self.process.unread().is_ok_and(|unread| unread > rest)
            && !self.process.has_exited()
            && Instant::now() < until
        {
            tokio::time::sleep(POLL_PAUSE.0).await;
        }
    }

    /// The end of the command; `None` if the shell itself has ended. Can be
    /// dropped and asked again.
    pub(super) async fn ended(&mut self, nonce: &str) -> Option<EndRecord> {
        loop {
            let record = self.records.next(nonce);
            if record.is_some() {
                return record;
            }
            let bytes = self.process.records().await?;
            self.records.accept(&bytes);
        }
    }
}
