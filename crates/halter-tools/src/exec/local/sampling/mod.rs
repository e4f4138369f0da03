//! Sampling the processes of a session on this machine: by `perf` where it
//! works, by what `/proc` tells otherwise.

mod perf;
mod proc;

use super::{LocalSession, check_member};
use crate::builtin::blocking;
use crate::exec::RunningSampling;
use halter_exec::list_descendants;

impl LocalSession {
    pub(super) async fn start_sampling(
        &self,
        root: i32,
        hertz: u32,
    ) -> anyhow::Result<Box<dyn RunningSampling>> {
        let roots = self.shell_pids().into_iter().chain(self.background.pids());
        let roots: Vec<i32> = roots.collect();
        let below = blocking(move || {
            check_member(root, roots)?;
            Ok(list_descendants(root)?)
        })
        .await?;
        let pids: Vec<i32> = std::iter::once(root)
            .chain(below.iter().map(|process| process.pid))
            .collect();
        match perf::start(&self.environment, &pids, hertz).await {
            Ok(perf) => Ok(Box::new(perf)),
            Err(reason) => Ok(Box::new(proc::start(root, hertz, &reason))),
        }
    }
}
