//! A PID namespace for everything that this program starts, while the program
//! itself stays outside: it sees, collects and signals its children by the
//! numbers it always had, and they cannot even name it.
//!
//! Its first process collects orphans, ends with this program, and shares the
//! program's descriptors: what this program has open as `N` is
//! `/proc/1/fd/N` inside.

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::ptr;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;

use super::clone_call::AllSignalsBlocked;
use super::handover::pipe;
use super::pidfd::PidFd;
use super::proc_mount::{self, ProcMount};
use super::stack::ChildStack;
use crate::sys::Signal;

/// The namespace that the children of this program are born in. It lasts
/// until this program ends, or until [`kill`](Self::kill).
#[derive(Debug)]
pub struct PidNamespace {
    first: i32,
    handle: PidFd,
}

/// What was being done when it failed.
#[derive(Debug, Clone, Copy)]
enum NamespaceStep {
    MountNamespace,
    SetApart,
    PidNamespace,
    FirstProcess,
    Mount,
}

/// The step that failed, and the system's error number.
type Failed = (NamespaceStep, c_int);

impl PidNamespace {
    /// Has every process that this program starts from now on be born in a
    /// PID namespace of its own, with a `proc` of its own at these places,
    /// which must have one. Mounts made elsewhere are shared as before.
    ///
    /// Only for a program with one thread, which starts no other, needs no
    /// `/proc` and never calls this again. Nothing has changed for its
    /// children if it fails.
    ///
    /// # Errors
    /// If this program may not do that, or `proc` cannot be mounted as it is
    /// now.
    pub fn enter(procs: &[impl AsRef<Path>]) -> io::Result<Self> {
        let mounts = proc_mount::plan(procs)?;
        let before = File::open("/proc/self/ns/pid")?;
        separate(&mounts).map_err(explained)?;
        Self::begin(&mounts).inspect_err(|_| {
            // SAFETY: takes a descriptor; back to where children were born.
            unsafe { libc::setns(before.as_raw_fd(), libc::CLONE_NEWPID) };
        })
    }

    /// Whether [`enter`](Self::enter) would work, tried by another process.
    ///
    /// # Errors
    /// Why it would not.
    pub fn probe(procs: &[impl AsRef<Path>]) -> io::Result<()> {
        let mounts = proc_mount::plan(procs)?;
        let stacks = (ChildStack::new()?, ChildStack::new()?);
        let mut trial = Trial {
            mounts: &mounts,
            inner_stack: stacks.1.top(),
            result: Ok(()),
        };
        {
            let _masked = AllSignalsBlocked::new();
            // SAFETY: the child works on memory of this thread, which sleeps
            // until the child has ended, and on a stack of its own.
            unsafe {
                run_to_end(
                    try_outside,
                    stacks.0.top(),
                    ptr::from_mut(&mut trial).cast(),
                )?
            };
        }
        trial.result.map_err(explained)
    }

    /// Starts the first process and waits until it is ready.
    fn begin(mounts: &[ProcMount]) -> io::Result<Self> {
        let own = i32::try_from(std::process::id()).map_err(io::Error::other)?;
        let program = PidFd::open(own)?;
        let (ready, announce) = pipe()?;
        let stack = ChildStack::new()?;
        let mut start = FirstProcess {
            mounts,
            program: program.as_raw_fd(),
            announce: announce.as_raw_fd(),
        };
        let mut pidfd: c_int = -1;
        // SAFETY: the child has a copy of this memory, the stack in it, and
        // `CLONE_PIDFD` stores into the parent-tid argument.
        let first = unsafe {
            libc::clone(
                first_process,
                stack.top(),
                libc::CLONE_FILES | libc::CLONE_PIDFD | libc::SIGCHLD,
                ptr::from_mut(&mut start).cast(),
                &raw mut pidfd,
            )
        };
        if first < 0 {
            return Err(explained((NamespaceStep::FirstProcess, errno())));
        }
        // SAFETY: the kernel has just made this descriptor for us alone.
        let handle = PidFd::from(unsafe { OwnedFd::from_raw_fd(pidfd) });
        let mut watched = [
            PollFd::new(&ready, PollFlags::IN),
            PollFd::new(&handle, PollFlags::IN),
        ];
        retry_on_intr(|| poll(&mut watched, None))?;
        let [ready, _] = watched.map(|found| !found.revents().is_empty());
        if ready {
            return Ok(Self { first, handle });
        }
        let exit = handle.reap()?.and_then(|exit| exit.status.code);
        Err(explained((NamespaceStep::Mount, exit.unwrap_or(libc::EIO))))
    }

    /// The number of its first process, as this program sees it. The
    /// namespace is of no use any more when that has ended.
    #[must_use]
    pub fn first(&self) -> i32 {
        self.first
    }

    /// Kills everything in it.
    ///
    /// # Errors
    /// If its first process has been collected.
    pub fn kill(&self) -> io::Result<()> {
        self.handle.send(Signal::KILL)
    }
}

/// Leaves the mount namespace, and has the next child be the first of a new
/// PID namespace. Async-signal-safe.
fn separate(mounts: &[ProcMount]) -> Result<(), Failed> {
    // SAFETY: takes flags; acts on the calling process alone.
    let unshare = |flags| unsafe { libc::unshare(flags) };
    check(unshare(libc::CLONE_NEWNS), NamespaceStep::MountNamespace)?;
    for mount in mounts {
        check(mount.set_apart(), NamespaceStep::SetApart)?;
    }
    check(unshare(libc::CLONE_NEWPID), NamespaceStep::PidNamespace)
}

/// Makes all of them or none. Async-signal-safe.
fn make_mounts(mounts: &[ProcMount]) -> Result<(), Failed> {
    for (made, mount) in mounts.iter().enumerate() {
        if let Err(failed) = check(mount.make(), NamespaceStep::Mount) {
            mounts.iter().take(made).for_each(ProcMount::unmake);
            return Err(failed);
        }
    }
    Ok(())
}

fn check(result: c_int, step: NamespaceStep) -> Result<(), Failed> {
    if result < 0 {
        Err((step, errno()))
    } else {
        Ok(())
    }
}

fn errno() -> c_int {
    // SAFETY: the C library's errno location is always valid.
    unsafe { *libc::__errno_location() }
}

fn explained((step, errno): Failed) -> io::Error {
    let doing = match step {
        NamespaceStep::MountNamespace => "making a mount namespace",
        NamespaceStep::SetApart => "setting `/proc` apart from other mount namespaces",
        NamespaceStep::PidNamespace => "making a PID namespace",
        NamespaceStep::FirstProcess => "starting the first process of a PID namespace",
        NamespaceStep::Mount => "mounting `/proc` for a PID namespace",
    };
    let needs = match errno {
        libc::EPERM => "; it takes the capability CAP_SYS_ADMIN",
        _ => "",
    };
    let error = io::Error::from_raw_os_error(errno);
    io::Error::new(error.kind(), format!("{doing} failed: {error}{needs}"))
}

/// What the first process works with: pointers into its copy of the memory.
struct FirstProcess<'a> {
    mounts: &'a [ProcMount],
    /// A handle of the program it belongs to.
    program: RawFd,
    announce: RawFd,
}

/// The first process of a namespace. Its descriptors are those of the program:
/// it closes none.
extern "C" fn first_process(start: *mut c_void) -> c_int {
    // SAFETY: a pointer into this process's copy of the caller's memory.
    let start = unsafe { &*start.cast::<FirstProcess<'_>>() };
    // SAFETY: plain system calls on valid pointers and numbers; nothing here
    // allocates or panics.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        // The program may have ended before that.
        let mut program = libc::pollfd {
            fd: start.program,
            events: libc::POLLIN,
            revents: 0,
        };
        if libc::poll(&mut program, 1, 0) != 0 {
            libc::_exit(libc::ESRCH);
        }
        if let Err((_, errno)) = make_mounts(start.mounts) {
            libc::_exit(errno);
        }
        libc::prctl(libc::PR_SET_NAME, c"session-init".as_ptr());
        // Ignored, so that orphans are collected by the kernel as they end.
        libc::signal(libc::SIGCHLD, libc::SIG_IGN);
        libc::write(start.announce, c"1".as_ptr().cast(), 1);
        loop {
            libc::pause();
        }
    }
}

/// What the processes of a trial work with: memory of the sleeping caller.
struct Trial<'a> {
    mounts: &'a [ProcMount],
    /// For the second process, while the first one sleeps.
    inner_stack: *mut c_void,
    result: Result<(), Failed>,
}

extern "C" fn try_outside(trial: *mut c_void) -> c_int {
    // SAFETY: the caller's memory; it sleeps, and nobody else uses it.
    let found = unsafe { &mut *trial.cast::<Trial<'_>>() };
    found.result = separate(found.mounts);
    if found.result.is_ok() {
        let same = ptr::from_mut(found).cast();
        // SAFETY: as for this process itself.
        let made = unsafe { run_to_end(try_inside, found.inner_stack, same) };
        if made.is_err() {
            found.result = Err((NamespaceStep::FirstProcess, errno()));
        }
    }
    // SAFETY: ends this process at once, running no exit handlers.
    unsafe { libc::_exit(0) }
}

extern "C" fn try_inside(trial: *mut c_void) -> c_int {
    // SAFETY: as in `try_outside`.
    let trial = unsafe { &mut *trial.cast::<Trial<'_>>() };
    trial.result = make_mounts(trial.mounts);
    // SAFETY: as in `try_outside`.
    unsafe { libc::_exit(0) }
}

/// Runs a function in a process of its own that shares our memory, and
/// collects it. All signals must be blocked. Async-signal-safe.
unsafe fn run_to_end(
    function: extern "C" fn(*mut c_void) -> c_int,
    stack_top: *mut c_void,
    argument: *mut c_void,
) -> io::Result<()> {
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: the caller vouches for the function and its argument; a null
    // status is allowed.
    unsafe {
        let pid = libc::clone(function, stack_top, flags, argument);
        if pid < 0 {
            return Err(io::Error::last_os_error());
        }
        while libc::waitpid(pid, ptr::null_mut(), 0) < 0 && errno() == libc::EINTR {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn state() -> (std::path::PathBuf, String) {
        (
            fs::read_link("/proc/self/ns/pid_for_children").unwrap(),
            fs::read_to_string("/proc/self/mountinfo").unwrap(),
        )
    }

    #[test]
    fn a_trial_says_what_another_program_finds_and_changes_nothing_here() {
        let other = std::process::Command::new("unshare")
            .args(["--mount", "--pid", "--fork", "--mount-proc", "true"])
            .output();
        let expected = other.is_ok_and(|output| output.status.success());
        let before = state();
        let found = PidNamespace::probe(&["/proc"]);
        let covered = found
            .as_ref()
            .is_err_and(|error| error.to_string().contains("covers"));
        assert_eq!(found.is_ok(), expected && !covered, "{found:?}");
        if let Err(error) = found {
            let error = error.to_string();
            let said = error.contains("CAP_SYS_ADMIN") || error.contains("covers");
            assert!(said, "{error}");
        }
        let refused = PidNamespace::probe(&["/proc", "/"]).unwrap_err();
        assert!(refused.to_string().contains("`/` is not"), "{refused}");
        assert_eq!(state(), before);
    }
}
