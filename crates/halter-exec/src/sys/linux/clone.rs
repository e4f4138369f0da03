//! Creating a process without copying this one.
//!
//! The child is a clone that shares our memory and runs on a stack of its own
//! while the calling thread sleeps (`CLONE_VM | CLONE_VFORK`), so the cost
//! does not depend on how much memory we use. Until it execs it must behave
//! like a signal handler: no allocation, no locks, no panics; it works on a
//! plan that the parent has built, and reports failures by writing into it.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr;

use super::cgroup::open_procs;
use super::child::{RawLimit, RawPlan, WHOLE_TABLE, ignores};
use super::clone_call::{
    AllSignalsBlocked, Born, CLEAR_HANDLERS, PIDFD, SHARED, SHARED_DESCRIPTORS, clone_legacy,
    clone3,
};
use super::pidfd::PidFd;
use super::places::{Arranged, Places};
use super::stack::with_stack;
use crate::launch::{LaunchFailure, LaunchStep, Launched, Rlimit};
use crate::sys::ChildPlan;
use crate::sys::child_plan::{null_terminated, resource_number};

/// Creates the process. Returns after it has executed its program or failed.
pub(crate) fn spawn(plan: &ChildPlan<'_>) -> Result<Launched, LaunchFailure> {
    let manner = Manner {
        flags: SHARED | PIDFD,
        ignored: None,
    };
    let born = spawn_by(plan, Arranged::copied(plan), &manner, clone_child)?;
    let handle = born.handle.ok_or_else(|| no_handle(LaunchStep::Clone))?;
    Ok(Launched {
        pid: born.pid,
        pidfd: PidFd::from(handle),
    })
}

fn no_handle(step: LaunchStep) -> LaunchFailure {
    LaunchFailure::new(step, libc::EBADF)
}

/// How children are made that a program collects by number.
#[derive(Debug)]
pub(crate) struct Spawner {
    manner: Manner,
    /// Where a child finds its descriptors without copying all others; `None`
    /// where it has to copy them.
    places: Option<Places>,
}

impl Spawner {
    /// Takes note of the signals that are ignored now. Children may be handed
    /// their standard streams in place of ours if these are of no use.
    pub(crate) fn new(streams_of_no_use: bool) -> Self {
        Self {
            manner: Manner {
                flags: SHARED | CLEAR_HANDLERS,
                ignored: Some((1..=64).filter(|signal| ignores(*signal)).collect()),
            },
            places: Places::reserve(streams_of_no_use).ok(),
        }
    }

    /// Creates the process and says its number.
    pub(crate) fn spawn(&mut self, plan: &ChildPlan<'_>) -> Result<i32, LaunchFailure> {
        match self.attempt(plan) {
            Err(failure) if is_refused_copy(&failure) => {
                let places = self.places.take();
                let born = self.attempt(plan);
                let never = [libc::ENOSYS, libc::EPERM, libc::EINVAL];
                if !never.contains(&failure.errno) {
                    // It was short of something; the next one need not be.
                    self.places = places;
                }
                born
            }
            other => other,
        }
    }

    fn attempt(&mut self, plan: &ChildPlan<'_>) -> Result<i32, LaunchFailure> {
        let arranged = match &mut self.places {
            Some(places) => places.fill(plan),
            None => Arranged::copied(plan),
        };
        let born = spawn_by(plan, arranged, &self.manner, clone_child);
        if let Some(places) = &mut self.places {
            places.clear();
        }
        if self.manner.ignored.is_some() && matches!(&born, Err(failure) if is_unknown(failure)) {
            // A kernel that does not know how to clear handlers.
            self.manner = Manner {
                flags: SHARED,
                ignored: None,
            };
            let arranged = Arranged::copied(plan);
            return Ok(spawn_by(plan, arranged, &self.manner, clone_child)?.pid);
        }
        Ok(born?.pid)
    }
}

/// Whether the system did not understand how the child was to be made.
fn is_unknown(failure: &LaunchFailure) -> bool {
    failure.entry == 0
        && failure.errno == libc::EINVAL
        && matches!(failure.step, LaunchStep::Clone | LaunchStep::ControlGroup)
}

/// Whether the child could not get a part of the table of descriptors only.
fn is_refused_copy(failure: &LaunchFailure) -> bool {
    failure.step == LaunchStep::Descriptors && failure.entry as usize == WHOLE_TABLE
}

/// How a child is made.
#[derive(Debug)]
struct Manner {
    flags: u64,
    /// The signals whose disposition the child has to reset itself, where the
    /// clone resets those that have a handler; `None` for all of them.
    ignored: Option<Vec<c_int>>,
}

fn spawn_by(
    plan: &ChildPlan<'_>,
    mut arranged: Arranged,
    manner: &Manner,
    clone: impl FnOnce(&mut RawPlan, &Manner, Option<&OwnedFd>) -> Result<Born, LaunchFailure>,
) -> Result<Born, LaunchFailure> {
    let around = plan.surroundings;
    let argv = null_terminated(&plan.argv);
    let envp = null_terminated(&around.envp);
    let limits: Vec<RawLimit> = around.rlimits.iter().map(raw_limit).collect();
    let joins = around.limit_groups.iter().map(|fd| fd.as_raw_fd());
    let joins: Vec<c_int> = joins.collect();
    let ignored = manner.ignored.as_deref();
    let mut raw = RawPlan {
        path: plan.path.as_ptr(),
        argv: argv.as_ptr(),
        envp: envp.as_ptr(),
        root: around
            .root
            .as_ref()
            .map_or(ptr::null(), |root| root.as_ptr()),
        cwd: around.cwd.as_ptr(),
        fds: arranged.pairs.as_mut_ptr(),
        fds_len: arranged.pairs.len(),
        copy_below: arranged.copy_below,
        copy_flags: arranged.copy_flags,
        cgroup_procs: -1,
        joins: joins.as_ptr(),
        joins_len: joins.len(),
        terminal: plan.terminal.map_or(-1, |terminal| terminal.as_raw_fd()),
        limits: limits.as_ptr(),
        limits_len: limits.len(),
        no_new_privileges: around.no_new_privileges,
        ruleset: plan.ruleset.as_ref().map_or(-1, AsRawFd::as_raw_fd),
        ignored: ignored.map_or(ptr::null(), <[c_int]>::as_ptr),
        ignored_len: ignored.map_or(0, <[c_int]>::len),
        failed_step: None,
        failed_entry: 0,
        failed_errno: 0,
    };
    let born = clone(&mut raw, manner, around.cgroup.as_deref())?;
    match raw.failed_step {
        None => Ok(born),
        Some(step) => {
            collect_failed(born.pid);
            let error = io::Error::from_raw_os_error(raw.failed_errno);
            Err(LaunchFailure::of(step, raw.failed_entry, &error))
        }
    }
}

fn clone_child(
    raw: &mut RawPlan,
    manner: &Manner,
    cgroup: Option<&OwnedFd>,
) -> Result<Born, LaunchFailure> {
    let failed = |step, error| LaunchFailure::of(step, 0, &error);
    let flags = match raw.copy_below {
        -1 => manner.flags,
        _ => manner.flags | SHARED_DESCRIPTORS,
    };
    let cloned = with_stack(|stack| {
        let _masked = AllSignalsBlocked::new();
        match clone3(raw, stack, flags, cgroup.map(AsFd::as_fd)) {
            // Old kernels and common container filters answer like this; the
            // older call cannot place the child, so it moves itself.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
                let procs = cgroup
                    .map(open_procs)
                    .transpose()
                    .map_err(|error| failed(LaunchStep::ControlGroup, error))?;
                raw.cgroup_procs = procs.as_ref().map_or(-1, AsRawFd::as_raw_fd);
                Ok(clone_legacy(raw, stack, flags))
            }
            other => Ok(other),
        }
    });
    cloned
        .map_err(|error| failed(LaunchStep::Clone, error))??
        .map_err(|error| {
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

fn raw_limit(limit: &Rlimit) -> RawLimit {
    RawLimit {
        resource: resource_number(limit.resource),
        value: libc::rlimit64 {
            rlim_cur: limit.value,
            rlim_max: limit.value,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::Surroundings;
    use std::ffi::CString;
    use std::fs::File;
    use std::io::Read;
    use std::os::fd::BorrowedFd;
    use std::sync::{LazyLock, PoisonError};

    /// No variables, and the root as the working directory.
    static NOTHING: LazyLock<Surroundings> = LazyLock::new(|| Surroundings {
        cwd: c"/".to_owned(),
        ..Surroundings::default()
    });

    fn echo(stdout: BorrowedFd<'_>) -> ChildPlan<'_> {
        ChildPlan {
            path: c"/bin/echo".to_owned(),
            argv: vec![c"echo".to_owned(), c"hello".to_owned()],
            fds: vec![(stdout, 1)],
            terminal: None,
            ruleset: None,
            surroundings: &NOTHING,
        }
    }

    fn output_of(
        clone: fn(&mut RawPlan, &Manner, Option<&OwnedFd>) -> Result<Born, LaunchFailure>,
        manner: &Manner,
        edit: fn(&mut ChildPlan<'_>),
    ) -> String {
        let (read, write) = crate::sys::pipe().unwrap();
        let mut plan = echo(write.as_fd());
        edit(&mut plan);
        let born = spawn_by(&plan, Arranged::copied(&plan), manner, clone).unwrap();
        drop(plan);
        drop(write);
        let mut output = String::new();
        File::from(read).read_to_string(&mut output).unwrap();
        collect_failed(born.pid);
        output
    }

    fn legacy(
        raw: &mut RawPlan,
        manner: &Manner,
        _: Option<&OwnedFd>,
    ) -> Result<Born, LaunchFailure> {
        let cloned = with_stack(|stack| {
            let _masked = AllSignalsBlocked::new();
            clone_legacy(raw, stack, manner.flags)
        });
        Ok(cloned.unwrap().unwrap())
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
        for manner in [
            Spawner::new(false).manner,
            Manner {
                flags: SHARED | PIDFD,
                ignored: None,
            },
        ] {
            assert_eq!(output_of(legacy, &manner, |_| {}), "hello\n");
            let ignored = output_of(legacy, &manner, show_ignored);
            assert_eq!(ignored, "SigIgn:\t0000000000000000\n");
        }
    }

    #[test]
    fn a_child_ignores_nothing_however_it_is_made() {
        // Rust programs ignore writes to nobody from the start.
        let spawner = Spawner::new(false);
        assert!(
            spawner
                .manner
                .ignored
                .as_deref()
                .unwrap()
                .contains(&libc::SIGPIPE)
        );
        let ignored = output_of(clone_child, &spawner.manner, show_ignored);
        assert_eq!(ignored, "SigIgn:\t0000000000000000\n");
        // What was not noted stays, which is how the test can fail.
        let unnoted = Manner {
            flags: SHARED | CLEAR_HANDLERS,
            ignored: Some(Vec::new()),
        };
        let ignored = output_of(clone_child, &unnoted, show_ignored);
        assert_ne!(ignored, "SigIgn:\t0000000000000000\n");
    }

    #[test]
    fn a_kernel_that_cannot_clear_handlers_is_asked_once() {
        let mut spawner = Spawner::new(false);
        // A flag that no kernel knows.
        spawner.manner.flags |= 1 << 62;
        let null = File::open("/dev/null").unwrap();
        let pid = spawner.spawn(&echo(null.as_fd())).unwrap();
        collect_failed(pid);
        assert_eq!(
            (spawner.manner.flags, &spawner.manner.ignored),
            (SHARED, &None)
        );
    }

    /// Held by tests that open many descriptors: the numbers of all others
    /// depend on it.
    static CROWDED: std::sync::Mutex<()> = std::sync::Mutex::new(());

    /// Many descriptors that a child must not have, one of them without the
    /// flag that says so.
    fn crowd() -> Vec<OwnedFd> {
        let null = File::open("/dev/null").unwrap();
        let mut crowd: Vec<OwnedFd> = (0..300).map(|_| null.try_clone().unwrap().into()).collect();
        crowd.push(rustix::io::dup(&null).unwrap());
        crowd
    }

    /// What a child of a spawner writes that is given these descriptors
    /// besides its output.
    fn said_by_child(
        spawner: &mut Spawner,
        given: &[(BorrowedFd<'_>, c_int)],
        words: &[&str],
    ) -> String {
        let (read, write) = crate::sys::pipe().unwrap();
        let mut plan = echo(write.as_fd());
        plan.fds.extend(given);
        let words = words.iter().map(|word| CString::new(*word).unwrap());
        plan.argv = words.collect();
        plan.path = plan.argv.first().unwrap().clone();
        let pid = spawner.spawn(&plan).unwrap();
        drop(plan);
        drop(write);
        let mut output = String::new();
        // Ends only if no place keeps an end open to write to.
        File::from(read).read_to_string(&mut output).unwrap();
        collect_failed(pid);
        output
    }

    /// The descriptors that a child sees among many it must not have.
    fn descriptors_of_child(spawner: &mut Spawner) -> String {
        let crowd = crowd();
        let null = crowd.last().unwrap().as_fd();
        let list = ["/bin/ls", "/proc/self/fd"];
        said_by_child(spawner, &[(null, 0), (null, 2)], &list)
    }

    #[test]
    fn a_child_has_its_descriptors_and_no_table_for_all_others() {
        let _alone = CROWDED.lock().unwrap_or_else(PoisonError::into_inner);
        let mut spawner = Spawner::new(false);
        let table_size = |spawner: &mut Spawner| {
            let _crowd = crowd();
            let size = ["/bin/grep", "FDSize", "/proc/self/status"];
            let said = said_by_child(spawner, &[], &size);
            said.split_whitespace()
                .last()
                .unwrap()
                .parse::<u32>()
                .unwrap()
        };
        for _ in 0..2 {
            assert_eq!(descriptors_of_child(&mut spawner), "0\n1\n2\n3\n");
        }
        let part = table_size(&mut spawner);
        spawner.places = None;
        assert_eq!(descriptors_of_child(&mut spawner), "0\n1\n2\n3\n");
        let whole = table_size(&mut spawner);
        assert!(part < whole, "{part} of {whole}");
    }

    #[test]
    fn where_a_child_must_copy_all_descriptors_that_is_found_out_once() {
        let _alone = CROWDED.lock().unwrap_or_else(PoisonError::into_inner);
        let mut spawner = Spawner::new(false);
        // A flag that no kernel knows.
        spawner.places.as_mut().unwrap().copy_flags |= 1 << 20;
        assert_eq!(descriptors_of_child(&mut spawner), "0\n1\n2\n3\n");
        assert!(spawner.places.is_none());
    }

    #[test]
    fn a_child_with_more_descriptors_than_places_copies_them() {
        let _alone = CROWDED.lock().unwrap_or_else(PoisonError::into_inner);
        let mut spawner = Spawner::new(false);
        let crowd = crowd();
        let more: Vec<_> = crowd.iter().map(AsFd::as_fd).zip(3..15).collect();
        let said = said_by_child(&mut spawner, &more, &["/bin/echo", "hello"]);
        assert_eq!(said, "hello\n");
        assert!(spawner.places.is_some());
    }

    #[test]
    fn the_failing_step_is_named() {
        let null = File::open("/dev/null").unwrap();
        let mut missing = echo(null.as_fd());
        missing.path = c"/no/such/program".to_owned();
        let failure = spawn(&missing).unwrap_err();
        assert_eq!(failure.step, LaunchStep::Exec);
        assert_eq!(failure.errno, libc::ENOENT);
        let nowhere = Surroundings {
            cwd: c"/no/such/directory".to_owned(),
            ..Surroundings::default()
        };
        missing.surroundings = &nowhere;
        let failure = spawn(&missing).unwrap_err();
        assert_eq!(failure.step, LaunchStep::WorkingDirectory);
    }
}
