//! From `[permissions]` to the rules of the policy.

use crate::error::invalid;
use halter_config::{Environment, HarnessConfig, RuleConfig, save_allow_rule};
use halter_protocol::{PermissionRule, RuleEffect};
use halter_runtime::HalterError;
use halter_tools::policy::permission::{Example, RuleStoreError, check_example};
use halter_tools::policy::{PermissionTree, Permissions, ProgramList, RuleStore, SourcedRule};
use std::path::{Path, PathBuf};

/// The rules and the mode of a configuration. Examples are checked.
///
/// # Errors
/// A rule that cannot be read, or that does not do what its examples say.
pub(crate) fn permissions(
    config: &HarnessConfig,
    environment: &Environment,
) -> Result<Permissions, HalterError> {
    let directory = environment.current_dir().unwrap_or(Path::new("/"));
    let mut rules = Vec::new();
    for effect in [RuleEffect::Deny, RuleEffect::Ask, RuleEffect::Allow] {
        for written in config.permissions.rules(effect) {
            rules.push(rule(written, effect, directory, environment.home())?);
        }
    }
    let permissions = Permissions {
        mode: config.permissions.mode,
        rules,
        home: environment.home().map(Path::to_path_buf),
    };
    // A pattern that cannot be used is said now, not when a session starts.
    PermissionTree::bind(&permissions, ProgramList::Default, directory)
        .map_err(|error| invalid(error).with_hint("correct the pattern"))?;
    Ok(permissions)
}

/// Saves rules in a configuration file, such as the user's own.
///
/// ```
/// use halter::ConfigRules;
/// use halter_tools::policy::RuleStore;
///
/// let directory = tempfile::tempdir().unwrap();
/// let rules = ConfigRules::new(directory.path().join("halter.toml"));
/// rules.save_allow("Bash(npm test:*)").unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct ConfigRules {
    file: PathBuf,
}

impl ConfigRules {
    /// Saves rules in this file, which is created when the first is saved.
    pub fn new(file: impl Into<PathBuf>) -> Self {
        Self { file: file.into() }
    }
}

impl RuleStore for ConfigRules {
    fn save_allow(&self, rule: &str) -> Result<String, RuleStoreError> {
        PermissionRule::parse(rule, RuleEffect::Allow)?;
        let place = self.file.display().to_string();
        match save_allow_rule(&self.file, rule) {
            Ok(_) => Ok(place),
            Err(error) => Err(RuleStoreError::Unwritable {
                place,
                reason: error.to_string(),
            }),
        }
    }
}

fn rule(
    written: &RuleConfig,
    effect: RuleEffect,
    directory: &Path,
    home: Option<&Path>,
) -> Result<SourcedRule, HalterError> {
    let place = written.place.as_ref();
    let at = place.map(|place| format!("{place}: ")).unwrap_or_default();
    let mut rule = SourcedRule::new(effect, &written.rule, written.source).map_err(|error| {
        let key = effect.as_str();
        invalid(format!(
            "{at}permissions.{key} does not take {:?}: {}",
            written.rule, error.problem
        ))
        .with_hint(error.hint())
    })?;
    rule.place = place.map(|place| format!("{}:{}", place.file.display(), place.line));
    rule.base = place.and_then(|place| Some(place.file.parent()?.to_path_buf()));
    let matching = written.matches.iter().map(|it| (it, Example::Match));
    let others = written.not_matches.iter().map(|it| (it, Example::NotMatch));
    for (example, says) in matching.chain(others) {
        check_example(&rule, example, says, directory, home).map_err(|error| {
            invalid(format!("{at}{error}")).with_hint("correct the rule or its example")
        })?;
    }
    Ok(rule)
}
