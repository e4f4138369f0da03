//! Creating a process without copying this one.
//!
//! The child is a clone that shares our memory and runs on a stack of its own
//! while the calling thread sleeps (`CLONE_VM | CLONE_VFORK`), so the cost
//! does not depend on how much memory we use. Until it execs it must behave
//! like a signal handler: no allocation, no locks, no panics; it works on a
//! plan that the parent has built, and reports failures by writing into it.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;

use super::cgroup::open_procs;
use super::child::{RawLimit, RawPlan};
use super::clone_call::{AllSignalsBlocked, Born, clone_legacy, clone3};
use super::pidfd::PidFd;
use super::stack::ChildStack;
use crate::launch::{LaunchFailure, LaunchStep, Launched};
use crate::limits::BIRTH_WAIT;
use crate::sys::child_plan::{null_terminated, resource_number};
use crate::sys::{ChildPlan, SoftAndHard, limits_of_child};

/// Creates the process. Returns after it has executed its program or failed.
pub(crate) fn spawn(plan: &ChildPlan<'_>) -> Result<Launched, LaunchFailure> {
    spawn_by(plan, clone_child)
}

fn spawn_by(
    plan: &ChildPlan<'_>,
    clone: impl FnOnce(&mut RawPlan, Option<&OwnedFd>) -> Result<Born, LaunchFailure>,
) -> Result<Launched, LaunchFailure> {
    let argv = null_terminated(&plan.argv);
    let envp = null_terminated(&plan.envp);
    let pair =
        |(source, target): &(std::os::fd::BorrowedFd<'_>, c_int)| [source.as_raw_fd(), *target];
    let mut fds: Vec<[c_int; 2]> = plan.fds.iter().map(pair).collect();
    let limits: Vec<RawLimit> = limits_of_child(&plan.rlimits)
        .iter()
        .map(raw_limit)
        .collect();
    let joins = plan.limit_groups.iter().map(AsRawFd::as_raw_fd);
    let joins: Vec<c_int> = joins.collect();
    let inner_stack = plan.namespaces.map(|_| ChildStack::new()).transpose();
    let inner_stack =
        inner_stack.map_err(|error| LaunchFailure::of(LaunchStep::Clone, 0, &error))?;
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
        rulesets: [&plan.ruleset, &plan.exec_ruleset]
            .map(|ruleset| ruleset.as_ref().map_or(-1, AsRawFd::as_raw_fd)),
        drop_capabilities: plan.drop_capabilities,
        filters: plan.filters.as_ptr(),
        filters_len: plan.filters.len(),
        namespaces: plan.namespaces.map_or(-1, |(handle, _)| handle.as_raw_fd()),
        namespace_kinds: plan.namespaces.map_or(0, |(_, kinds)| kinds),
        inner_stack: inner_stack
            .as_ref()
            .map_or(ptr::null_mut(), ChildStack::top),
        inner_pid: -1,
        failed_step: None,
        failed_entry: 0,
        failed_errno: 0,
    };
    let birth = || clone(&mut raw, plan.cgroup.as_ref());
    let Born { pid, handle } = match plan.namespaces {
        Some((first, _)) => bounded(first, birth)?,
        None => birth()?,
    };
    let mut handle = PidFd::from(handle);
    let mut pid = pid;
    if plan.namespaces.is_some() {
        // It has entered the name spaces and ended; its sibling is the child.
        collect_failed(pid);
        pid = raw.inner_pid;
        if raw.failed_step.is_none() {
            // The number is its own until it is collected, by us alone.
            handle = PidFd::open(pid)
                .map_err(|error| LaunchFailure::of(LaunchStep::Clone, 0, &error))?;
        }
    }
    match raw.failed_step {
        None => Ok(Launched { pid, pidfd: handle }),
        Some(step) => {
            if pid > 0 {
                collect_failed(pid);
            }
            let error = io::Error::from_raw_os_error(raw.failed_errno);
            Err(LaunchFailure::of(step, raw.failed_entry, &error))
        }
    }
}

/// Waits for a birth in name spaces. Whoever lives there may stop the child
/// before it executes its program; then all that is inside is ended, the child
/// with it.
fn bounded(
    first: BorrowedFd<'_>,
    birth: impl FnOnce() -> Result<Born, LaunchFailure>,
) -> Result<Born, LaunchFailure> {
    let (born, waits) = mpsc::channel::<()>();
    let watch = move || {
        if waits.recv_timeout(BIRTH_WAIT) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("a process in a sandbox was stopped at its start: the sandbox is ended");
            let _ = rustix::process::pidfd_send_signal(first, rustix::process::Signal::KILL);
        }
    };
    thread::scope(|scope| {
        thread::Builder::new()
            .spawn_scoped(scope, watch)
            .map_err(|error| LaunchFailure::of(LaunchStep::Clone, 0, &error))?;
        let child = birth();
        drop(born);
        child
    })
}

fn clone_child(raw: &mut RawPlan, cgroup: Option<&OwnedFd>) -> Result<Born, LaunchFailure> {
    let failed = |step, error| LaunchFailure::of(step, 0, &error);
    let stack = ChildStack::new().map_err(|error| failed(LaunchStep::Clone, error))?;
    let _masked = AllSignalsBlocked::new();
    let cloned = match clone3(raw, &stack, cgroup.map(AsFd::as_fd)) {
        // Old kernels and common container filters answer like this; the older
        // call cannot place the child, so it moves itself.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
            let procs = cgroup
                .map(open_procs)
                .transpose()
                .map_err(|error| failed(LaunchStep::ControlGroup, error))?;
            raw.cgroup_procs = procs.as_ref().map_or(-1, AsRawFd::as_raw_fd);
            clone_legacy(raw, &stack)
        }
        other => other,
    };
    cloned.map_err(|error| {
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
fn collect_failed(pid: i32) {
    // SAFETY: waits for a child of ours that nobody else knows of yet; a null
    // out-pointer is allowed.
    while unsafe { libc::waitpid(pid, ptr::null_mut(), 0) } < 0
        && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
    {}
}

fn raw_limit(limit: &SoftAndHard) -> RawLimit {
    RawLimit {
        resource: resource_number(limit.resource),
        value: libc::rlimit64 {
            rlim_cur: limit.soft,
            rlim_max: limit.hard,
        },
    }
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
            exec_ruleset: None,
            drop_capabilities: false,
            filters: Vec::new(),
            namespaces: None,
        }
    }

    fn output_of(
        clone: fn(&mut RawPlan, Option<&OwnedFd>) -> Result<Born, LaunchFailure>,
        edit: fn(&mut ChildPlan<'_>),
    ) -> String {
        let (read, write) = crate::sys::pipe().unwrap();
        let mut plan = echo(write.as_fd());
        edit(&mut plan);
        let launched = spawn_by(&plan, clone).unwrap();
        drop(plan);
        drop(write);
        let mut output = String::new();
        File::from(read).read_to_string(&mut output).unwrap();
        collect_failed(launched.pid);
        output
    }

    fn legacy(raw: &mut RawPlan, _: Option<&OwnedFd>) -> Result<Born, LaunchFailure> {
        let stack = ChildStack::new().unwrap();
        let _masked = AllSignalsBlocked::new();
        Ok(clone_legacy(raw, &stack).unwrap())
    }

    /// Shows the signals that the child ignores.
    fn show_ignored(plan: &mut ChildPlan<'_>) {
        plan.path = c"/bin/grep".to_owned();
        plan.argv = vec![
            c"grep".to_owned(),
            c"SigIgn".to_owned(),
            c"/proc/self/status".to_owned(),
        ];
    }

    #[test]
    fn the_older_clone_call_works_alike() {
        for clone in [legacy, clone_child] {
            assert_eq!(output_of(clone, |_| {}), "hello\n");
            // Rust programs ignore SIGPIPE from the start; a child does not.
            let ignored = output_of(clone, show_ignored);
            assert_eq!(ignored, "SigIgn:\t0000000000000000\n");
        }
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
