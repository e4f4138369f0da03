//! Limits on what a tree of processes may use.

use std::time::Duration;

use crate::error::ExecError;
use crate::launch::{Resource, Rlimit};
use crate::limits::MIN_CPU_MILLIS;

/// How much a tree may use; `None` for as much as there is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResourceLimits {
    /// Bytes of memory of all processes together; of the address space of
    /// each where only an [`Rlimit`] can keep it.
    pub memory_bytes: Option<u64>,
    /// Processes and threads at a time.
    pub processes: Option<u32>,
    /// Thousandths of one CPU, of all processes together: 1500 is one and a
    /// half. At least [`MIN_CPU_MILLIS`].
    pub cpu_millis: Option<u32>,
    /// CPU time of each process; one that uses it up is killed.
    pub cpu_time: Option<Duration>,
}

impl ResourceLimits {
    /// Whether anything is limited.
    #[must_use]
    pub fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn check(&self) -> Result<(), ExecError> {
        if self
            .cpu_millis
            .is_some_and(|millis| millis < MIN_CPU_MILLIS)
        {
            return Err(ExecError::invalid(
                "the CPU limit",
                format!("it is at least {MIN_CPU_MILLIS} thousandths of a CPU"),
            ));
        }
        let zero = [
            self.memory_bytes == Some(0),
            self.processes == Some(0),
            self.cpu_time == Some(Duration::ZERO),
        ];
        if zero.contains(&true) {
            return Err(ExecError::invalid("a limit", "nothing runs within zero"));
        }
        Ok(())
    }

    /// The limit on CPU time, which only the process's own limit can keep.
    pub(crate) fn cpu_time_rlimit(&self) -> Option<Rlimit> {
        self.cpu_time.map(|time| Rlimit {
            resource: Resource::CpuSeconds,
            value: time.as_secs() + u64::from(time.subsec_nanos() > 0),
        })
    }
}

/// One of the [`ResourceLimits`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LimitKind {
    /// [`ResourceLimits::memory_bytes`].
    Memory,
    /// [`ResourceLimits::processes`].
    Processes,
    /// [`ResourceLimits::cpu_millis`].
    Cpu,
    /// [`ResourceLimits::cpu_time`].
    CpuTime,
}

impl LimitKind {
    /// The level of the ladder it is.
    #[must_use]
    pub fn level(self) -> &'static str {
        match self {
            Self::Memory => "limit_memory",
            Self::Processes => "limit_processes",
            Self::Cpu => "limit_cpu",
            Self::CpuTime => "limit_cpu_time",
        }
    }
}

/// What keeps a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LimitMechanism {
    /// A version 2 control group.
    CgroupV2,
    /// A version 1 control group.
    CgroupV1,
    /// The limits of each process: weaker, since they do not add up over a
    /// tree.
    Rlimit,
}

impl LimitMechanism {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::CgroupV2 => "cgroup v2",
            Self::CgroupV1 => "cgroup v1",
            Self::Rlimit => "rlimit",
        }
    }
}

/// A limit in force, and what keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimitReport {
    /// Which limit.
    pub kind: LimitKind,
    /// What keeps it.
    pub mechanism: LimitMechanism,
}

impl LimitReport {
    pub(crate) fn new(kind: LimitKind, mechanism: LimitMechanism) -> Self {
        Self { kind, mechanism }
    }

    /// In what the limit is less than it says, if it is.
    #[must_use]
    pub fn weakness(&self) -> Option<&'static str> {
        match (self.kind, self.mechanism) {
            (LimitKind::Memory, LimitMechanism::Rlimit) => Some(
                "no control group can carry it, so it bounds the address space of each process: \
                 many processes use more together, and programs that reserve much address space, \
                 such as node and java, do not start",
            ),
            (LimitKind::Processes, LimitMechanism::Rlimit) => Some(
                "no control group can carry it, so it counts all processes of the user, \
                 other programs' included",
            ),
            _ => None,
        }
    }
}

/// How often the limits of a sandbox were in the way so far, where its groups
/// count that.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimitHits {
    /// Processes that were killed for want of memory.
    pub memory: u64,
    /// Processes that could not be started.
    pub processes: u64,
}

impl LimitHits {
    /// What came since an earlier look.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            memory: self.memory.saturating_sub(earlier.memory),
            processes: self.processes.saturating_sub(earlier.processes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_cpu_share_is_accepted_and_less_is_not() {
        let limits = |millis| ResourceLimits {
            cpu_millis: Some(millis),
            ..ResourceLimits::default()
        };
        assert!(limits(MIN_CPU_MILLIS).check().is_ok());
        let error = limits(MIN_CPU_MILLIS - 1).check().unwrap_err();
        assert_eq!(error.code(), "invalid_input");
    }

    #[test]
    fn nothing_at_all_is_no_limit_and_zero_is_an_error() {
        assert!(ResourceLimits::default().is_unlimited());
        let zero = ResourceLimits {
            memory_bytes: Some(0),
            ..ResourceLimits::default()
        };
        assert!(!zero.is_unlimited() && zero.check().is_err());
    }

    #[test]
    fn a_part_of_a_second_counts_as_a_whole_one() {
        let limits = ResourceLimits {
            cpu_time: Some(Duration::from_millis(1001)),
            ..ResourceLimits::default()
        };
        assert_eq!(limits.cpu_time_rlimit().unwrap().value, 2);
    }
}
