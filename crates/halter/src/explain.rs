//! The way of one call through policy, rules and mode, without running it.

use crate::harness::Halter;
use halter_protocol::{Action, CallToJudge, Objection, PermissionMode, ToolCall};
use halter_runtime::HalterError;
use halter_tools::policy::permission::{CoveringRule, Decision};
use halter_tools::policy::{SessionScope, StandardPolicy, ToolPolicy};
use std::path::Path;

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

impl Halter {
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
        let scope = SessionScope {
            working_dir: working_dir.to_path_buf(),
            protected: services.protected_paths.clone(),
            ..SessionScope::default()
        };
        let policy = StandardPolicy::bind(services.policy.clone(), scope)
            .map_err(|error| HalterError::new("invalid_configuration", error.to_string()))?;
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
