//! The snapshot of all resources, and how they are found by name.

use crate::definition::{AgentDef, CommandDef, OutputStyleDef, SkillDef};
use crate::encoding::escaped_path;
use crate::ids::{AgentName, PluginId, Revision, SkillName};
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Borrow;
use std::fmt;
use std::hash::Hash;
use std::path::PathBuf;

/// What stands between the name of a plugin and that of its part.
pub const NAME_SEPARATOR: char = ':';

/// Everything compiled from resource roots, immutable. What comes from a plugin
/// is called `plugin:name`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceSnapshot {
    /// Follows from the content: equal content, equal revision.
    pub revision: Revision,
    /// The skills, sorted by name.
    #[serde(default)]
    pub skills: IndexMap<SkillName, SkillDef>,
    /// The agents, sorted by name.
    #[serde(default)]
    pub agents: IndexMap<AgentName, AgentDef>,
    /// The commands, sorted by name.
    #[serde(default)]
    pub commands: IndexMap<String, CommandDef>,
    /// The output styles, sorted by name.
    #[serde(default)]
    pub output_styles: IndexMap<String, OutputStyleDef>,
    /// The plugins.
    #[serde(default)]
    pub plugins: IndexMap<PluginId, PluginManifest>,
}

impl ResourceSnapshot {
    /// A snapshot of nothing, for harnesses that intend to have none.
    pub fn empty() -> Self {
        Self {
            revision: Revision::from("empty"),
            skills: IndexMap::new(),
            agents: IndexMap::new(),
            commands: IndexMap::new(),
            output_styles: IndexMap::new(),
            plugins: IndexMap::new(),
        }
    }

    /// True if there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.skills.is_empty()
            && self.agents.is_empty()
            && self.commands.is_empty()
            && self.output_styles.is_empty()
            && self.plugins.is_empty()
    }

    /// The skill of a name. Without the plugin's name it must be the only one
    /// that is called so.
    ///
    /// ```
    /// use halter_protocol::{ResourceSnapshot, SkillDef};
    ///
    /// let mut snapshot = ResourceSnapshot::empty();
    /// let release = SkillDef::new("skl_1", "demo:release", "Releases.", "/d/SKILL.md", "");
    /// snapshot.skills.insert(release.name.clone(), release);
    /// assert_eq!(snapshot.skill("release")?.name.as_str(), "demo:release");
    /// assert!(snapshot.skill("deploy").is_err());
    /// # Ok::<(), halter_protocol::UnresolvedName>(())
    /// ```
    ///
    /// # Errors
    /// If there is none, or more than one.
    pub fn skill(&self, name: &str) -> Result<&SkillDef, UnresolvedName> {
        find(ResourceKind::Skill, &self.skills, name)
    }

    /// The agent of a name, as for [`skill`](Self::skill).
    ///
    /// # Errors
    /// If there is none, or more than one.
    pub fn agent(&self, name: &str) -> Result<&AgentDef, UnresolvedName> {
        find(ResourceKind::Agent, &self.agents, name)
    }

    /// The command of a name, as for [`skill`](Self::skill).
    ///
    /// # Errors
    /// If there is none, or more than one.
    pub fn command(&self, name: &str) -> Result<&CommandDef, UnresolvedName> {
        find(ResourceKind::Command, &self.commands, name)
    }

    /// The output style of a name, as for [`skill`](Self::skill).
    ///
    /// # Errors
    /// If there is none, or more than one.
    pub fn output_style(&self, name: &str) -> Result<&OutputStyleDef, UnresolvedName> {
        find(ResourceKind::OutputStyle, &self.output_styles, name)
    }
}

impl Default for ResourceSnapshot {
    fn default() -> Self {
        Self::empty()
    }
}

/// The name without that of its plugin.
pub fn bare_name(name: &str) -> &str {
    name.rsplit(NAME_SEPARATOR).next().unwrap_or(name)
}

fn find<'a, K, T>(
    kind: ResourceKind,
    entries: &'a IndexMap<K, T>,
    name: &str,
) -> Result<&'a T, UnresolvedName>
where
    K: Borrow<str> + Hash + Eq,
{
    if let Some(found) = entries.get(name) {
        return Ok(found);
    }
    let same = entries
        .iter()
        .filter(|(full, _)| bare_name((*full).borrow()) == name);
    let same: Vec<_> = same.collect();
    match same.as_slice() {
        [(_, only)] => Ok(only),
        [] => Err(UnresolvedName::Unknown {
            kind,
            name: name.to_owned(),
        }),
        several => Err(UnresolvedName::Ambiguous {
            kind,
            name: name.to_owned(),
            candidates: several
                .iter()
                .map(|(full, _)| (*full).borrow().to_owned())
                .collect(),
        }),
    }
}

/// Why a name stands for nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnresolvedName {
    /// Nothing is called so.
    #[error("there is no {kind} '{name}'; `halter resources` lists what is loaded")]
    Unknown {
        /// What was looked for.
        kind: ResourceKind,
        /// The name.
        name: String,
    },
    /// Several plugins have one.
    #[error("'{name}' is the name of more than one {kind}; say which: {}", candidates.join(", "))]
    Ambiguous {
        /// What was looked for.
        kind: ResourceKind,
        /// The name.
        name: String,
        /// Full names that end in it.
        candidates: Vec<String>,
    },
}

impl UnresolvedName {
    /// Stable, for programs to match on.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "resource_unknown",
            Self::Ambiguous { .. } => "resource_ambiguous",
        }
    }
}

/// Kinds of resources.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ResourceKind {
    /// A skill.
    Skill,
    /// An agent.
    Agent,
    /// A command.
    Command,
    /// An output style.
    OutputStyle,
    /// A plugin.
    Plugin,
    /// An instruction file, such as `AGENTS.md`.
    Instructions,
}

impl ResourceKind {
    /// The kind in words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Skill => "skill",
            Self::Agent => "agent",
            Self::Command => "command",
            Self::OutputStyle => "output style",
            Self::Plugin => "plugin",
            Self::Instructions => "instructions",
        }
    }
}

impl fmt::Display for ResourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Where a resource came from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ResourceOrigin {
    /// A root that the configuration, a variable or a flag names.
    #[default]
    Named,
    /// The user's own folders.
    User,
    /// The project's folders, or a root that its configuration names.
    Project,
    /// A plugin.
    Plugin {
        /// The plugin.
        plugin_id: PluginId,
    },
    /// The program that embeds the harness.
    Program,
}

impl fmt::Display for ResourceOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named => f.write_str("configured"),
            Self::User => f.write_str("user"),
            Self::Project => f.write_str("project"),
            Self::Plugin { plugin_id } => write!(f, "plugin {plugin_id}"),
            Self::Program => f.write_str("program"),
        }
    }
}

/// A plugin, as far as its manifest is understood.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PluginManifest {
    /// Its name.
    pub name: String,
    /// Its version, if it says one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What it is for, if it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The directory it was found in.
    #[serde(with = "escaped_path")]
    #[schemars(with = "String")]
    pub root: PathBuf,
    /// Where it came from.
    #[serde(default)]
    pub origin: ResourceOrigin,
    /// What it holds besides skills, agents, commands and output styles, by its
    /// content: hooks and servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Revision>,
    /// Where it may keep something, if there is such a place.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "escaped_path::option"
    )]
    #[schemars(with = "Option<String>")]
    pub data: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agents(names: &[&str]) -> ResourceSnapshot {
        let mut snapshot = ResourceSnapshot::empty();
        for name in names {
            let agent = AgentDef::new(*name, "d", "p");
            snapshot.agents.insert(agent.name.clone(), agent);
        }
        snapshot
    }

    #[test]
    fn a_bare_name_works_when_it_is_unique_and_a_full_one_always() {
        let snapshot = agents(&["a:reviewer", "b:reviewer", "a:writer", "tester", "c:tester"]);
        let found = |name: &str| snapshot.agent(name).map(|it| it.name.0.clone());
        assert_eq!(found("a:reviewer").unwrap(), "a:reviewer");
        assert_eq!(found("writer").unwrap(), "a:writer");
        // One's own comes before that of a plugin.
        assert_eq!(found("tester").unwrap(), "tester");
        assert_eq!(found("c:tester").unwrap(), "c:tester");
        let two = found("reviewer").unwrap_err();
        assert_eq!(two.code(), "resource_ambiguous");
        assert!(two.to_string().contains("a:reviewer, b:reviewer"), "{two}");
        let none = found("cook").unwrap_err();
        assert_eq!(none.code(), "resource_unknown");
        assert!(none.to_string().contains("no agent 'cook'"), "{none}");
    }

    #[test]
    fn a_snapshot_of_an_earlier_version_loads() {
        let old = r#"{"revision": "rev_1", "skills": {"x": {"id": "skl_1", "name": "x",
            "description": "d", "path": "/x/SKILL.md", "body": "b"}},
            "plugins": {"p": {"name": "p", "version": "1", "root": "/p"}}}"#;
        let snapshot: ResourceSnapshot = serde_json::from_str(old).unwrap();
        assert_eq!(snapshot.skills["x"].origin, ResourceOrigin::Named);
        assert!(!snapshot.skills["x"].user_only);
        assert_eq!(snapshot.plugins["p"].version.as_deref(), Some("1"));
        let text = serde_json::to_string(&snapshot).unwrap();
        assert_eq!(
            serde_json::from_str::<ResourceSnapshot>(&text).unwrap(),
            snapshot
        );
    }
}
