//! The Linux backend: clone3 and pidfds, cgroup v2, `/proc`.

pub(crate) mod cgroup;
pub(crate) mod child;
pub(crate) mod clone;
pub(crate) mod handover;
pub(crate) mod landlock;
pub(crate) mod levels;
pub(crate) mod limit_groups;
pub(crate) mod pidfd;
pub(crate) mod procfs;
pub(crate) mod signals;
pub(crate) mod splice;
pub(crate) mod terminal;
pub(crate) mod watch;
