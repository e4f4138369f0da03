//! A process by its number, and a pipe that ends with it.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use super::handover::pipe;
use crate::exit::{Exit, ExitStatus, ResourceUsage};
use crate::sys::Signal;

/// A handle to one process. It is readable, as in `poll`, once a child of
/// ours has ended. This system knows processes by number only: after one has
/// been collected, a signal may reach another.
#[derive(Debug)]
pub struct PidFd {
    /// 0 if only the end of the process is known here.
    pid: i32,
    ended: OwnedFd,
    /// Keeps the pipe of a process open whose end nobody reports.
    _unwatched: Option<OwnedFd>,
}

impl PidFd {
    /// A handle to whatever process has this number right now.
    ///
    /// # Errors
    /// If there is none.
    pub fn open(pid: i32) -> io::Result<Self> {
        if !exists(pid) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let (ended, unwatched) = pipe()?;
        Ok(Self {
            pid,
            ended,
            _unwatched: Some(unwatched),
        })
    }

    /// A handle to a child, whose end a thread of its own waits for.
    pub(super) fn of_child(pid: i32) -> io::Result<Self> {
        let (ended, reported) = pipe()?;
        std::thread::Builder::new()
            .name("halter-exec-wait".to_owned())
            .spawn(move || {
                while let Err(error) = wait_id(pid, libc::WEXITED | libc::WNOWAIT) {
                    if error.kind() != io::ErrorKind::Interrupted {
                        break;
                    }
                }
                drop(reported);
            })?;
        Ok(Self {
            pid,
            ended,
            _unwatched: None,
        })
    }

    /// Sends a signal to the process.
    ///
    /// # Errors
    /// If it is not there, or not ours to signal.
    pub fn send(&self, signal: Signal) -> io::Result<()> {
        if self.pid <= 0 {
            return Err(io::ErrorKind::Unsupported.into());
        }
        // SAFETY: takes numbers only; the number is that of one process.
        if unsafe { libc::kill(self.pid, signal.number()) } == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Whether the process has ended, seen without collecting it. `timeout`
    /// is how long to wait for that.
    #[must_use]
    pub fn has_ended(&self, timeout: Duration) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        if self._unwatched.is_some() && !exists(self.pid) {
            return true;
        }
        let mut set = [PollFd::new(&self.ended, PollFlags::IN)];
        let timeout = Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        matches!(poll(&mut set, Some(&timeout)), Ok(ready) if ready > 0)
    }

    /// Another handle to the same process.
    ///
    /// # Errors
    /// If there are too many open descriptors.
    pub fn try_clone(&self) -> io::Result<Self> {
        let unwatched = self._unwatched.as_ref().map(OwnedFd::try_clone);
        Ok(Self {
            pid: self.pid,
            ended: self.ended.try_clone()?,
            _unwatched: unwatched.transpose()?,
        })
    }

    /// Collects the process if it has ended. Only its parent can do this,
    /// once.
    ///
    /// # Errors
    /// If it is not our child, or has been collected.
    pub fn reap(&self) -> io::Result<Option<Exit>> {
        if self.pid <= 0 {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(collect(self.pid)?.map(|(_, exit)| exit))
    }

    /// How the process ended, if it has, leaving it to be collected later.
    ///
    /// # Errors
    /// If it is not our child, or has been collected.
    pub fn peek(&self) -> io::Result<Option<Exit>> {
        let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        let info = wait_id(self.pid, options)?;
        // SAFETY: waitid fills the SIGCHLD members, or leaves zeros when the
        // process has not ended.
        let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
        if pid == 0 {
            return Ok(None);
        }
        let exited = info.si_code == libc::CLD_EXITED;
        Ok(Some(Exit {
            status: ExitStatus {
                code: exited.then_some(status),
                signal: (!exited).then_some(status),
            },
            usage: ResourceUsage::default(),
        }))
    }
}

fn exists(pid: i32) -> bool {
    // SAFETY: signal 0 is sent to nobody.
    let result = unsafe { libc::kill(pid, 0) };
    pid > 0 && (result == 0 || io::Error::last_os_error().raw_os_error() == Some(libc::EPERM))
}

fn wait_id(pid: i32, options: i32) -> io::Result<libc::siginfo_t> {
    let id = libc::id_t::try_from(pid).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    // SAFETY: `info` is valid for writes, and zero is a valid value of it.
    unsafe {
        if libc::waitid(libc::P_PID, id, info.as_mut_ptr(), options) == 0 {
            Ok(info.assume_init())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}

/// Collects any child of this program that has ended, with its number. Only
/// for a program whose every child is its own to collect: in any other this
/// steals what somebody waits for.
///
/// # Errors
/// If there are no children.
pub fn reap_any() -> io::Result<Option<(i32, Exit)>> {
    collect(-1)
}

fn collect(which: i32) -> io::Result<Option<(i32, Exit)>> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both out-pointers are valid for writes, and zero is a valid
    // value of what is read afterwards.
    let (pid, usage) = unsafe {
        let pid = libc::wait4(which, &mut status, libc::WNOHANG, usage.as_mut_ptr());
        (pid, usage.assume_init())
    };
    match pid {
        ..0 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        _ => {
            let exited = libc::WIFEXITED(status);
            let status = ExitStatus {
                code: exited.then(|| libc::WEXITSTATUS(status)),
                signal: (!exited).then(|| libc::WTERMSIG(status)),
            };
            let usage = ResourceUsage {
                user_time: duration(usage.ru_utime),
                system_time: duration(usage.ru_stime),
                max_resident_bytes: u64::try_from(usage.ru_maxrss).unwrap_or(0) * MAXRSS_BYTES,
            };
            Ok(Some((pid, Exit { status, usage })))
        }
    }
}

/// The unit of the largest resident set.
const MAXRSS_BYTES: u64 = if cfg!(target_vendor = "apple") {
    1
} else {
    1024
};

fn duration(time: libc::timeval) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let micros = u64::try_from(time.tv_usec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_micros(micros)
}

/// The descriptor must come from such a handle. Only the end of the process
/// can be told from it.
impl From<OwnedFd> for PidFd {
    fn from(ended: OwnedFd) -> Self {
        Self {
            pid: 0,
            ended,
            _unwatched: None,
        }
    }
}

impl From<PidFd> for OwnedFd {
    fn from(handle: PidFd) -> Self {
        handle.ended
    }
}

impl AsFd for PidFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }
}

impl AsRawFd for PidFd {
    fn as_raw_fd(&self) -> RawFd {
        self.ended.as_raw_fd()
    }
}
