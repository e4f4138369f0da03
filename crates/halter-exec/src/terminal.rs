//! Pseudo-terminals: our side of one, its size, its end of input.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::termios::{SpecialCodeIndex, Winsize, tcgetattr, tcgetwinsize, tcsetwinsize};

use crate::limits::SPLICE_BYTES;
use crate::sys::{self, Moved};

/// How many characters a terminal shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalSize {
    /// In a line.
    pub columns: u16,
    /// Lines.
    pub rows: u16,
}

impl Default for TerminalSize {
    fn default() -> Self {
        Self {
            columns: 80,
            rows: 24,
        }
    }
}

/// Our side of a pseudo-terminal. When the last handle to it is closed, the
/// session it controls is hung up.
#[derive(Debug)]
pub struct Terminal(OwnedFd);

impl Terminal {
    /// A new terminal of this size, and the child's side of it: its standard
    /// streams and its [controlling terminal](crate::host::LaunchPlan::terminal).
    ///
    /// # Errors
    /// If the system has none left.
    pub fn open(size: TerminalSize) -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = sys::open_terminal()?;
        let terminal = Self(ours);
        terminal.resize(size)?;
        Ok((terminal, theirs))
    }

    /// Changes the size; the programs in the terminal are told.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn resize(&self, size: TerminalSize) -> io::Result<()> {
        let size = Winsize {
            ws_row: size.rows,
            ws_col: size.columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        Ok(tcsetwinsize(&self.0, size)?)
    }

    /// Its size.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn size(&self) -> io::Result<TerminalSize> {
        let size = tcgetwinsize(&self.0)?;
        Ok(TerminalSize {
            columns: size.ws_col,
            rows: size.ws_row,
        })
    }

    /// The character that means the end of input when it is typed.
    #[must_use]
    pub fn end_of_input(&self) -> u8 {
        tcgetattr(&self.0).map_or(0x04, |settings| {
            settings.special_codes[SpecialCodeIndex::VEOF]
        })
    }

    /// Moves what was printed on the terminal into a pipe, without waiting;
    /// from there a [`Spool`](crate::host::Spool) takes it. Nothing of it is ever in
    /// the memory of this program, where the system can do that.
    ///
    /// # Errors
    /// If the terminal cannot be read. That its other side is closed is the
    /// end.
    pub fn splice_into(&self, pipe: impl AsFd) -> io::Result<Moved> {
        match sys::splice_terminal(&self.0, pipe, SPLICE_BYTES) {
            Err(error) if is_hang_up(&error) => Ok(Moved::End),
            other => other,
        }
    }

    /// Another handle to the same terminal.
    ///
    /// # Errors
    /// If there are too many open descriptors.
    pub fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }
}

/// How a terminal says that nobody has its other side any more.
pub(crate) fn is_hang_up(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::IO.raw_os_error())
}

/// The descriptor must be our side of a pseudo-terminal.
impl From<OwnedFd> for Terminal {
    fn from(fd: OwnedFd) -> Self {
        Self(fd)
    }
}

impl From<Terminal> for OwnedFd {
    fn from(terminal: Terminal) -> Self {
        terminal.0
    }
}

impl AsFd for Terminal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
