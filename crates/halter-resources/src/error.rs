//! What ends a compilation, or refuses a resource made in code.

use std::path::PathBuf;

/// Why there is no snapshot, or no such resource. Bad files are not errors but
/// [warnings](crate::ResourceWarning).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResourceError {
    /// The name cannot be shown to a model.
    #[error("`{}` cannot be the name of a skill: {reason}", name.escape_debug())]
    InvalidSkillName {
        /// The name.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The path cannot be shown to a model.
    #[error(
        "the skill `{name}` cannot be at {path:?}: a model could not spell that path; \
         use printable UTF-8"
    )]
    InvalidSkillPath {
        /// The skill.
        name: String,
        /// Its file.
        path: PathBuf,
    },
    /// The description says nothing.
    #[error("the skill `{name}` has no description: say in a sentence when to use it")]
    MissingDescription {
        /// The skill.
        name: String,
    },
    /// A folder that is to be installed is no plugin, or not one as a whole.
    #[error("{} cannot be installed: {reason}", path.display())]
    NotAPlugin {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A plugin of that name is there already.
    #[error("the plugin '{name}' is installed already; remove it first to install another")]
    PluginInstalled {
        /// Its name.
        name: String,
    },
    /// No plugin of that name is installed.
    #[error("no plugin '{name}' is installed; `halter plugin list` shows which are")]
    PluginUnknown {
        /// The name.
        name: String,
    },
    /// The directory of installed plugins cannot be used.
    #[error("the installed plugins in {} cannot be used: {reason}", directory.display())]
    PluginStore {
        /// The directory.
        directory: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The runtime shut down while files were read.
    #[error(
        "the compilation of resources was interrupted by the runtime's shutdown; compile again"
    )]
    Interrupted,
}

impl ResourceError {
    /// Stable, for programs to match on.
    pub fn code(&self) -> &'static str {
        match self {
            Self::InvalidSkillName { .. } => "invalid_skill_name",
            Self::InvalidSkillPath { .. } => "invalid_skill_path",
            Self::MissingDescription { .. } => "missing_skill_description",
            Self::NotAPlugin { .. } => "plugin_invalid",
            Self::PluginInstalled { .. } => "plugin_installed",
            Self::PluginUnknown { .. } => "plugin_unknown",
            Self::PluginStore { .. } => "plugin_store",
            Self::Interrupted => "resources_interrupted",
        }
    }
}
