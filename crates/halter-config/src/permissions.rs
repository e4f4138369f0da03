//! Permissions that the command line adds to a configuration.

use halter_protocol::{PermissionMode, PermissionRule, RuleEffect, RuleSource};

use crate::error::ConfigError;
use crate::load::LoadedConfig;
use crate::origin::Origin;
use crate::schema::{PermissionsConfig, RuleConfig};

impl PermissionsConfig {
    /// The rules of an effect.
    pub fn rules(&self, effect: RuleEffect) -> &[RuleConfig] {
        match effect {
            RuleEffect::Allow => &self.allow,
            RuleEffect::Ask => &self.ask,
            RuleEffect::Deny => &self.deny,
        }
    }

    fn rules_mut(&mut self, effect: RuleEffect) -> &mut Vec<RuleConfig> {
        match effect {
            RuleEffect::Allow => &mut self.allow,
            RuleEffect::Ask => &mut self.ask,
            RuleEffect::Deny => &mut self.deny,
        }
    }
}

impl LoadedConfig {
    /// Chooses the mode that a flag names.
    pub fn use_permission_mode(&mut self, mode: PermissionMode, flag: &str) {
        self.config.permissions.mode = mode;
        self.origins
            .insert("permissions.mode".to_owned(), Origin::Flag(flag.to_owned()));
    }

    /// Adds a rule that a flag gives.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Refused`] for a text that is no rule, with the nearest one.
    pub fn add_rule(
        &mut self,
        effect: RuleEffect,
        rule: &str,
        flag: &str,
    ) -> Result<(), ConfigError> {
        PermissionRule::parse(rule, effect).map_err(|error| {
            let problem = format!(
                "{flag} does not take {rule:?}: {} at character {}",
                error.problem,
                error.position + 1
            );
            ConfigError::refused("config_invalid_rule", problem, error.hint())
        })?;
        let rules = self.config.permissions.rules_mut(effect);
        let key = format!("permissions.{}[{}]", effect.as_str(), rules.len());
        rules.push(RuleConfig {
            source: RuleSource::Cli,
            ..rule.into()
        });
        self.origins.insert(key, Origin::Flag(flag.to_owned()));
        Ok(())
    }
}
