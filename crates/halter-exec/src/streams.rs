//! The standard streams of a process, both sides.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};

use crate::input::{InputSpool, InputTarget};
use crate::output::OutputPipe;
use crate::process::{Command, Stdin};
use crate::spool::Spool;
use crate::sys;
use crate::terminal::{Terminal, TerminalSize};

/// Our side of a process's standard streams.
#[derive(Debug)]
#[non_exhaustive]
pub struct ProcessStreams {
    /// What it is given to read, if anything; it must be
    /// [pumped](InputSpool::pump). Dropping it is the end of input.
    pub stdin: Option<InputSpool>,
    /// What it writes to standard output, or to its terminal.
    pub stdout: OutputPipe,
    /// What it writes to standard error, unless that is joined to standard
    /// output, as a terminal does.
    pub stderr: Option<OutputPipe>,
}

/// The child's side, closed here once the child has it.
pub(crate) enum ChildStreams {
    Pipes {
        stdin: OwnedFd,
        stdout: OwnedFd,
        stderr: OwnedFd,
    },
    Terminal(OwnedFd),
}

impl ChildStreams {
    pub(crate) fn descriptors(&self) -> Vec<(BorrowedFd<'_>, RawFd)> {
        let [stdin, stdout, stderr] = match self {
            Self::Pipes {
                stdin,
                stdout,
                stderr,
            } => [stdin, stdout, stderr],
            Self::Terminal(terminal) => [terminal; 3],
        };
        vec![(stdin.as_fd(), 0), (stdout.as_fd(), 1), (stderr.as_fd(), 2)]
    }

    pub(crate) fn terminal(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Pipes { .. } => None,
            Self::Terminal(terminal) => Some(terminal.as_fd()),
        }
    }
}

/// Both sides of the streams a command asks for, and its terminal.
pub(crate) fn make(spec: &Command) -> io::Result<(ChildStreams, ProcessStreams, Option<Terminal>)> {
    match spec.terminal {
        Some(size) => in_terminal(&spec.stdin, size),
        None => by_pipes(&spec.stdin, spec.joined_output).map(|(child, ours)| (child, ours, None)),
    }
}

fn by_pipes(stdin: &Stdin, joined: bool) -> io::Result<(ChildStreams, ProcessStreams)> {
    let (stdin, our_stdin) = match stdin {
        Stdin::Null => (File::open("/dev/null")?.into(), None),
        Stdin::Bytes(_) | Stdin::Streamed => {
            let (read, write) = sys::pipe()?;
            (read, Some(input(stdin, InputTarget::Pipe(write))?))
        }
    };
    let (our_stdout, stdout) = sys::pipe()?;
    let (our_stderr, stderr) = match joined {
        true => (None, stdout.try_clone()?),
        false => {
            let (read, write) = sys::pipe()?;
            (Some(OutputPipe::new(read)?), write)
        }
    };
    let child = ChildStreams::Pipes {
        stdin,
        stdout,
        stderr,
    };
    let ours = ProcessStreams {
        stdin: our_stdin,
        stdout: OutputPipe::new(our_stdout)?,
        stderr: our_stderr,
    };
    Ok((child, ours))
}

fn in_terminal(
    stdin: &Stdin,
    size: TerminalSize,
) -> io::Result<(ChildStreams, ProcessStreams, Option<Terminal>)> {
    let (terminal, theirs) = Terminal::open(size)?;
    let ours = ProcessStreams {
        stdin: Some(input(stdin, InputTarget::Terminal(terminal.try_clone()?))?),
        stdout: OutputPipe::new(terminal.try_clone()?.into())?,
        stderr: None,
    };
    Ok((ChildStreams::Terminal(theirs), ours, Some(terminal)))
}

fn input(stdin: &Stdin, target: InputTarget) -> io::Result<InputSpool> {
    let input = InputSpool::new(Spool::memory_file()?, target)?;
    match stdin {
        Stdin::Streamed => {}
        Stdin::Null => input.end(),
        Stdin::Bytes(bytes) => {
            input.accept(None, bytes).map_err(io::Error::other)?;
            input.end();
        }
    }
    Ok(input)
}
