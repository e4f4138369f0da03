//! A policy whose verdicts a test decides.

use halter_protocol::{CallToJudge, PolicyVerdict};
use halter_tools::policy::{
    FileDoor, PolicyBinder, PolicyError, PolicySettings, SessionScope, StandardPolicies, ToolPolicy,
};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

type Judge = dyn Fn(&CallToJudge) -> PolicyVerdict + Send + Sync;

/// The standard policy with another judge.
///
/// ```
/// use halter_protocol::{Objection, PolicyVerdict};
/// use halter_testkit::{Harness, JudgedBy};
/// use std::sync::Arc;
///
/// let nothing = JudgedBy::new(|_| PolicyVerdict::Deny(Objection::new("test", "no")));
/// let harness = Harness::echoing().services(|it| it.policies = Arc::new(nothing));
/// ```
#[derive(Clone)]
pub struct JudgedBy(Arc<Judge>);

impl JudgedBy {
    /// Decides by a function.
    pub fn new(judge: impl Fn(&CallToJudge) -> PolicyVerdict + Send + Sync + 'static) -> Self {
        Self(Arc::new(judge))
    }
}

impl PolicyBinder for JudgedBy {
    fn bind(
        &self,
        settings: PolicySettings,
        scope: SessionScope,
    ) -> Result<Arc<dyn ToolPolicy>, PolicyError> {
        Ok(Arc::new(Judged {
            standard: StandardPolicies.bind(settings, scope)?,
            judge: self.0.clone(),
        }))
    }
}

struct Judged {
    standard: Arc<dyn ToolPolicy>,
    judge: Arc<Judge>,
}

impl fmt::Debug for Judged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Judged").field(&self.standard).finish()
    }
}

impl ToolPolicy for Judged {
    fn judge(&self, call: &CallToJudge) -> PolicyVerdict {
        (self.judge)(call)
    }

    fn hold_session_rules(&self, rules: &[String]) -> Vec<String> {
        self.standard.hold_session_rules(rules)
    }

    fn door(&self) -> &FileDoor {
        self.standard.door()
    }

    fn max_read_bytes(&self) -> u64 {
        self.standard.max_read_bytes()
    }

    fn check_shell_enabled(&self) -> Result<(), PolicyError> {
        self.standard.check_shell_enabled()
    }

    fn check_shell_command_strict(&self, command: &str) -> Result<(), PolicyError> {
        self.standard.check_shell_command_strict(command)
    }

    fn check_shell_command_in(
        &self,
        command: &str,
        directory: Option<&Path>,
    ) -> Result<(), PolicyError> {
        self.standard.check_shell_command_in(command, directory)
    }

    fn shell_timeout_secs(&self) -> u64 {
        self.standard.shell_timeout_secs()
    }
}
