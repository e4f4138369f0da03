//! Creating a process by fork and exec. Between the two the child does only
//! what a signal handler may, and reports a failure through a pipe that its
//! exec closes.

use std::ffi::{c_char, c_int};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, RawFd};
use std::ptr;

use super::handle::PidFd;
use super::handover::pipe;
use crate::launch::{LaunchFailure, LaunchStep, Launched, MAX_TARGET_FD};
use crate::sys::child_plan::{null_terminated, resource_number};
use crate::sys::{ChildPlan, SoftAndHard, limits_of_child};

/// Descriptors that are looked at to be closed.
const MOST_DESCRIPTORS: c_int = 65_536;

/// The plan in pointers and numbers.
struct Prepared<'a> {
    plan: &'a ChildPlan<'a>,
    argv: Vec<*const c_char>,
    envp: Vec<*const c_char>,
    fds: Vec<[c_int; 2]>,
    limits: Vec<(c_int, libc::rlimit)>,
    last_descriptor: c_int,
}

/// Creates the process. Returns after it has executed its program or failed.
pub(crate) fn spawn(plan: &ChildPlan<'_>) -> Result<Launched, LaunchFailure> {
    let pid = fork_child(plan)?;
    let pidfd =
        PidFd::of_child(pid).map_err(|error| LaunchFailure::of(LaunchStep::Clone, 0, &error))?;
    Ok(Launched { pid, pidfd })
}

fn fork_child(plan: &ChildPlan<'_>) -> Result<i32, LaunchFailure> {
    refuse_what_is_absent(plan)?;
    let failed = |error: io::Error| LaunchFailure::of(LaunchStep::Clone, 0, &error);
    let mut prepared = Prepared {
        plan,
        argv: null_terminated(&plan.argv),
        envp: null_terminated(&plan.envp),
        fds: plan
            .fds
            .iter()
            .map(|(source, target)| [source.as_raw_fd(), *target])
            .collect(),
        limits: limits_of_child(&plan.rlimits)
            .iter()
            .map(raw_limit)
            .collect(),
        last_descriptor: last_descriptor(),
    };
    let (report, failure) = pipe().map_err(failed)?;
    // SAFETY: the child calls nothing but async-signal-safe functions on
    // memory made beforehand, and ends by exec or `_exit`.
    let pid = unsafe { libc::fork() };
    if pid < 0 {
        return Err(failed(io::Error::last_os_error()));
    }
    if pid == 0 {
        // SAFETY: as above.
        unsafe { child(&mut prepared, failure.as_raw_fd()) }
    }
    drop(failure);
    let mut bytes = [0; 9];
    let reported = File::from(report).read_exact(&mut bytes).is_ok();
    match from_bytes(bytes).filter(|_| reported) {
        Some(failure) => {
            // SAFETY: waits for the child that has just said that it ends.
            unsafe { libc::waitpid(pid, ptr::null_mut(), 0) };
            Err(failure)
        }
        None => Ok(pid),
    }
}

/// Nothing is started with less than was asked for.
fn refuse_what_is_absent(plan: &ChildPlan<'_>) -> Result<(), LaunchFailure> {
    let refused = [
        (plan.cgroup.is_some(), LaunchStep::ControlGroup),
        (!plan.limit_groups.is_empty(), LaunchStep::ControlGroup),
        (plan.ruleset.is_some(), LaunchStep::FileRules),
        (plan.exec_ruleset.is_some(), LaunchStep::FileRules),
        (plan.drop_capabilities, LaunchStep::Capabilities),
        (!plan.filters.is_empty(), LaunchStep::SystemCalls),
        (plan.namespaces.is_some(), LaunchStep::Namespaces),
        (plan.no_new_privileges, LaunchStep::NoNewPrivileges),
    ];
    match refused.into_iter().find(|(asked, _)| *asked) {
        Some((_, step)) => Err(LaunchFailure::new(step, libc::ENOSYS)),
        None => Ok(()),
    }
}

fn raw_limit(limit: &SoftAndHard) -> (c_int, libc::rlimit) {
    let value = libc::rlimit {
        rlim_cur: limit.soft,
        rlim_max: limit.hard,
    };
    (resource_number(limit.resource), value)
}

fn last_descriptor() -> c_int {
    // SAFETY: takes a number.
    let limit = unsafe { libc::sysconf(libc::_SC_OPEN_MAX) };
    c_int::try_from(limit)
        .unwrap_or(MOST_DESCRIPTORS)
        .clamp(MAX_TARGET_FD, MOST_DESCRIPTORS)
}

/// The child's life before exec.
unsafe fn child(prepared: &mut Prepared<'_>, report: RawFd) -> ! {
    // SAFETY: async-signal-safe calls on valid memory.
    unsafe {
        let report = libc::fcntl(report, libc::F_DUPFD_CLOEXEC, MAX_TARGET_FD + 1);
        let Err((step, entry)) = child_steps(prepared);
        let failure = LaunchFailure {
            step,
            errno: io::Error::last_os_error().raw_os_error().unwrap_or(0),
            entry,
        };
        let bytes = to_bytes(failure);
        libc::write(report, bytes.as_ptr().cast(), bytes.len());
        libc::_exit(127)
    }
}

unsafe fn child_steps(
    prepared: &mut Prepared<'_>,
) -> Result<std::convert::Infallible, (LaunchStep, u32)> {
    let check = |result: c_int, step, entry| {
        if result < 0 {
            Err((step, entry))
        } else {
            Ok(result)
        }
    };
    let plan = prepared.plan;
    // SAFETY: async-signal-safe calls on the plan's valid pointers.
    unsafe {
        check(libc::setsid(), LaunchStep::Session, 0)?;
        if let Some(terminal) = &plan.terminal {
            let taken = libc::ioctl(terminal.as_raw_fd(), libc::TIOCSCTTY as _, 0);
            check(taken, LaunchStep::Terminal, 0)?;
        }
        if let Some(root) = &plan.root {
            check(libc::chroot(root.as_ptr()), LaunchStep::Root, 0)?;
        }
        check(
            libc::chdir(plan.cwd.as_ptr()),
            LaunchStep::WorkingDirectory,
            0,
        )?;
        for (entry, pair) in (0..).zip(&mut prepared.fds) {
            if pair[0] <= MAX_TARGET_FD {
                let moved = libc::fcntl(pair[0], libc::F_DUPFD_CLOEXEC, MAX_TARGET_FD + 1);
                pair[0] = check(moved, LaunchStep::Descriptors, entry)?;
            }
        }
        for fd in 3..prepared.last_descriptor {
            libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
        }
        for (entry, [source, target]) in (0..).zip(&prepared.fds) {
            check(libc::dup2(*source, *target), LaunchStep::Descriptors, entry)?;
        }
        for (entry, (resource, value)) in (0..).zip(&prepared.limits) {
            check(
                libc::setrlimit(*resource as _, value),
                LaunchStep::Limits,
                entry,
            )?;
        }
        for signal in 1..32 {
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut none = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut());
        libc::execve(
            plan.path.as_ptr(),
            prepared.argv.as_ptr(),
            prepared.envp.as_ptr(),
        );
    }
    Err((LaunchStep::Exec, 0))
}

/// Every step, by its number.
const STEPS: [LaunchStep; 12] = [
    LaunchStep::Input,
    LaunchStep::Clone,
    LaunchStep::ControlGroup,
    LaunchStep::Session,
    LaunchStep::Terminal,
    LaunchStep::Root,
    LaunchStep::WorkingDirectory,
    LaunchStep::Descriptors,
    LaunchStep::Limits,
    LaunchStep::NoNewPrivileges,
    LaunchStep::FileRules,
    LaunchStep::Exec,
];

/// A failure as the child reports it: step, error number, entry.
fn to_bytes(failure: LaunchFailure) -> [u8; 9] {
    let [a, b, c, d] = failure.errno.to_le_bytes();
    let [e, f, g, h] = failure.entry.to_le_bytes();
    [failure.step as u8, a, b, c, d, e, f, g, h]
}

fn from_bytes(bytes: [u8; 9]) -> Option<LaunchFailure> {
    let [step, a, b, c, d, e, f, g, h] = bytes;
    Some(LaunchFailure {
        step: *STEPS.get(usize::from(step))?,
        errno: i32::from_le_bytes([a, b, c, d]),
        entry: u32::from_le_bytes([e, f, g, h]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_survives_its_bytes() {
        for (number, step) in STEPS.into_iter().enumerate() {
            assert_eq!(usize::from(step as u8), number);
            let failure = LaunchFailure {
                step,
                errno: -7,
                entry: 0xdead_beef,
            };
            assert_eq!(from_bytes(to_bytes(failure)), Some(failure));
        }
        let mut bytes = to_bytes(LaunchFailure::new(LaunchStep::Exec, 2));
        bytes[0] = 12;
        assert_eq!(from_bytes(bytes), None);
    }
}
