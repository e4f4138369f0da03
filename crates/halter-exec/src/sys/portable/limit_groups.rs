//! Resource limits, as far as the limits of each process can keep them.

use std::io;
use std::path::{Path, PathBuf};

use crate::error::ExecError;
use crate::launch::{Resource, Rlimit};
use crate::sandbox::{LimitHits, LimitKind, LimitMechanism, LimitReport, ResourceLimits};

/// The limits that each process is started with.
#[derive(Debug, Default)]
pub(crate) struct LimitGroups {
    rlimits: Vec<Rlimit>,
    reports: Vec<LimitReport>,
}

impl LimitGroups {
    pub(crate) fn establish(limits: &ResourceLimits, _: &str) -> Result<Self, ExecError> {
        let mut groups = Self::default();
        if let Some(value) = limits.memory_bytes {
            groups.add(LimitKind::Memory, Resource::AddressSpace, value);
        }
        if let Some(count) = limits.processes {
            if rustix::process::geteuid().is_root() {
                return Err(unavailable(
                    LimitKind::Processes,
                    "the limit of each user's processes does not bind root",
                ));
            }
            groups.add(LimitKind::Processes, Resource::Processes, count.into());
        }
        if limits.cpu_millis.is_some() {
            return Err(unavailable(
                LimitKind::Cpu,
                "only a control group keeps a share of the CPU, and this system has none",
            ));
        }
        if let Some(rlimit) = limits.cpu_time_rlimit() {
            groups.add(LimitKind::CpuTime, rlimit.resource, rlimit.value);
        }
        Ok(groups)
    }

    fn add(&mut self, kind: LimitKind, resource: Resource, value: u64) {
        self.rlimits.push(Rlimit { resource, value });
        self.reports
            .push(LimitReport::new(kind, LimitMechanism::Rlimit));
    }

    pub(crate) fn tree_parent(&self) -> Option<&Path> {
        None
    }

    pub(crate) fn entered(&self) -> impl Iterator<Item = &PathBuf> {
        std::iter::empty()
    }

    pub(crate) fn rlimits(&self) -> impl Iterator<Item = Rlimit> {
        self.rlimits.iter().copied()
    }

    pub(crate) fn reports(&self) -> &[LimitReport] {
        &self.reports
    }

    pub(crate) fn hits(&self) -> LimitHits {
        LimitHits::default()
    }

    pub(crate) fn remove(&self) -> io::Result<()> {
        Ok(())
    }

    pub(crate) fn sweep(_: &str, _: impl FnMut(&str) -> bool) -> Vec<PathBuf> {
        Vec::new()
    }
}

fn unavailable(kind: LimitKind, reason: &str) -> ExecError {
    ExecError::SandboxUnavailable {
        level: kind.level(),
        reason: reason.to_owned(),
    }
}
