//! System calls that a contained process has no use for, as filters made by
//! the parent, so that the child has one call per filter left to do.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

use crate::launch::SystemCalls;

/// Calls that reach other processes' memory, the kernel or its name spaces.
const REFUSED: &[libc::c_long] = &[
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Mounts and name spaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_open_by_handle_at,
    // Ways around a filter, and large attack surfaces.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_fanotify_init,
    // Keys are not kept apart by any name space.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // The machine.
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_syslog,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_vhangup,
];

#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[libc::c_long] = &[
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
    libc::SYS_kexec_file_load,
];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[libc::c_long] = &[];

/// Families of sockets that ordinary programs use.
const FAMILIES: [i32; 4] = [
    libc::AF_UNIX,
    libc::AF_INET,
    libc::AF_INET6,
    libc::AF_NETLINK,
];

/// The highest number a family may have before the kernel refuses it itself.
const LAST_FAMILY: u64 = 63;

const NEW_NAMESPACES: [i32; 8] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    CLONE_NEWTIME,
];
const CLONE_NEWTIME: i32 = 0x80;

const SOCK_TYPE_MASK: u64 = 0xf;
const MFD_NOEXEC_SEAL: u64 = 0x8;

/// A filter in the kernel's terms.
pub(crate) type SystemCallFilter = BpfProgram;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// The filters for these calls, to be installed in this order.
pub(crate) fn system_call_filters(calls: &SystemCalls) -> io::Result<Vec<SystemCallFilter>> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(io::Error::other)?;
    let filter = |rules: Rules, errno: i32| {
        let refuse = SeccompAction::Errno(errno.unsigned_abs());
        SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch)
            .and_then(BpfProgram::try_from)
            .map_err(io::Error::other)
    };
    // Flags of this one are in memory, which no filter sees: programs go back
    // to the older call.
    let unknown = Rules::from([(libc::SYS_clone3, Vec::new())]);
    let mut filters = vec![
        filter(refused(calls).map_err(io::Error::other)?, libc::EPERM)?,
        filter(unknown, libc::ENOSYS)?,
    ];
    if cfg!(target_arch = "x86_64") {
        filters.push(no_other_numbers());
    }
    Ok(filters)
}

fn refused(calls: &SystemCalls) -> Result<Rules, seccompiler::BackendError> {
    let mut rules: Rules = REFUSED
        .iter()
        .chain(REFUSED_HERE)
        .map(|call| (*call, Vec::new()))
        .collect();
    let of_type = |index, value: i32| when(index, SeccompCmpOp::Eq, number(value));
    let inputs = [libc::TIOCSTI as i32, libc::TIOCLINUX as i32];
    rules.insert(
        libc::SYS_ioctl,
        inputs
            .into_iter()
            .map(|request| SeccompRule::new(vec![of_type(1, request)?]))
            .collect::<Result<_, _>>()?,
    );
    rules.insert(
        libc::SYS_clone,
        NEW_NAMESPACES
            .into_iter()
            .map(|flag| {
                let flag = number(flag);
                SeccompRule::new(vec![when(0, SeccompCmpOp::MaskedEq(flag), flag)?])
            })
            .collect::<Result<_, _>>()?,
    );
    let sockets = refused_sockets(calls)?;
    rules.insert(libc::SYS_socketpair, sockets.clone());
    rules.insert(libc::SYS_socket, sockets);
    if calls.no_memory_programs {
        let open = when(1, SeccompCmpOp::MaskedEq(MFD_NOEXEC_SEAL), 0)?;
        rules.insert(libc::SYS_memfd_create, vec![SeccompRule::new(vec![open])?]);
    }
    Ok(rules)
}

/// Sockets of other families, raw ones, and kernel channels but the one that
/// tells of interfaces.
fn refused_sockets(calls: &SystemCalls) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let family = |family: i32| when(0, SeccompCmpOp::Eq, number(family));
    let mut rules = Vec::new();
    let other = (0..=LAST_FAMILY).filter(|one| FAMILIES.iter().all(|kept| number(*kept) != *one));
    for other in other {
        let is_other = when(0, SeccompCmpOp::Eq, other)?;
        rules.push(SeccompRule::new(vec![is_other])?);
    }
    let raw = SeccompCmpOp::MaskedEq(SOCK_TYPE_MASK);
    for internet in [libc::AF_INET, libc::AF_INET6] {
        let mut conditions = vec![family(internet)?];
        if calls.internet {
            conditions.push(when(1, raw.clone(), number(libc::SOCK_RAW))?);
        }
        rules.push(SeccompRule::new(conditions)?);
    }
    let other_channel = when(2, SeccompCmpOp::Ne, number(libc::NETLINK_ROUTE))?;
    rules.push(SeccompRule::new(vec![
        family(libc::AF_NETLINK)?,
        other_channel,
    ])?);
    Ok(rules)
}

/// The lower half of an argument, which is all the kernel looks at.
fn when(
    argument: u8,
    operator: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
}

fn number(value: i32) -> u64 {
    u64::from(value.unsigned_abs())
}

/// Refuses the calls of the x32 interface, whose numbers are those of the
/// filters with one bit more.
fn no_other_numbers() -> SystemCallFilter {
    const X32: u32 = 0x4000_0000;
    let step = |code: u32, jt: u8, jf: u8, k: u32| sock_filter {
        code: u16::try_from(code).unwrap_or(u16::MAX),
        jt,
        jf,
        k,
    };
    vec![
        // The number is the first field of what the filter is shown.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 0, 1, X32),
        step(
            libc::BPF_RET | libc::BPF_K,
            0,
            0,
            libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs(),
        ),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
}
