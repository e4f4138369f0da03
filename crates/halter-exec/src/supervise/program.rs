//! One program that serves over its standard streams.

use crate::environment::Environment;
use crate::error::ExecError;
use crate::input::InputSpool;
use crate::limits::{LAST_WORDS_BYTES, STOP_GRACE};
use crate::output::OutputPipe;
use crate::process::{Command, Process};
use crate::sandbox::Sandbox;
use crate::spawn::find_program;
use bytes::{Bytes, BytesMut};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::task::coop::consume_budget;
use tokio_util::task::AbortOnDropHandle;

/// How a program is started.
#[derive(Debug, Clone)]
pub struct ProgramSettings {
    /// A path, or a name that is looked up in the `PATH` of its environment.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// All the variables it sees.
    pub environment: Environment,
    /// Where it starts.
    pub directory: PathBuf,
    /// What it runs in; nothing if there is none.
    pub sandbox: Option<Arc<Sandbox>>,
}

/// A program that runs. Dropping it kills it with everything it started.
pub struct Program {
    process: Process,
    said: LastWords,
    listening: AbortOnDropHandle<()>,
}

/// The end of what a program wrote to standard error: at most
/// [`LAST_WORDS_BYTES`]. Clones share it, and keep it when the program is gone.
#[derive(Debug, Clone, Default)]
pub struct LastWords(Arc<Mutex<Vec<u8>>>);

impl LastWords {
    /// What was written so far.
    pub fn text(&self) -> String {
        let said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&said).trim().to_owned()
    }

    fn add(&self, chunk: &[u8]) {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        said.extend_from_slice(chunk);
        let surplus = said.len().saturating_sub(LAST_WORDS_BYTES);
        said.drain(..surplus);
    }
}

/// A program that was started, and our ends of its streams.
pub struct Started {
    /// The program.
    pub program: Program,
    /// What it reads.
    pub input: ProgramInput,
    /// What it writes.
    pub output: ProgramOutput,
}

impl Program {
    /// Starts a program. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(settings: &ProgramSettings) -> Result<Started, ExecError> {
        let found = find_program(
            &settings.program,
            &settings.environment,
            &settings.directory,
        )?;
        let command = Command::new(found, &settings.directory)
            .args(settings.arguments.iter().cloned())
            .environment(settings.environment.clone())
            .streamed_stdin();
        let (process, streams) = match &settings.sandbox {
            Some(sandbox) => Process::spawn_in(&command, Arc::clone(sandbox))?,
            None => Process::spawn(&command)?,
        };
        let lost = || ExecError::StatusLost { pid: process.pid() };
        let input = Arc::new(streams.stdin.ok_or_else(lost)?);
        let stderr = streams.stderr.ok_or_else(lost)?;
        let said = LastWords::default();
        let listening = tokio::spawn(listen(stderr, said.clone()));
        let pumped = Arc::clone(&input);
        // One that reads no more is noticed by its silence.
        let pump = tokio::spawn(async move { pumped.pump().await.unwrap_or_default() });
        Ok(Started {
            program: Self {
                process,
                said,
                listening: AbortOnDropHandle::new(listening),
            },
            input: ProgramInput {
                spool: input,
                pump: Arc::new(AbortOnDropHandle::new(pump)),
            },
            output: ProgramOutput {
                pipe: streams.stdout,
                buffer: BytesMut::new(),
                searched: 0,
            },
        })
    }

    /// Its number.
    pub fn pid(&self) -> i32 {
        self.process.pid()
    }

    /// Returns when it has ended.
    pub async fn ended(&self) {
        self.process.exited().await;
    }

    /// The end of what it writes to standard error.
    pub fn last_words(&self) -> LastWords {
        self.said.clone()
    }

    /// Ends it with everything it started: what it was asked to do by the end
    /// of its input it has [`STOP_GRACE`] for, then it is told, then killed.
    /// Returns its last words.
    pub async fn stop(mut self) -> String {
        if tokio::time::timeout(STOP_GRACE, self.process.exited())
            .await
            .is_err()
        {
            self.process.terminate(STOP_GRACE).await;
        }
        // Kills what it left behind.
        let _ = self.process.wait().await;
        // The pipe has no writer any more: what it said is read at once.
        let _ = tokio::time::timeout(STOP_GRACE, &mut self.listening).await;
        self.said.text()
    }
}

/// Keeps the end of what is said.
async fn listen(mut pipe: OutputPipe, said: LastWords) {
    while let Ok(Some(chunk)) = pipe.read().await {
        said.add(&chunk);
    }
}

/// What a program reads. Dropping all clones is the end of its input.
#[derive(Clone)]
pub struct ProgramInput {
    spool: Arc<InputSpool>,
    // Holds the spool too, and so has to end with it.
    pump: Arc<AbortOnDropHandle<()>>,
}

impl ProgramInput {
    /// Hands bytes to the program, waiting while it does not read.
    ///
    /// # Errors
    /// If it does not read any more, or the piece is too large.
    pub async fn write(&self, bytes: &[u8]) -> std::io::Result<()> {
        let written = self.spool.write(None, bytes).await;
        written.map(drop).map_err(std::io::Error::other)
    }

    /// Ends the input, after what was written.
    pub fn end(&self) {
        self.spool.end();
        self.pump.abort();
    }
}

/// What a program writes.
pub struct ProgramOutput {
    pipe: OutputPipe,
    buffer: BytesMut,
    searched: usize,
}

/// A line that does not end within its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineTooLong;

impl ProgramOutput {
    /// The next bytes, or `None` at the end. Nothing is lost if the future is
    /// dropped.
    ///
    /// # Errors
    /// If the pipe cannot be read.
    pub async fn read(&mut self) -> std::io::Result<Option<Bytes>> {
        if !self.buffer.is_empty() {
            self.searched = 0;
            return Ok(Some(self.buffer.split().freeze()));
        }
        self.pipe.read().await
    }

    /// The next line without its end, or `None` when there is no more. Nothing
    /// is lost if the future is dropped.
    ///
    /// # Errors
    /// If it has more than `limit` bytes. The stream is of no use then.
    pub async fn next_line(&mut self, limit: usize) -> Result<Option<Bytes>, LineTooLong> {
        loop {
            // What a program that never pauses writes is always there.
            consume_budget().await;
            let new = self.buffer.get(self.searched..).unwrap_or_default();
            if let Some(end) = new.iter().position(|byte| *byte == b'\n') {
                let end = self.searched + end;
                if end > limit {
                    return Err(LineTooLong);
                }
                let line = self.buffer.split_to(end + 1).freeze();
                self.searched = 0;
                return Ok(Some(line.slice(..end)));
            }
            self.searched = self.buffer.len();
            if self.searched > limit {
                return Err(LineTooLong);
            }
            match self.pipe.read().await {
                Ok(Some(chunk)) => self.buffer.extend_from_slice(&chunk),
                Ok(None) | Err(_) => return Ok(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(script: &str) -> Started {
        Program::start(&ProgramSettings {
            program: "/bin/sh".into(),
            arguments: vec!["-c".into(), script.into()],
            environment: Environment::from_iter([("PATH", "/usr/bin:/bin")]),
            directory: "/".into(),
            sandbox: None,
        })
        .unwrap()
    }

    #[tokio::test]
    async fn the_end_of_what_a_program_says_is_kept() {
        let count = LAST_WORDS_BYTES * 3;
        let started = script(&format!("head -c {count} /dev/zero >&2; printf end >&2"));
        drop(started.input);
        let words = started.program.stop().await;
        assert_eq!(words.len(), LAST_WORDS_BYTES);
        assert!(words.ends_with("\0end"));
    }

    #[tokio::test]
    async fn lines_are_told_apart_and_bounded() {
        let mut started = script("printf 'a\\n\\nbcd\\nrest'");
        for line in ["a", "", "bcd"] {
            let read = started.output.next_line(3).await.unwrap().unwrap();
            assert_eq!(read, line.as_bytes());
        }
        assert_eq!(started.output.next_line(3).await, Err(LineTooLong));
    }

    #[tokio::test]
    async fn lines_that_are_there_leave_time_for_others() {
        let mut started = script("exec yes ''");
        // Many more than are taken below.
        let first = started.output.pipe.read().await.unwrap().unwrap();
        while started.output.buffer.len() < 10_000 {
            started.output.buffer.extend_from_slice(&first);
        }
        let mut taken = 0;
        let reading = async {
            while taken < 10_000 {
                started.output.next_line(9).await.unwrap();
                taken += 1;
            }
        };
        tokio::select! {
            biased;
            () = reading => panic!("all was read at once"),
            () = std::future::ready(()) => {}
        }
        assert!(taken > 0);
        started.program.stop().await;
    }

    #[tokio::test]
    async fn what_is_written_arrives_and_the_end_ends() {
        let mut started = script("cat");
        started.input.write(b"hello\n").await.unwrap();
        let line = started.output.next_line(9).await.unwrap();
        assert_eq!(line.as_deref(), Some("hello".as_bytes()));
        drop(started.input);
        started.program.ended().await;
        assert_eq!(started.output.next_line(9).await, Ok(None));
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_ignores_its_end_is_killed_after_the_grace() {
        let mut started = script("trap '' TERM; echo ready; while :; do sleep 100; done");
        started.output.next_line(9).await.unwrap();
        let pid = started.program.pid();
        drop(started.input);
        let before = tokio::time::Instant::now();
        started.program.stop().await;
        assert!(before.elapsed() >= STOP_GRACE);
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }
}
