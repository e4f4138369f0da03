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
//! | one program, start to end | [`run`] with a [`CommandSpec`] |
//! | commands that share a shell's state | [`PersistentShell`] |
//! | the same with processes and streams of your own | [`ShellDriver`] |
//! | a process by handle | [`Process`] |
//! | a process without a runtime, planned elsewhere | [`launch()`] with a [`LaunchPlan`] |
//! | confinement and limits | [`SandboxSpec`], [`isolation_ladder`] |
//! | a control group by its path | [`Cgroup`] |
//! | output that is kept and read by offset | [`Spool`] |
//! | standard input by offset | [`InputSpool`] |
//! | a pseudo-terminal | [`Terminal`] |
//! | look at or kill a tree | [`list_descendants`], [`kill_tree`] |
//! | named pipes, peers of sockets, bytes between pipes and files, on any system | [`system`] |

mod command;
mod environment;
mod error;
mod exit;
mod input;
mod launch;
pub mod limits;
mod nonce;
pub mod os_bytes;
mod output;
mod process;
mod sandbox;
mod shell;
mod spawn;
mod spool;
mod streams;
mod sys;
pub mod system;
mod terminal;
mod tree;

pub use command::{CommandOutcome, run};
pub use environment::Environment;
pub use error::ExecError;
pub use exit::{Exit, ExitStatus, ResourceUsage};
pub use input::{Delivery, InputError, InputSpool, InputTarget};
pub use launch::{
    DescriptorMapping, LaunchFailure, LaunchPlan, LaunchStep, Launched, MAX_TARGET_FD, Resource,
    Rlimit, launch,
};
pub use output::{
    CapturedOutput, ChannelSink, OutputChunk, OutputLimits, OutputPipe, OutputSink, OutputStream,
    SpoolFile, SpoolSettings, Utf8Decoder, channel,
};
pub use process::{CommandSpec, Process, Stdin};
pub use sandbox::{
    FileAccess, FileRule, IsolationLevel, LevelState, LimitHits, LimitKind, LimitMechanism,
    LimitReport, ResourceLimits, Sandbox, SandboxSpec, isolation_ladder,
};
pub use shell::{
    Bystanders, CommandEnd, CommandStreams, CommandText, DirectoryIdentity, LocalHost, LocalShell,
    PersistentShell, SharedFile, ShellCommand, ShellConfig, ShellDriver, ShellFiles, ShellHost,
    ShellLaunch, ShellProcess, ShellState,
};
pub use spawn::{find_program, find_program_in};
pub use spool::{Spool, SpoolChunk, SpoolProgress, SpoolReader};
pub use streams::ProcessStreams;
pub use sys::{
    Cgroup, Moved, OwnGroup, PidFd, Signal, SignalError, reap_any, try_watch_descriptor,
    watch_descriptor,
};
pub use terminal::{Terminal, TerminalSize};
pub use tree::{
    HeldTree, KillOutcome, ProcessInfo, SignalResult, TREE_MARKER, TreeControl, kill_tree,
    list_descendants,
};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
