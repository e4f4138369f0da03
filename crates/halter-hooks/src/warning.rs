//! What is amiss with the hooks of compiled resources.

use halter_protocol::PluginId;
use halter_protocol::encoding::escape_path;
use std::fmt;
use std::path::PathBuf;

/// Something about a plugin's hooks that a user should know. It travels with
/// compiled resources and becomes a warning event of each session.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum HookWarning {
    /// A hooks file was found. This version runs hooks registered in process
    /// only, so the file has no effect.
    FileNotLoaded {
        /// The plugin it belongs to.
        plugin_id: PluginId,
        /// The file.
        path: PathBuf,
    },
}

impl HookWarning {
    /// Stable, for programs to match on.
    pub fn code(&self) -> &'static str {
        match self {
            Self::FileNotLoaded { .. } => "hooks_file_not_loaded",
        }
    }
}

impl fmt::Display for HookWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FileNotLoaded { plugin_id, path } => write!(
                f,
                "plugin `{plugin_id}`: the hooks in {} are not loaded yet and do not run; \
                 register what must hold with `with_plugin_hook`",
                escape_path(path)
            ),
        }
    }
}
