//! A process to be made, in the system's terms.

use std::ffi::CString;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

use crate::launch::Rlimit;

/// Everything the child does, in C strings and handles made beforehand.
#[derive(Debug)]
pub(crate) struct ChildPlan<'a> {
    pub path: CString,
    pub argv: Vec<CString>,
    pub envp: Vec<CString>,
    pub root: Option<CString>,
    pub cwd: CString,
    /// What becomes which descriptor; everything else is closed on exec.
    pub fds: Vec<(BorrowedFd<'a>, RawFd)>,
    pub terminal: Option<BorrowedFd<'a>>,
    /// The directory of the cgroup to be born in.
    pub cgroup: Option<Arc<OwnedFd>>,
    /// The `cgroup.procs` files of the cgroups to enter.
    pub limit_groups: Vec<Arc<OwnedFd>>,
    pub rlimits: Vec<Rlimit>,
    pub no_new_privileges: bool,
    /// A Landlock ruleset.
    pub ruleset: Option<OwnedFd>,
}
