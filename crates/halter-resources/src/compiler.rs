//! Roots and loaded resources to one snapshot.

use crate::agent::LoadedAgent;
use crate::command::LoadedCommand;
use crate::content::ContentName;
use crate::definition_walk;
use crate::error::ResourceError;
use crate::output_style::LoadedOutputStyle;
use crate::places::{ResourcePlaces, ResourceRoot};
use crate::plugin::{
    LoadedHooksFile, LoadedLspServer, LoadedMcpServer, LoadedPlugin, PluginLoader,
};
use crate::skill::{LoadedSkill, SkillLoader};
use crate::trust::{ContentTrust, NothingTrusted, TrustedContent};
use crate::warning::{ResourceWarning, WarningList};
use halter_protocol::{
    AgentDef, PluginId, ResourceKind, ResourceOrigin, ResourceSnapshot, Revision,
};
use serde_json::Value;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Compiles skills, agents, commands, output styles and plugins into a
/// snapshot.
///
/// ```
/// use halter_resources::ResourceCompiler;
///
/// # async fn compile() -> Result<(), halter_resources::ResourceError> {
/// let compiled = ResourceCompiler::new()
///     .with_skill_roots(vec!["./.agent/skills".into()])
///     .compile()
///     .await?;
/// for warning in &compiled.warnings {
///     eprintln!("warning: {warning}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "nothing is read before `compile`"]
pub struct ResourceCompiler {
    places: ResourcePlaces,
    loaded_skills: Vec<LoadedSkill>,
    loaded_plugins: Vec<LoadedPlugin>,
    disabled_plugins: BTreeSet<String>,
    enabled_plugins: BTreeSet<String>,
    trust: Arc<dyn ContentTrust>,
    /// What is known to be wrong before anything is read.
    warnings: Vec<ResourceWarning>,
}

impl Default for ResourceCompiler {
    fn default() -> Self {
        Self {
            places: ResourcePlaces::default(),
            loaded_skills: Vec::new(),
            loaded_plugins: Vec::new(),
            disabled_plugins: BTreeSet::new(),
            enabled_plugins: BTreeSet::new(),
            trust: Arc::new(NothingTrusted),
            warnings: Vec::new(),
        }
    }
}

impl std::fmt::Debug for ResourceCompiler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResourceCompiler")
            .field("places", &self.places)
            .finish_non_exhaustive()
    }
}

/// A snapshot, what plugins bring besides, and warnings about files that were
/// left out or changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompiledResources {
    /// What sessions see.
    pub snapshot: ResourceSnapshot,
    /// Hooks of plugins, as written.
    pub hook_files: Vec<LoadedHooksFile>,
    /// MCP servers of plugins, as written.
    pub mcp_servers: Vec<LoadedMcpServer>,
    /// Language servers of plugins, as written.
    pub lsp_servers: Vec<LoadedLspServer>,
    /// What a user should know.
    pub warnings: Vec<ResourceWarning>,
}

impl ResourceCompiler {
    /// A compiler with nothing to compile yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Searches these roots for skills. Of two skills of one name, that of the
    /// first root wins; what is a project's never wins over what is not.
    pub fn with_skill_roots(mut self, roots: Vec<PathBuf>) -> Self {
        self.places.skills = roots.into_iter().map(ResourceRoot::named).collect();
        self
    }

    /// Searches these roots for plugins.
    pub fn with_plugin_roots(mut self, roots: Vec<PathBuf>) -> Self {
        self.places.plugins = roots.into_iter().map(ResourceRoot::named).collect();
        self
    }

    /// Searches these places after those that were named before.
    pub fn with_places(mut self, places: ResourcePlaces) -> Self {
        self.places = self.places.then(places);
        self
    }

    /// Uses these skills. If there are any, the skill roots are not searched.
    pub fn with_loaded_skills(mut self, skills: Vec<LoadedSkill>) -> Self {
        self.loaded_skills = skills;
        self
    }

    /// Uses these plugins. If there are any, the plugin roots are not searched.
    pub fn with_loaded_plugins(mut self, plugins: Vec<LoadedPlugin>) -> Self {
        self.loaded_plugins = plugins;
        self
    }

    /// Leaves plugins of these names out.
    pub fn with_disabled_plugins(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.disabled_plugins.extend(names);
        self
    }

    /// Takes plugins of these names even if their manifest says
    /// `defaultEnabled: false`.
    pub fn with_enabled_plugins(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.enabled_plugins.extend(names);
        self
    }

    /// Says this along with what it finds.
    pub fn with_warning(mut self, warning: ResourceWarning) -> Self {
        self.warnings.push(warning);
        self
    }

    /// Says which content of projects may run programs. Nothing may, unless
    /// this says otherwise.
    pub fn with_trust(mut self, trust: Arc<dyn ContentTrust>) -> Self {
        self.trust = trust;
        self
    }

    /// The places that are searched.
    pub fn places(&self) -> &ResourcePlaces {
        &self.places
    }

    /// Reads what there is to read, on a blocking thread, and makes the
    /// snapshot.
    ///
    /// # Errors
    /// Only if the runtime shuts down meanwhile: problems with files are
    /// in the warnings.
    pub async fn compile(&self) -> Result<CompiledResources, ResourceError> {
        let compiler = self.clone();
        tokio::task::spawn_blocking(move || compiler.compile_blocking())
            .await
            .map_err(|error| match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => ResourceError::Interrupted,
            })
    }

    fn compile_blocking(self) -> CompiledResources {
        let mut found = Found::default();
        found.warnings.extend(self.warnings.iter().cloned());
        let mut loose = LooseEntries {
            skills: self.find_skills(&mut found.warnings),
            agents: search(&self.places.agents, &mut found.warnings),
            commands: search(&self.places.commands, &mut found.warnings),
            output_styles: search(&self.places.output_styles, &mut found.warnings),
        };
        self.find_plugins(&mut found);
        let plugins = std::mem::take(&mut found.plugins).into_values();
        let (of_project, own): (Vec<_>, Vec<_>) =
            plugins.partition(|plugin| plugin.manifest.origin == ResourceOrigin::Project);
        // What a project holds never takes a name from what is the user's.
        let loose_of_project = loose.take_of_project();
        found.add_all(loose, own);
        let own = found.commands.iter();
        let own = own.filter(|(name, _)| !found.skills.contains_key(*name));
        let own = own.map(|(name, command)| (name.clone(), command.path().to_owned()));
        found.own_commands = own.collect();
        found.add_all(loose_of_project, of_project);
        // Several harnesses share a folder of skills, and link theirs to it.
        let skills = &found.skills;
        let is_loaded = |target: &Path| {
            let mut roots = skills.values().map(|skill| skill.definition().root());
            roots.any(|root| root == Some(target))
        };
        found.warnings.forget_links_to(is_loaded);
        found.judge(self.trust.as_ref());
        found.finish()
    }

    fn find_skills(&self, warnings: &mut WarningList) -> Vec<LoadedSkill> {
        if !self.loaded_skills.is_empty() {
            return self.loaded_skills.clone();
        }
        let mut skills = Vec::new();
        for root in &self.places.skills {
            let loader = SkillLoader::new(&root.path).with_origin(root.origin.clone());
            let loaded = loader.load();
            warnings.extend(loaded.warnings);
            skills.extend(loaded.skills);
        }
        skills
    }

    fn find_plugins(&self, found: &mut Found) {
        let mut plugins = self.loaded_plugins.clone();
        if plugins.is_empty() {
            for root in &self.places.plugins {
                let loader = PluginLoader::new(&root.path).with_origin(root.origin.clone());
                let loaded = loader.load();
                found.warnings.extend(loaded.warnings);
                for plugin in loaded.plugins {
                    let name = plugin.id.as_str();
                    match plugin.default_enabled || self.enabled_plugins.contains(name) {
                        true => plugins.push(plugin),
                        false if self.disabled_plugins.contains(name) => {}
                        false => found.warnings.push(ResourceWarning::NotEnabled {
                            path: plugin.manifest.root,
                        }),
                    }
                }
            }
        }
        plugins.sort_by_key(|plugin| plugin.manifest.origin == ResourceOrigin::Project);
        for mut plugin in plugins {
            if self.disabled_plugins.contains(plugin.id.as_str()) {
                continue;
            }
            if let Some(kept) = found.plugins.get(&plugin.id) {
                let place = |plugin: &LoadedPlugin| Place {
                    path: plugin.manifest.root.clone(),
                    of_project: plugin.manifest.origin == ResourceOrigin::Project,
                };
                let name = plugin.id.as_str();
                let (kept, dropped) = (place(kept), place(&plugin));
                let warning = name_taken(ResourceKind::Plugin, name, kept, dropped);
                found.warnings.extend(warning);
                continue;
            }
            self.withhold(&mut plugin, &mut found.warnings);
            if plugin.manifest.origin == ResourceOrigin::Project {
                found.project_plugins.insert(plugin.id.clone());
            }
            found.plugins.insert(plugin.id.clone(), plugin);
        }
    }

    /// A plugin of a project runs programs only if its content is trusted.
    fn withhold(&self, plugin: &mut LoadedPlugin, warnings: &mut WarningList) {
        let Some(withheld) = plugin.runs() else {
            return;
        };
        let trust = self.trust.as_ref();
        let root = &plugin.manifest.root;
        if plugin.manifest.origin == ResourceOrigin::Project
            && !(is_trusted(trust, root)
                && plugin
                    .all_hooks()
                    .all(|hooks| trust.trusts_files_of(&hooks, root)))
        {
            plugin.disarm();
            warnings.push(ResourceWarning::Untrusted {
                kind: ResourceKind::Plugin,
                path: plugin.manifest.root.clone(),
                withheld,
            });
        }
    }
}

fn is_trusted(trust: &dyn ContentTrust, path: &Path) -> bool {
    TrustedContent::of(path).is_ok_and(|content| trust.is_trusted(&content.path, &content.digest))
}

/// The same, and what its hooks name besides.
fn is_trusted_with(trust: &dyn ContentTrust, path: &Path, hooks: Option<&Value>) -> bool {
    is_trusted(trust, path) && hooks.is_none_or(|hooks| trust.trusts_files_of(hooks, path))
}

fn search<T: definition_walk::Definition>(
    roots: &[ResourceRoot],
    warnings: &mut WarningList,
) -> Vec<T> {
    let mut all = Vec::new();
    for root in roots {
        let found = definition_walk::walk(&root.path, &root.origin);
        warnings.extend(found.warnings);
        all.extend(found.definitions);
    }
    all
}

/// Something that goes by a name.
trait Named {
    const KIND: ResourceKind;

    fn name(&self) -> &str;
    fn path(&self) -> &Path;
    fn origin(&self) -> &ResourceOrigin;
}

impl Named for LoadedSkill {
    const KIND: ResourceKind = ResourceKind::Skill;

    fn name(&self) -> &str {
        self.definition().name.as_str()
    }

    fn path(&self) -> &Path {
        &self.definition().path
    }

    fn origin(&self) -> &ResourceOrigin {
        &self.definition().origin
    }
}

impl Named for LoadedAgent {
    const KIND: ResourceKind = ResourceKind::Agent;

    fn name(&self) -> &str {
        self.definition.name.as_str()
    }

    fn path(&self) -> &Path {
        &self.definition.path
    }

    fn origin(&self) -> &ResourceOrigin {
        &self.definition.origin
    }
}

impl Named for LoadedCommand {
    const KIND: ResourceKind = ResourceKind::Command;

    fn name(&self) -> &str {
        &self.definition.name
    }

    fn path(&self) -> &Path {
        &self.definition.path
    }

    fn origin(&self) -> &ResourceOrigin {
        &self.definition.origin
    }
}

impl Named for LoadedOutputStyle {
    const KIND: ResourceKind = ResourceKind::OutputStyle;

    fn name(&self) -> &str {
        &self.definition.name
    }

    fn path(&self) -> &Path {
        &self.definition.path
    }

    fn origin(&self) -> &ResourceOrigin {
        &self.definition.origin
    }
}

/// What belongs to no plugin.
#[derive(Default)]
struct LooseEntries {
    skills: Vec<LoadedSkill>,
    agents: Vec<LoadedAgent>,
    commands: Vec<LoadedCommand>,
    output_styles: Vec<LoadedOutputStyle>,
}

impl LooseEntries {
    /// Takes what a project holds out of it.
    fn take_of_project(&mut self) -> Self {
        fn take<T: Named>(entries: &mut Vec<T>) -> Vec<T> {
            let all = std::mem::take(entries).into_iter();
            let (of_project, own) =
                all.partition(|entry| *entry.origin() == ResourceOrigin::Project);
            *entries = own;
            of_project
        }
        Self {
            skills: take(&mut self.skills),
            agents: take(&mut self.agents),
            commands: take(&mut self.commands),
            output_styles: take(&mut self.output_styles),
        }
    }
}

/// Adds what has a name of its own, and says what has not.
fn keep<T: Named>(
    kept: &mut BTreeMap<String, T>,
    entries: Vec<T>,
    project_plugins: &BTreeSet<PluginId>,
    warnings: &mut WarningList,
) {
    let place = |entry: &T| Place {
        path: entry.path().to_owned(),
        of_project: match entry.origin() {
            ResourceOrigin::Project => true,
            ResourceOrigin::Plugin { plugin_id } => project_plugins.contains(plugin_id),
            _ => false,
        },
    };
    for entry in entries {
        match kept.entry(entry.name().to_owned()) {
            Entry::Vacant(vacant) => {
                vacant.insert(entry);
            }
            Entry::Occupied(first) => {
                let (kept, dropped) = (place(first.get()), place(&entry));
                warnings.extend(name_taken(T::KIND, entry.name(), kept, dropped));
            }
        }
    }
}

/// What was found, each under its name.
#[derive(Default)]
struct Found {
    skills: BTreeMap<String, LoadedSkill>,
    agents: BTreeMap<String, LoadedAgent>,
    commands: BTreeMap<String, LoadedCommand>,
    output_styles: BTreeMap<String, LoadedOutputStyle>,
    plugins: BTreeMap<PluginId, LoadedPlugin>,
    project_plugins: BTreeSet<PluginId>,
    /// The user's commands with their files, once they are all known, but for
    /// those that have the name of a skill. A skill is started by its name, too,
    /// and comes first.
    own_commands: BTreeMap<String, PathBuf>,
    opened: Vec<LoadedPlugin>,
    hook_files: Vec<LoadedHooksFile>,
    mcp_servers: Vec<LoadedMcpServer>,
    lsp_servers: Vec<LoadedLspServer>,
    warnings: WarningList,
}

impl Found {
    fn add_all(&mut self, entries: LooseEntries, plugins: Vec<LoadedPlugin>) {
        self.add(entries);
        for plugin in plugins {
            self.open(plugin);
        }
    }

    fn add(&mut self, mut entries: LooseEntries) {
        let warnings = &mut self.warnings;
        entries
            .skills
            .retain(|skill| match self.own_commands.get(Named::name(skill)) {
                None => true,
                Some(command) => {
                    warnings.push(ResourceWarning::NameIsTheUsers {
                        kind: ResourceKind::Skill,
                        name: Named::name(skill).to_owned(),
                        kept: command.clone(),
                        dropped: Named::path(skill).to_owned(),
                    });
                    false
                }
            });
        let (plugins, warnings) = (&self.project_plugins, &mut self.warnings);
        keep(&mut self.skills, entries.skills, plugins, warnings);
        keep(&mut self.agents, entries.agents, plugins, warnings);
        keep(&mut self.commands, entries.commands, plugins, warnings);
        let styles = entries.output_styles;
        keep(&mut self.output_styles, styles, plugins, warnings);
    }

    /// Adds the parts of a plugin to those of others.
    fn open(&mut self, mut plugin: LoadedPlugin) {
        self.add(LooseEntries {
            skills: std::mem::take(&mut plugin.skills),
            agents: std::mem::take(&mut plugin.agents),
            commands: std::mem::take(&mut plugin.commands),
            output_styles: std::mem::take(&mut plugin.output_styles),
        });
        self.hook_files.append(&mut plugin.hooks);
        self.mcp_servers.append(&mut plugin.mcp_servers);
        self.lsp_servers.append(&mut plugin.lsp_servers);
        self.opened.push(plugin);
    }

    /// What skills and agents of a project could run is withheld until their
    /// content is trusted.
    fn judge(&mut self, trust: &dyn ContentTrust) {
        let untrusted = |kind, path: &Path| ResourceWarning::Untrusted {
            kind,
            path: path.to_owned(),
            withheld: "what its frontmatter or its text names".to_owned(),
        };
        for skill in self.skills.values_mut() {
            let folder = skill.definition().root().map(Path::to_owned);
            let of_project = skill.definition().origin == ResourceOrigin::Project;
            if let Some(folder) = folder.filter(|_| of_project && skill.can_run_code())
                && !is_trusted_with(trust, &folder, skill.definition().hooks.as_ref())
            {
                skill.disarm();
                self.warnings.push(untrusted(ResourceKind::Skill, &folder));
            }
        }
        for agent in self.agents.values_mut() {
            let of_project = agent.definition.origin == ResourceOrigin::Project;
            let AgentDef { path, hooks, .. } = &agent.definition;
            if of_project && agent.can_run_code() && !is_trusted_with(trust, path, hooks.as_ref()) {
                agent.disarm();
                let path = &agent.definition.path;
                self.warnings.push(untrusted(ResourceKind::Agent, path));
            }
        }
        for command in self.commands.values_mut() {
            let of_project = command.definition.origin == ResourceOrigin::Project;
            if of_project && command.can_run_code() && !is_trusted(trust, &command.definition.path)
            {
                command.disarm();
                let path = &command.definition.path;
                self.warnings.push(untrusted(ResourceKind::Command, path));
            }
        }
    }

    fn finish(self) -> CompiledResources {
        let snapshot = ResourceSnapshot {
            revision: self.revision(),
            skills: self
                .skills
                .into_values()
                .map(LoadedSkill::into_definition)
                .map(|skill| (skill.name.clone(), skill))
                .collect(),
            agents: self
                .agents
                .into_values()
                .map(|agent| (agent.definition.name.clone(), agent.definition))
                .collect(),
            commands: self
                .commands
                .into_iter()
                .map(|(name, command)| (name, command.definition))
                .collect(),
            output_styles: self
                .output_styles
                .into_iter()
                .map(|(name, style)| (name, style.definition))
                .collect(),
            plugins: self
                .opened
                .into_iter()
                .map(|plugin| (plugin.id, plugin.manifest))
                .collect(),
        };
        let mut warnings = self.warnings;
        for agent in snapshot.agents.values() {
            warnings.extend(skills_not_preloaded(agent, &snapshot));
        }
        CompiledResources {
            snapshot,
            hook_files: self.hook_files,
            mcp_servers: self.mcp_servers,
            lsp_servers: self.lsp_servers,
            warnings: warnings.into_vec(),
        }
    }

    /// What the whole is called by its content. Nothing has the name of the
    /// empty snapshot.
    fn revision(&self) -> Revision {
        let lists = [
            ("skills", names(&self.skills, LoadedSkill::content_name)),
            ("agents", names(&self.agents, LoadedAgent::content_name)),
            (
                "commands",
                names(&self.commands, LoadedCommand::content_name),
            ),
            (
                "styles",
                names(&self.output_styles, LoadedOutputStyle::content_name),
            ),
            ("plugins", self.opened.iter().map(plugin_name).collect()),
        ];
        if lists.iter().all(|(_, names)| names.is_empty()) {
            return ResourceSnapshot::empty().revision;
        }
        let mut name = ContentName::default();
        for (kind, contents) in lists {
            name = name.field(kind);
            for content in contents {
                name = name.field(content);
            }
        }
        name.finish("rev").into()
    }
}

/// Skills that an agent wants and that are not there, or that its names do not
/// tell apart.
fn skills_not_preloaded(
    agent: &AgentDef,
    snapshot: &ResourceSnapshot,
) -> impl Iterator<Item = ResourceWarning> {
    agent.skills.iter().filter_map(|name| {
        let unresolved = snapshot.skill(name.as_str()).err()?;
        Some(ResourceWarning::SkillNotPreloaded {
            path: agent.path.clone(),
            skill: name.to_string(),
            reason: unresolved.to_string(),
        })
    })
}

fn names<T>(entries: &BTreeMap<String, T>, content_name: impl Fn(&T) -> String) -> Vec<String> {
    entries.values().map(content_name).collect()
}

fn plugin_name(plugin: &LoadedPlugin) -> String {
    let manifest = &plugin.manifest;
    let content = manifest.content.as_ref().map(Revision::as_str);
    ContentName::default()
        .field(&manifest.name)
        .field(manifest.version.as_deref().unwrap_or_default())
        .field(content.unwrap_or_default())
        .finish("plg")
}

/// Where something that has a name is, and whose it is.
struct Place {
    path: PathBuf,
    of_project: bool,
}

/// None for the same file, seen through two roots.
fn name_taken(
    kind: ResourceKind,
    name: &str,
    kept: Place,
    dropped: Place,
) -> Option<ResourceWarning> {
    let name = name.to_owned();
    let displaces = dropped.of_project && !kept.of_project;
    let (kept, dropped) = (kept.path, dropped.path);
    match displaces {
        _ if kept == dropped => None,
        true => Some(ResourceWarning::NameIsTheUsers {
            kind,
            name,
            kept,
            dropped,
        }),
        false => Some(ResourceWarning::Shadowed {
            kind,
            name,
            kept,
            dropped,
        }),
    }
}
