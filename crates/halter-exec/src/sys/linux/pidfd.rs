//! A process by handle: waiting and signalling that cannot hit a stranger who
//! was given the same number later.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::signals::Signal;

/// An owned reference to one process, alive, zombie or gone.
#[derive(Debug)]
pub(crate) struct PidFd(OwnedFd);

/// What the kernel reports about a process that has ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Exit {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub user_time: Duration,
    pub system_time: Duration,
    pub max_resident_bytes: u64,
}

impl PidFd {
    pub(crate) fn from_owned(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// A handle to whatever process has this number right now.
    pub(crate) fn open(pid: i32) -> io::Result<Self> {
        let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::NotFound)?;
        Ok(Self(pidfd_open(pid, PidfdFlags::empty())?))
    }

    pub(crate) fn send(&self, signal: Signal) -> io::Result<()> {
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
    pub(crate) fn has_ended(&self, timeout: Duration) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut set = [PollFd::new(&self.0, PollFlags::IN)];
        let timeout = Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        matches!(poll(&mut set, Some(&timeout)), Ok(ready) if ready > 0)
    }

    /// Collects the process if it has ended. Only a parent can do this, once.
    pub(crate) fn reap(&self) -> io::Result<Option<Exit>> {
        self.wait_now(libc::WEXITED | libc::WNOHANG)
    }

    /// How the process ended, leaving it to be collected later.
    pub(crate) fn peek(&self) -> io::Result<Option<Exit>> {
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
        // SAFETY: waitid fills the SIGCHLD member of the union (or leaves
        // zeros when the process has not ended).
        let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
        if pid == 0 {
            return Ok(None);
        }
        let exited = info.si_code == libc::CLD_EXITED;
        Ok(Some(Exit {
            code: exited.then_some(status),
            signal: (!exited).then_some(status),
            user_time: duration(usage.ru_utime),
            system_time: duration(usage.ru_stime),
            max_resident_bytes: u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024,
        }))
    }
}

fn duration(time: libc::timeval) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let micros = u64::try_from(time.tv_usec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_micros(micros)
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
