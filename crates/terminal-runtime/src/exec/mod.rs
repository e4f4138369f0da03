//! Commands in sessions: started, read from, written to, ended.
//!
//! Owns: what runs, its output by offset, its end. Never: knows a wire, a
//! client or a transport.

mod adopt;
mod core;
mod docker;
mod drive;
mod error;
mod handle;
mod holders;
mod isolation;
mod limit;
mod order;
mod output;
mod plan;
mod record;
mod session;
mod shared;
mod shell;
mod start;
mod stop;
mod tree;
mod trees;

use crate::lock::lock;

pub use self::core::Core;
pub use error::{CoreError, StartFailure};
pub use handle::{Exec, SpoolReader};
pub use order::{
    AdoptedSession, Chunk, CoreSettings, CoreStats, DockerSettings, ExecEnd, ExecId, ExecInfo,
    ExecOrder, ExecState, ExecStdin, ExecWhat, Limits, Scope, SessionSpec, Stream, TerminalSize,
    Usage,
};
