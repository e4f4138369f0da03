//! The holder of a session: a small process that outlives the daemon.
//!
//! Owns: being the parent of the session's processes, collecting them, keeping their
//! pipes, files and the daemon's records. Never: reads a byte of output,
//! understands a record, touches the disk, has more than one daemon or more
//! than one thread.
//!
//! It is this same program in a hidden mode, started by the daemon for the
//! session's first command. A daemon that is killed and started again connects
//! to its socket and is given
//! everything back. A message of the daemon is applied wholly or not at all,
//! whenever the daemon dies.
//!
//! Where it may, it gives its processes a PID namespace that it stays out of:
//! none of them can signal it, and their numbers are still those of the machine
//! for it and for the daemon.
//!
//! | side | files |
//! |---|---|
//! | both | `message` (what is said), `socket` (how it travels) |
//! | daemon | `start` (start or connect), `handshake`, `link`, `prepared` (units made ahead), `exit` |
//! | holder | `server` (the loop), `table` (slots and processes), `units` (descriptors) |

mod exit;
mod handshake;
mod link;
mod message;
mod prepared;
mod server;
mod socket;
mod start;
mod table;
mod units;

pub use exit::{ExitWatch, ProcessEnd};
pub use handshake::FoundSlot;
pub use link::HolderLink;
pub use message::{
    Exit, HolderReply, HolderRequest, Key, NewCommand, NewProcess, ProcessState, Role,
    SignalTarget, Source, Unit, UnitKind, VERSION,
};
pub use prepared::GivenUnit;
pub use server::run;
pub use start::{FoundHolder, HOLDER_MODE, HolderError, collect, connect, start};
