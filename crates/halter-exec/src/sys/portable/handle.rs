//! A process by its number, and a pipe that ends with it.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::event::PollFlags;

use super::handover::pipe;
use crate::exit::{Exit, ResourceUsage};
use crate::sys::Signal;
use crate::sys::readiness::poll_one;
use crate::sys::wait::{collect, status_of};

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
        if self._unwatched.is_some() && !exists(self.pid) {
            return true;
        }
        poll_one(&self.ended, PollFlags::IN, timeout).is_ok_and(|found| !found.is_empty())
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
        Ok(status_of(&info).map(|status| Exit {
            status,
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
