//! Commands in sessions: started, read from, written to, ended.
//!
//! Owns: what runs, its output by offset, its end. Never: knows a wire, a
//! client or a transport.
//!
//! In the order of the data:
//!
//! | room | what is there |
//! |---|---|
//! | `core` | all sessions and commands of one runtime; the way in |
//! | `open` | a session that may not have been given a command yet |
//! | `holders` | the holder of a session: started, watched, ended |
//! | `session` | one session: its shell, its control groups or container, its shared directory |
//! | `command` | one command: its plan, streams, start, run, stop and end |
//! | `shell` | the session's shell as a process of the holder |
//! | `processes` | the processes of a session, looked at and signalled |
//! | `record` | what the holder keeps of all these |
//! | `adopt` | going on with what an earlier daemon left with a session's holder |

mod adopt;
mod command;
mod core;
mod error;
mod holders;
mod open;
mod processes;
mod record;
mod session;
mod shell;
mod types;

use crate::lock::lock;

pub use self::core::Core;
pub use command::{Exec, SpoolReader};
pub use error::{CoreError, StartFailure};
pub use processes::SessionProcesses;
pub use types::{
    AdoptedSession, Chunk, CommandUsage, ContainerMount, ContainerOptions, CoreSettings, CoreStats,
    DockerSettings, ExecEnd, ExecId, ExecInfo, ExecOrder, ExecState, ExecStdin, ExecWhat, Limits,
    SandboxRules, Scope, SessionSpec, Stream, TerminalSize,
};
