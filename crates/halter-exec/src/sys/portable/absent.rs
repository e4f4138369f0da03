//! What only Linux has. Nothing here can be made, so nothing here can be
//! used; asking for it is an error that says why.

use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::launch::{LaunchFailure, LaunchStep, SystemCalls};
use crate::sandbox::{Containment, FileRule, KeptMount, MissingRung};
use crate::sys::{PidFd, Signal};

/// A control group. This system has none: [`own`](Self::own),
/// [`create`](Self::create) and [`open`](Self::open) are errors.
#[derive(Debug)]
pub struct Cgroup(Infallible);

/// The control group of this program. This system has none.
#[derive(Debug)]
pub struct OwnGroup(Infallible);

impl OwnGroup {
    /// `None`, on this system.
    pub fn claim(_: &str) -> Option<Self> {
        None
    }
}

impl Cgroup {
    /// # Errors
    /// Always, on this system.
    pub fn own() -> io::Result<PathBuf> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// # Errors
    /// Always, on this system.
    pub fn create(_: &Path, _: impl AsRef<Path>) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// # Errors
    /// Always, on this system.
    pub fn open(_: impl Into<PathBuf>) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn create_numbered() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn create_numbered_in(_: &Path) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Its directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self.0 {}
    }

    /// Living members.
    #[must_use]
    pub fn members(&self) -> Vec<i32> {
        match self.0 {}
    }

    pub(crate) fn has_only(&self, _: i32) -> bool {
        match self.0 {}
    }

    /// Whether this process is a member.
    #[must_use]
    pub fn contains(&self, _: i32) -> bool {
        match self.0 {}
    }

    /// Sends a signal to every member, and says to how many.
    pub fn signal(&self, _: Signal) -> usize {
        match self.0 {}
    }

    /// Kills every member.
    ///
    /// # Errors
    /// If the group is gone or not ours.
    pub fn kill(&self) -> io::Result<()> {
        match self.0 {}
    }

    /// Whether nothing lives in it any more.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        match self.0 {}
    }

    /// Waits until nothing lives in it, or the time is up; says which.
    #[must_use]
    pub fn gone_within(&self, _: Duration) -> bool {
        match self.0 {}
    }

    pub(crate) fn while_frozen<Outcome>(&self, _: impl FnOnce() -> Outcome) -> Outcome {
        match self.0 {}
    }

    /// Removes the group.
    ///
    /// # Errors
    /// If something lives in it.
    pub fn remove(&self) -> io::Result<()> {
        match self.0 {}
    }

    /// There is nothing to sweep.
    ///
    /// # Errors
    /// Never, on this system.
    pub fn sweep(_: &Path, _: &str, _: impl FnMut(&str) -> bool) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
}

/// A PID namespace for the children of this program. This system has none:
/// [`enter`](Self::enter) and [`probe`](Self::probe) are errors.
#[derive(Debug)]
pub struct PidNamespace(Infallible);

impl PidNamespace {
    /// # Errors
    /// Always, on this system.
    pub fn enter(_: &[impl AsRef<Path>]) -> io::Result<Self> {
        Err(io::Error::other("this system has no PID namespaces"))
    }

    /// # Errors
    /// Always, on this system.
    pub fn probe(_: &[impl AsRef<Path>]) -> io::Result<()> {
        Err(io::Error::other("this system has no PID namespaces"))
    }

    /// The number of its first process.
    #[must_use]
    pub fn first(&self) -> i32 {
        match self.0 {}
    }

    /// Kills everything in it.
    ///
    /// # Errors
    /// If its first process has been collected.
    pub fn kill(&self) -> io::Result<()> {
        match self.0 {}
    }
}

/// Name spaces for a tree of processes. This system has none.
#[derive(Debug)]
pub(crate) struct Namespaces(Infallible);

impl Namespaces {
    pub(crate) fn make(_: &Containment) -> Result<Self, MissingRung> {
        Err(MissingRung::new("this system has no name spaces"))
    }

    pub(crate) fn handle(&self) -> (BorrowedFd<'_>, i32) {
        match self.0 {}
    }

    pub(crate) fn exchange(&self) -> (BorrowedFd<'_>, &'static Path) {
        match self.0 {}
    }

    pub(crate) fn protect_more(&self, _: &[PathBuf]) {
        match self.0 {}
    }

    pub(crate) fn cover_again(&self) -> Result<Vec<PathBuf>, MissingRung> {
        match self.0 {}
    }

    pub(crate) fn listener(&self) -> Option<&TcpListener> {
        match self.0 {}
    }
}

/// # Errors
/// Always, on this system.
pub(crate) fn mount_missing(
    _: &PidFd,
    _: i32,
    _: &[KeptMount],
) -> Result<Vec<PathBuf>, MissingRung> {
    Err(MissingRung::new("this system has no name spaces"))
}

/// # Errors
/// Always, on this system: it has no containers.
pub(crate) fn make_placeholder(_: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// # Errors
/// Always, on this system.
pub(crate) fn remove_placeholder(_: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// A filter of system calls. This system has none.
pub(crate) type SystemCallFilter = Infallible;

pub(crate) fn system_call_filters(_: &SystemCalls) -> io::Result<Vec<SystemCallFilter>> {
    Err(io::Error::from_raw_os_error(libc::ENOSYS))
}

/// A name that no other sandbox made by a living program has.
pub(crate) fn numbered_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("halter-{}-{number}", std::process::id())
}

fn unsupported(step: LaunchStep) -> LaunchFailure {
    LaunchFailure::new(step, libc::ENOSYS)
}

pub(crate) fn open_cgroup(_: &Path) -> io::Result<OwnedFd> {
    Err(io::Error::from_raw_os_error(libc::ENOSYS))
}

pub(crate) fn open_limit_group(_: &Path) -> io::Result<OwnedFd> {
    Err(io::Error::from_raw_os_error(libc::ENOSYS))
}

pub(crate) fn file_ruleset(
    _: &[FileRule],
    _: &[FileRule],
    _: Option<&Path>,
    _: &Path,
) -> Result<OwnedFd, LaunchFailure> {
    Err(unsupported(LaunchStep::FileRules))
}

pub(crate) fn execute_ruleset(_: Option<&[PathBuf]>, _: bool) -> Result<OwnedFd, LaunchFailure> {
    Err(unsupported(LaunchStep::FileRules))
}

pub(crate) fn landlock_scopes() -> bool {
    false
}

/// The place itself. Links inside another root lead where they lead from
/// here.
pub(crate) fn open_place(root: Option<&Path>, path: &Path) -> io::Result<OwnedFd> {
    let path = match root {
        Some(root) => root.join(path.strip_prefix("/").unwrap_or(path)),
        None => path.to_owned(),
    };
    Ok(std::fs::File::open(path)?.into())
}

pub(crate) fn tree_mechanism() -> Result<String, String> {
    Err(
        "this system has no control groups: trees are held by process group and parent links, \
         which a process can shed"
            .to_owned(),
    )
}

pub(crate) fn chroot_mechanism() -> Result<String, String> {
    if rustix::process::geteuid().is_root() {
        Ok("chroot".to_owned())
    } else {
        Err("only root may change the root directory".to_owned())
    }
}

pub(crate) fn privileges_mechanism() -> Result<String, String> {
    Err("this system cannot give up new privileges".to_owned())
}

pub(crate) fn file_rules_mechanism() -> Result<String, String> {
    Err("this system has no Landlock".to_owned())
}
