//! A shell that lives across commands.
//!
//! One shell process runs one command after the other, so `cd`, `export`,
//! functions, aliases and options survive. Each command has streams of its
//! own; its end is reported on a private channel, never within the output. A
//! shell that ends (by `exit`, `exec`, a kill) is followed by a new one with
//! the state of the last snapshot.
//!
//! [`ShellDriver`] is that logic, over any [`ShellHost`]; [`PersistentShell`]
//! is it within this program, with the output captured.

mod config;
mod dialect;
mod driver;
mod exchange;
mod host;
mod interrupt;
mod live;
mod local;
mod persistent;
mod record;
mod report;
mod snapshot;
mod state;
mod traps;
mod words;

pub use config::{ShellCommand, ShellConfig};
pub use driver::{CommandEnd, CommandText, ShellDriver};
pub use host::{
    CommandStreams, DirectoryIdentity, EarlierProcesses, SharedFile, ShellFiles, ShellHost,
    ShellLaunch, ShellProcess,
};
pub use local::{LocalHost, LocalShell};
pub use persistent::PersistentShell;
pub use report::{ShellChange, ShellOption, ShellReport};
pub use state::ShellState;
