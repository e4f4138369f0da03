//! The verdict on a call before it starts, from what its tool would touch.

use crate::error::PolicyError;
use crate::policy::ToolPolicy;
use crate::shell::ShellRefusal;
use halter_protocol::action::REQUIRES_APPROVAL;
use halter_protocol::{Action, CallToJudge, HookOpinion, Objection, PolicyVerdict};

/// Checks every action; the first that a rule refuses denies. What fails for
/// another reason, such as a file that is missing, is the tool's to report.
///
/// A tool that requires approval is asked about, unless a hook spares the
/// question or a person approved the tool for the session.
pub(crate) fn judge(policy: &(impl ToolPolicy + ?Sized), call: &CallToJudge) -> PolicyVerdict {
    let mut checked = call.actions.iter().map(|action| check(policy, action));
    if let Some(error) = checked.find_map(Result::err) {
        return PolicyVerdict::Deny(error.objection());
    }
    let tool = call.call.name.as_str();
    let always = match &call.definition {
        Some(definition) => definition.rule_for(tool),
        None => tool.to_owned(),
    };
    let approved = call.session_rules.contains(&always);
    if call.capabilities.requires_approval && call.hook != HookOpinion::Allow && !approved {
        let mut objection = Objection::new(REQUIRES_APPROVAL, format!("{tool} requires approval"));
        objection.always = Some(always);
        return PolicyVerdict::Ask(objection);
    }
    PolicyVerdict::Allow
}

/// Fails if a rule of the policy refuses the action.
pub(crate) fn check(
    policy: &(impl ToolPolicy + ?Sized),
    action: &Action,
) -> Result<(), PolicyError> {
    let checked = match action {
        Action::Run { command, directory } => {
            policy.check_shell_command_in(command, directory.as_deref())
        }
        Action::Read { path } => policy.door().may_read(path),
        Action::Write { path } => policy.door().may_write(path),
        Action::Reach { host } => policy.check_host(host),
        // What is not a path, a program or a host has no rule here: the tool
        // was registered, which is saying yes to what it does.
        _ => Ok(()),
    };
    checked.or_else(|error| match error.is_denial() {
        true => Err(error),
        false => Ok(()),
    })
}

impl ShellRefusal {
    /// The refusal as data.
    pub(crate) fn objection(self) -> Objection {
        Objection {
            rule: self.rule.to_owned(),
            message: format!(
                "shell command refused at `{}`: {}",
                self.fragment, self.message
            ),
            fragment: Some(self.fragment),
            remedy: Some("policy.shell.allow".to_owned()),
            parts: Vec::new(),
            always: None,
        }
    }
}

impl PolicyError {
    /// The refusal as data.
    #[must_use]
    pub fn objection(&self) -> Objection {
        let (fragment, remedy) = match self {
            Self::NotInRoot { path, access, .. } | Self::SymlinkEscape { path, access, .. } => {
                (Some(path.display().to_string()), Some(access.setting()))
            }
            Self::SensitivePathDenied { path, .. } => (
                Some(path.display().to_string()),
                Some("policy.sensitive_path_patterns"),
            ),
            Self::RuleDenied { path, .. } => {
                (Some(path.display().to_string()), Some("permissions.deny"))
            }
            Self::ProtectedPath { path, .. }
            | Self::ReadOnlyPath { path }
            | Self::ParentTraversal { path, .. } => (Some(path.display().to_string()), None),
            Self::ShellDisabled => (None, Some("policy.shell.enabled")),
            Self::ShellCommandRejected { fragment, .. } => {
                (Some(fragment.clone()), Some("policy.shell.allow"))
            }
            Self::HostDenied { host, remedy, .. } => (Some(host.clone()), *remedy),
            _ => (None, None),
        };
        Objection {
            rule: self.rule().to_owned(),
            message: self.to_string(),
            fragment,
            remedy: remedy.map(str::to_owned),
            parts: Vec::new(),
            always: None,
        }
    }
}
