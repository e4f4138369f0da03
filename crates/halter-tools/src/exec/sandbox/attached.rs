//! A program in a sandbox that has the streams of whoever started it.

use super::{ServedNetwork, SessionSandbox};
use crate::network::{FilteringProxy, SystemResolver};
use halter_exec::host::{LaunchPlan, PidFd, launch};
use halter_exec::{Environment, ExitStatus, Signal, find_program};
use halter_policy::NetworkPolicy;
use std::ffi::OsString;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How often a waiting thread looks up.
const WAIT: Duration = Duration::from_secs(3600);

/// A program that runs in a sandbox. Dropping it kills it with all that is in
/// the sandbox.
#[derive(Debug)]
pub struct AttachedProgram {
    // Dropped in this order: the process lies within the sandbox.
    process: PidFd,
    ended: bool,
    _proxy: Option<FilteringProxy>,
    _sandbox: SessionSandbox,
}

impl SessionSandbox {
    /// Starts a program in the sandbox, or with the user's rights if there is
    /// none, on these standard streams. It reaches what the policy says, by a
    /// proxy that takes a tokio runtime.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start_attached(
        self,
        words: &[OsString],
        environment: &Environment,
        cwd: &Path,
        streams: [BorrowedFd<'_>; 3],
        network: NetworkPolicy,
    ) -> anyhow::Result<AttachedProgram> {
        let mut environment = environment.clone();
        let served = self.serve_network(network, Arc::new(SystemResolver))?;
        let proxy = served.map(|ServedNetwork { proxy, variables }| {
            environment.extend(variables);
            proxy
        });
        let name = words.first().map(OsString::as_os_str).unwrap_or_default();
        let program = find_program(name, &environment, cwd)?;
        let mut plan = LaunchPlan::new(&program, cwd).standard_streams();
        plan.arguments = words.to_vec();
        plan.environment = environment;
        let launched = match self.sandbox() {
            Some(sandbox) => sandbox.launch(&plan, &streams)?,
            None => launch(&plan, &streams)
                .map_err(|failure| failure.explain(&plan, &name.to_string_lossy()))?,
        };
        Ok(AttachedProgram {
            process: launched.pidfd,
            ended: false,
            _proxy: proxy,
            _sandbox: self,
        })
    }
}

impl AttachedProgram {
    /// Waits for its end. Blocks.
    ///
    /// # Errors
    /// If other code of this program took the exit status.
    pub fn wait(mut self) -> std::io::Result<ExitStatus> {
        while !self.process.has_ended(WAIT) {}
        self.ended = true;
        match self.process.reap()? {
            Some(exit) => Ok(exit.status),
            None => Err(std::io::Error::other("the program's status was taken")),
        }
    }
}

impl Drop for AttachedProgram {
    fn drop(&mut self) {
        if !self.ended {
            let _ = self.process.send(Signal::KILL);
            if self.process.has_ended(WAIT) {
                let _ = self.process.reap();
            }
        }
    }
}
