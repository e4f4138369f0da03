//! Commands in sessions: started, read from, written to, ended.
//!
//! Owns: what runs, its output by offset, its end. Never: knows a wire, a
//! client or a transport.

mod error;
mod in_process;
mod order;

pub use error::{CoreError, StartFailure};
pub use in_process::{Core, Exec, SpoolReader};
pub use order::{
    AdoptedSession, Chunk, CoreSettings, CoreStats, DockerSettings, ExecEnd, ExecId, ExecInfo,
    ExecOrder, ExecState, ExecStdin, ExecWhat, Isolation, IsolationLevel, IsolationState, Limits,
    Scope, SessionSpec, Stream, TerminalSize, Usage,
};
