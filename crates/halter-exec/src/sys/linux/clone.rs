//! Creating a process without copying this one.
//!
//! The child is a clone that shares our memory and runs on a stack of its own
//! while the calling thread sleeps (`CLONE_VM | CLONE_VFORK`), so the cost
//! does not depend on how much memory we use. Until it execs it must behave
//! like a signal handler: no allocation, no locks, no panics; it works on a
//! plan that the parent has built, and reports failures by writing into it.

use std::ffi::{CString, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::time::Duration;

use super::cgroup::open_procs;
use super::child::{RawLimit, RawPlan, child_main, sigprocmask};
use super::pidfd::PidFd;
use crate::launch::{LaunchFailure, LaunchStep, Launched, Resource, Rlimit};
use crate::sys::ChildPlan;

/// Enough for the few frames between here and exec.
const STACK_BYTES: usize = 64 * 1024;

/// Creates the process. Returns after it has executed its program or failed.
pub(crate) fn spawn(plan: &ChildPlan<'_>) -> Result<Launched, LaunchFailure> {
    spawn_by(plan, clone_child)
}

fn spawn_by(
    plan: &ChildPlan<'_>,
    clone: impl FnOnce(&mut RawPlan, Option<&OwnedFd>) -> Result<Launched, LaunchFailure>,
) -> Result<Launched, LaunchFailure> {
    let argv = null_terminated(&plan.argv);
    let envp = null_terminated(&plan.envp);
    let mut fds: Vec<[c_int; 2]> = plan
        .fds
        .iter()
        .map(|(source, target)| [source.as_raw_fd(), *target])
        .collect();
    let limits: Vec<RawLimit> = plan.rlimits.iter().map(raw_limit).collect();
    let joins: Vec<c_int> = plan.limit_groups.iter().map(AsRawFd::as_raw_fd).collect();
    let mut raw = RawPlan {
        path: plan.path.as_ptr(),
        argv: argv.as_ptr(),
        envp: envp.as_ptr(),
        root: plan.root.as_ref().map_or(ptr::null(), |root| root.as_ptr()),
        cwd: plan.cwd.as_ptr(),
        fds: fds.as_mut_ptr(),
        fds_len: fds.len(),
        cgroup_procs: -1,
        joins: joins.as_ptr(),
        joins_len: joins.len(),
        terminal: plan.terminal.map_or(-1, |terminal| terminal.as_raw_fd()),
        limits: limits.as_ptr(),
        limits_len: limits.len(),
        no_new_privileges: plan.no_new_privileges,
        ruleset: plan.ruleset.as_ref().map_or(-1, AsRawFd::as_raw_fd),
        failed_step: None,
        failed_entry: 0,
        failed_errno: 0,
    };
    let launched = clone(&mut raw, plan.cgroup.as_ref())?;
    match raw.failed_step {
        None => Ok(launched),
        Some(step) => {
            collect_failed(&launched);
            let error = io::Error::from_raw_os_error(raw.failed_errno);
            Err(LaunchFailure::of(step, raw.failed_entry, &error))
        }
    }
}

fn clone_child(raw: &mut RawPlan, cgroup: Option<&OwnedFd>) -> Result<Launched, LaunchFailure> {
    let failed = |step, error| LaunchFailure::of(step, 0, &error);
    let stack = ChildStack::new().map_err(|error| failed(LaunchStep::Clone, error))?;
    let _masked = AllSignalsBlocked::new();
    match clone3(raw, &stack, cgroup.map(AsFd::as_fd)) {
        // Old kernels and common container filters answer like this; the
        // older call cannot place the child, so it moves itself.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
            let procs = cgroup
                .map(open_procs)
                .transpose()
                .map_err(|error| failed(LaunchStep::ControlGroup, error))?;
            raw.cgroup_procs = procs.as_ref().map_or(-1, AsRawFd::as_raw_fd);
            clone_legacy(raw, &stack)
        }
        other => other,
    }
    .map_err(|error| {
        let step = if cgroup.is_some() && error.raw_os_error() != Some(libc::EAGAIN) {
            LaunchStep::ControlGroup
        } else {
            LaunchStep::Clone
        };
        failed(step, error)
    })
}

/// The child never ran its program: it has called `_exit`, and only its
/// status is left to take away.
fn collect_failed(launched: &Launched) {
    while launched.pidfd.has_ended(Duration::from_secs(1)) {
        match launched.pidfd.reap() {
            Ok(None) => {}
            Ok(Some(_)) | Err(_) => return,
        }
    }
}

fn raw_limit(limit: &Rlimit) -> RawLimit {
    // The constants' type differs between C libraries.
    #[allow(clippy::unnecessary_cast)]
    let resource = match limit.resource {
        Resource::AddressSpace => libc::RLIMIT_AS,
        Resource::CoreBytes => libc::RLIMIT_CORE,
        Resource::CpuSeconds => libc::RLIMIT_CPU,
        Resource::FileBytes => libc::RLIMIT_FSIZE,
        Resource::OpenFiles => libc::RLIMIT_NOFILE,
        Resource::Processes => libc::RLIMIT_NPROC,
    } as c_int;
    RawLimit {
        resource,
        value: libc::rlimit64 {
            rlim_cur: limit.value,
            rlim_max: limit.value,
        },
    }
}

fn null_terminated(strings: &[CString]) -> Vec<*const c_char> {
    strings
        .iter()
        .map(|string| string.as_ptr())
        .chain([ptr::null()])
        .collect()
}

/// Memory for the child to run on, given back when the parent wakes up.
struct ChildStack {
    base: *mut c_void,
}

impl ChildStack {
    fn new() -> io::Result<Self> {
        // SAFETY: a fresh private anonymous mapping aliases nothing.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                STACK_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { base })
    }

    fn top(&self) -> *mut c_void {
        self.base.wrapping_byte_add(STACK_BYTES)
    }
}

impl Drop for ChildStack {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and the child has left it: the parent
        // resumes only after the child's exec or exit.
        unsafe { libc::munmap(self.base, STACK_BYTES) };
    }
}

/// Blocks every signal, the C library's internal ones included, so that no
/// handler of ours runs in the child on shared memory.
struct AllSignalsBlocked {
    previous: u64,
}

impl AllSignalsBlocked {
    fn new() -> Self {
        let all = u64::MAX;
        let mut previous = 0_u64;
        // SAFETY: both pointers are to 64-bit masks and the size says so.
        unsafe { sigprocmask(libc::SIG_SETMASK, &all, &mut previous) };
        Self { previous }
    }
}

impl Drop for AllSignalsBlocked {
    fn drop(&mut self) {
        // SAFETY: as in `new`; a null out-pointer is allowed.
        unsafe { sigprocmask(libc::SIG_SETMASK, &self.previous, ptr::null_mut()) };
    }
}

const SHARED: u64 = libc::CLONE_VM as u64 | libc::CLONE_VFORK as u64 | libc::CLONE_PIDFD as u64;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn clone3(
    raw: &mut RawPlan,
    stack: &ChildStack,
    cgroup: Option<BorrowedFd<'_>>,
) -> io::Result<Launched> {
    const INTO_CGROUP: u64 = 0x2_0000_0000;
    let mut pidfd: c_int = -1;
    let mut args = libc::clone_args {
        flags: SHARED,
        pidfd: &raw mut pidfd as u64,
        child_tid: 0,
        parent_tid: 0,
        exit_signal: libc::SIGCHLD as u64,
        stack: stack.base as u64,
        stack_size: STACK_BYTES as u64,
        tls: 0,
        set_tid: 0,
        set_tid_size: 0,
        cgroup: 0,
    };
    if let Some(directory) = cgroup {
        args.flags |= INTO_CGROUP;
        args.cgroup = directory.as_raw_fd() as u64;
    }
    // SAFETY: `args` describes a private stack; in the child the assembly
    // calls `child_main` on that stack and never comes back, in the parent it
    // falls through with the result. `raw` and all it points to outlive the
    // child's use of them because the parent sleeps until exec or exit.
    let result = unsafe { clone3_call(&args, raw) };
    launched(result, pidfd)
}

#[cfg(target_arch = "x86_64")]
unsafe fn clone3_call(args: &libc::clone_args, raw: *mut RawPlan) -> i64 {
    let result: i64;
    // SAFETY: see `clone3`; rcx and r11 are what `syscall` clobbers, r12 and
    // r13 survive it, and the fresh stack is aligned as a call requires.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r12",
            "call r13",
            "ud2",
            "2:",
            inlateout("rax") libc::SYS_clone3 => result,
            in("rdi") args,
            in("rsi") size_of::<libc::clone_args>(),
            in("r12") raw,
            in("r13") child_main as extern "C" fn(*mut c_void) -> c_int,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    result
}

#[cfg(target_arch = "aarch64")]
unsafe fn clone3_call(args: &libc::clone_args, raw: *mut RawPlan) -> i64 {
    let result: i64;
    // SAFETY: see `clone3`; the system call keeps every register but x0, and
    // the fresh stack is aligned as a call requires.
    unsafe {
        std::arch::asm!(
            "svc #0",
            "cbnz x0, 2f",
            "mov x29, #0",
            "mov x30, #0",
            "mov x0, x20",
            "blr x21",
            "brk #1",
            "2:",
            inlateout("x0") args as *const libc::clone_args => result,
            in("x1") size_of::<libc::clone_args>(),
            in("x8") libc::SYS_clone3,
            in("x20") raw,
            in("x21") child_main as extern "C" fn(*mut c_void) -> c_int,
        );
    }
    result
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn clone3(_: &mut RawPlan, _: &ChildStack, _: Option<BorrowedFd<'_>>) -> io::Result<Launched> {
    Err(io::Error::from_raw_os_error(libc::ENOSYS))
}

fn clone_legacy(raw: &mut RawPlan, stack: &ChildStack) -> io::Result<Launched> {
    let mut pidfd: c_int = -1;
    let flags = c_int::try_from(SHARED).unwrap_or(0) | libc::SIGCHLD;
    // SAFETY: as for `clone3`; libc's wrapper calls `child_main` on the given
    // stack, and `CLONE_PIDFD` stores into the parent-tid argument.
    let result = unsafe {
        libc::clone(
            child_main,
            stack.top(),
            flags,
            ptr::from_mut(raw).cast(),
            &raw mut pidfd,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    launched(i64::from(result), pidfd)
}

fn launched(result: i64, pidfd: c_int) -> io::Result<Launched> {
    if result < 0 {
        let errno = i32::try_from(-result).unwrap_or(libc::EINVAL);
        return Err(io::Error::from_raw_os_error(errno));
    }
    let pid = i32::try_from(result).map_err(|_| io::ErrorKind::InvalidData)?;
    // SAFETY: the kernel has just made this descriptor for us alone.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    Ok(Launched {
        pid,
        pidfd: PidFd::from(pidfd),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Read;

    fn echo(stdout: BorrowedFd<'_>) -> ChildPlan<'_> {
        ChildPlan {
            path: c"/bin/echo".to_owned(),
            argv: vec![c"echo".to_owned(), c"hello".to_owned()],
            envp: Vec::new(),
            root: None,
            cwd: c"/".to_owned(),
            fds: vec![(stdout, 1)],
            terminal: None,
            cgroup: None,
            limit_groups: Vec::new(),
            rlimits: Vec::new(),
            no_new_privileges: false,
            ruleset: None,
        }
    }

    #[test]
    fn the_older_clone_call_works_alike() {
        let (read, write) = crate::sys::pipe().unwrap();
        let plan = echo(write.as_fd());
        let launched = spawn_by(&plan, |raw, _| {
            let stack = ChildStack::new().unwrap();
            let _masked = AllSignalsBlocked::new();
            Ok(clone_legacy(raw, &stack).unwrap())
        })
        .unwrap();
        drop(plan);
        drop(write);
        let mut output = String::new();
        File::from(read).read_to_string(&mut output).unwrap();
        assert_eq!(output, "hello\n");
        collect_failed(&launched);
    }

    #[test]
    fn the_failing_step_is_named() {
        let null = File::open("/dev/null").unwrap();
        let mut missing = echo(null.as_fd());
        missing.path = c"/no/such/program".to_owned();
        let failure = spawn(&missing).unwrap_err();
        assert_eq!(failure.step, LaunchStep::Exec);
        assert_eq!(failure.errno, libc::ENOENT);
        missing.cwd = c"/no/such/directory".to_owned();
        let failure = spawn(&missing).unwrap_err();
        assert_eq!(failure.step, LaunchStep::WorkingDirectory);
    }
}
