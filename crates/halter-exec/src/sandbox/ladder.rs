//! Which levels of isolation this host grants to this program.

use super::{Containment, ContainmentRung, probe_containment};
use super::{LimitKind, LimitMechanism, LimitReport, ResourceLimits, Sandbox, SandboxSpec};
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

impl IsolationLevel {
    /// A level that something keeps, or that cannot be had for a reason.
    #[must_use]
    pub fn new(name: &'static str, found: Result<String, String>) -> Self {
        let state = state(found);
        Self { name, state }
    }
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
    /// What holds when it is asked for is less than its name says.
    Weaker {
        /// By what.
        by: String,
        /// What is missing.
        reason: String,
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
        IsolationLevel::new("process_tree", sys::tree_mechanism()),
        IsolationLevel {
            name: "chroot",
            state: chroot(),
        },
        IsolationLevel::new("no_new_privileges", sys::privileges_mechanism()),
        IsolationLevel::new("landlock", sys::file_rules_mechanism()),
    ];
    let kinds = [
        LimitKind::Memory,
        LimitKind::Processes,
        LimitKind::Cpu,
        LimitKind::CpuTime,
    ];
    levels.extend(kinds.map(|kind| IsolationLevel {
        name: kind.level(),
        state: limit(kind),
    }));
    let rungs = [ContainmentRung::Namespaces, ContainmentRung::Landlock];
    levels.extend(rungs.map(|rung| {
        let found = probe_containment(&Containment::new(rung));
        let found = found.map(|()| rung.mechanism().to_owned());
        IsolationLevel::new(rung.name(), found.map_err(|missing| missing.to_string()))
    }));
    levels
}

fn chroot() -> LevelState {
    match sys::chroot_mechanism() {
        // A second chroot, a mount or a device leads out of the first.
        Ok(by) if rustix::process::geteuid().is_root() => LevelState::Weaker {
            by,
            reason: "not a boundary for programs of root, who can leave it".to_owned(),
        },
        other => state(other),
    }
}

fn state(found: Result<String, String>) -> LevelState {
    match found {
        Ok(by) => LevelState::Enforced { by },
        Err(reason) => LevelState::Unavailable { reason },
    }
}

/// Sets a limit that bounds nothing, and takes it back.
fn limit(kind: LimitKind) -> LevelState {
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
            let by = mechanism.name().to_owned();
            match LimitReport::new(kind, mechanism).weakness() {
                Some(reason) => LevelState::Weaker {
                    by,
                    reason: reason.to_owned(),
                },
                None => LevelState::Enforced { by },
            }
        }
        Err(ExecError::SandboxUnavailable { reason, .. }) => LevelState::Unavailable { reason },
        Err(error) => LevelState::Unavailable {
            reason: error.to_string(),
        },
    }
}
