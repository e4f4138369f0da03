//! For programs that host commands themselves: daemons that keep processes,
//! pipes and output beyond one call, as `terminal-runtime` does.
//!
//! | want | use |
//! |---|---|
//! | a process without a runtime, planned elsewhere | [`launch()`] with a [`LaunchPlan`] |
//! | a process by number or handle, collected by number | [`PidFd`], [`reap_any`] |
//! | children that cannot signal this program | [`PidNamespace`] |
//! | a shell with processes and streams of your own | [`ShellDriver`] over a [`ShellHost`] |
//! | a tree whose leader another program started | [`HeldTree`] |
//! | a control group by its path; a sandbox for many processes | [`Cgroup`], [`Sandbox`] |
//! | output that is kept and read by offset | [`Spool`] |
//! | standard input by offset | [`InputSpool`] |
//! | named pipes, peers of sockets, bytes between pipes and files | [`system`] |
//! | paths in messages | [`os_bytes`] |

pub mod os_bytes;
pub mod system;

pub use crate::command::run_in;
pub use crate::input::{Delivery, InputError, InputSpool, InputTarget};
pub use crate::launch::{
    DescriptorMapping, LaunchContainment, LaunchFailure, LaunchPlan, LaunchStep, Launched,
    MAX_TARGET_FD, Resource, Rlimit, SystemCalls, launch,
};
pub use crate::sandbox::{KeptMount, Sandbox, make_placeholder, mount_missing, remove_placeholder};
pub use crate::shell::{
    CommandEnd, CommandStreams, CommandText, DirectoryIdentity, EarlierProcesses, LocalHost,
    LocalShell, SharedFile, ShellDriver, ShellFiles, ShellHost, ShellLaunch, ShellProcess,
    ShellState,
};
pub use crate::spawn::find_program_in;
pub use crate::spool::{Spool, SpoolChunk, SpoolProgress, SpoolReader};
pub use crate::sys::{
    Cgroup, Moved, OwnGroup, PidFd, PidNamespace, reap_any, try_watch_descriptor, watch_descriptor,
};
pub use crate::tree::{HeldTree, TREE_MARKER};
