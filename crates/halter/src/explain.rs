//! The way of one call through policy, rules and mode, without running it.

use crate::harness::Halter;
use halter_protocol::{Action, CallToJudge, Objection, PermissionMode, ToolCall};
use halter_runtime::HalterError;
use halter_tools::exec::{
    AttachedProgram, Environment, ExecError, SandboxStatus, SessionSandbox, probe_sandbox,
};
use halter_tools::policy::permission::{CoveringRule, Decision};
use halter_tools::policy::{
    NetworkPolicy, PolicySettings, SandboxBounds, SandboxMode, SessionScope, StandardPolicy,
    ToolPolicy,
};
use std::ffi::OsString;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

/// What would become of a call, and why. No hook takes part.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CallExplanation {
    /// What it would touch.
    pub actions: Vec<Action>,
    /// What the policy denies; then nothing else counts.
    pub denied: Option<Objection>,
    /// The rules that cover it or a part of it.
    pub rules: Vec<CoveringRule>,
    /// The permission mode.
    pub mode: PermissionMode,
    /// What the rules and the mode decide, if the policy does not deny.
    pub decision: Option<Decision>,
}

/// What the sandbox of a session would be asked to hold, and the variables its
/// commands would see.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SandboxPlan {
    /// What the configuration asks for.
    pub wanted: SandboxMode,
    /// What it would hold.
    pub bounds: SandboxBounds,
    /// The variables of its commands.
    pub environment: Environment,
    /// What they reach.
    pub network: NetworkPolicy,
}

impl SandboxPlan {
    /// Tries every kind of sandbox out. Blocking.
    #[must_use]
    pub fn status(&self) -> SandboxStatus {
        let mut bounds = self.bounds.clone();
        bounds.mode = self.wanted;
        probe_sandbox(&bounds, &self.environment)
    }

    /// Starts a program in the sandbox on these standard streams. Where the
    /// policy has a list of programs it need not be on it, and what it starts
    /// must be. Blocking; takes a tokio runtime.
    ///
    /// # Errors
    /// The sandbox cannot be had and is required, or the program cannot be
    /// started.
    pub fn start(
        mut self,
        words: &[OsString],
        working_dir: &Path,
        streams: [BorrowedFd<'_>; 3],
    ) -> Result<(SandboxStatus, AttachedProgram), HalterError> {
        let name = format!("halter-command-{}", std::process::id());
        if let (Some(programs), Some(program)) = (&mut self.bounds.programs, words.first()) {
            programs.push(program.to_string_lossy().into_owned());
        }
        let sandbox = SessionSandbox::establish(&self.bounds, &self.environment, &name)
            .map_err(|error| HalterError::new(error.code(), error.to_string()))?;
        let status = sandbox.status().clone();
        let started = sandbox
            .start_attached(words, &self.environment, working_dir, streams, self.network)
            .map_err(|error| {
                let code = error.downcast_ref::<ExecError>().map(ExecError::code);
                HalterError::new(code.unwrap_or("sandbox_failed"), format!("{error:#}"))
            })?;
        Ok((status, started))
    }
}

impl Halter {
    /// The sandbox of a session that works in a directory, which must be
    /// absolute; where the configuration wants none, what it would be if it was
    /// preferred. Blocking: directories are searched for files to hide.
    ///
    /// # Errors
    /// The policy cannot be used in that directory.
    pub fn sandbox_plan(&self, working_dir: &Path) -> Result<SandboxPlan, HalterError> {
        let services = self.runtime().services();
        let mut settings = services.policy.clone();
        let wanted = settings.sandbox;
        if wanted == SandboxMode::Off {
            settings.sandbox = SandboxMode::Prefer;
        }
        let policy = self.policy_in(settings, working_dir)?;
        let variables = services.base_environment.iter();
        let environment: Environment = variables
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let home = environment.get("HOME").map(PathBuf::from);
        Ok(SandboxPlan {
            wanted,
            bounds: policy.sandbox(home.as_deref()),
            network: policy.network(),
            environment,
        })
    }

    fn policy_in(
        &self,
        settings: PolicySettings,
        working_dir: &Path,
    ) -> Result<StandardPolicy, HalterError> {
        let services = self.runtime().services();
        let scope = SessionScope {
            working_dir: working_dir.to_path_buf(),
            protected: services.protected(),
            ..SessionScope::default()
        };
        StandardPolicy::bind(settings, scope)
            .map_err(|error| HalterError::new("invalid_configuration", error.to_string()))
    }

    /// Explains what would become of a call in a session that works in a
    /// directory, which must be absolute. Nothing runs. Blocking: directories
    /// are resolved.
    ///
    /// # Errors
    /// There is no such tool, the arguments do not fit it, or the policy cannot
    /// be used in that directory.
    pub fn explain_call(
        &self,
        call: &ToolCall,
        working_dir: &Path,
    ) -> Result<CallExplanation, HalterError> {
        let services = self.runtime().services();
        let unfit = |error: halter_protocol::ToolError| HalterError::new("usage", error.message);
        services.tools.validate(call).map_err(unfit)?;
        let actions = services.tools.actions(call).map_err(unfit)?;
        let policy = self.policy_in(services.policy.clone(), working_dir)?;
        let mut judged = CallToJudge::new(call.clone(), actions);
        if let Some(spec) = services.tools.spec(call.name.as_str()) {
            judged.capabilities = spec.capabilities;
        }
        let tree = policy.permissions();
        let (decision, denied) = match policy.decide_call(&judged) {
            Ok(decision) => (Some(decision), None),
            Err(objection) => (None, Some(*objection)),
        };
        Ok(CallExplanation {
            rules: tree.map(|tree| tree.covering(&judged)).unwrap_or_default(),
            mode: services.policy.permissions.mode,
            denied,
            decision,
            actions: judged.actions,
        })
    }
}
