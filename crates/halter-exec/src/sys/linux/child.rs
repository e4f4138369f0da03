//! The child's life between clone and exec, on memory it shares with the
//! sleeping parent: no allocation, no locks, no panics.

use std::convert::Infallible;
use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use super::namespaces::give_up_capabilities;
use super::seccomp::SystemCallFilter;
use crate::launch::{LaunchStep, MAX_TARGET_FD};

/// The plan as the child sees it: raw pointers into memory that the parent,
/// asleep in the clone, keeps alive.
#[repr(C)]
pub(super) struct RawPlan {
    pub path: *const c_char,
    pub argv: *const *const c_char,
    pub envp: *const *const c_char,
    /// The directory that becomes `/`, or null.
    pub root: *const c_char,
    pub cwd: *const c_char,
    pub fds: *mut [c_int; 2],
    pub fds_len: usize,
    /// The `cgroup.procs` to enter where the clone could not, or -1.
    pub cgroup_procs: c_int,
    /// The `tasks` of further cgroups to enter.
    pub joins: *const c_int,
    pub joins_len: usize,
    /// The controlling terminal, or -1.
    pub terminal: c_int,
    pub limits: *const RawLimit,
    pub limits_len: usize,
    pub no_new_privileges: bool,
    /// Landlock rulesets, each -1 for none.
    pub rulesets: [c_int; 2],
    pub drop_capabilities: bool,
    pub filters: *const SystemCallFilter,
    pub filters_len: usize,
    /// A process whose name spaces it is born in, or -1, and which these are.
    pub namespaces: c_int,
    pub namespace_kinds: c_int,
    /// For the process that is born there, while the first one sleeps.
    pub inner_stack: *mut c_void,
    /// Its number, as the parent sees it.
    pub inner_pid: c_int,
    pub failed_step: Option<LaunchStep>,
    pub failed_entry: usize,
    pub failed_errno: c_int,
}

/// One resource limit in the kernel's terms.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct RawLimit {
    pub resource: c_int,
    pub value: libc::rlimit64,
}

/// The child's life before exec. An `extern "C"` function aborts on panic,
/// and nothing here can panic.
pub(super) extern "C" fn child_main(plan: *mut c_void) -> c_int {
    // SAFETY: the parent passed a pointer to its `RawPlan` and sleeps; this
    // is the only thread using it now.
    let plan = unsafe { &mut *plan.cast::<RawPlan>() };
    // SAFETY: every pointer in the plan is to live, NUL-terminated data of
    // the sleeping parent.
    let failed = unsafe { first_steps(plan) };
    fail(plan, failed)
}

/// The second half of the child's life, where it was born in name spaces of
/// others.
extern "C" fn inner_main(plan: *mut c_void) -> c_int {
    // SAFETY: as in `child_main`; the first process sleeps, too.
    let plan = unsafe { &mut *plan.cast::<RawPlan>() };
    // SAFETY: as in `child_main`.
    let Err(failed) = unsafe { last_steps(plan) };
    fail(plan, failed)
}

fn fail(plan: &mut RawPlan, (step, entry): Failed) -> ! {
    plan.failed_errno = errno();
    plan.failed_step = Some(step);
    plan.failed_entry = entry;
    // SAFETY: ends the child at once, running no exit handlers of ours.
    unsafe { libc::_exit(127) }
}

fn errno() -> c_int {
    // SAFETY: the C library's errno location is always valid.
    unsafe { *libc::__errno_location() }
}

/// The step that failed, and which of its entries.
type Failed = (LaunchStep, usize);

fn check(result: c_int, step: LaunchStep, entry: usize) -> Result<c_int, Failed> {
    if result < 0 {
        Err((step, entry))
    } else {
        Ok(result)
    }
}

/// Returns what failed. Async-signal-safe calls only.
unsafe fn first_steps(plan: &mut RawPlan) -> Failed {
    // SAFETY: as for the functions that are called.
    let done = unsafe {
        match enter_groups(plan) {
            Ok(()) if plan.namespaces >= 0 => be_born_elsewhere(plan),
            Ok(()) => last_steps(plan),
            Err(failed) => Err(failed),
        }
    };
    let Err(failed) = done;
    failed
}

unsafe fn enter_groups(plan: &RawPlan) -> Result<(), Failed> {
    // SAFETY: plain system calls on the plan's valid pointers and numbers.
    unsafe {
        if plan.cgroup_procs >= 0 {
            check(enter(plan.cgroup_procs), LaunchStep::ControlGroup, 0)?;
        }
        for index in 0..plan.joins_len {
            let procs = *plan.joins.add(index);
            check(enter(procs), LaunchStep::ControlGroup, index + 1)?;
        }
    }
    Ok(())
}

/// A PID namespace takes in children only: this process enters the name spaces,
/// makes one more child of its own parent, and is done.
unsafe fn be_born_elsewhere(plan: &mut RawPlan) -> Result<Infallible, Failed> {
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PARENT | libc::SIGCHLD;
    // SAFETY: the child runs on a stack of its own, on memory of the sleeping
    // parent, while this process sleeps as well.
    unsafe {
        let entered = libc::setns(plan.namespaces, plan.namespace_kinds);
        check(entered, LaunchStep::Namespaces, 0)?;
        let stack = plan.inner_stack;
        let pid = libc::clone(inner_main, stack, flags, ptr::from_mut(plan).cast());
        plan.inner_pid = check(pid, LaunchStep::Clone, 0)?;
        libc::_exit(0)
    }
}

/// Async-signal-safe calls only.
unsafe fn last_steps(plan: &mut RawPlan) -> Result<Infallible, Failed> {
    // SAFETY: plain system calls on the plan's valid pointers and numbers.
    unsafe {
        check(libc::setsid(), LaunchStep::Session, 0)?;
        if plan.terminal >= 0 {
            let taken = libc::ioctl(plan.terminal, libc::TIOCSCTTY, 0);
            check(taken, LaunchStep::Terminal, 0)?;
        }
        if !plan.root.is_null() {
            check(libc::chroot(plan.root), LaunchStep::Root, 0)?;
        }
        check(libc::chdir(plan.cwd), LaunchStep::WorkingDirectory, 0)?;
        confine(plan)?;
        arrange_descriptors(plan)?;
        for index in 0..plan.limits_len {
            let limit = &*plan.limits.add(index);
            let set = set_limit(limit);
            check(set, LaunchStep::Limits, index)?;
        }
        reset_signals();
        // Last: the steps before may need what these refuse.
        let filters = std::slice::from_raw_parts(plan.filters, plan.filters_len);
        check(install_filters(filters), LaunchStep::SystemCalls, 0)?;
        libc::execve(plan.path, plan.argv, plan.envp);
    }
    Err((LaunchStep::Exec, 0))
}

/// Moves the calling process.
unsafe fn enter(procs: c_int) -> c_int {
    // SAFETY: writes one byte of a constant.
    let written = unsafe { libc::write(procs, c"0".as_ptr().cast(), 1) };
    if written == 1 { 0 } else { -1 }
}

/// Gives up privileges and rights to files. Descriptors that are open keep
/// theirs.
unsafe fn confine(plan: &RawPlan) -> Result<(), Failed> {
    // SAFETY: system calls that take numbers only.
    unsafe {
        if plan.drop_capabilities {
            check(give_up_capabilities(), LaunchStep::Capabilities, 0)?;
        }
        if plan.no_new_privileges {
            let set = libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            check(set, LaunchStep::NoNewPrivileges, 0)?;
        }
        for ruleset in plan.rulesets {
            if ruleset >= 0 && libc::syscall(libc::SYS_landlock_restrict_self, ruleset, 0) != 0 {
                return Err((LaunchStep::FileRules, 0));
            }
        }
    }
    Ok(())
}

/// Installs filters of system calls; 0 or -1 with `errno`.
pub(super) unsafe fn install_filters(filters: &[SystemCallFilter]) -> c_int {
    for filter in filters {
        let Ok(len) = u16::try_from(filter.len()) else {
            return -1;
        };
        let program = libc::sock_fprog {
            len,
            filter: filter.as_ptr().cast_mut().cast(),
        };
        // SAFETY: the program is as long as it says, and outlives the call.
        let set = unsafe {
            libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const program,
            )
        };
        if set < 0 {
            return -1;
        }
    }
    0
}

/// The first descriptor that is not a standard stream.
const FIRST_NOT_STANDARD: c_int = 3;

unsafe fn arrange_descriptors(plan: &mut RawPlan) -> Result<(), Failed> {
    // SAFETY: the array of pairs is the sleeping parent's; the calls act on
    // the child's own copy of the descriptor table.
    unsafe {
        // First away from the numbers that are about to be overwritten.
        for index in 0..plan.fds_len {
            let entry = &mut *plan.fds.add(index);
            if entry[0] <= MAX_TARGET_FD {
                entry[0] = check(
                    libc::fcntl(entry[0], libc::F_DUPFD_CLOEXEC, MAX_TARGET_FD + 1),
                    LaunchStep::Descriptors,
                    index,
                )?;
            }
        }
        close_on_exec_from(FIRST_NOT_STANDARD);
        for index in 0..plan.fds_len {
            let [source, target] = *plan.fds.add(index);
            check(libc::dup2(source, target), LaunchStep::Descriptors, index)?;
        }
    }
    Ok(())
}

unsafe fn set_limit(limit: &RawLimit) -> c_int {
    // SAFETY: reads one valid structure. The raw call, because the type of
    // the resource differs between C libraries.
    let result = unsafe {
        libc::syscall(
            libc::SYS_prlimit64,
            0,
            limit.resource,
            &raw const limit.value,
            ptr::null_mut::<libc::rlimit64>(),
        )
    };
    if result == 0 { 0 } else { -1 }
}

/// Descriptors opened elsewhere in the program without the close-on-exec flag
/// must not reach the child either.
pub(super) unsafe fn close_on_exec_from(first: c_int) {
    // SAFETY: flags on our own copy of the descriptor table.
    unsafe {
        let done = libc::syscall(
            libc::SYS_close_range,
            first,
            c_int::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        );
        if done == 0 {
            return;
        }
        let mut limit = libc::rlimit {
            rlim_cur: 1024,
            rlim_max: 1024,
        };
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        let last = c_int::try_from(limit.rlim_cur)
            .unwrap_or(65_536)
            .min(65_536);
        for fd in first..last {
            libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
        }
    }
}

/// Exec keeps ignored signals ignored (Rust programs ignore SIGPIPE, which
/// would break `yes | head`) and keeps the mask: both start fresh.
pub(super) unsafe fn reset_signals() {
    let empty = 0_u64;
    // SAFETY: masks are 64 bits wide.
    unsafe {
        for signal in 1..=64 {
            reset_signal(signal);
        }
        sigprocmask(libc::SIG_SETMASK, &empty, ptr::null_mut());
    }
}

unsafe fn reset_signal(signal: c_int) {
    // All zeros is "default action, no flags, empty mask" in every layout of
    // the kernel's sigaction.
    let default = [0_u64; 8];
    // SAFETY: the struct is at least as large as the kernel's; failures (KILL
    // and STOP) are of no interest.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigaction,
            signal,
            default.as_ptr(),
            ptr::null_mut::<c_void>(),
            size_of::<u64>(),
        );
    }
}

/// The raw call, because libc's wrapper filters signals out.
pub(super) unsafe fn sigprocmask(how: c_int, set: *const u64, old: *mut u64) {
    // SAFETY: the caller passes valid pointers to 64-bit masks (or null).
    unsafe { libc::syscall(libc::SYS_rt_sigprocmask, how, set, old, size_of::<u64>()) };
}
