//! How processes ended, as the system tells it.

use std::io;
use std::mem::MaybeUninit;
use std::time::Duration;

use crate::exit::{Exit, ExitStatus, ResourceUsage};

/// Collects any child of this program that has ended, with its number. Only
/// for a program whose every child is its own to collect, such as one that
/// takes in orphans: in any other this steals what somebody waits for.
///
/// # Errors
/// If there are no children.
pub fn reap_any() -> io::Result<Option<(i32, Exit)>> {
    collect(-1)
}

/// Collects the child with this number, or any for -1, if it has ended.
pub(super) fn collect(which: i32) -> io::Result<Option<(i32, Exit)>> {
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
            let usage = resource_usage(&usage);
            Ok(Some((pid, Exit { status, usage })))
        }
    }
}

/// What `waitid` says in `info`: how the process ended, if it has.
pub(super) fn status_of(info: &libc::siginfo_t) -> Option<ExitStatus> {
    // SAFETY: waitid fills the SIGCHLD members of the union, or leaves zeros
    // when the process has not ended.
    let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
    if pid == 0 {
        return None;
    }
    let exited = info.si_code == libc::CLD_EXITED;
    Some(ExitStatus {
        code: exited.then_some(status),
        signal: (!exited).then_some(status),
    })
}

pub(super) fn resource_usage(usage: &libc::rusage) -> ResourceUsage {
    ResourceUsage {
        user_time: duration(usage.ru_utime),
        system_time: duration(usage.ru_stime),
        max_resident_bytes: u64::try_from(usage.ru_maxrss).unwrap_or(0) * MAXRSS_BYTES,
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
