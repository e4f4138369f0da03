//! Holds a configuration against what this build of Halter can do.

use crate::error::{ConfigError, suggestion};
use crate::keys::{KeyPath, spec};
use crate::load::LoadedConfig;
use crate::origin::Origin;
use crate::schema::{HarnessConfig, SessionBackend};

/// A tool that this version of Halter knows by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownTool {
    /// The name.
    pub name: String,
    /// Whether it can be used.
    pub status: ToolStatus,
}

/// Whether a tool can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolStatus {
    /// It can.
    Available,
    /// It needs this cargo feature, which is not compiled in.
    FeatureDisabled(String),
    /// A later version will have it.
    NotBuiltYet,
}

/// Checks that every name in `tools.enabled` is a tool that can be used.
///
/// # Errors
///
/// An unknown name with a suggestion, a tool without its cargo feature with the feature's name,
/// or a tool that is not built yet.
pub fn check_tool_names(config: &HarnessConfig, known: &[KnownTool]) -> Result<(), ConfigError> {
    for name in &config.tools.enabled {
        match known.iter().find(|tool| tool.name == *name) {
            Some(tool) => match &tool.status {
                ToolStatus::Available => {}
                ToolStatus::FeatureDisabled(feature) => {
                    return Err(ConfigError::ToolFeatureDisabled {
                        name: name.clone(),
                        feature: feature.clone(),
                    });
                }
                ToolStatus::NotBuiltYet => {
                    return Err(ConfigError::ToolNotBuiltYet { name: name.clone() });
                }
            },
            None => {
                let names: Vec<&str> = known.iter().map(|tool| tool.name.as_str()).collect();
                return Err(ConfigError::UnknownTool {
                    name: name.clone(),
                    hint: suggestion(name, "tools", &names),
                });
            }
        }
    }
    Ok(())
}

/// Whether SQLite is compiled into the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SqliteSupport {
    /// The cargo feature `sqlite` is on.
    Compiled,
    /// It is off.
    NotCompiled,
}

/// Checks that the session backend is compiled in.
///
/// # Errors
///
/// [`ConfigError::BackendFeatureDisabled`] names the cargo feature.
pub fn check_backend(config: &HarnessConfig, sqlite: SqliteSupport) -> Result<(), ConfigError> {
    match (config.sessions.backend, sqlite) {
        (SessionBackend::Sqlite, SqliteSupport::NotCompiled) => {
            Err(ConfigError::BackendFeatureDisabled {
                backend: "sqlite",
                feature: "sqlite",
            })
        }
        _ => Ok(()),
    }
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
