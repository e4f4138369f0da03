//! The holder: a tiny process that outlives the daemon.
//!
//! Owns: being the parent of every process, collecting them, keeping their
//! pipes, files and the daemon's records. Never: reads a byte of output,
//! understands a record, touches the disk, has more than one daemon or more
//! than one thread.
//!
//! It is this same program in a hidden mode, started by the daemon. A daemon
//! that is killed and started again finds it by its socket and is given
//! everything back. What the daemon sends happens wholly or not at all when
//! the daemon dies. What happens too often to wake the holder for is in a
//! journal, a file that both have; of that the holder sees only whether it
//! tells of work.

mod codec;
mod end;
mod journal;
mod link;
mod meeting;
mod message;
mod process;
mod socket;
mod start;
mod stock;
mod table;
mod units;

pub use codec::{CodecError, Reader, Writer};
pub use end::{EndWatch, ProcessEnd};
pub use journal::{Entry, Journal, read as read_journal};
pub use link::HolderLink;
pub use meeting::FoundSlot;
pub use message::{
    Birth, Exit, Key, ProcessState, Reply, Request, Role, Source, Start, Unit, UnitKind, VERSION,
};
pub use process::run;
pub use start::{FoundHolder, HOLDER_MODE, HolderError, connect_or_start};
pub use stock::GivenUnit;
