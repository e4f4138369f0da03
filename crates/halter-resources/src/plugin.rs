//! A plugin as found on disk, and the loader of a root of plugins.

use crate::agent::LoadedAgent;
use crate::command::LoadedCommand;
use crate::content::ContentName;
use crate::files::{canonical_root, exists, is_showable, sorted_entries};
use crate::limits::{MAX_ENTRIES, MAX_PLUGINS};
use crate::output_style::LoadedOutputStyle;
use crate::plugin_parts::{Opened, has_usual_parts};
use crate::skill::LoadedSkill;
use crate::warning::{ResourceWarning, WarningList};
use halter_protocol::{PluginId, PluginManifest, ResourceKind, ResourceOrigin, Revision};
use serde_json::Value;
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
    pub(crate) const fn default_place(self) -> &'static str {
        match self {
            Self::Skills => "skills",
            Self::Commands => "commands",
            Self::Agents => "agents",
            Self::Hooks => "hooks/hooks.json",
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

/// A plugin and all its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadedPlugin {
    /// The plugin: its name.
    pub id: PluginId,
    /// What the manifest says.
    pub manifest: PluginManifest,
    /// Its skills, called `plugin:skill`.
    pub skills: Vec<LoadedSkill>,
    /// Its agents, called `plugin:agent`.
    pub agents: Vec<LoadedAgent>,
    /// Its commands, called `plugin:command`.
    pub commands: Vec<LoadedCommand>,
    /// Its output styles, called `plugin:style`.
    pub output_styles: Vec<LoadedOutputStyle>,
    /// Its hooks.
    pub hooks: Vec<LoadedHooksFile>,
    /// Its MCP servers.
    pub mcp_servers: Vec<LoadedMcpServer>,
    /// Its language servers.
    pub lsp_servers: Vec<LoadedLspServer>,
    /// Whether it is in force where nobody says otherwise.
    pub default_enabled: bool,
}

impl LoadedPlugin {
    /// What can run programs, in words; none if nothing can.
    pub fn runs(&self) -> Option<String> {
        let skills = self.skills.iter().any(LoadedSkill::can_run_code);
        let commands = self.commands.iter().any(LoadedCommand::can_run_code);
        let parts = [
            (PluginPart::Hooks.as_str(), !self.hooks.is_empty()),
            (
                PluginPart::McpServers.as_str(),
                !self.mcp_servers.is_empty(),
            ),
            (
                PluginPart::LspServers.as_str(),
                !self.lsp_servers.is_empty(),
            ),
            ("what skills or commands name", skills || commands),
        ];
        let present = parts.into_iter().filter(|(_, present)| *present);
        let names: Vec<&str> = present.map(|(part, _)| part).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }

    /// Its hooks and those of its skills, as JSON. A text that is none has no
    /// hooks.
    pub(crate) fn all_hooks(&self) -> impl Iterator<Item = Value> {
        let files = self.hooks.iter();
        let files = files.filter_map(|file| serde_json::from_str(&file.text).ok());
        let skills = self.skills.iter();
        files.chain(skills.filter_map(|skill| skill.definition().hooks.clone()))
    }

    /// Takes away what can run programs.
    pub(crate) fn disarm(&mut self) {
        self.hooks.clear();
        self.mcp_servers.clear();
        self.lsp_servers.clear();
        self.skills.iter_mut().for_each(LoadedSkill::disarm);
        self.commands.iter_mut().for_each(LoadedCommand::disarm);
        self.manifest.content = None;
    }

    /// Names its hooks and servers by their content.
    pub(crate) fn content(&self) -> Option<Revision> {
        self.runs()?;
        let mut name = ContentName::default();
        for hooks in &self.hooks {
            name = name.field("hooks").field(&hooks.text);
            for list in [&hooks.allowed_env_vars, &hooks.allowed_http_hosts] {
                name = name.field(list.join("\n"));
            }
        }
        let mcp = self.mcp_servers.iter().map(|it| (&it.name, &it.config));
        let lsp = self.lsp_servers.iter().map(|it| (&it.name, &it.config));
        for (kind, servers) in [("mcp", mcp.collect::<Vec<_>>()), ("lsp", lsp.collect())] {
            for (server, config) in servers {
                name = name.field(kind).field(server).field(config.to_string());
            }
        }
        Some(name.finish("plg").into())
    }
}

/// Hooks of a plugin, as written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadedHooksFile {
    /// The plugin.
    pub plugin_id: PluginId,
    /// Its directory.
    pub plugin_root: PathBuf,
    /// The file: of hooks, or the manifest that holds them.
    pub path: PathBuf,
    /// The JSON of the hooks.
    pub text: String,
    /// Hosts that its HTTP hooks may reach; empty: whatever the harness allows.
    pub allowed_http_hosts: Vec<String>,
    /// Variables of the environment that its hooks may see.
    pub allowed_env_vars: Vec<String>,
}

/// An MCP server of a plugin, as written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadedMcpServer {
    /// The plugin.
    pub plugin_id: PluginId,
    /// Its directory.
    pub plugin_root: PathBuf,
    /// The server's name.
    pub name: String,
    /// The entry: a JSON object. Variables in it are not expanded.
    pub config: Value,
}

/// A language server of a plugin, as written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadedLspServer {
    /// The plugin.
    pub plugin_id: PluginId,
    /// Its directory.
    pub plugin_root: PathBuf,
    /// The server's name.
    pub name: String,
    /// The entry: a JSON object. Variables in it are not expanded.
    pub config: Value,
}

/// Finds the plugins of one root: the directories directly below it, or the
/// root itself if it is one.
#[derive(Debug, Clone)]
pub struct PluginLoader {
    root: PathBuf,
    origin: ResourceOrigin,
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
        Self {
            root: root.into(),
            origin: ResourceOrigin::Named,
        }
    }

    /// Says where the root comes from.
    #[must_use]
    pub fn with_origin(mut self, origin: ResourceOrigin) -> Self {
        self.origin = origin;
        self
    }

    /// Reads the plugins and their parts. Blocks on the file system: within
    /// async code use [`ResourceCompiler`](crate::ResourceCompiler) or a
    /// blocking thread.
    pub fn load(&self) -> LoadedPlugins {
        let mut found = Found::default();
        if let Err(warning) = self.search(&mut found) {
            found.warnings.push(warning);
        }
        LoadedPlugins {
            plugins: found.plugins,
            warnings: found.warnings.into_vec(),
        }
    }

    fn search(&self, found: &mut Found) -> Result<(), ResourceWarning> {
        let unusable = |reason| ResourceWarning::RootUnusable {
            root: self.root.clone(),
            reason,
        };
        let root = canonical_root(&self.root).map_err(unusable)?;
        let manifest = manifest_place(&root);
        if manifest.is_some() || has_usual_parts(&root) {
            return self.load_plugin(&root, manifest, found);
        }
        let (entries, more) = sorted_entries(&root, MAX_ENTRIES)
            .map_err(|error| unusable(format!("it cannot be read: {error}")))?;
        let limit = |path: &Path, reason| ResourceWarning::LimitReached {
            path: path.to_owned(),
            reason,
        };
        if more {
            let reason = format!("more than {MAX_ENTRIES} entries; the rest is not looked at");
            found.warnings.push(limit(&root, reason));
        }
        for entry in entries {
            let path = entry.path();
            if found.plugins.len() == MAX_PLUGINS {
                let reason = format!("more than {MAX_PLUGINS} plugins; the rest is left out");
                return Err(limit(&path, reason));
            }
            if let Err(warning) = self.inspect(&root, &path, found) {
                found.warnings.push(warning);
            }
        }
        Ok(())
    }

    /// The plugin in one entry of a root. Files and hidden directories are not
    /// meant to be any.
    fn inspect(&self, root: &Path, path: &Path, found: &mut Found) -> Result<(), ResourceWarning> {
        let resolved = match std::fs::canonicalize(path) {
            Ok(resolved) if resolved.is_dir() => resolved,
            Ok(_) => return Ok(()),
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
        let manifest = manifest_place(&resolved);
        let hidden = path.file_name().unwrap_or_default();
        let hidden = hidden.as_encoded_bytes().starts_with(b".");
        match manifest {
            None if hidden => Ok(()),
            None if !has_usual_parts(&resolved) => Err(skipped(
                path,
                None,
                "it has no manifest and none of the usual folders; add a \
                 .claude-plugin/plugin.json with `name` and `version`",
            )),
            manifest => self.load_plugin(&resolved, manifest, found),
        }
    }

    fn load_plugin(
        &self,
        root: &Path,
        manifest: Option<&str>,
        found: &mut Found,
    ) -> Result<(), ResourceWarning> {
        let opened = Opened::new(root, manifest, &self.origin)?;
        let plugin = opened.load(&mut found.warnings);
        found.plugins.push(plugin);
        Ok(())
    }
}

#[derive(Default)]
struct Found {
    plugins: Vec<LoadedPlugin>,
    warnings: WarningList,
}

pub(crate) fn skipped(
    path: &Path,
    line: Option<u64>,
    reason: impl Into<String>,
) -> ResourceWarning {
    ResourceWarning::Skipped {
        kind: ResourceKind::Plugin,
        path: path.to_owned(),
        line,
        reason: reason.into(),
    }
}

fn manifest_place(dir: &Path) -> Option<&'static str> {
    let mut places = MANIFEST_PLACES.into_iter();
    places.find(|place| exists(&dir.join(place)))
}
