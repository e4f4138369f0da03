//! Mounts that a container has lost: to put another file in the place of one
//! takes off what is mounted there, in every mount namespace.

use std::os::fd::AsFd;
use std::path::PathBuf;

use super::covered::Mounts;
use super::mounts::MountPlan;
use super::replaced;
use crate::sandbox::{KeptMount, MissingRung};
use crate::sys::PidFd;

/// Mounts those of them on whose target nothing is mounted where this process,
/// of this number, is. Returns where something was mounted.
pub(crate) fn mount_missing(
    process: &PidFd,
    number: i32,
    mounts: &[KeptMount],
) -> Result<Vec<PathBuf>, MissingRung> {
    let there = Mounts::of_container(number)
        .map_err(|error| MissingRung::of("reading the list of its mounts", &error))?;
    let plan = MountPlan::of_container(mounts, |path| there.are_on(path))?;
    if plan.steps.is_empty() {
        return Ok(Vec::new());
    }
    let mut kinds = libc::CLONE_NEWNS;
    if user_namespace("self")? != user_namespace(&number.to_string())? {
        kinds |= libc::CLONE_NEWUSER;
    }
    let done = replaced::mount_in(process.as_fd(), kinds, &plan);
    done.map_err(|(doing, error)| MissingRung::of(&doing, &error))?;
    Ok(plan.places())
}

fn user_namespace(process: &str) -> Result<PathBuf, MissingRung> {
    std::fs::read_link(format!("/proc/{process}/ns/user"))
        .map_err(|error| MissingRung::of("looking at its user namespace", &error))
}
