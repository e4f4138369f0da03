//! The first process of a contained tree, from its birth in new name spaces to
//! its exec, on memory it shares with the sleeping parent: no allocation, no
//! locks, no panics.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use super::mounts::MountStep;
use crate::sys::linux::child::{close_on_exec_from, install_filters, reset_signals};
use crate::sys::linux::seccomp::SystemCallFilter;

/// What failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FirstStep {
    UserMap,
    MountsApart,
    /// The step of this number.
    Mount(usize),
    Loopback,
    Listener,
    HandOver,
    Streams,
    Confine,
    Exec,
}

/// What the first process works with: memory of the sleeping parent.
pub(super) struct FirstPlan<'a> {
    /// What to write into files below `/proc/self`, to be this user in a new
    /// user namespace.
    pub maps: &'a [(&'a CStr, &'a [u8])],
    pub mounts: &'a [MountStep],
    pub copies: &'a mut [c_int],
    pub network: bool,
    pub proxy_port: Option<u16>,
    pub exchange: &'a CStr,
    /// The socket that handles go back through.
    pub channel: c_int,
    /// What it reads: the end of this is the end of the tree.
    pub keep: c_int,
    pub null: c_int,
    pub filters: &'a [SystemCallFilter],
    pub program: &'a CStr,
    pub argv: *const *const c_char,
    pub envp: *const *const c_char,
    pub failed: Option<(FirstStep, c_int)>,
}

pub(super) extern "C" fn first_process(plan: *mut c_void) -> c_int {
    // SAFETY: memory of the sleeping parent that nobody else uses now.
    let plan = unsafe { &mut *plan.cast::<FirstPlan<'_>>() };
    // SAFETY: every pointer in the plan is to live data of the sleeping parent.
    let Err(step) = unsafe { steps(plan) };
    plan.failed = Some((step, errno()));
    // SAFETY: ends this process at once, running no exit handlers.
    unsafe { libc::_exit(127) }
}

pub(super) fn errno() -> c_int {
    // SAFETY: the C library's errno location is always valid.
    unsafe { *libc::__errno_location() }
}

fn check(result: impl Into<i64>, step: FirstStep) -> Result<c_int, FirstStep> {
    match c_int::try_from(result.into()) {
        Ok(value) if value >= 0 => Ok(value),
        _ => Err(step),
    }
}

/// Async-signal-safe calls only.
unsafe fn steps(plan: &mut FirstPlan<'_>) -> Result<std::convert::Infallible, FirstStep> {
    // SAFETY: plain system calls on the plan's valid pointers and numbers.
    unsafe {
        for (file, content) in plan.maps {
            check(write_file(file, content), FirstStep::UserMap)?;
        }
        let apart = libc::MS_REC | libc::MS_PRIVATE;
        let none = ptr::null();
        let root = c"/".as_ptr();
        check(
            libc::mount(none, root, none, apart, none.cast()),
            FirstStep::MountsApart,
        )?;
        // Modes are as the plan says.
        libc::umask(0);
        for (index, step) in plan.mounts.iter().enumerate() {
            check(take(step, plan.copies), FirstStep::Mount(index))?;
        }
        check(libc::chdir(root), FirstStep::MountsApart)?;
        hand_over(plan)?;
        check(libc::setsid(), FirstStep::Streams)?;
        for (from, to) in [(plan.keep, 0), (plan.null, 1), (plan.null, 2)] {
            check(libc::dup2(from, to), FirstStep::Streams)?;
        }
        close_on_exec_from(3);
        reset_signals();
        // Ignored, so that orphans are collected by the kernel as they end.
        libc::signal(libc::SIGCHLD, libc::SIG_IGN);
        check(give_up_capabilities(), FirstStep::Confine)?;
        let set = libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        check(set, FirstStep::Confine)?;
        check(install_filters(plan.filters), FirstStep::Confine)?;
        libc::execve(plan.program.as_ptr(), plan.argv, plan.envp);
    }
    Err(FirstStep::Exec)
}

unsafe fn write_file(file: &CStr, content: &[u8]) -> c_int {
    // SAFETY: a NUL-terminated path and a buffer of its own length.
    unsafe {
        let fd = libc::open(file.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if fd < 0 {
            return -1;
        }
        let written = libc::write(fd, content.as_ptr().cast(), content.len());
        let failed = errno();
        libc::close(fd);
        *libc::__errno_location() = failed;
        if usize::try_from(written) == Ok(content.len()) {
            0
        } else {
            -1
        }
    }
}

/// `struct mount_attr` of the kernel.
#[repr(C)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

unsafe fn set_attributes(fd: c_int, path: *const c_char, flags: c_int, set: u64) -> i64 {
    let attributes = MountAttributes {
        set,
        clear: 0,
        propagation: 0,
        user_namespace: 0,
    };
    // SAFETY: a valid path and a structure of the size that is given.
    unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            fd,
            path,
            flags,
            &raw const attributes,
            size_of::<MountAttributes>(),
        )
    }
}

/// One step; the copies are open descriptors.
pub(super) unsafe fn take(step: &MountStep, copies: &mut [c_int]) -> i64 {
    const OPEN_TREE_CLONE: c_int = 1;
    const MOVE_FROM_EMPTY_PATH: c_int = 4;
    let empty = c"".as_ptr();
    let recursively = libc::AT_RECURSIVE;
    // SAFETY: system calls on the step's NUL-terminated strings.
    unsafe {
        match step {
            MountStep::Copy { from, into } => {
                let flags = OPEN_TREE_CLONE | libc::O_CLOEXEC | recursively;
                let fd = libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, from.as_ptr(), flags);
                if let Some(slot) = copies.get_mut(*into) {
                    *slot = c_int::try_from(fd).unwrap_or(-1);
                }
                fd
            }
            MountStep::Attach {
                from,
                at,
                attributes,
            } => {
                let fd = copies.get(*from).copied().unwrap_or(-1);
                let flags = libc::AT_EMPTY_PATH | recursively;
                if set_attributes(fd, empty, flags, *attributes) < 0 {
                    return -1;
                }
                let moved = libc::syscall(
                    libc::SYS_move_mount,
                    fd,
                    empty,
                    libc::AT_FDCWD,
                    at.as_ptr(),
                    MOVE_FROM_EMPTY_PATH,
                );
                let failed = errno();
                libc::close(fd);
                *libc::__errno_location() = failed;
                moved
            }
            MountStep::New {
                kind,
                at,
                flags,
                options,
            } => i64::from(libc::mount(
                kind.as_ptr(),
                at.as_ptr(),
                kind.as_ptr(),
                *flags,
                options.as_ptr().cast(),
            )),
            MountStep::Restrict {
                at,
                attributes,
                recursive,
            } => {
                let flags = if *recursive { recursively } else { 0 };
                set_attributes(libc::AT_FDCWD, at.as_ptr(), flags, *attributes)
            }
            MountStep::Directory { at, mode } => {
                i64::from(unless_there(libc::mkdir(at.as_ptr(), *mode)))
            }
            MountStep::File { at, mode } => {
                let made = libc::mknod(at.as_ptr(), libc::S_IFREG | *mode, 0);
                i64::from(unless_there(made))
            }
            MountStep::Link { to, at } => i64::from(libc::symlink(to.as_ptr(), at.as_ptr())),
        }
    }
}

fn unless_there(result: c_int) -> c_int {
    if result < 0 && errno() == libc::EEXIST {
        0
    } else {
        result
    }
}

/// Makes what lives in the new name spaces and sends handles of it to the
/// parent: the exchange directory, and the listening socket if one is wanted.
unsafe fn hand_over(plan: &FirstPlan<'_>) -> Result<(), FirstStep> {
    let mut handles = [-1; 2];
    let mut count = 1;
    // SAFETY: system calls on valid pointers.
    unsafe {
        if plan.network {
            check(raise_loopback(), FirstStep::Loopback)?;
        }
        if let Some(port) = plan.proxy_port {
            handles[1] = check(listen(port), FirstStep::Listener)?;
            count = 2;
        }
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
        let directory = libc::open(plan.exchange.as_ptr(), flags);
        handles[0] = check(directory, FirstStep::HandOver)?;
        check(
            send_handles(plan.channel, handles, count),
            FirstStep::HandOver,
        )?;
    }
    Ok(())
}

unsafe fn raise_loopback() -> c_int {
    // SAFETY: `ifreq` is plain data for which all zeros are valid.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        if socket < 0 {
            return -1;
        }
        let mut request: libc::ifreq = std::mem::zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
            *to = *from as c_char;
        }
        let mut done = libc::ioctl(socket, libc::SIOCGIFFLAGS, &raw mut request);
        if done >= 0 {
            request.ifr_ifru.ifru_flags |= libc::IFF_UP as libc::c_short;
            done = libc::ioctl(socket, libc::SIOCSIFFLAGS, &raw mut request);
        }
        libc::close(socket);
        done
    }
}

/// Listens on all addresses of loopback, the only interface there is: by the
/// address that it was reached at, the proxy tells its clients apart.
unsafe fn listen(port: u16) -> c_int {
    // SAFETY: an address of the size that is given.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
        let mut address: libc::sockaddr_in = std::mem::zeroed();
        address.sin_family = libc::AF_INET as libc::sa_family_t;
        address.sin_port = port.to_be();
        address.sin_addr.s_addr = libc::INADDR_ANY.to_be();
        let size = size_of::<libc::sockaddr_in>() as libc::socklen_t;
        if libc::bind(socket, (&raw const address).cast(), size) < 0
            || libc::listen(socket, libc::SOMAXCONN) < 0
        {
            return -1;
        }
        socket
    }
}

unsafe fn send_handles(channel: c_int, handles: [c_int; 2], count: usize) -> c_int {
    // Room for a header and two descriptors, aligned as the header wants it.
    let mut control = [0_u64; 8];
    let mut byte = 0_u8;
    let mut part = libc::iovec {
        iov_base: (&raw mut byte).cast(),
        iov_len: 1,
    };
    // SAFETY: the message points to memory of this frame that is large enough
    // for what `CMSG_SPACE` says.
    unsafe {
        let bytes = (count * size_of::<c_int>()) as libc::c_uint;
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(bytes) as _;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(bytes) as _;
        let data = libc::CMSG_DATA(header);
        ptr::copy_nonoverlapping(handles.as_ptr().cast::<u8>(), data, bytes as usize);
        if libc::sendmsg(channel, &raw const message, libc::MSG_NOSIGNAL) == 1 {
            0
        } else {
            -1
        }
    }
}

/// Has what this process executes next be without any capability; 0 or -1 with
/// `errno`. Async-signal-safe.
///
/// The process itself keeps what it may: until then it lives on the memory and
/// the descriptors of this program, and whoever lives in the same name spaces
/// and has no fewer capabilities could open both through `/proc`.
pub(in crate::sys::linux) unsafe fn give_up_capabilities() -> c_int {
    const LAST: c_int = 63;
    const VERSION_3: u32 = 0x2008_0522;
    #[repr(C)]
    struct Header {
        version: u32,
        pid: c_int,
    }
    let mut header = Header {
        version: VERSION_3,
        pid: 0,
    };
    // Twice effective, permitted and inheritable.
    let mut held = [0_u32; 6];
    // SAFETY: numbers, and structures of the layout of that version.
    unsafe {
        let mut bounded = true;
        for capability in 0..=LAST {
            if libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) < 0 {
                // Otherwise the kernel knows no capability of this number.
                bounded = errno() != libc::EPERM;
                break;
            }
        }
        let clear = libc::PR_CAP_AMBIENT_CLEAR_ALL;
        libc::prctl(libc::PR_CAP_AMBIENT, clear, 0, 0, 0);
        // Without the right to bound it, what is kept could be inherited.
        if bounded {
            let got = libc::syscall(libc::SYS_capget, &raw mut header, held.as_mut_ptr());
            if got != 0 {
                return -1;
            }
            [held[2], held[5]] = [0, 0];
        }
        if libc::syscall(libc::SYS_capset, &raw const header, held.as_ptr()) == 0 {
            0
        } else {
            -1
        }
    }
}
