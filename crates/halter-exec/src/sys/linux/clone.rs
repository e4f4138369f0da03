//! Creating a process without copying this one.
//!
//! The child is a clone that shares our memory and runs on a stack of its own
//! while the calling thread sleeps (`CLONE_VM | CLONE_VFORK`), so the cost
//! does not depend on how much memory we use. Until it execs it must behave
//! like a signal handler: no allocation, no locks, no panics; it works on a
//! plan that the parent has built, and reports failures by writing into it.

use std::ffi::{CString, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use super::child::{MAX_TARGET_FD, RawPlan, SpawnStep, child_main, sigprocmask};

/// Enough for the few frames between here and exec.
const STACK_BYTES: usize = 64 * 1024;

/// Everything the child does, in C strings made beforehand.
#[derive(Debug)]
pub(crate) struct ChildPlan<'a> {
    pub path: CString,
    pub argv: Vec<CString>,
    pub envp: Vec<CString>,
    pub cwd: CString,
    /// What becomes which descriptor; everything else is closed on exec.
    pub fds: Vec<(BorrowedFd<'a>, RawFd)>,
    /// The directory of the cgroup to be born in.
    pub cgroup: Option<BorrowedFd<'a>>,
}

#[derive(Debug)]
pub(crate) struct Spawned {
    pub pid: i32,
    pub pidfd: OwnedFd,
}

#[derive(Debug)]
pub(crate) struct SpawnFailure {
    pub step: SpawnStep,
    pub error: io::Error,
}

/// Creates the process. Returns after it has executed its program or failed.
pub(crate) fn spawn(plan: &ChildPlan<'_>) -> Result<Spawned, SpawnFailure> {
    let argv = null_terminated(&plan.argv);
    let envp = null_terminated(&plan.envp);
    let mut fds: Vec<[c_int; 2]> = plan
        .fds
        .iter()
        .map(|(source, target)| [source.as_raw_fd(), *target])
        .collect();
    debug_assert!(plan.fds.iter().all(|(_, target)| *target <= MAX_TARGET_FD));
    let mut raw = RawPlan {
        path: plan.path.as_ptr(),
        argv: argv.as_ptr(),
        envp: envp.as_ptr(),
        cwd: plan.cwd.as_ptr(),
        fds: fds.as_mut_ptr(),
        fds_len: fds.len(),
        cgroup_procs: -1,
        failed_step: None,
        failed_errno: 0,
    };
    let result = clone_child(&mut raw, plan.cgroup);
    let spawned = result?;
    match raw.failed_step {
        None => Ok(spawned),
        Some(step) => {
            collect_failed(&spawned);
            Err(SpawnFailure {
                step,
                error: io::Error::from_raw_os_error(raw.failed_errno),
            })
        }
    }
}

fn clone_child(raw: &mut RawPlan, cgroup: Option<BorrowedFd<'_>>) -> Result<Spawned, SpawnFailure> {
    let stack = ChildStack::new().map_err(|error| SpawnFailure {
        step: SpawnStep::Clone,
        error,
    })?;
    let _masked = AllSignalsBlocked::new();
    match clone3(raw, &stack, cgroup) {
        // Old kernels and common container filters answer like this; the
        // older call cannot place the child, so it moves itself.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
            let procs = cgroup
                .map(open_procs)
                .transpose()
                .map_err(|error| SpawnFailure {
                    step: SpawnStep::Cgroup,
                    error,
                })?;
            raw.cgroup_procs = procs.as_ref().map_or(-1, AsRawFd::as_raw_fd);
            clone_legacy(raw, &stack)
        }
        other => other,
    }
    .map_err(|error| SpawnFailure {
        step: if cgroup.is_some() && error.raw_os_error() != Some(libc::EAGAIN) {
            SpawnStep::Cgroup
        } else {
            SpawnStep::Clone
        },
        error,
    })
}

fn open_procs(cgroup: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    use rustix::fs::{Mode, OFlags, openat};
    Ok(openat(
        cgroup,
        "cgroup.procs",
        OFlags::WRONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )?)
}

/// The child never ran its program: it has called `_exit`, and only its
/// status is left to take away.
fn collect_failed(spawned: &Spawned) {
    let mut info = std::mem::MaybeUninit::<libc::siginfo_t>::zeroed();
    let fd = libc::id_t::try_from(spawned.pidfd.as_raw_fd()).unwrap_or(libc::id_t::MAX);
    // SAFETY: `info` is valid for writes; the child is ours and is exiting.
    unsafe { libc::waitid(libc::P_PIDFD, fd, info.as_mut_ptr(), libc::WEXITED) };
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
) -> io::Result<Spawned> {
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
    spawned(result, pidfd)
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
fn clone3(_: &mut RawPlan, _: &ChildStack, _: Option<BorrowedFd<'_>>) -> io::Result<Spawned> {
    Err(io::Error::from_raw_os_error(libc::ENOSYS))
}

fn clone_legacy(raw: &mut RawPlan, stack: &ChildStack) -> io::Result<Spawned> {
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
    spawned(i64::from(result), pidfd)
}

fn spawned(result: i64, pidfd: c_int) -> io::Result<Spawned> {
    if result < 0 {
        let errno = i32::try_from(-result).unwrap_or(libc::EINVAL);
        return Err(io::Error::from_raw_os_error(errno));
    }
    let pid = i32::try_from(result).map_err(|_| io::ErrorKind::InvalidData)?;
    // SAFETY: the kernel has just made this descriptor for us alone.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    Ok(Spawned { pid, pidfd })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Read;
    use std::os::fd::AsFd;

    fn plan<'a>(path: &str, argv: &[&str], stdout: BorrowedFd<'a>) -> ChildPlan<'a> {
        let text = |value: &&str| CString::new(*value).unwrap();
        ChildPlan {
            path: CString::new(path).unwrap(),
            argv: argv.iter().map(text).collect(),
            envp: vec![c"A=1".to_owned()],
            cwd: c"/".to_owned(),
            fds: vec![(stdout, 0), (stdout, 1), (stdout, 2)],
            cgroup: None,
        }
    }

    #[test]
    fn the_older_clone_call_works_alike() {
        let (read, write) = super::super::handover::pipe().unwrap();
        let plan = plan("/bin/echo", &["echo", "hello"], write.as_fd());
        let argv = null_terminated(&plan.argv);
        let envp = null_terminated(&plan.envp);
        let mut fds = vec![[write.as_raw_fd(), 1]];
        let mut raw = RawPlan {
            path: plan.path.as_ptr(),
            argv: argv.as_ptr(),
            envp: envp.as_ptr(),
            cwd: plan.cwd.as_ptr(),
            fds: fds.as_mut_ptr(),
            fds_len: fds.len(),
            cgroup_procs: -1,
            failed_step: None,
            failed_errno: 0,
        };
        let stack = ChildStack::new().unwrap();
        let spawned = {
            let _masked = AllSignalsBlocked::new();
            clone_legacy(&mut raw, &stack).unwrap()
        };
        assert_eq!(raw.failed_step, None);
        drop(plan);
        drop(write);
        let mut output = String::new();
        File::from(read).read_to_string(&mut output).unwrap();
        assert_eq!(output, "hello\n");
        collect_failed(&spawned);
    }

    #[test]
    fn the_failing_step_is_named() {
        let null = File::open("/dev/null").unwrap();
        let mut missing = plan("/no/such/program", &["x"], null.as_fd());
        let failure = spawn(&missing).unwrap_err();
        assert_eq!(failure.step, SpawnStep::Exec);
        assert_eq!(failure.error.raw_os_error(), Some(libc::ENOENT));
        missing.cwd = c"/no/such/directory".to_owned();
        let failure = spawn(&missing).unwrap_err();
        assert_eq!(failure.step, SpawnStep::WorkingDirectory);
    }
}
