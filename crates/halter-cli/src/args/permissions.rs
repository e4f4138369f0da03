//! Permissions on the command line.

use clap::Args;
use halter_protocol::{PermissionMode, RuleEffect};

use crate::failure::Failure;
use halter_config::LoadedConfig;

/// What is asked, and what never happens, besides what is configured.
#[derive(Debug, Clone, Default, Args)]
pub struct PermissionArgs {
    /// What is asked about: read_only, prompt, workspace_write, full_access, allow
    #[arg(
        long,
        value_name = "MODE",
        help_heading = "Permissions",
        env = "HALTER_PERMISSION_MODE"
    )]
    pub permission_mode: Option<PermissionMode>,
    /// Do not ask about calls this rule covers, such as "Bash(npm test:*)"; may be given many
    /// times
    #[arg(
        long = "allow",
        value_name = "RULE",
        help_heading = "Permissions",
        env = "HALTER_ALLOW"
    )]
    pub allow_rules: Vec<String>,
    /// Refuse calls this rule covers; may be given many times
    #[arg(
        long = "deny",
        value_name = "RULE",
        help_heading = "Permissions",
        env = "HALTER_DENY"
    )]
    pub deny_rules: Vec<String>,
}

impl PermissionArgs {
    /// Adds them to a configuration.
    pub fn apply(&self, config: &mut LoadedConfig) -> Result<(), Failure> {
        if let Some(mode) = self.permission_mode {
            config.use_permission_mode(mode, "--permission-mode");
        }
        for rule in &self.allow_rules {
            config.add_rule(RuleEffect::Allow, rule, "--allow")?;
        }
        for rule in &self.deny_rules {
            config.add_rule(RuleEffect::Deny, rule, "--deny")?;
        }
        Ok(())
    }
}
