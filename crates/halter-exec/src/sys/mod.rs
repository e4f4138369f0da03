//! The seam to the operating system: creating processes, waiting for them,
//! signalling them, looking at them, moving their bytes. Everything above this
//! module is ordinary safe Rust.
//!
//! Two backends have the same items: `linux`, and `portable` for any other
//! Unix, which can do less and says so. `--cfg halter_portable` takes the
//! second one on Linux too, to test it.

mod child_plan;
mod moved;
mod peer;
mod readiness;
mod rlimits;
mod signals;
pub(crate) mod stat;
mod wait;
mod watch;

#[cfg(all(target_os = "linux", not(halter_portable)))]
mod linux;
#[cfg(all(target_os = "linux", not(halter_portable)))]
use linux as backend;

#[cfg(not(all(target_os = "linux", not(halter_portable))))]
mod portable;
#[cfg(not(all(target_os = "linux", not(halter_portable))))]
use portable as backend;

#[cfg(all(target_os = "linux", not(halter_portable)))]
pub(crate) use backend::child_ends;
pub use backend::{Cgroup, OwnGroup, PidFd, PidNamespace};
pub(crate) use backend::{
    Handover, LimitGroups, Namespaces, SystemCallFilter, chroot_mechanism, execute_ruleset,
    file_rules_mechanism, file_ruleset, fill_random, landlock_scopes, make_fifo_in,
    make_placeholder, memory_file, mount_missing, numbered_name, open_cgroup, open_limit_group,
    open_place, open_terminal, pipe, pipe_capacity, privileges_mechanism, process_table,
    punch_hole, read_cached, remove_placeholder, send_file, settle, spawn, splice, splice_terminal,
    system_call_filters, tree_mechanism, widen_pipe,
};
pub(crate) use child_plan::ChildPlan;
pub use moved::Moved;
pub(crate) use peer::peer_user;
pub(crate) use readiness::{set_nonblocking, waiting_in};
pub(crate) use rlimits::{SoftAndHard, of_child as limits_of_child, raise_descriptor_limit};
pub(crate) use signals::is_ignored;
pub use signals::{Signal, SignalError};
pub use wait::reap_any;
pub(crate) use watch::watch_process;
pub use watch::{try_watch_descriptor, watch_descriptor};
