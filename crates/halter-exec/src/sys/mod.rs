//! The seam to the operating system: creating processes, waiting for them,
//! signalling them, looking at them. Everything above this module is ordinary
//! safe Rust. Another Unix needs a sibling of `linux` with the same items.

#[cfg(not(target_os = "linux"))]
compile_error!("halter-exec runs on Linux; another Unix needs a backend beside `sys::linux`");

mod linux;

pub use linux::cgroup::Cgroup;
pub(crate) use linux::cgroup::{numbered_name, open_cgroup, open_limit_groups};
pub(crate) use linux::clone::{ChildPlan, spawn};
pub(crate) use linux::handover::{
    data_file, handover_path, pipe, pipe_capacity, set_nonblocking, widen_pipe,
};
pub(crate) use linux::landlock::{file_ruleset, open_place};
pub(crate) use linux::levels::{
    chroot_mechanism, file_rules_mechanism, privileges_mechanism, tree_mechanism,
};
pub(crate) use linux::limit_groups::LimitGroups;
pub use linux::pidfd::{PidFd, reap_any};
pub(crate) use linux::procfs;
pub use linux::signals::{Signal, SignalError};
pub use linux::splice::Moved;
pub(crate) use linux::splice::{
    memory_file, punch_hole, read_cached, send_file, splice, waiting_in,
};
pub(crate) use linux::terminal::{open_terminal, splice_terminal};
pub use linux::watch::watch_descriptor;
pub(crate) use linux::watch::watch_process;
