//! Holds a configuration against what this build of Halter can do.

use crate::error::{ConfigError, suggestion};
use crate::keys::{KeyPath, spec};
use crate::load::LoadedConfig;
use crate::origin::Origin;
use crate::schema::{DeferredTools, HarnessConfig};

/// The tools that `tools.enabled` and `tools.deferred` may name, and those that it may not.
#[derive(Debug, Clone, Copy)]
pub struct KnownTools<'a> {
    /// Tools that can be used.
    pub available: &'a [&'a str],
    /// Tools that this build leaves out, each with the cargo feature that
    /// brings it.
    pub left_out: &'a [(&'a str, &'a str)],
    /// Tools that this version does not have.
    pub planned: &'a [&'a str],
}

/// Checks that every name in `tools.enabled` and `tools.deferred` is a tool that can be used.
///
/// # Errors
///
/// An unknown name with a suggestion, a tool whose cargo feature is off, or one that is not
/// built yet.
pub fn check_tool_names(config: &HarnessConfig, known: KnownTools<'_>) -> Result<(), ConfigError> {
    let deferred: &[String] = match &config.tools.deferred {
        DeferredTools::Names(names) => names,
        DeferredTools::Word(_) => &[],
    };
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
    Err(match known.planned.contains(&name.as_str()) {
        true => ConfigError::refused(
            "config_tool_not_built_yet",
            format!("tools.{key}: tool '{name}' is not built yet in this version"),
            "take it out of the list",
        ),
        false => ConfigError::refused(
            "config_unknown_tool",
            format!("tools.{key}: unknown tool '{name}'"),
            suggestion(name, "tools", &[known.available, known.planned].concat()),
        ),
    })
}

/// A key that somebody set and that has no effect yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InertKey {
    /// The key, dotted.
    pub key: String,
    /// The part of Halter that will read it.
    pub waits_for: &'static str,
    /// Who set it.
    pub origin: Origin,
}

/// The keys that somebody set and whose part of Halter comes later. Keys that were only filled
/// in from a provider's variable are not among them.
pub fn inert_keys(loaded: &LoadedConfig) -> Vec<InertKey> {
    let mut inert = Vec::new();
    for (key, origin) in &loaded.origins {
        let set_here = match origin {
            Origin::Default => false,
            Origin::Environment(variable) => variable.starts_with("HALTER_"),
            _ => true,
        };
        let waits_for = key_spec(key).and_then(|spec| spec.waits_for);
        if let (true, Some(waits_for)) = (set_here, waits_for) {
            inert.push(InertKey {
                key: key.clone(),
                waits_for,
                origin: origin.clone(),
            });
        }
    }
    inert
}

/// The row of a key that may end in a quoted header name.
fn key_spec(key: &str) -> Option<&'static crate::keys::KeySpec> {
    match key.split_once(".headers.") {
        Some((table, _)) => spec(&KeyPath::plain(table).child("headers").child("x")),
        None => spec(&KeyPath::plain(key)),
    }
}
