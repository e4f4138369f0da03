//! A plugin as found on disk, and the loader of a root of plugins.
//!
//! Manifests are checked; what they name is not loaded, and said not to be.

use crate::files::{canonical_root, exists, is_showable, read_text, sorted_entries};
use crate::limits::{MAX_ENTRIES, MAX_MANIFEST_BYTES, MAX_PLUGINS};
use crate::manifest::{HooksPlace, Manifest};
use crate::warning::{ResourceWarning, WarningList};
use halter_protocol::{PluginId, PluginManifest};
use std::fmt;
use std::path::{Path, PathBuf};

/// Where a plugin's manifest may be, in the order they are looked for.
pub const MANIFEST_PLACES: [&str; 5] = [
    ".claude-plugin/plugin.json",
    ".agent-plugin/plugin.json",
    ".halter-plugin/plugin.json",
    ".codex-plugin/plugin.json",
    "plugin.json",
];

const DEFAULT_HOOKS_FILE: &str = "hooks/hooks.json";

/// Something a plugin can bring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum PluginPart {
    /// Skills.
    Skills,
    /// Commands.
    Commands,
    /// Agents.
    Agents,
    /// Hooks.
    Hooks,
    /// MCP servers.
    McpServers,
    /// Language servers.
    LspServers,
    /// Output styles.
    OutputStyles,
}

impl PluginPart {
    pub(crate) const ALL: [Self; 7] = [
        Self::Skills,
        Self::Commands,
        Self::Agents,
        Self::Hooks,
        Self::McpServers,
        Self::LspServers,
        Self::OutputStyles,
    ];

    /// The part in words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Skills => "skills",
            Self::Commands => "commands",
            Self::Agents => "agents",
            Self::Hooks => "hooks",
            Self::McpServers => "MCP servers",
            Self::LspServers => "language servers",
            Self::OutputStyles => "output styles",
        }
    }

    pub(crate) const fn manifest_key(self) -> &'static str {
        match self {
            Self::Skills => "skills",
            Self::Commands => "commands",
            Self::Agents => "agents",
            Self::Hooks => "hooks",
            Self::McpServers => "mcpServers",
            Self::LspServers => "lspServers",
            Self::OutputStyles => "outputStyles",
        }
    }

    /// Where the part is if the manifest does not say.
    const fn default_place(self) -> &'static str {
        match self {
            Self::Skills => "skills",
            Self::Commands => "commands",
            Self::Agents => "agents",
            Self::Hooks => DEFAULT_HOOKS_FILE,
            Self::McpServers => ".mcp.json",
            Self::LspServers => ".lsp.json",
            Self::OutputStyles => "output-styles",
        }
    }

    /// True if the manifest may hold the part itself instead of its path.
    pub(crate) const fn may_be_inline(self) -> bool {
        matches!(self, Self::Hooks | Self::McpServers | Self::LspServers)
    }
}

impl fmt::Display for PluginPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A plugin whose manifest is valid. Its parts are not loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadedPlugin {
    /// The plugin: its name.
    pub id: PluginId,
    /// What the manifest says.
    pub manifest: PluginManifest,
    /// What the plugin brings, by its manifest or by the usual places.
    pub parts: Vec<PluginPart>,
    /// The files that hold its hooks.
    pub hook_files: Vec<PathBuf>,
}

impl LoadedPlugin {
    pub(crate) fn not_loaded(&self) -> ResourceWarning {
        ResourceWarning::PluginNotLoaded {
            plugin_id: self.id.clone(),
            root: self.manifest.root.clone(),
            parts: self.parts.clone(),
            hook_files: self.hook_files.clone(),
        }
    }

    /// `root` is canonical; `place` is where its manifest is.
    fn read(root: &Path, place: &str) -> Result<Self, ResourceWarning> {
        let path = root.join(place);
        let skipped = |line, reason| ResourceWarning::PluginSkipped {
            path: path.clone(),
            line,
            reason,
        };
        let text = read_text(root, &path, MAX_MANIFEST_BYTES)
            .map_err(|unread| skipped(unread.line(), unread.reason(MAX_MANIFEST_BYTES)))?;
        let manifest =
            Manifest::parse(&text).map_err(|invalid| skipped(invalid.line, invalid.reason))?;
        let has = |part: PluginPart| {
            manifest.parts.contains(&part) || exists(&root.join(part.default_place()))
        };
        let hook_files = match manifest.hooks {
            Some(HooksPlace::Files(ref files)) => {
                files.iter().map(|file| root.join(file)).collect()
            }
            Some(HooksPlace::Inline) => vec![path],
            None if has(PluginPart::Hooks) => vec![root.join(DEFAULT_HOOKS_FILE)],
            None => Vec::new(),
        };
        Ok(Self {
            id: manifest.name.as_str().into(),
            parts: PluginPart::ALL
                .into_iter()
                .filter(|part| has(*part))
                .collect(),
            hook_files,
            manifest: PluginManifest {
                name: manifest.name,
                version: manifest.version,
                root: root.to_owned(),
            },
        })
    }
}

/// Finds the plugins of one root: the directories directly below it, or the
/// root itself if it has a manifest.
#[derive(Debug, Clone)]
pub struct PluginLoader {
    root: PathBuf,
}

/// What a [`PluginLoader`] found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadedPlugins {
    /// The plugins, in the order of their paths.
    pub plugins: Vec<LoadedPlugin>,
    /// What was wrong with files.
    pub warnings: Vec<ResourceWarning>,
}

impl PluginLoader {
    /// A loader for one root.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Reads the manifests. Blocks on the file system: within async code use
    /// [`ResourceCompiler`](crate::ResourceCompiler) or a blocking thread.
    pub fn load(&self) -> LoadedPlugins {
        let mut plugins = Vec::new();
        let mut warnings = WarningList::default();
        if let Err(warning) = self.search(&mut plugins, &mut warnings) {
            warnings.push(warning);
        }
        LoadedPlugins {
            plugins,
            warnings: warnings.into_vec(),
        }
    }

    fn search(
        &self,
        plugins: &mut Vec<LoadedPlugin>,
        warnings: &mut WarningList,
    ) -> Result<(), ResourceWarning> {
        let unusable = |reason| ResourceWarning::RootUnusable {
            root: self.root.clone(),
            reason,
        };
        let root = canonical_root(&self.root).map_err(unusable)?;
        if let Some(place) = manifest_place(&root) {
            plugins.push(LoadedPlugin::read(&root, place)?);
            return Ok(());
        }
        let (entries, more) = sorted_entries(&root, MAX_ENTRIES)
            .map_err(|error| unusable(format!("it cannot be read: {error}")))?;
        let limit = |path: &Path, reason| ResourceWarning::LimitReached {
            path: path.to_owned(),
            reason,
        };
        if more {
            let reason = format!("more than {MAX_ENTRIES} entries; the rest is not looked at");
            warnings.push(limit(&root, reason));
        }
        for entry in entries {
            let path = entry.path();
            if plugins.len() == MAX_PLUGINS {
                let reason = format!("more than {MAX_PLUGINS} plugins; the rest is left out");
                return Err(limit(&path, reason));
            }
            match inspect(&root, &path) {
                Ok(plugin) => plugins.extend(plugin),
                Err(warning) => warnings.push(warning),
            }
        }
        Ok(())
    }
}

fn manifest_place(dir: &Path) -> Option<&'static str> {
    let mut places = MANIFEST_PLACES.into_iter();
    places.find(|place| exists(&dir.join(place)))
}

/// The plugin in one entry of a root. Files and hidden directories are not
/// meant to be any.
fn inspect(root: &Path, path: &Path) -> Result<Option<LoadedPlugin>, ResourceWarning> {
    let skipped = |reason: &str| ResourceWarning::PluginSkipped {
        path: path.to_owned(),
        line: None,
        reason: reason.to_owned(),
    };
    let resolved = match std::fs::canonicalize(path) {
        Ok(resolved) if resolved.is_dir() => resolved,
        Ok(_) => return Ok(None),
        Err(_) => {
            let path = path.to_owned();
            return Err(ResourceWarning::LinkNotFollowed { path });
        }
    };
    if !resolved.starts_with(root) {
        let path = path.to_owned();
        return Err(ResourceWarning::LinkNotFollowed { path });
    }
    if !is_showable(&resolved) {
        let path = path.to_owned();
        return Err(ResourceWarning::PathNotText { path });
    }
    if let Some(place) = manifest_place(&resolved) {
        return LoadedPlugin::read(&resolved, place).map(Some);
    }
    let name = path.file_name().unwrap_or_default();
    if name.as_encoded_bytes().starts_with(b".") {
        return Ok(None);
    }
    Err(skipped(
        "it has no manifest; add a .claude-plugin/plugin.json with `name` and `version`",
    ))
}
