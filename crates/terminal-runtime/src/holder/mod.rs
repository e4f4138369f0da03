//! The holder: a small process that outlives the daemon.
//!
//! Owns: being the parent of every process, collecting them, keeping their
//! pipes, files and the daemon's records. Never: reads a byte of output,
//! understands a record, touches the disk, has more than one daemon or more
//! than one thread.
//!
//! It is this same program in a hidden mode, started by the daemon. A daemon
//! that is killed and started again connects to its socket and is given
//! everything back. A message of the daemon is applied wholly or not at all,
//! whenever the daemon dies.
//!
//! | side | files |
//! |---|---|
//! | both | `message` (what is said), `socket` (how it travels) |
//! | daemon | `start` (connect or start), `handshake`, `link`, `prepared` (units made ahead), `exit` |
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
    Exit, Key, NewCommand, NewProcess, ProcessState, Reply, Request, Role, SignalTarget, Source,
    Unit, UnitKind, VERSION,
};
pub use prepared::GivenUnit;
pub use server::run;
pub use start::{FoundHolder, HOLDER_MODE, HolderError, connect_or_start};
