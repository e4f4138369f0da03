//! Which levels of isolation this host grants to this program.

use super::{LimitKind, LimitMechanism, ResourceLimits, Sandbox, SandboxSpec};
use crate::error::ExecError;
use crate::sys;

/// One level, and whether it can be had here.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct IsolationLevel {
    /// Its stable name, the one an error about it has.
    pub name: &'static str,
    /// Whether it can be had.
    pub state: LevelState,
}

/// Whether a level can be had.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LevelState {
    /// It holds when it is asked for.
    Enforced {
        /// By what.
        by: String,
    },
    /// It cannot be had; asking for it is an error.
    Unavailable {
        /// Why.
        reason: String,
    },
}

/// Every level, tried out: groups are made and removed, rules are built. Takes
/// milliseconds; the answer does not change while a program runs as the same
/// user.
#[must_use]
pub fn isolation_ladder() -> Vec<IsolationLevel> {
    let mut levels = vec![
        level("process_tree", sys::tree_mechanism()),
        level("chroot", sys::chroot_mechanism()),
        level("no_new_privileges", sys::privileges_mechanism()),
        level("landlock", sys::file_rules_mechanism()),
    ];
    let kinds = [
        LimitKind::Memory,
        LimitKind::Processes,
        LimitKind::Cpu,
        LimitKind::CpuTime,
    ];
    levels.extend(kinds.map(|kind| level(kind.level(), limit_mechanism(kind))));
    levels
}

fn level(name: &'static str, found: Result<String, String>) -> IsolationLevel {
    let state = match found {
        Ok(by) => LevelState::Enforced { by },
        Err(reason) => LevelState::Unavailable { reason },
    };
    IsolationLevel { name, state }
}

/// Sets a limit that bounds nothing, and takes it back.
fn limit_mechanism(kind: LimitKind) -> Result<String, String> {
    let mut limits = ResourceLimits::default();
    match kind {
        LimitKind::Memory => limits.memory_bytes = Some(1 << 40),
        LimitKind::Processes => limits.processes = Some(1 << 20),
        LimitKind::Cpu => limits.cpu_millis = Some(1000),
        LimitKind::CpuTime => limits.cpu_time = Some(std::time::Duration::from_secs(1 << 20)),
    }
    let spec = SandboxSpec {
        limits,
        ..SandboxSpec::default()
    };
    let established =
        crate::nonce::random().and_then(|name| Sandbox::establish(spec, &format!("halter-{name}")));
    match established {
        Ok(sandbox) => {
            if let Err(error) = sandbox.remove() {
                tracing::debug!(%error, "a group made to try a limit stays");
            }
            let mechanism = sandbox.limits().first().map(|report| report.mechanism);
            let mechanism = mechanism.unwrap_or(LimitMechanism::Rlimit);
            Ok(mechanism.name().to_owned())
        }
        Err(ExecError::SandboxUnavailable { reason, .. }) => Err(reason),
        Err(error) => Err(error.to_string()),
    }
}
