//! The child's life between clone and exec, on memory it shares with the
//! sleeping parent: no allocation, no locks, no panics.

use std::ffi::{c_char, c_int, c_void};
use std::os::fd::RawFd;
use std::ptr;

/// Highest descriptor number a plan may ask for in the child.
pub(crate) const MAX_TARGET_FD: RawFd = 15;

/// Where the child, or its creation, failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpawnStep {
    Clone,
    Cgroup,
    Session,
    WorkingDirectory,
    Descriptors,
    Exec,
}

impl SpawnStep {
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::Clone => "creating the process",
            Self::Cgroup => "entering its control group",
            Self::Session => "making its session",
            Self::WorkingDirectory => "entering the working directory",
            Self::Descriptors => "arranging its descriptors",
            Self::Exec => "executing the program",
        }
    }
}

/// The plan as the child sees it: raw pointers into memory that the parent,
/// asleep in the clone, keeps alive.
#[repr(C)]
pub(super) struct RawPlan {
    pub path: *const c_char,
    pub argv: *const *const c_char,
    pub envp: *const *const c_char,
    pub cwd: *const c_char,
    pub fds: *mut [c_int; 2],
    pub fds_len: usize,
    pub cgroup_procs: c_int,
    pub failed_step: Option<SpawnStep>,
    pub failed_errno: c_int,
}

/// The child's life before exec. An `extern "C"` function aborts on panic,
/// and nothing here can panic.
pub(super) extern "C" fn child_main(plan: *mut c_void) -> c_int {
    // SAFETY: the parent passed a pointer to its `RawPlan` and sleeps; this
    // is the only thread using it now.
    let plan = unsafe { &mut *plan.cast::<RawPlan>() };
    // SAFETY: every pointer in the plan is to live, NUL-terminated data of
    // the sleeping parent.
    let Err(step) = unsafe { child_steps(plan) };
    plan.failed_errno = errno();
    plan.failed_step = Some(step);
    // SAFETY: ends the child at once, running no exit handlers of ours.
    unsafe { libc::_exit(127) }
}

fn errno() -> c_int {
    // SAFETY: the C library's errno location is always valid.
    unsafe { *libc::__errno_location() }
}

/// Async-signal-safe calls only.
unsafe fn child_steps(plan: &mut RawPlan) -> Result<std::convert::Infallible, SpawnStep> {
    let check = |result: c_int, step: SpawnStep| if result < 0 { Err(step) } else { Ok(result) };
    // SAFETY: plain system calls on the plan's valid pointers and numbers.
    unsafe {
        if plan.cgroup_procs >= 0 {
            let written = libc::write(plan.cgroup_procs, c"0".as_ptr().cast(), 1);
            check(if written == 1 { 0 } else { -1 }, SpawnStep::Cgroup)?;
        }
        check(libc::setsid(), SpawnStep::Session)?;
        check(libc::chdir(plan.cwd), SpawnStep::WorkingDirectory)?;
        // First away from the numbers that are about to be overwritten.
        for index in 0..plan.fds_len {
            let entry = &mut *plan.fds.add(index);
            if entry[0] <= MAX_TARGET_FD {
                entry[0] = check(
                    libc::fcntl(entry[0], libc::F_DUPFD_CLOEXEC, MAX_TARGET_FD + 1),
                    SpawnStep::Descriptors,
                )?;
            }
        }
        close_on_exec_from(3);
        for index in 0..plan.fds_len {
            let [source, target] = *plan.fds.add(index);
            check(libc::dup2(source, target), SpawnStep::Descriptors)?;
        }
        reset_signals();
        libc::execve(plan.path, plan.argv, plan.envp);
    }
    Err(SpawnStep::Exec)
}

/// Descriptors opened elsewhere in the program without the close-on-exec flag
/// must not reach the child either.
unsafe fn close_on_exec_from(first: c_int) {
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
unsafe fn reset_signals() {
    // All zeros is "default action, no flags, empty mask" in every layout of
    // the kernel's sigaction.
    let default = [0_u64; 8];
    let empty = 0_u64;
    // SAFETY: the struct is at least as large as the kernel's; failures (KILL
    // and STOP) are of no interest.
    unsafe {
        for signal in 1..=64 {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                default.as_ptr(),
                ptr::null_mut::<c_void>(),
                size_of::<u64>(),
            );
        }
        sigprocmask(libc::SIG_SETMASK, &empty, ptr::null_mut());
    }
}

/// The raw call, because libc's wrapper filters signals out.
pub(super) unsafe fn sigprocmask(how: c_int, set: *const u64, old: *mut u64) {
    // SAFETY: the caller passes valid pointers to 64-bit masks (or null).
    unsafe { libc::syscall(libc::SYS_rt_sigprocmask, how, set, old, size_of::<u64>()) };
}
