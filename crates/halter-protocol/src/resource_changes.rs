//! What of a session's resources is new since it last worked.

use crate::ids::Revision;
use crate::open_enum::open_enum;
use crate::resource::{ResourceKind, ResourceSnapshot};
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::hash::Hash;
use std::path::PathBuf;
use std::sync::Arc;

/// The resources that a session works with, and what of them is new.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourcesLoaded {
    /// What they are called by their content.
    pub revision: Revision,
    /// A [`ResourceSnapshot`] as JSON. It is one text so that a store keeps it
    /// once, by its hash, for all sessions that have the same. Streams leave it
    /// out, and so does a session whose resources are too large to be kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<Arc<str>>,
    /// What is otherwise than when the session last worked, in the order of
    /// kinds and names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<ResourceChange>,
}

impl ResourcesLoaded {
    /// The resources as they were kept, if they were.
    pub fn kept(&self) -> Option<ResourceSnapshot> {
        serde_json::from_str(self.snapshot.as_deref()?).ok()
    }

    /// The event as stream consumers see it: what is new, and not everything
    /// else once more.
    pub(crate) fn without_snapshot(&self) -> Self {
        Self {
            snapshot: None,
            ..self.clone()
        }
    }
}

/// One resource that is otherwise than before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceChange {
    /// What kind of resource.
    pub kind: ResourceKind,
    /// Its name; of an instruction file, its path.
    pub name: String,
    /// What became of it.
    pub change: ResourceChangeKind,
}

open_enum! {
    /// What became of a resource.
    pub enum ResourceChangeKind {
        /// It is new.
        Added = "added",
        /// It has another content.
        Changed = "changed",
        /// It is gone.
        Removed = "removed",
    }
}

impl fmt::Display for ResourceChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} '{}'", self.change, self.kind, self.name)
    }
}

impl ResourceSnapshot {
    /// What is otherwise here than in `before`. A resource that only lies
    /// elsewhere is the same.
    ///
    /// ```
    /// use halter_protocol::{ResourceSnapshot, SkillDef};
    ///
    /// let mut now = ResourceSnapshot::empty();
    /// let release = SkillDef::new("skl_1", "release", "Releases.", "/d/SKILL.md", "");
    /// now.skills.insert(release.name.clone(), release);
    /// let changes = now.changes_since(&ResourceSnapshot::empty());
    /// assert_eq!(changes[0].to_string(), "added skill 'release'");
    /// ```
    pub fn changes_since(&self, before: &Self) -> Vec<ResourceChange> {
        let mut changes = Vec::new();
        let skills = (&before.skills, &self.skills);
        compare(&mut changes, ResourceKind::Skill, skills, |it| &mut it.path);
        let agents = (&before.agents, &self.agents);
        compare(&mut changes, ResourceKind::Agent, agents, |it| &mut it.path);
        let commands = (&before.commands, &self.commands);
        compare(&mut changes, ResourceKind::Command, commands, |it| {
            &mut it.path
        });
        let styles = (&before.output_styles, &self.output_styles);
        compare(&mut changes, ResourceKind::OutputStyle, styles, |it| {
            &mut it.path
        });
        let plugins = (&before.plugins, &self.plugins);
        compare(&mut changes, ResourceKind::Plugin, plugins, |it| {
            &mut it.root
        });
        changes
    }
}

/// Adds how entries differ but for their place on disk.
fn compare<K, T>(
    changes: &mut Vec<ResourceChange>,
    kind: ResourceKind,
    (before, now): (&IndexMap<K, T>, &IndexMap<K, T>),
    place: fn(&mut T) -> &mut PathBuf,
) where
    K: Hash + Eq + Ord + fmt::Display,
    T: Clone + PartialEq,
{
    let placeless = |entry: &T| {
        let mut entry = entry.clone();
        place(&mut entry).clear();
        entry
    };
    let mut names: Vec<&K> = before.keys().chain(now.keys()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let change = match (before.get(name), now.get(name)) {
            (None, _) => ResourceChangeKind::Added,
            (_, None) => ResourceChangeKind::Removed,
            (Some(old), Some(new)) if placeless(old) != placeless(new) => {
                ResourceChangeKind::Changed
            }
            _ => continue,
        };
        changes.push(ResourceChange {
            kind,
            name: name.to_string(),
            change,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::{AgentDef, SkillDef};

    fn snapshot(skills: &[(&str, &str, &str)]) -> ResourceSnapshot {
        let mut snapshot = ResourceSnapshot::empty();
        for (name, body, path) in skills {
            let skill = SkillDef::new("skl", *name, "d", *path, *body);
            snapshot.skills.insert(skill.name.clone(), skill);
        }
        snapshot
    }

    #[test]
    fn what_is_new_other_and_gone_is_named_in_order() {
        let before = snapshot(&[("b", "1", "/b"), ("a", "1", "/a"), ("same", "1", "/x")]);
        let mut now = snapshot(&[("c", "1", "/c"), ("a", "2", "/a"), ("same", "1", "/y")]);
        let agent = AgentDef::new("reviewer", "d", "p");
        now.agents.insert(agent.name.clone(), agent);
        let said: Vec<String> = now
            .changes_since(&before)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            said,
            [
                "changed skill 'a'",
                "removed skill 'b'",
                "added skill 'c'",
                "added agent 'reviewer'",
            ]
        );
    }

    #[test]
    fn what_is_kept_can_be_read_again() {
        let snapshot = snapshot(&[("a", "1", "/a")]);
        let loaded = ResourcesLoaded {
            revision: "rev".into(),
            snapshot: Some(serde_json::to_string(&snapshot).unwrap().into()),
            changes: Vec::new(),
        };
        assert_eq!(loaded.kept(), Some(snapshot));
        assert_eq!(loaded.without_snapshot().kept(), None);
    }
}
