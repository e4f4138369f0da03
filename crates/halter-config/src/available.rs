//! Holds a configuration against what this build of Halter can do.

use crate::error::{ConfigError, suggestion};
use crate::keys::{KeyPath, spec};
use crate::load::LoadedConfig;
use crate::origin::Origin;
use crate::schema::HarnessConfig;

/// Checks that every name in `tools.enabled` is a tool that can be used, one of `available`.
/// Those in `planned` are known and not built yet.
///
/// # Errors
///
/// An unknown name with a suggestion, or a tool that is not built yet.
pub fn check_tool_names(
    config: &HarnessConfig,
    available: &[&str],
    planned: &[&str],
) -> Result<(), ConfigError> {
    let is_missing = |name: &&String| !available.contains(&name.as_str());
    let Some(name) = config.tools.enabled.iter().find(is_missing) else {
        return Ok(());
    };
    Err(match planned.contains(&name.as_str()) {
        true => ConfigError::refused(
            "config_tool_not_built_yet",
            format!("tools.enabled: tool '{name}' is not built yet in this version"),
            "take it out of the list",
        ),
        false => ConfigError::refused(
            "config_unknown_tool",
            format!("tools.enabled: unknown tool '{name}'"),
            suggestion(name, "tools", &[available, planned].concat()),
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
