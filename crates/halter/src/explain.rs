//! The way of one call through policy, rules and mode, without running it.

use crate::harness::Halter;
use halter_protocol::{Action, Objection, PermissionMode, ToolCall};
use halter_runtime::HalterError;
use halter_tools::policy::permission::{CoveringRule, Decision};
use halter_tools::policy::{CallSubject, SessionScope, StandardPolicy, ToolPolicy};
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
        let capabilities = services
            .tools
            .spec(call.name.as_str())
            .map(|it| it.capabilities);
        let subject = CallSubject {
            mutating: capabilities.is_some_and(|it| it.mutating),
            requires_approval: capabilities.is_some_and(|it| it.requires_approval),
            ..CallSubject::new(call, &actions)
        };
        let tree = policy.permissions();
        let (decision, denied) = match policy.decide_call(&subject) {
            Ok(decision) => (Some(decision), None),
            Err(objection) => (None, Some(*objection)),
        };
        Ok(CallExplanation {
            rules: tree.map(|tree| tree.covering(&subject)).unwrap_or_default(),
            mode: services.policy.permissions.mode,
            denied,
            decision,
            actions,
        })
    }
}
