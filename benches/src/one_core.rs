//! One core for everything that is measured.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// While this lives, what this thread starts runs on one core, and this thread
/// too. What is said about the work of one core is then not about what it
/// costs to wake another.
pub struct OneCore {
    before: CpuSet,
}

impl OneCore {
    /// Takes the last core there is.
    pub fn take() -> anyhow::Result<Self> {
        let before = sched_getaffinity(None)?;
        let last = (0..CpuSet::MAX_CPU).rev().find(|core| before.is_set(*core));
        let mut one = CpuSet::new();
        one.set(last.ok_or_else(|| anyhow::anyhow!("there is no core to run on"))?);
        sched_setaffinity(None, &one)?;
        Ok(Self { before })
    }
}

impl Drop for OneCore {
    fn drop(&mut self) {
        // They were allowed before.
        let _ = sched_setaffinity(None, &self.before);
    }
}
