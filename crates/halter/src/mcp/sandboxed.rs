//! Servers whose tables say `sandbox = true`: they run where the commands of a
//! session in their directory would.

use halter_mcp::{ProgramSettings, ServerName};
use halter_runtime::HalterError;
use halter_tools::exec::{ServedNetwork, SessionSandbox};
use halter_tools::network::{FilteringProxy, SystemResolver};
use halter_tools::policy::{PolicySettings, SandboxMode, SessionScope, StandardPolicy, ToolPolicy};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// One server may run in several directories, each with a group of its own.
static GROUPS: AtomicU64 = AtomicU64::new(0);

/// What sandboxes of servers are made from.
#[derive(Debug, Clone)]
pub(crate) struct SandboxSource {
    /// The policy of the harness.
    pub policy: PolicySettings,
    /// The harness's own files.
    pub protected: Vec<PathBuf>,
    /// The directory that sessions work in.
    pub directory: PathBuf,
    pub home: Option<PathBuf>,
}

impl SandboxSource {
    /// Has a server run in a sandbox. Returns its way to the hosts it may
    /// reach, which serves it as long as it is kept.
    ///
    /// # Errors
    /// If this machine has no sandbox for it: a server that is to be in one
    /// does not run without.
    pub async fn contain(
        &self,
        name: &ServerName,
        program: &mut ProgramSettings,
    ) -> Result<Option<FilteringProxy>, HalterError> {
        let (source, environment) = (self.clone(), program.environment.clone());
        let number = GROUPS.fetch_add(1, Ordering::Relaxed);
        let group = format!("halter-mcp-{}-{number}-{name}", std::process::id());
        let established = tokio::task::spawn_blocking(move || {
            let policy = source.bound()?;
            let mut bounds = policy.sandbox(source.home.as_deref());
            // The server is a program that the user names; a list of programs
            // is about the commands of models.
            bounds.programs = None;
            let sandbox = SessionSandbox::establish(&bounds, &environment, &group)
                .map_err(|error| HalterError::new(error.code(), error.to_string()))?;
            Ok((sandbox, policy.network()))
        });
        let failed = |reason: &str| {
            let message = format!("MCP server `{name}` has no sandbox to run in: {reason}");
            HalterError::new("mcp_sandbox", message)
                .with_hint("see `halter sandbox status`, or take `sandbox` out of its table")
        };
        let (sandbox, network) = match established.await {
            Ok(Ok(established)) => established,
            Ok(Err(error)) => return Err(failed(&HalterError::to_string(&error))),
            Err(error) => return Err(failed(&error.to_string())),
        };
        let Some(inside) = sandbox.sandbox() else {
            let reasons = sandbox.status().rungs.iter();
            let reasons = reasons.filter_map(|rung| rung.reason.as_deref());
            return Err(failed(&reasons.collect::<Vec<_>>().join("; ")));
        };
        program.sandbox = Some(Arc::clone(inside));
        let served = sandbox.serve_network(network, Arc::new(SystemResolver));
        let served = served.map_err(|error| failed(&format!("{error:#}")))?;
        Ok(served.map(|ServedNetwork { proxy, variables }| {
            program.environment.extend(variables);
            proxy
        }))
    }

    /// The policy of a session, with a sandbox whatever that of commands is.
    fn bound(&self) -> Result<StandardPolicy, HalterError> {
        let mut settings = self.policy.clone();
        if settings.sandbox == SandboxMode::Off {
            settings.sandbox = SandboxMode::Prefer;
        }
        let scope = SessionScope {
            working_dir: self.directory.clone(),
            protected: self.protected.clone(),
            ..SessionScope::default()
        };
        StandardPolicy::bind(settings, scope)
            .map_err(|error| HalterError::new("invalid_configuration", error.to_string()))
    }
}
