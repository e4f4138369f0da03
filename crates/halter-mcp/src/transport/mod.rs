//! Ways to a server, as the protocol's library wants them.

mod stdio;
mod watched;

pub(crate) use stdio::Stdio;
pub(crate) use watched::{Closing, ProbeDeadline, Watched};
