//! Which mechanisms this kernel grants to this process, each tried out.

use std::fs;

use super::cgroup::Cgroup;
use super::landlock::file_ruleset;

const CAP_SYS_CHROOT: u32 = 18;

/// How process trees are held together.
pub(crate) fn tree_mechanism() -> Result<String, String> {
    match Cgroup::create_numbered() {
        Ok(cgroup) => {
            let _ = cgroup.remove();
            Ok("cgroup v2".to_owned())
        }
        Err(error) => Err(format!(
            "no control group can be made ({error}): trees are held by session, parent links \
             and a marker variable, which a process can shed"
        )),
    }
}

pub(crate) fn chroot_mechanism() -> Result<String, String> {
    if effective_capabilities() >> CAP_SYS_CHROOT & 1 == 1 {
        Ok("chroot".to_owned())
    } else {
        Err("this program lacks the capability CAP_SYS_CHROOT".to_owned())
    }
}

/// The capabilities of this program, as a mask.
pub(super) fn effective_capabilities() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

pub(crate) fn privileges_mechanism() -> Result<String, String> {
    Ok("prctl".to_owned())
}

pub(crate) fn file_rules_mechanism() -> Result<String, String> {
    match file_ruleset(&[], &[], None, "/".as_ref()) {
        Ok(_) => Ok("landlock".to_owned()),
        Err(failure) => Err(format!(
            "this kernel does not restrict files (needs Landlock ABI 3): {}",
            std::io::Error::from_raw_os_error(failure.errno)
        )),
    }
}
