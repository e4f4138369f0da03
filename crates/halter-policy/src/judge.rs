//! The verdict on a call before it starts, from what its tool would touch.

use crate::error::{Access, PolicyError};
use crate::policy::ToolPolicy;
use halter_protocol::{Action, Objection, PolicyVerdict};

/// Checks every action; the first that a rule refuses denies. What fails for
/// another reason, such as a file that is missing, is the tool's to report.
pub(crate) fn judge(policy: &(impl ToolPolicy + ?Sized), actions: &[Action]) -> PolicyVerdict {
    let checked = actions.iter().map(|action| check(policy, action));
    let denial = checked.filter_map(Result::err).find(PolicyError::is_denial);
    match denial {
        Some(error) => PolicyVerdict::Deny(error.objection()),
        None => PolicyVerdict::Allow,
    }
}

fn check(policy: &(impl ToolPolicy + ?Sized), action: &Action) -> Result<(), PolicyError> {
    match action {
        Action::Run { command } => policy.check_shell_command_strict(command),
        Action::Read { path } => policy.door().may_read(path),
        Action::Write { path } => policy.door().may_write(path),
        Action::Reach { host } => policy.check_host(host),
        // What is not a path, a program or a host has no rule here: the tool
        // was registered, which is saying yes to what it does.
        _ => Ok(()),
    }
}

impl PolicyError {
    /// The refusal as data.
    #[must_use]
    pub fn objection(&self) -> Objection {
        let (fragment, remedy) = match self {
            Self::NotInRoot { path, access, .. } | Self::SymlinkEscape { path, access, .. } => {
                let setting = match access {
                    Access::Read => "policy.allowed_read_roots",
                    Access::Write => "policy.allowed_write_roots",
                };
                (Some(path.display().to_string()), Some(setting))
            }
            Self::SensitivePathDenied { path, .. } => (
                Some(path.display().to_string()),
                Some("policy.sensitive_path_patterns"),
            ),
            Self::ProtectedPath { path, .. } | Self::ParentTraversal { path } => {
                (Some(path.display().to_string()), None)
            }
            Self::ShellDisabled => (None, Some("policy.shell.enabled")),
            Self::ShellCommandRejected { fragment, .. } => {
                (Some(fragment.clone()), Some("policy.shell.allow"))
            }
            Self::HostDenied { host, .. } => (Some(host.clone()), None),
            _ => (None, None),
        };
        Objection {
            rule: self.code().to_owned(),
            message: self.to_string(),
            fragment,
            remedy: remedy.map(str::to_owned),
        }
    }
}
