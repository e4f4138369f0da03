//! Holds a configuration against what this build of Halter can do.

use crate::error::{ConfigError, suggestion};
use crate::schema::{DeferredTools, HarnessConfig};
use halter_protocol::TOOL_SEARCH;

/// The tools that `tools.enabled` and `tools.deferred` may name, and those that it may not.
#[derive(Debug, Clone, Copy)]
pub struct KnownTools<'a> {
    /// Tools that can be used.
    pub available: &'a [&'a str],
    /// Tools that this build leaves out, each with the cargo feature that
    /// brings it.
    pub left_out: &'a [(&'a str, &'a str)],
}

/// Checks that every name in `tools.enabled` and `tools.deferred` is a tool that can be used.
///
/// # Errors
///
/// An unknown name with a suggestion, a tool whose cargo feature is off, or one
/// that cannot be deferred.
pub fn check_tool_names(config: &HarnessConfig, known: KnownTools<'_>) -> Result<(), ConfigError> {
    let deferred: &[String] = match &config.tools.deferred {
        DeferredTools::Names(names) => names,
        DeferredTools::Word(_) => &[],
    };
    if deferred.iter().any(|name| name == TOOL_SEARCH) {
        return Err(ConfigError::refused(
            "config_undeferrable_tool",
            format!(
                "tools.deferred: '{TOOL_SEARCH}' cannot be deferred, as models load deferred \
                 tools with it"
            ),
            "take it out of the list: models are sent it wherever a tool is deferred",
        ));
    }
    let enabled = config.tools.enabled.iter().map(|name| ("enabled", name));
    let mut named = enabled.chain(deferred.iter().map(|name| ("deferred", name)));
    let is_missing = |(_, name): &(_, &String)| !known.available.contains(&name.as_str());
    let Some((key, name)) = named.find(is_missing) else {
        return Ok(());
    };
    if let Some((_, feature)) = known.left_out.iter().find(|(left_out, _)| left_out == name) {
        return Err(ConfigError::refused(
            "config_tool_feature_disabled",
            format!("tools.{key}: tool '{name}' is not compiled in"),
            format!("build with the cargo feature `{feature}`, or take it out of the list"),
        ));
    }
    Err(ConfigError::refused(
        "config_unknown_tool",
        format!("tools.{key}: unknown tool '{name}'"),
        suggestion(name, "tools", known.available),
    ))
}
