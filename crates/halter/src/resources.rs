//! Skills, agents, commands, output styles and plugins from configuration to a harness.

use crate::hook_files::files_named_besides;
use halter_config::{Environment, HarnessConfig, LoadedConfig, Origin, TrustStore};
use halter_hooks::file::{HookOrigin, parse_text};
use halter_hooks::{HookWarning, Hooks};
use halter_protocol::encoding::escape_path;
use halter_protocol::public_tools::{our_tool_name, public_tool};
use halter_protocol::{ResourceKind, ResourceOrigin, ResourceSnapshot};
use halter_resources::{
    ContentTrust, InstalledPlugins, LoadedHooksFile, LoadedLspServer, LoadedMcpServer,
    LoadedPlugin, LoadedSkill, ResourcePlaces, ResourceRoot, ResourceWarning, TrustedContent,
    UsualPlaces, project_holding,
};
use halter_runtime::{Resources, frontmatter_hooks};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Everything compiled from resource roots.
#[derive(Debug, Clone, Default)]
pub struct CompiledResources {
    /// What sessions see.
    pub snapshot: ResourceSnapshot,
    /// Hooks that come with the resources.
    pub hooks: Arc<Hooks>,
    /// Problems with those hooks.
    pub hook_warnings: Vec<HookWarning>,
    /// MCP servers of plugins, as written.
    pub mcp_servers: Vec<LoadedMcpServer>,
    /// Language servers of plugins, as written.
    pub lsp_servers: Vec<LoadedLspServer>,
    /// Other problems.
    pub warnings: Vec<ResourceWarning>,
}

impl CompiledResources {
    /// A snapshot without hooks.
    pub fn from_snapshot(snapshot: ResourceSnapshot) -> Self {
        Self {
            snapshot,
            ..Self::default()
        }
    }

    /// Everything a user should know about the resources. Notes for those who
    /// look closely are only in `warnings`.
    pub fn messages(&self) -> Vec<String> {
        let hooks = self.hook_warnings.iter().map(ToString::to_string);
        let others = self.warnings.iter().filter(|warning| !warning.is_note());
        hooks.chain(others.map(ToString::to_string)).collect()
    }

    /// The resources with further hooks, as the runtime takes them.
    pub(crate) fn with_hooks(self, further: &Hooks) -> anyhow::Result<Resources> {
        let warnings = self.messages();
        Ok(Resources {
            snapshot: Arc::new(self.snapshot),
            style: None,
            hooks: Arc::new(self.hooks.merged(further)?),
            warnings,
            protected: Vec::new(),
        })
    }
}

impl From<halter_resources::CompiledResources> for CompiledResources {
    fn from(compiled: halter_resources::CompiledResources) -> Self {
        Self::with_data(compiled, None)
    }
}

impl CompiledResources {
    /// `data`: where plugins may keep something.
    fn with_data(mut compiled: halter_resources::CompiledResources, data: Option<&Path>) -> Self {
        for (id, plugin) in &mut compiled.snapshot.plugins {
            plugin.data = data.map(|data| data.join(id.as_str()));
        }
        make_data_folders(&compiled);
        let mut hooks = Hooks::new();
        let mut hook_warnings = Vec::new();
        for file in &compiled.hook_files {
            let plugin = compiled.snapshot.plugins.get(&file.plugin_id);
            let of_project = plugin.is_some_and(|it| it.origin == ResourceOrigin::Project);
            let mut origin = plugin_origin(file, data);
            if of_project {
                origin = origin.in_project(project_holding(&file.plugin_root));
            }
            hook_warnings.extend(hooks.add_file(parse_text(&file.text, &origin)));
        }
        // They come into force with their skills and agents.
        hook_warnings.extend(frontmatter_hooks(&compiled.snapshot).1);
        Self {
            snapshot: compiled.snapshot,
            hooks: Arc::new(hooks),
            hook_warnings,
            mcp_servers: compiled.mcp_servers,
            lsp_servers: compiled.lsp_servers,
            warnings: compiled.warnings,
        }
    }
}

/// The folder beside the user's configuration in which each plugin has one.
const PLUGIN_DATA_FOLDER: &str = "plugin-data";

/// How hooks and skills name that folder.
const PLUGIN_DATA: &str = "PLUGIN_DATA";

/// Makes the folders of those plugins that ask for one. One that cannot be made
/// fails where it is used.
fn make_data_folders(compiled: &halter_resources::CompiledResources) {
    for (id, plugin) in &compiled.snapshot.plugins {
        let files = compiled.hook_files.iter();
        let mut files = files.filter(|file| file.plugin_id == *id);
        let mut skills = compiled.snapshot.skills.values().filter(
            |skill| matches!(&skill.origin, ResourceOrigin::Plugin { plugin_id } if plugin_id == id),
        );
        let is_named = files.any(|file| file.text.contains(PLUGIN_DATA))
            || skills.any(|skill| skill.body.contains(PLUGIN_DATA));
        if let Some(data) = plugin.data.as_ref().filter(|_| is_named) {
            let _ = std::fs::create_dir_all(data);
        }
    }
}

fn plugin_origin(file: &LoadedHooksFile, data: Option<&Path>) -> HookOrigin {
    let place = escape_path(&file.path);
    let mut origin = HookOrigin::plugin(file.plugin_id.clone(), &file.plugin_root, place)
        .with_allowed_env_vars(file.allowed_env_vars.clone());
    if let Some(data) = data {
        origin = origin.with_data(data.join(file.plugin_id.as_str()));
    }
    // Public plugins name no hosts, and mean any.
    if !file.allowed_http_hosts.is_empty() {
        origin = origin.with_allowed_http_hosts(file.allowed_http_hosts.clone());
    }
    origin
}

/// Compiles resource roots, or resources that are already loaded.
///
/// ```
/// # async fn example() -> anyhow::Result<()> {
/// use halter::ResourceCompiler;
/// use halter_config::HarnessConfig;
///
/// let config = HarnessConfig::default();
/// let resources = ResourceCompiler::from_config(&config).compile().await?;
/// assert!(resources.snapshot.skills.is_empty());
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "nothing is read before `compile`"]
pub struct ResourceCompiler {
    compiler: halter_resources::ResourceCompiler,
    /// Where plugins may keep something.
    plugin_data: Option<PathBuf>,
}

impl ResourceCompiler {
    /// Compiles the roots a configuration names.
    pub fn from_config(config: &HarnessConfig) -> Self {
        Self::default()
            .with_skill_roots(config.resources.skills.roots.clone())
            .with_plugin_roots(config.resources.plugins.roots.clone())
    }

    /// Compiles what a user has in a directory: the roots that a configuration
    /// names, and unless `resources.discover` is off, the usual folders of the
    /// project and of the user and the plugins that are installed. What a
    /// project holds or names runs programs only if its content is trusted.
    pub fn of_user(
        loaded: &LoadedConfig,
        environment: &Environment,
        directory: impl AsRef<Path>,
    ) -> Self {
        let resources = &loaded.config.resources;
        let roots = |key: &str, paths: &[PathBuf]| -> Vec<ResourceRoot> {
            let roots = paths.iter().enumerate().map(|(index, path)| ResourceRoot {
                path: path.clone(),
                origin: match loaded.origin(&format!("{key}[{index}]")) {
                    Origin::Project(_) => ResourceOrigin::Project,
                    _ => ResourceOrigin::Named,
                },
            });
            roots.collect()
        };
        let named = ResourcePlaces {
            skills: roots("resources.skills.roots", &resources.skills.roots),
            plugins: roots("resources.plugins.roots", &resources.plugins.roots),
            ..ResourcePlaces::default()
        };
        let trust = UserTrust(TrustStore::of(environment));
        let mut compiler = halter_resources::ResourceCompiler::new()
            .with_places(named)
            .with_trust(Arc::new(trust));
        let config_file = environment.user_config_path();
        let config_dir = config_file.as_deref().and_then(Path::parent);
        let plugin_data = config_dir.map(|it| it.join(PLUGIN_DATA_FOLDER));
        if resources.discover {
            let directory = std::fs::canonicalize(directory.as_ref())
                .unwrap_or_else(|_| directory.as_ref().to_owned());
            let usual = UsualPlaces::of(&directory, environment.home(), config_dir);
            compiler = compiler.with_places(usual.find());
            if let Some(installed) = config_dir.map(InstalledPlugins::at) {
                let root = ResourceRoot {
                    path: installed.root(),
                    origin: ResourceOrigin::User,
                };
                compiler = with_installed(compiler, &installed, root);
            }
        }
        Self {
            compiler,
            plugin_data,
        }
    }

    /// Looks for skills below these directories.
    pub fn with_skill_roots(self, roots: Vec<PathBuf>) -> Self {
        Self {
            compiler: self.compiler.with_skill_roots(roots),
            ..self
        }
    }

    /// Looks for plugins in these directories.
    pub fn with_plugin_roots(self, roots: Vec<PathBuf>) -> Self {
        Self {
            compiler: self.compiler.with_plugin_roots(roots),
            ..self
        }
    }

    /// Looks in these places, too, after those that were named before.
    pub fn with_places(self, places: ResourcePlaces) -> Self {
        Self {
            compiler: self.compiler.with_places(places),
            ..self
        }
    }

    /// Takes these skills instead of looking for any.
    pub fn with_loaded_skills(self, skills: Vec<LoadedSkill>) -> Self {
        Self {
            compiler: self.compiler.with_loaded_skills(skills),
            ..self
        }
    }

    /// Takes these plugins instead of looking for any.
    pub fn with_loaded_plugins(self, plugins: Vec<LoadedPlugin>) -> Self {
        Self {
            compiler: self.compiler.with_loaded_plugins(plugins),
            ..self
        }
    }

    /// Reads, checks and compiles everything.
    pub async fn compile(&self) -> anyhow::Result<CompiledResources> {
        let compiled = self.compiler.compile().await?;
        let data = self.plugin_data.as_deref();
        Ok(CompiledResources::with_data(compiled, data))
    }
}

/// With the plugins that are installed and enabled. Where the record does not
/// say which those are, none is.
fn with_installed(
    compiler: halter_resources::ResourceCompiler,
    installed: &InstalledPlugins,
    root: ResourceRoot,
) -> halter_resources::ResourceCompiler {
    if !root.path.is_dir() {
        return compiler;
    }
    let plugins = match installed.list() {
        Ok(plugins) => plugins,
        Err(error) => {
            return compiler.with_warning(ResourceWarning::RootUnusable {
                root: root.path,
                reason: format!("no installed plugin is in force: {error}"),
            });
        }
    };
    let (enabled, disabled): (Vec<_>, Vec<_>) =
        plugins.into_iter().partition(|(_, plugin)| plugin.enabled);
    compiler
        .with_places(ResourcePlaces {
            plugins: vec![root],
            ..ResourcePlaces::default()
        })
        .with_enabled_plugins(enabled.into_iter().map(|(name, _)| name))
        .with_disabled_plugins(disabled.into_iter().map(|(name, _)| name))
}

/// What the user's record says. One that cannot be read trusts nothing.
struct UserTrust(TrustStore);

impl ContentTrust for UserTrust {
    fn is_trusted(&self, path: &Path, digest: &str) -> bool {
        self.0.is_content_trusted(path, digest).unwrap_or(false)
    }

    fn trusts_files_of(&self, hooks: &Value, content: &Path) -> bool {
        let named = files_named_besides(hooks, content);
        named.iter().all(|path| {
            let known = TrustedContent::of(path);
            known.is_ok_and(|it| self.is_trusted(&it.path, &it.digest))
        })
    }
}

/// What names of tools in files of resources stand for nothing here.
pub(crate) fn unknown_tools(resources: &ResourceSnapshot, known: &BTreeSet<String>) -> Vec<String> {
    let none = Vec::new();
    let agents = resources.agents.values().map(|agent| {
        let lists = [
            agent.tools.as_ref().unwrap_or(&none),
            &agent.disallowed_tools,
        ];
        (ResourceKind::Agent, &agent.path, lists)
    });
    let skills = resources.skills.values().map(|skill| {
        let lists = [&skill.allowed_tools, &skill.disallowed_tools];
        (ResourceKind::Skill, &skill.path, lists)
    });
    let commands = resources.commands.values().map(|command| {
        let lists = [&command.allowed_tools, &command.disallowed_tools];
        (ResourceKind::Command, &command.path, lists)
    });
    let is_unknown = |name: &&str| {
        let is_of_server = name.starts_with("mcp__");
        let is_known = known.contains(our_tool_name(name));
        !(is_known || is_of_server || name.contains('*') || public_tool(name).is_some())
    };
    let mut said = Vec::new();
    for (kind, path, lists) in agents.chain(skills).chain(commands) {
        let entries = lists.into_iter().flatten();
        let names = entries.map(|entry| entry.split('(').next().unwrap_or_default().trim());
        let names: BTreeSet<&str> = names.filter(is_unknown).collect();
        if !names.is_empty() {
            let names: Vec<String> = names
                .iter()
                .map(|it| it.escape_debug().to_string())
                .collect();
            said.push(format!(
                "{kind} {}: no tool here is called {}",
                escape_path(path),
                names.join(", ")
            ));
        }
    }
    said
}
