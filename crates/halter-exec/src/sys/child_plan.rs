//! A process to be made, in the system's terms.

use std::ffi::{CString, c_char, c_int};
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::ptr;

use super::SystemCallFilter;
use crate::launch::{Resource, Rlimit};

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
    pub cgroup: Option<OwnedFd>,
    /// The `tasks` files of the cgroups to enter.
    pub limit_groups: Vec<OwnedFd>,
    pub rlimits: Vec<Rlimit>,
    pub no_new_privileges: bool,
    /// A Landlock ruleset.
    pub ruleset: Option<OwnedFd>,
    /// Another one, about what may be executed.
    pub exec_ruleset: Option<OwnedFd>,
    pub drop_capabilities: bool,
    pub filters: Vec<SystemCallFilter>,
    /// A process whose name spaces it is born in, and which these are.
    pub namespaces: Option<(BorrowedFd<'a>, c_int)>,
}

/// Strings as `exec` takes them. Valid as long as they are.
pub(super) fn null_terminated(strings: &[CString]) -> Vec<*const c_char> {
    let pointers = strings.iter().map(|string| string.as_ptr());
    pointers.chain([ptr::null()]).collect()
}

/// The system's number of a resource.
pub(super) fn resource_number(resource: Resource) -> c_int {
    // The constants' type differs between C libraries.
    #[allow(clippy::unnecessary_cast)]
    let number = match resource {
        Resource::AddressSpace => libc::RLIMIT_AS,
        Resource::CoreBytes => libc::RLIMIT_CORE,
        Resource::CpuSeconds => libc::RLIMIT_CPU,
        Resource::FileBytes => libc::RLIMIT_FSIZE,
        Resource::OpenFiles => libc::RLIMIT_NOFILE,
        Resource::Processes => libc::RLIMIT_NPROC,
    } as c_int;
    number
}
