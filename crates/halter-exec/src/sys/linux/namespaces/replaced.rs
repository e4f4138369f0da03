//! Mounts that are made in name spaces that are in use.
//!
//! To put another file in the place of one takes the mounts off it in every
//! other mount namespace, so what was protected or hidden is so no longer. A
//! process of ours enters the name spaces, mounts and ends: on memory it shares
//! with the sleeping parent, so without allocations, locks and panics. It is
//! none of their PID namespace, so nobody inside sees it.

use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::first::{errno, take};
use super::mounts::{MountPlan, MountStep};
use super::{clone_sharing_memory, collect};

struct EnterPlan<'a> {
    /// A process in the name spaces, and which of them to enter.
    process: c_int,
    kinds: c_int,
    mounts: &'a [MountStep],
    copies: &'a mut [c_int],
    /// The step, unless entering failed, and `errno`.
    failed: Option<(Option<usize>, c_int)>,
}

/// Takes these steps there. What is not there inside is left out.
///
/// # Errors
/// What failed, in words, and why.
pub(super) fn mount_in(
    process: BorrowedFd<'_>,
    kinds: c_int,
    mounts: &MountPlan,
) -> Result<(), (String, io::Error)> {
    let mut copies = vec![-1; mounts.copies];
    let mut plan = EnterPlan {
        process: process.as_raw_fd(),
        kinds: kinds & (libc::CLONE_NEWUSER | libc::CLONE_NEWNS),
        mounts: &mounts.steps,
        copies: &mut copies,
        failed: None,
    };
    let entering = || "entering the sandbox".to_owned();
    let child = clone_sharing_memory(enter_and_mount, &mut plan, 0);
    let (child, _) = child.map_err(|error| (entering(), error))?;
    collect(&child);
    match plan.failed {
        None => Ok(()),
        Some((step, errno)) => {
            let step = step.and_then(|index| mounts.steps.get(index));
            let doing = step.map_or_else(entering, MountStep::describe);
            Err((doing, io::Error::from_raw_os_error(errno)))
        }
    }
}

extern "C" fn enter_and_mount(plan: *mut c_void) -> c_int {
    // SAFETY: memory of the sleeping parent that nobody else uses now.
    let plan = unsafe { &mut *plan.cast::<EnterPlan<'_>>() };
    // SAFETY: every pointer in the plan is to live data of the sleeping parent.
    unsafe {
        plan.failed = steps(plan).err();
        libc::_exit(0)
    }
}

/// Async-signal-safe calls only.
unsafe fn steps(plan: &mut EnterPlan<'_>) -> Result<(), (Option<usize>, c_int)> {
    // SAFETY: system calls on the plan's valid numbers and strings.
    unsafe {
        if libc::setns(plan.process, plan.kinds) < 0 {
            return Err((None, errno()));
        }
        for (index, step) in plan.mounts.iter().enumerate() {
            let is_gone = matches!(step, MountStep::Attach { from, .. }
                if plan.copies.get(*from).is_none_or(|copy| *copy < 0));
            if !is_gone && take(step, plan.copies) < 0 && errno() != libc::ENOENT {
                return Err((Some(index), errno()));
            }
        }
    }
    Ok(())
}
