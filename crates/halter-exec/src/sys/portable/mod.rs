//! The backend for any Unix: fork and exec, process groups, `ps`.
//!
//! Weaker than the Linux one, and [the ladder](crate::isolation_ladder) says
//! so: no control groups, so that a process can leave its tree; numbers
//! instead of handles, so that a signal can hit a stranger; input that passes
//! through this program's memory, so that a kill can give some of it twice.

mod absent;
mod bytes;
mod fork;
mod handle;
mod handover;
mod landing;
mod limit_groups;
pub(crate) mod process_table;

pub use absent::{Cgroup, OwnGroup, PidNamespace};
pub(crate) use absent::{
    Namespaces, SystemCallFilter, chroot_mechanism, execute_ruleset, file_rules_mechanism,
    file_ruleset, landlock_scopes, make_placeholder, mount_missing, numbered_name, open_cgroup,
    open_limit_group, open_place, privileges_mechanism, remove_placeholder, system_call_filters,
    tree_mechanism,
};
pub(crate) use bytes::{
    memory_file, open_terminal, punch_hole, read_cached, send_file, splice, splice_terminal,
};
pub(crate) use fork::spawn;
pub use handle::PidFd;
pub(crate) use handover::{Handover, fill_random, make_fifo_in, pipe, pipe_capacity, widen_pipe};
pub(crate) use landing::settle;
pub(crate) use limit_groups::LimitGroups;
