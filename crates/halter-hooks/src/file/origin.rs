//! Who a hook file belongs to.

use halter_protocol::PluginId;
use std::path::{Path, PathBuf};

/// Whose hooks a file holds. Those of a later layer run after those of an
/// earlier one and see what they rewrote, so the user's own guards judge what
/// will really run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum HookLayer {
    /// A plugin, a skill or an agent file.
    Plugin,
    /// The project.
    Project,
    /// The user.
    User,
}

impl HookLayer {
    /// The layer in a word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Plugin => "plugin",
            Self::Project => "project",
            Self::User => "user",
        }
    }
}

/// Where hooks come from, and what that grants them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HookOrigin {
    /// Who the hooks belong to; the first part of their ids.
    pub owner: PluginId,
    /// Whose they are.
    pub layer: HookLayer,
    /// Where they are written, for people.
    pub place: String,
    /// The root of the plugin: `CLAUDE_PLUGIN_ROOT` of its commands.
    pub root: Option<PathBuf>,
    /// Where the plugin may keep data: `CLAUDE_PLUGIN_DATA`.
    pub data: Option<PathBuf>,
    /// The directory of the skill they belong to: `CLAUDE_SKILL_DIR`.
    pub skill_dir: Option<PathBuf>,
    /// The project that the file belongs to: its commands run there, whatever
    /// the session's directory, so that a path in them names the file that the
    /// user has seen.
    pub project_dir: Option<PathBuf>,
    /// Variables of the user's environment that handlers see besides those
    /// that all commands see.
    pub allowed_env_vars: Vec<String>,
    /// Lists of hosts that HTTP handlers may name: a host has to be in each of
    /// them.
    pub allowed_http_hosts: Vec<Vec<String>>,
}

impl HookOrigin {
    /// Hooks of a plugin, or of something else that was installed.
    pub fn plugin(id: PluginId, root: impl AsRef<Path>, place: impl Into<String>) -> Self {
        Self {
            root: Some(root.as_ref().to_owned()),
            ..Self::new(id, HookLayer::Plugin, place)
        }
    }

    /// Hooks of the user.
    pub fn user(place: impl Into<String>) -> Self {
        Self::new("user".into(), HookLayer::User, place)
    }

    /// Hooks of a project that the user trusts, and its directory.
    pub fn project(place: impl Into<String>, directory: impl Into<PathBuf>) -> Self {
        Self {
            project_dir: Some(directory.into()),
            ..Self::new("project".into(), HookLayer::Project, place)
        }
    }

    fn new(owner: PluginId, layer: HookLayer, place: impl Into<String>) -> Self {
        Self {
            owner,
            layer,
            place: place.into(),
            root: None,
            data: None,
            skill_dir: None,
            project_dir: None,
            allowed_env_vars: Vec::new(),
            allowed_http_hosts: Vec::new(),
        }
    }

    /// Runs its commands in the directory of a project, whatever the session's.
    #[must_use]
    pub fn in_project(mut self, directory: impl Into<PathBuf>) -> Self {
        self.project_dir = Some(directory.into());
        self
    }

    /// The directories that a file may name, by their variables. `project_dir`
    /// is the top of the project that a session works in.
    pub(crate) fn places<'a>(&'a self, project_dir: &'a Path) -> Vec<(&'static str, &'a Path)> {
        let project = self.project_dir.as_deref().unwrap_or(project_dir);
        let mut places = vec![("CLAUDE_PROJECT_DIR", project)];
        if let Some(root) = &self.root {
            places.push(("CLAUDE_PLUGIN_ROOT", root));
            places.push(("PLUGIN_ROOT", root));
        }
        if let Some(data) = &self.data {
            places.push(("CLAUDE_PLUGIN_DATA", data));
            places.push(("PLUGIN_DATA", data));
        }
        if let Some(directory) = &self.skill_dir {
            places.push(("CLAUDE_SKILL_DIR", directory));
        }
        places
    }

    /// With a directory for data.
    #[must_use]
    pub fn with_data(mut self, data: impl Into<PathBuf>) -> Self {
        self.data = Some(data.into());
        self
    }

    /// With the directory of the skill in whose file they are written.
    #[must_use]
    pub fn with_skill_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.skill_dir = Some(directory.into());
        self
    }

    /// With variables that handlers see besides those that all commands see.
    #[must_use]
    pub fn with_allowed_env_vars(mut self, names: Vec<String>) -> Self {
        self.allowed_env_vars = names;
        self
    }

    /// With the only hosts that HTTP handlers may name: a name, `*.` and a name
    /// for its subdomains, or `*`, each with or without a port. Given again, a
    /// host has to be in both lists.
    #[must_use]
    pub fn with_allowed_http_hosts(mut self, hosts: Vec<String>) -> Self {
        self.allowed_http_hosts.push(hosts);
        self
    }
}
