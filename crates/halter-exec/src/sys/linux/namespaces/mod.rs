//! Name spaces that keep a tree of processes apart: its files, processes,
//! System V objects and, unless it has the host's, its network.
//!
//! They are held by a first process, which collects orphans and ends with this
//! program: it is `cat`, reading a pipe that nobody writes to. Processes are
//! [born](super::clone) in them one by one and stay children of this program.

mod container;
mod covered;
mod first;
mod mounts;
mod placeholders;
mod replaced;

use std::ffi::{CStr, CString, OsStr, c_int, c_void};
use std::fs::{self, File};
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::{Mutex, PoisonError};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
    recvmsg, socketpair,
};

pub(crate) use self::container::mount_missing;
use self::covered::Mounts;
pub(super) use self::first::give_up_capabilities;
use self::first::{FirstPlan, FirstStep, first_process};
use self::mounts::MountPlan;
use self::placeholders::Placeholders;
pub(crate) use self::placeholders::{make_placeholder, remove_placeholder};
use super::clone_call::AllSignalsBlocked;
use super::handover::pipe;
use super::levels::effective_capabilities;
use super::pidfd::PidFd;
use super::seccomp::system_call_filters;
use super::stack::ChildStack;
use crate::environment::Environment;
use crate::launch::SystemCalls;
use crate::limits::KILL_WAIT;
use crate::sandbox::{Containment, MissingRung, NetworkAccess};
use crate::spawn::find_program;
use crate::sys::Signal;
use crate::sys::child_plan::null_terminated;

const CAP_SYS_ADMIN: u32 = 21;
const CAP_SETFCAP: u32 = 31;

/// Name spaces and the process that holds them. Dropping this kills
/// everything inside.
#[derive(Debug)]
pub(crate) struct Namespaces {
    first: PidFd,
    /// Its number; it is collected by nobody else.
    first_pid: libc::pid_t,
    /// `setns` flags for those that are not the host's.
    kinds: c_int,
    /// Closed, it ends the first process.
    _keep: OwnedFd,
    exchange: OwnedFd,
    listener: Option<TcpListener>,
    writable: Vec<PathBuf>,
    // Dropped last: nothing lies on the placeholders any more.
    covered: Mutex<CoveredPaths>,
}

/// What is protected and hidden by mounts.
#[derive(Debug)]
struct CoveredPaths {
    protected: Vec<PathBuf>,
    hidden: Vec<PathBuf>,
    placeholders: Placeholders,
}

impl Namespaces {
    /// Makes them.
    pub(crate) fn make(containment: &Containment) -> Result<Self, MissingRung> {
        let mut placeholders = Placeholders::new(&containment.writable);
        let places = placeholders.add(&containment.protected)?;
        let covered = CoveredPaths {
            protected: containment.protected.clone(),
            hidden: containment.hidden.clone(),
            placeholders,
        };
        let mut containment = containment.clone();
        containment.protected.extend(places);
        let program = first_program()?;
        if let Some(executables) = &mut containment.executables {
            executables.push(OsStr::from_bytes(program.to_bytes()).into());
        }
        let plan = MountPlan::new(&containment)?;
        let calls = SystemCalls::default();
        let filters = system_call_filters(&calls)
            .map_err(|error| MissingRung::of("making a system call filter", &error))?;
        let made = begin(&containment, &plan, &program, &filters)?;
        let namespaces = Self {
            first: made.first,
            first_pid: made.first_pid,
            kinds: made.kinds,
            _keep: made.keep,
            exchange: made.exchange,
            listener: made.listener,
            writable: containment.writable,
            covered: Mutex::new(covered),
        };
        // Needed later, when it is too late to have another rung.
        namespaces.mounts()?;
        Ok(namespaces)
    }

    /// A handle of the process that is in them, and which they are.
    pub(crate) fn handle(&self) -> (BorrowedFd<'_>, c_int) {
        (self.first.as_fd(), self.kinds)
    }

    /// The directory that this program and the tree both reach.
    pub(crate) fn exchange(&self) -> (BorrowedFd<'_>, &'static Path) {
        (self.exchange.as_fd(), Path::new(mounts::EXCHANGE))
    }

    /// Adds paths to those that are to be covered.
    pub(crate) fn protect_more(&self, paths: &[PathBuf]) {
        let mut covered = self.covered.lock().unwrap_or_else(PoisonError::into_inner);
        let new = paths
            .iter()
            .filter(|path| !covered.protected.contains(path));
        let new: Vec<PathBuf> = new.cloned().collect();
        covered.protected.extend(new);
    }

    /// Protects and hides what has no mounts, or has lost them, and returns
    /// where something was mounted.
    pub(crate) fn cover_again(&self) -> Result<Vec<PathBuf>, MissingRung> {
        let mut covered = self.covered.lock().unwrap_or_else(PoisonError::into_inner);
        let mounts = self.mounts()?;
        let is_open = |path: &Path, is_kept: fn(&Mounts, &Path) -> bool| {
            let is_linked = || path.canonicalize().is_ok_and(|it| is_kept(&mounts, &it));
            !is_kept(&mounts, path) && !is_linked()
        };
        let mut protected = covered.protected.clone();
        // What is gone with all around it is not made again.
        protected.retain(|path| {
            let is_around = || path.parent().is_some_and(Path::is_dir);
            is_open(path, Mounts::protect)
                && (is_around() || covered.placeholders.were_before(path))
        });
        let mut hidden = covered.hidden.clone();
        hidden.retain(|path| is_open(path, Mounts::hide));
        if protected.is_empty() && hidden.is_empty() {
            return Ok(Vec::new());
        }
        let places = covered.placeholders.add(&protected)?;
        protected.extend(places);
        let plan = MountPlan::of_more(&protected, &hidden, &self.writable, |path| {
            mounts.are_on(path)
        })?;
        if !plan.steps.is_empty() {
            let done = replaced::mount_in(self.first.as_fd(), self.kinds, &plan);
            done.map_err(|(doing, error)| MissingRung::of(&doing, &error))?;
        }
        Ok(plan.places())
    }

    fn mounts(&self) -> Result<Mounts, MissingRung> {
        Mounts::of(self.first_pid)
            .map_err(|error| MissingRung::of("reading the list of its mounts", &error))
    }

    /// The socket that listens on the tree's loopback interface.
    pub(crate) fn listener(&self) -> Option<&TcpListener> {
        self.listener.as_ref()
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        // Everything in its PID namespace ends with it.
        let _ = self.first.send(Signal::KILL);
        if !collect(&self.first) {
            tracing::warn!("the first process of a sandbox does not die");
        }
    }
}

/// What waits for the end of its input and does nothing else.
fn first_program() -> Result<CString, MissingRung> {
    let path = "/usr/bin:/bin:/run/current-system/sw/bin";
    let environment = Environment::new().with("PATH", path);
    let found = find_program(OsStr::new("cat"), &environment, Path::new("/"))
        .map_err(|error| MissingRung::new(format!("no first process: {error}")))?;
    CString::new(found.as_os_str().as_bytes())
        .map_err(|_| MissingRung::new("the path of `cat` contains a NUL byte"))
}

struct MadeNamespaces {
    first: PidFd,
    first_pid: libc::pid_t,
    kinds: c_int,
    keep: OwnedFd,
    exchange: OwnedFd,
    listener: Option<TcpListener>,
}

fn begin(
    containment: &Containment,
    mounts: &MountPlan,
    program: &CStr,
    filters: &[super::seccomp::SystemCallFilter],
) -> Result<MadeNamespaces, MissingRung> {
    let failed = |error: io::Error| MissingRung::of("preparing name spaces", &error);
    let privileged = effective_capabilities() >> CAP_SYS_ADMIN & 1 == 1;
    let mut kinds = libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWIPC;
    let network = containment.network != NetworkAccess::Host;
    if network {
        kinds |= libc::CLONE_NEWNET;
    }
    if !privileged {
        kinds |= libc::CLONE_NEWUSER;
    }
    let user = rustix::process::geteuid().as_raw();
    let group = rustix::process::getegid().as_raw();
    let user_map = format!("{user} {user} 1\n");
    let group_map = format!("{group} {group} 1\n");
    let maps: [(&CStr, &[u8]); 3] = [
        (c"/proc/self/setgroups", b"deny"),
        (c"/proc/self/uid_map", user_map.as_bytes()),
        (c"/proc/self/gid_map", group_map.as_bytes()),
    ];
    let (waiting, keep) = pipe().map_err(failed)?;
    let null = File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .map_err(failed)?;
    let (ours, theirs) = socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(|error| failed(error.into()))?;
    let arguments = [c"sandbox-init".to_owned()];
    let (argv, envp) = (null_terminated(&arguments), null_terminated(&[]));
    let exchange = CString::new(mounts::EXCHANGE).map_err(|error| failed(error.into()))?;
    let mut copies = vec![-1; mounts.copies];
    let mut plan = FirstPlan {
        maps: if privileged { &[] } else { &maps },
        mounts: &mounts.steps,
        copies: &mut copies,
        network,
        proxy_port: match containment.network {
            NetworkAccess::Proxy { port } => Some(port),
            NetworkAccess::Host | NetworkAccess::None => None,
        },
        exchange: &exchange,
        channel: theirs.as_raw_fd(),
        keep: waiting.as_raw_fd(),
        null: null.as_raw_fd(),
        filters,
        program,
        argv: argv.as_ptr(),
        envp: envp.as_ptr(),
        failed: None,
    };
    let (first, first_pid) = clone_sharing_memory(first_process, &mut plan, kinds)
        .map_err(|error| refused(privileged, &error))?;
    if let Some((step, errno)) = plan.failed {
        collect(&first);
        return Err(explained(step, errno, mounts, privileged));
    }
    drop(theirs);
    let mut handles = receive(ours.as_fd()).map_err(failed)?.into_iter();
    let exchange = handles
        .next()
        .ok_or_else(|| MissingRung::new("the first process of the sandbox handed nothing over"))?;
    Ok(MadeNamespaces {
        first,
        first_pid,
        kinds,
        keep,
        exchange,
        listener: handles.next().map(TcpListener::from),
    })
}

/// Takes the status of a process that ends; false if it does not.
fn collect(process: &PidFd) -> bool {
    let ended = process.has_ended(KILL_WAIT);
    if ended {
        let _ = process.reap();
    }
    ended
}

/// A child in new name spaces of these kinds, and its number. Returns when it has executed a
/// program or ended.
fn clone_sharing_memory<T>(
    main: extern "C" fn(*mut c_void) -> c_int,
    plan: &mut T,
    kinds: c_int,
) -> io::Result<(PidFd, libc::pid_t)> {
    let stack = ChildStack::new()?;
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD | kinds;
    let mut pidfd: c_int = -1;
    let _masked = AllSignalsBlocked::new();
    // SAFETY: the child works on memory of this thread, which sleeps until its
    // exec or exit, on a stack of its own; `CLONE_PIDFD` stores into the
    // parent-tid argument.
    let pid = unsafe {
        libc::clone(
            main,
            stack.top(),
            flags,
            ptr::from_mut(plan).cast(),
            &raw mut pidfd,
        )
    };
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us alone.
    let handle = unsafe { <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(pidfd) };
    Ok((PidFd::from(handle), pid))
}

fn receive(channel: BorrowedFd<'_>) -> io::Result<Vec<OwnedFd>> {
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0_u8];
    let mut parts = [io::IoSliceMut::new(&mut byte)];
    recvmsg(channel, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut handles = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            handles.extend(received);
        }
    }
    Ok(handles)
}

/// Why the name spaces themselves were refused.
fn refused(privileged: bool, error: &io::Error) -> MissingRung {
    let mut why = MissingRung::of("making name spaces", error);
    why.fix = match error.raw_os_error() {
        _ if !privileged => Some(user_namespace_fix()),
        Some(libc::ENOSPC) => Some(
            "a limit of name spaces is reached: raise `sysctl user.max_mnt_namespaces` and its kin"
                .to_owned(),
        ),
        _ => None,
    };
    why
}

fn explained(step: FirstStep, errno: c_int, mounts: &MountPlan, privileged: bool) -> MissingRung {
    let error = io::Error::from_raw_os_error(errno);
    let doing = match step {
        FirstStep::UserMap => "being this user in a user namespace".to_owned(),
        FirstStep::MountsApart => "setting its mounts apart".to_owned(),
        FirstStep::Mount(index) => mounts
            .steps
            .get(index)
            .map_or_else(String::new, |step| step.describe()),
        FirstStep::Loopback => "raising its loopback interface".to_owned(),
        FirstStep::Listener => "listening for its connections".to_owned(),
        FirstStep::HandOver => "handing its handles over".to_owned(),
        FirstStep::Streams => "arranging the first process's streams".to_owned(),
        FirstStep::Confine => "giving up the first process's rights".to_owned(),
        FirstStep::Exec => "executing the first process".to_owned(),
    };
    let mut why = MissingRung::of(&doing, &error);
    why.fix = match (step, errno) {
        (_, libc::ENOSYS) => Some("needs Linux 5.12 or newer".to_owned()),
        (FirstStep::UserMap, libc::EPERM) if lacks_root_map() => Some(
            "the capability CAP_SETFCAP, without which root has no user namespace of its own, or \
             a user other than root"
                .to_owned(),
        ),
        (FirstStep::UserMap, libc::ENOENT) => Some("mount -t proc proc /proc".to_owned()),
        (FirstStep::Mount(index), libc::EPERM) if is_proc(mounts, index) => Some(
            "parts of `/proc` are covered here, as containers do: run the container with \
             `--security-opt systempaths=unconfined`, or as a privileged one"
                .to_owned(),
        ),
        (_, libc::EPERM | libc::EACCES) if !privileged => Some(user_namespace_fix()),
        _ => None,
    };
    why
}

/// Whether this is root without the right to be root in a user namespace.
fn lacks_root_map() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    is_root && effective_capabilities() >> CAP_SETFCAP & 1 == 0
}

fn is_proc(mounts: &MountPlan, index: usize) -> bool {
    let step = mounts.steps.get(index);
    step.is_some_and(|step| step.describe().contains("a new proc"))
}

/// Which of the system's switches keeps users from making name spaces.
fn user_namespace_fix() -> String {
    let is = |file: &str, value: &str| {
        fs::read_to_string(format!("/proc/sys/{file}")).is_ok_and(|found| found.trim() == value)
    };
    if is("kernel/unprivileged_userns_clone", "0") {
        "sysctl kernel.unprivileged_userns_clone=1"
    } else if is("user/max_user_namespaces", "0") {
        "sysctl user.max_user_namespaces=15000"
    } else if is("kernel/apparmor_restrict_unprivileged_userns", "1") {
        "sysctl kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile for this \
         program that allows `userns`"
    } else {
        "a container or security module refuses user namespaces: allow them there, or run \
         with the capability CAP_SYS_ADMIN"
    }
    .to_owned()
}
