//! The system calls that make a child which shares our memory.

use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

use super::child::{RawPlan, child_main, sigprocmask};
use super::stack::ChildStack;

/// The child runs in the parent's memory while the parent sleeps, and the
/// parent is given a handle.
const FLAGS: c_int = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD;

/// A child that has left its parent's memory.
pub(super) struct Born {
    pub pid: i32,
    pub handle: OwnedFd,
}

/// Blocks every signal, the C library's internal ones included, so that no
/// handler of ours runs in the child on shared memory.
pub(super) struct AllSignalsBlocked {
    previous: u64,
}

impl AllSignalsBlocked {
    pub(super) fn new() -> Self {
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

/// Makes a child that runs `child_main` on a stack of its own, in the group
/// if one is given. All signals must be blocked.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) fn clone3(
    raw: &mut RawPlan,
    stack: &ChildStack,
    cgroup: Option<BorrowedFd<'_>>,
) -> io::Result<Born> {
    const INTO_CGROUP: u64 = 0x2_0000_0000;
    let mut pidfd: c_int = -1;
    let mut args = libc::clone_args {
        flags: FLAGS as u64,
        pidfd: &raw mut pidfd as u64,
        child_tid: 0,
        parent_tid: 0,
        exit_signal: libc::SIGCHLD as u64,
        stack: stack.base() as u64,
        stack_size: stack.length() as u64,
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
    born(result, pidfd)
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
pub(super) fn clone3(
    _: &mut RawPlan,
    _: &ChildStack,
    _: Option<BorrowedFd<'_>>,
) -> io::Result<Born> {
    Err(io::Error::from_raw_os_error(libc::ENOSYS))
}

/// The call of old kernels, which cannot place the child in a group.
pub(super) fn clone_legacy(raw: &mut RawPlan, stack: &ChildStack) -> io::Result<Born> {
    let mut pidfd: c_int = -1;
    // SAFETY: as for `clone3`; libc's wrapper calls `child_main` on the given
    // stack, and `CLONE_PIDFD` stores into the parent-tid argument.
    let result = unsafe {
        libc::clone(
            child_main,
            stack.top(),
            FLAGS | libc::SIGCHLD,
            ptr::from_mut(raw).cast(),
            &raw mut pidfd,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    born(i64::from(result), pidfd)
}

fn born(result: i64, pidfd: c_int) -> io::Result<Born> {
    if result < 0 {
        let errno = i32::try_from(-result).unwrap_or(libc::EINVAL);
        return Err(io::Error::from_raw_os_error(errno));
    }
    let pid = i32::try_from(result).map_err(|_| io::ErrorKind::InvalidData)?;
    // SAFETY: the kernel has just made this descriptor for us alone.
    let handle = unsafe { OwnedFd::from_raw_fd(pidfd) };
    Ok(Born { pid, handle })
}
