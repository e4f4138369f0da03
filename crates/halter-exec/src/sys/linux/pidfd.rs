//! A process by handle: waiting and signalling that cannot hit a stranger who
//! was given the same number later.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::exit::Exit;
use crate::sys::Signal;
use crate::sys::readiness::poll_one;
use crate::sys::wait::{resource_usage, status_of};

/// A handle to one process, alive, ended or collected. It is readable, as in
/// `poll`, once the process has ended.
#[derive(Debug)]
pub struct PidFd(OwnedFd);

impl PidFd {
    /// A handle to whatever process has this number right now.
    ///
    /// # Errors
    /// If there is none.
    pub fn open(pid: i32) -> io::Result<Self> {
        let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::NotFound)?;
        Ok(Self(pidfd_open(pid, PidfdFlags::empty())?))
    }

    /// Sends a signal to the process.
    ///
    /// # Errors
    /// If it has been collected, or is not ours to signal.
    pub fn send(&self, signal: Signal) -> io::Result<()> {
        // SAFETY: pidfd_send_signal takes numbers and a null siginfo; the fd
        // is owned by `self` and stays open for the call.
        let result = unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                self.0.as_raw_fd(),
                signal.number(),
                std::ptr::null::<libc::siginfo_t>(),
                0,
            )
        };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Whether the process has ended, seen without waiting and without
    /// collecting it. `timeout` is how long to wait for that.
    #[must_use]
    pub fn has_ended(&self, timeout: Duration) -> bool {
        poll_one(&self.0, PollFlags::IN, timeout).is_ok_and(|found| !found.is_empty())
    }

    /// Another handle to the same process.
    ///
    /// # Errors
    /// If there are too many open descriptors.
    pub fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Collects the process if it has ended. Only its parent can do this,
    /// once.
    ///
    /// # Errors
    /// If it is not our child, or has been collected.
    pub fn reap(&self) -> io::Result<Option<Exit>> {
        self.wait_now(libc::WEXITED | libc::WNOHANG)
    }

    /// How the process ended, if it has, leaving it to be collected later.
    ///
    /// # Errors
    /// If it is not our child, or has been collected.
    pub fn peek(&self) -> io::Result<Option<Exit>> {
        self.wait_now(libc::WEXITED | libc::WNOHANG | libc::WNOWAIT)
    }

    fn wait_now(&self, options: i32) -> io::Result<Option<Exit>> {
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: both out-pointers are valid for writes of their type; the
        // raw call is used because libc's waitid has no rusage parameter.
        let result = unsafe {
            libc::syscall(
                libc::SYS_waitid,
                libc::P_PIDFD,
                self.0.as_raw_fd(),
                info.as_mut_ptr(),
                options,
                usage.as_mut_ptr(),
            )
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: zero is a valid value of both plain C structs, and the
        // kernel has written over it whatever it had to say.
        let (info, usage) = unsafe { (info.assume_init(), usage.assume_init()) };
        Ok(status_of(&info).map(|status| Exit {
            status,
            usage: resource_usage(&usage),
        }))
    }
}

/// Blocks `SIGCHLD` and makes what takes its place.
pub(crate) fn child_ends() -> io::Result<OwnedFd> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is initialised by the first call and only read by the
    // others; a null out-pointer is allowed; the descriptor is ours alone.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGCHLD);
        let set = set.assume_init();
        let ends = libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if ends < 0 {
            return Err(io::Error::last_os_error());
        }
        let ends = OwnedFd::from_raw_fd(ends);
        match libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) {
            0 => Ok(ends),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

/// The descriptor must be one for a process.
impl From<OwnedFd> for PidFd {
    fn from(fd: OwnedFd) -> Self {
        Self(fd)
    }
}

impl From<PidFd> for OwnedFd {
    fn from(pidfd: PidFd) -> Self {
        pidfd.0
    }
}

impl AsFd for PidFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for PidFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
