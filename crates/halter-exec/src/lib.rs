//! Spawn, supervise and kill process trees; bounded output; persistent shells.
//!
//! Owns: creating processes without copying this one, their environment and
//! descriptors, deadlines and cancellation of whole trees, output within
//! bounds, shells whose state survives from command to command.
//!
//! Never: knows what an agent, a tool or a model is; decides whether
//! something may run; becomes a subreaper, installs signal handlers or waits
//! for children that are not its own; reads the environment of this program.
//!
//! | want | use |
//! |---|---|
//! | one program, start to end | [`Command::output`], or [`run`] with a sink and a way to cancel |
//! | commands that share a shell's state | [`PersistentShell`] |
//! | a process by handle | [`Process`] |
//! | confinement and limits | [`SandboxSpec`], [`isolation_ladder`] |
//! | a pseudo-terminal | [`Terminal`] |
//! | a program that serves, kept running | [`supervise`] |
//! | look at or kill a tree | [`list_descendants`], [`kill_tree`] |
//! | to host commands yourself, as a daemon does | [`host`] |

mod command;
mod environment;
mod error;
mod exit;
pub mod host;
mod input;
mod launch;
pub mod limits;
mod nonce;
mod output;
mod pause;
mod process;
mod sandbox;
mod shell;
mod spawn;
mod spool;
mod streams;
pub mod supervise;
mod sys;
mod terminal;
mod tool_sets;
mod tree;

pub use command::{CommandOutcome, run};
pub use environment::Environment;
pub use error::ExecError;
pub use exit::{Exit, ExitStatus, ResourceUsage};
pub use output::{
    CapturedOutput, ChannelSink, OutputChunk, OutputLimits, OutputPipe, OutputSink, OutputStream,
    SpoolFile, SpoolSettings, Utf8Decoder, channel,
};
pub use pause::{DeadlinePause, HeldDeadline};
pub use process::{Command, Process, Stdin};
pub use sandbox::{
    Containment, ContainmentRung, FileAccess, FileRule, IsolationLevel, LevelState, LimitHits,
    LimitKind, LimitMechanism, LimitReport, MissingRung, NetworkAccess, ResourceLimits,
    SandboxSpec, is_placeholder, isolation_ladder, landlock_lists_programs, landlock_scopes,
    probe_containment,
};
pub use shell::{
    DirectoryIdentity, PersistentShell, ShellChange, ShellCommand, ShellConfig, ShellOption,
    ShellReport,
};
pub use spawn::find_program;
pub use streams::ProcessStreams;
pub use sys::{Signal, SignalError};
pub use terminal::{Terminal, TerminalSize};
pub use tool_sets::{ToolFiles, ToolScope, builds_in_temporary, make_tool_places, tool_files};
pub use tree::{KillOutcome, ProcessInfo, SignalResult, TreeControl, kill_tree, list_descendants};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
