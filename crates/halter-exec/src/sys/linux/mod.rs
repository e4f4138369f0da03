//! The Linux backend: clone3 and pidfds, control groups, Landlock, splice,
//! `/proc`.

mod cgroup;
mod child;
mod clone;
mod clone_call;
mod handover;
mod landlock;
mod levels;
mod limit_groups;
mod namespaces;
mod own_group;
mod pid_namespace;
mod pidfd;
mod proc_mount;
pub(crate) mod process_table;
mod seccomp;
mod splice;
mod stack;
mod terminal;

pub use cgroup::Cgroup;
pub(crate) use cgroup::{numbered_name, open_cgroup, open_limit_group};
pub(crate) use clone::spawn;
pub(crate) use handover::{Handover, fill_random, make_fifo_in, pipe, pipe_capacity, widen_pipe};
pub(crate) use landlock::{execute_ruleset, file_ruleset, landlock_scopes, open_place};
pub(crate) use levels::{
    chroot_mechanism, file_rules_mechanism, privileges_mechanism, tree_mechanism,
};
pub(crate) use limit_groups::LimitGroups;
pub(crate) use namespaces::{Namespaces, make_placeholder, mount_missing, remove_placeholder};
pub use own_group::OwnGroup;
pub use pid_namespace::PidNamespace;
pub use pidfd::PidFd;
pub(crate) use pidfd::child_ends;
pub(crate) use seccomp::{SystemCallFilter, system_call_filters};
pub(crate) use splice::{memory_file, punch_hole, read_cached, send_file, settle, splice};
pub(crate) use terminal::{open_terminal, splice_terminal};
