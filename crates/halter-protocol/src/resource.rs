//! Skills and plugins as the rest of the harness sees them once compiled.

use crate::encoding::escaped_path;
use crate::ids::{PluginId, Revision, SkillId, SkillName};
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Everything compiled from resource roots, immutable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceSnapshot {
    /// Follows from the content: equal content, equal revision.
    pub revision: Revision,
    /// The skills, sorted by name.
    #[serde(default)]
    pub skills: IndexMap<SkillName, SkillDef>,
    /// Plugins found. Their parts are not loaded by this version.
    #[serde(default)]
    pub plugins: IndexMap<PluginId, PluginManifest>,
}

impl ResourceSnapshot {
    /// A snapshot of nothing, for harnesses that intend to have none.
    pub fn empty() -> Self {
        Self {
            revision: Revision::from("empty"),
            skills: IndexMap::new(),
            plugins: IndexMap::new(),
        }
    }
}

impl Default for ResourceSnapshot {
    fn default() -> Self {
        Self::empty()
    }
}

/// A skill: its name, description and place go into the prompt; its body is
/// read by the model when it needs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SkillDef {
    /// Names the skill; follows from its name and content.
    pub id: SkillId,
    /// The name a model refers to it by.
    pub name: SkillName,
    /// When to use it, in one or two sentences.
    pub description: String,
    /// The file to read.
    #[serde(with = "escaped_path")]
    #[schemars(with = "String")]
    pub path: PathBuf,
    /// The whole text of the file.
    pub body: String,
}

impl SkillDef {
    /// The directory of the skill, which tools may read.
    pub fn root(&self) -> Option<&std::path::Path> {
        self.path.parent()
    }
}

/// A plugin's manifest, as far as it is understood.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PluginManifest {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The directory it was found in.
    #[serde(with = "escaped_path")]
    #[schemars(with = "String")]
    pub root: PathBuf,
}
