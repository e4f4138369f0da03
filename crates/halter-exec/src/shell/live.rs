//! A running shell and the two channels to it.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::dialect::{Dialect, RECORD_FD};
use crate::environment::Environment;
use crate::error::ExecError;
use crate::limits::{MAX_RECORD_BYTES, SHELL_START_DEADLINE};
use crate::nonce;
use crate::output::{Drained, OutputPipe};
use crate::process::Process;
use crate::spawn::SpawnRequest;
use crate::sys;

/// A shell process that takes lines and answers records.
#[derive(Debug)]
pub(super) struct LiveShell {
    pub process: Process,
    pub dialect: Dialect,
    control: OwnedFd,
    records: Records,
}

/// What the shell says on its record channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Record {
    /// It is about to run the command.
    Begin { nonce: String },
    /// The command is done.
    End {
        nonce: String,
        status: i32,
        cwd: PathBuf,
    },
}

/// How to start a shell.
pub(super) struct ShellStart<'a> {
    pub program: &'a Path,
    pub environment: &'a Environment,
    pub cwd: &'a Path,
    pub snapshot: Option<&'a [u8]>,
    pub exit_snapshot: &'a Path,
}

impl LiveShell {
    /// Starts a shell, brings it to its state, and returns it with the
    /// directory it is in.
    pub(super) async fn start(start: &ShellStart<'_>) -> Result<(Self, PathBuf), ExecError> {
        let dialect = Dialect::of(start.program);
        let mut shell = Self::spawn(start, dialect)?;
        let script = dialect.prologue(start.snapshot, start.exit_snapshot);
        let script = sys::data_file("halter-shell-prologue", &script)
            .map_err(|source| ExecError::io("preparing the shell", source))?;
        let nonce = nonce::random()?;
        let failed = |reason: String| ExecError::ShellStart {
            program: start.program.to_owned(),
            reason,
        };
        shell
            .send(&dialect.prologue_lines(&nonce, &sys::handover_path(&script)))
            .map_err(|error| failed(error.to_string()))?;
        let answer = tokio::time::timeout(SHELL_START_DEADLINE, shell.ended(&nonce)).await;
        match answer {
            Ok(Some((0, cwd))) => Ok((shell, cwd)),
            Ok(Some((status, _))) => Err(failed(format!(
                "preparing it ended with status {status}; \
                 it must be able to read /proc of this program"
            ))),
            Ok(None) => Err(failed("it exited at once".to_owned())),
            Err(_) => Err(failed(format!(
                "no answer within {} s; it must be a POSIX shell",
                SHELL_START_DEADLINE.as_secs()
            ))),
        }
    }

    fn spawn(start: &ShellStart<'_>, dialect: Dialect) -> Result<Self, ExecError> {
        let failed = |source: io::Error| ExecError::io("making the shell's channels", source);
        let (lines, control) = sys::pipe().map_err(failed)?;
        let (records, answers) = sys::pipe().map_err(failed)?;
        let null = File::options()
            .read(true)
            .write(true)
            .open("/dev/null")
            .map_err(failed)?;
        let process = Process::start(&SpawnRequest {
            program: OsStr::new(start.program),
            args: &dialect.arguments(),
            environment: start.environment,
            cwd: start.cwd,
            fds: vec![
                (lines.as_fd(), 0),
                (null.as_fd(), 1),
                (null.as_fd(), 2),
                (answers.as_fd(), RECORD_FD),
            ],
        })?;
        Ok(Self {
            process,
            dialect,
            control,
            records: Records::new(records).map_err(failed)?,
        })
    }

    /// Writes lines. They always fit: a shell is sent something only when it
    /// has read what came before, or once more to wake it.
    pub(super) fn send(&self, lines: &[u8]) -> io::Result<()> {
        let mut left = lines;
        while !left.is_empty() {
            let written = rustix::io::retry_on_intr(|| rustix::io::write(&self.control, left))?;
            left = left.get(written..).unwrap_or_default();
        }
        Ok(())
    }

    /// Waits until the shell has begun the command, or has ended it or
    /// itself.
    pub(super) async fn begun(&mut self, nonce: &str) {
        while self.records.begun != nonce {
            match self.next_record().await {
                Some(record) => self.note(record),
                None => return,
            }
        }
    }

    /// The status and directory the command ended with; `None` if the shell
    /// itself has ended.
    pub(super) async fn ended(&mut self, nonce: &str) -> Option<(i32, PathBuf)> {
        loop {
            if let Some((found, status, cwd)) = self.records.ended.take()
                && found == nonce
            {
                return Some((status, cwd));
            }
            let record = self.next_record().await?;
            self.note(record);
        }
    }

    fn note(&mut self, record: Record) {
        match record {
            Record::Begin { nonce } => self.records.begun = nonce,
            Record::End { nonce, status, cwd } => {
                self.records.begun.clone_from(&nonce);
                self.records.ended = Some((nonce, status, cwd));
            }
        }
    }

    /// The next record, or `None` when the shell has ended and said all.
    async fn next_record(&mut self) -> Option<Record> {
        if let Some(record) = self.records.buffered() {
            return Some(record);
        }
        tokio::select! {
            biased;
            record = self.records.next() => Some(record),
            () = self.process.exited() => self.records.now(),
        }
    }
}

/// The stream of records, cut at the NUL bytes.
#[derive(Debug)]
struct Records {
    pipe: OutputPipe,
    buffer: Vec<u8>,
    /// Which command was begun last.
    begun: String,
    /// How a command ended that nobody has asked about yet.
    ended: Option<(String, i32, PathBuf)>,
}

impl Records {
    fn new(fd: OwnedFd) -> io::Result<Self> {
        Ok(Self {
            pipe: OutputPipe::new(fd)?,
            buffer: Vec::new(),
            begun: String::new(),
            ended: None,
        })
    }

    /// The next record; waits forever once the channel is closed.
    async fn next(&mut self) -> Record {
        loop {
            match self.pipe.read().await {
                Ok(Some(bytes)) => self.accept(&bytes),
                Ok(None) | Err(_) => std::future::pending().await,
            }
            if let Some(record) = self.buffered() {
                return record;
            }
        }
    }

    /// A record that is there already.
    fn now(&mut self) -> Option<Record> {
        while let Ok(Drained::Chunk(bytes)) = self.pipe.read_now() {
            self.accept(&bytes);
        }
        self.buffered()
    }

    fn accept(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
        // Only a command that forges records writes that much without an end.
        if self.buffer.len() > MAX_RECORD_BYTES && !self.buffer.contains(&0) {
            self.buffer.clear();
        }
    }

    fn buffered(&mut self) -> Option<Record> {
        loop {
            let end = self.buffer.iter().position(|byte| *byte == 0)?;
            let mut raw: Vec<u8> = self.buffer.drain(..=end).collect();
            raw.pop();
            if let Some(record) = parse_record(&raw) {
                return Some(record);
            }
        }
    }
}

fn parse_record(raw: &[u8]) -> Option<Record> {
    let mut parts = raw.splitn(4, |byte| *byte == b' ');
    let kind = parts.next()?;
    let nonce = String::from_utf8(parts.next()?.to_vec()).ok()?;
    if kind == b"B" {
        return Some(Record::Begin { nonce });
    }
    let status = std::str::from_utf8(parts.next()?).ok()?.parse().ok()?;
    let cwd = std::ffi::OsString::from_vec(parts.next()?.to_vec()).into();
    (kind == b"E").then_some(Record::End { nonce, status, cwd })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_and_garbage_is_passed_over() {
        assert_eq!(
            parse_record(b"E abc 7 /tmp/a b"),
            Some(Record::End {
                nonce: "abc".to_owned(),
                status: 7,
                cwd: PathBuf::from("/tmp/a b"),
            })
        );
        assert_eq!(
            parse_record(b"B abc"),
            Some(Record::Begin {
                nonce: "abc".to_owned()
            })
        );
        for garbage in [&b""[..], b"E", b"E abc", b"E abc x /", b"X abc 0 /"] {
            assert_eq!(parse_record(garbage), None);
        }
    }
}
