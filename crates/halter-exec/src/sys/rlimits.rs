//! Limits of processes as the system takes them.

use std::sync::OnceLock;

use rustix::process::{Resource as Kind, Rlimit as Pair, getrlimit, setrlimit};

use crate::launch::{Resource, Rlimit};
use crate::limits::CPU_TIME_GRACE_SECS;

/// What a program was allowed that has raised its own limit since.
static INHERITED_DESCRIPTORS: OnceLock<Pair> = OnceLock::new();

/// A soft and a hard limit; the largest number stands for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SoftAndHard {
    pub resource: Resource,
    pub soft: u64,
    pub hard: u64,
}

/// Raises the soft limit on descriptors to the hard one.
pub(crate) fn raise_descriptor_limit() {
    let found = getrlimit(Kind::Nofile);
    let raised = Pair {
        current: found.maximum,
        maximum: found.maximum,
    };
    if found.current != found.maximum && setrlimit(Kind::Nofile, raised).is_ok() {
        let _ = INHERITED_DESCRIPTORS.set(found);
    }
}

/// The limits that a child is given: those of its plan, and the one on
/// descriptors that this program was started with. A program that finds a
/// high one may try to close them all, or fail to count so far.
pub(crate) fn of_child(planned: &[Rlimit]) -> Vec<SoftAndHard> {
    let mut limits: Vec<SoftAndHard> = planned.iter().map(both).collect();
    let is_planned = |limit: &Rlimit| limit.resource == Resource::OpenFiles;
    if let Some(pair) = INHERITED_DESCRIPTORS.get()
        && !planned.iter().any(is_planned)
    {
        limits.push(SoftAndHard {
            resource: Resource::OpenFiles,
            soft: pair.current.unwrap_or(u64::MAX),
            hard: pair.maximum.unwrap_or(u64::MAX),
        });
    }
    limits
}

fn both(limit: &Rlimit) -> SoftAndHard {
    let mut hard = limit.value;
    if limit.resource == Resource::CpuSeconds {
        // At the soft limit comes a signal of its own, by which it is known
        // what ended the process; at the hard one KILL.
        hard = hard.saturating_add(CPU_TIME_GRACE_SECS);
        if let Some(most) = getrlimit(Kind::Cpu).maximum {
            hard = hard.min(most);
        }
    }
    SoftAndHard {
        resource: limit.resource,
        soft: limit.value.min(hard),
        hard,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_that_its_cpu_time_is_up_before_it_is_killed() {
        let planned = Rlimit {
            resource: Resource::CpuSeconds,
            value: 2,
        };
        let limits = of_child(&[planned]);
        assert_eq!(
            (limits[0].soft, limits[0].hard),
            (2, 2 + CPU_TIME_GRACE_SECS)
        );
    }
}
