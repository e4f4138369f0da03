//! The streams of a command, from the units it was given.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use halter_exec::Terminal;
use halter_exec::host::{InputSpool, InputTarget, Spool};

use crate::exec::command::flow::{Flow, Flows};
use crate::exec::command::start::{Streams, spool_path};
use crate::exec::core::Core;
use crate::exec::record::{ClosedStreams, ExecRecord, StreamSize};
use crate::holder::{GivenUnit, Key, Source, UnitKind};
use crate::session::SessionId;

/// The descriptors in the units of a command.
#[derive(Default)]
struct Descriptors {
    /// Standard output, then standard error if it is another.
    outputs: Vec<OutputEnd>,
    /// What its input was given so far.
    input_log: Option<OwnedFd>,
    input_pipe: Option<OwnedFd>,
    terminal: Option<Terminal>,
}

/// Our end of an output.
struct OutputEnd {
    pipe: OwnedFd,
    /// The beginning of what came.
    head: OwnedFd,
}

impl Descriptors {
    fn of(units: Vec<GivenUnit>) -> io::Result<Self> {
        let mut found = Self::default();
        for mut unit in units {
            match unit.unit.kind {
                UnitKind::Output => found.outputs.push(OutputEnd {
                    pipe: unit.take(0).ok_or_else(missing)?,
                    head: unit.take(2).ok_or_else(missing)?,
                }),
                UnitKind::File => found.input_log = unit.take(0),
                UnitKind::Input => found.input_pipe = unit.take(0),
                UnitKind::Terminal => found.terminal = unit.take(0).map(Terminal::from),
            }
        }
        Ok(found)
    }
}

impl Core {
    /// What comes from and goes to a command.
    pub(super) fn found_streams(
        &self,
        (id, key): (SessionId, Key),
        units: Vec<GivenUnit>,
        record: &ExecRecord,
    ) -> io::Result<Streams> {
        if let Some(closed) = record.closed {
            return Ok(self.closed_streams((id, key), closed));
        }
        let Descriptors {
            outputs,
            input_log,
            input_pipe,
            terminal,
        } = Descriptors::of(units)?;
        let mut outputs = outputs.into_iter();
        let first = outputs.next().ok_or_else(missing)?;
        let (stdout_flow, stdout, target) = match &terminal {
            Some(terminal) => {
                let spool = self.found_spool((id, key), "out", first.head)?;
                let flow = Flow::of_terminal(terminal, first.pipe, spool.clone())?;
                let target = InputTarget::Terminal(terminal.try_clone()?);
                (flow, spool, Some(target))
            }
            None => {
                let (flow, spool) = self.found_output((id, key), "out", first)?;
                (flow, spool, input_pipe.map(InputTarget::Pipe))
            }
        };
        let second = outputs.next();
        let second = second.map(|end| self.found_output((id, key), "err", end));
        let (stderr_flow, stderr) = second.transpose()?.unzip();
        Ok(Streams {
            units: Vec::new(),
            slots: [Source::Null; 3],
            paths: Default::default(),
            flows: Flows {
                stdout: stdout_flow,
                stderr: stderr_flow,
            },
            stdout,
            stderr,
            input: found_input(input_log, target, record)?,
            terminal,
        })
    }

    /// What came from a command of which nothing is open any more.
    fn closed_streams(&self, (id, key): (SessionId, Key), closed: ClosedStreams) -> Streams {
        let spool = |stream: &str, size: StreamSize| {
            let path = spool_path(&self.inner.spool_dir, id, key, stream);
            Spool::closed(path, size.stored, size.total)
        };
        let stdout = spool("out", closed.stdout);
        Streams {
            units: Vec::new(),
            slots: [Source::Null; 3],
            paths: Default::default(),
            flows: Flows {
                stdout: Flow::ended(stdout.clone()),
                stderr: None,
            },
            stdout,
            stderr: closed.stderr.map(|size| spool("err", size)),
            input: None,
            terminal: None,
        }
    }

    fn found_output(
        &self,
        (id, key): (SessionId, Key),
        stream: &str,
        end: OutputEnd,
    ) -> io::Result<(Flow, Spool)> {
        let spool = self.found_spool((id, key), stream, end.head)?;
        Ok((Flow::of_pipe(end.pipe, spool.clone()), spool))
    }

    fn found_spool(
        &self,
        (id, key): (SessionId, Key),
        stream: &str,
        head: OwnedFd,
    ) -> io::Result<Spool> {
        let path = spool_path(&self.inner.spool_dir, id, key, stream);
        Spool::new(
            File::from(head),
            path,
            self.inner.settings.spool_quota_bytes,
        )
    }
}

/// The input of a command that still reads it.
fn found_input(
    log: Option<OwnedFd>,
    target: Option<InputTarget>,
    record: &ExecRecord,
) -> io::Result<Option<InputSpool>> {
    let (Some(log), Some(target), None) = (log, target, &record.end) else {
        return Ok(None);
    };
    let input = InputSpool::new(log.into(), target)?;
    if record.input_ended {
        input.end();
    }
    Ok(Some(input))
}

fn missing() -> io::Error {
    io::ErrorKind::NotFound.into()
}
