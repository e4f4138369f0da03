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
use halter_protocol::{PluginId, ResourceKind, ResourceOrigin, ResourceSnapshot, Revision};
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
    trust: Arc<dyn ContentTrust>,
}

impl Default for ResourceCompiler {
    fn default() -> Self {
        Self {
            places: ResourcePlaces::default(),
            loaded_skills: Vec::new(),
            loaded_plugins: Vec::new(),
            disabled_plugins: BTreeSet::new(),
            trust: Arc::new(NothingTrusted),
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
    /// first root wins.
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
        self.find_skills(&mut found);
        self.find_plugins(&mut found);
        let agents = search(&self.places.agents, &mut found.warnings);
        keep(&mut found.agents, agents, &mut found.warnings);
        let commands = search(&self.places.commands, &mut found.warnings);
        keep(&mut found.commands, commands, &mut found.warnings);
        let styles = search(&self.places.output_styles, &mut found.warnings);
        keep(&mut found.output_styles, styles, &mut found.warnings);
        for plugin in std::mem::take(&mut found.plugins).into_values() {
            found.open(plugin);
        }
        found.judge(self.trust.as_ref());
        found.finish()
    }

    fn find_skills(&self, found: &mut Found) {
        if !self.loaded_skills.is_empty() {
            let skills = self.loaded_skills.clone();
            return keep(&mut found.skills, skills, &mut found.warnings);
        }
        for root in &self.places.skills {
            let loader = SkillLoader::new(&root.path).with_origin(root.origin.clone());
            let loaded = loader.load();
            found.warnings.extend(loaded.warnings);
            keep(&mut found.skills, loaded.skills, &mut found.warnings);
        }
    }

    fn find_plugins(&self, found: &mut Found) {
        let mut plugins = self.loaded_plugins.clone();
        if plugins.is_empty() {
            for root in &self.places.plugins {
                let loader = PluginLoader::new(&root.path).with_origin(root.origin.clone());
                let loaded = loader.load();
                found.warnings.extend(loaded.warnings);
                plugins.extend(loaded.plugins);
            }
        }
        for mut plugin in plugins {
            if self.disabled_plugins.contains(plugin.id.as_str()) {
                continue;
            }
            if let Some(kept) = found.plugins.get(&plugin.id) {
                let (kept, dropped) = (&kept.manifest.root, &plugin.manifest.root);
                let warning = shadowed(ResourceKind::Plugin, plugin.id.as_str(), kept, dropped);
                found.warnings.extend(warning);
                continue;
            }
            self.withhold(&mut plugin, &mut found.warnings);
            found.plugins.insert(plugin.id.clone(), plugin);
        }
    }

    /// A plugin of a project runs programs only if its content is trusted.
    fn withhold(&self, plugin: &mut LoadedPlugin, warnings: &mut WarningList) {
        let Some(withheld) = plugin.runs() else {
            return;
        };
        if plugin.manifest.origin == ResourceOrigin::Project
            && !is_trusted(self.trust.as_ref(), &plugin.manifest.root)
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
}

impl Named for LoadedSkill {
    const KIND: ResourceKind = ResourceKind::Skill;

    fn name(&self) -> &str {
        self.definition().name.as_str()
    }

    fn path(&self) -> &Path {
        &self.definition().path
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
}

impl Named for LoadedCommand {
    const KIND: ResourceKind = ResourceKind::Command;

    fn name(&self) -> &str {
        &self.definition.name
    }

    fn path(&self) -> &Path {
        &self.definition.path
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
}

/// Adds what has a name of its own, and says what has not.
fn keep<T: Named>(kept: &mut BTreeMap<String, T>, entries: Vec<T>, warnings: &mut WarningList) {
    for entry in entries {
        match kept.entry(entry.name().to_owned()) {
            Entry::Vacant(place) => {
                place.insert(entry);
            }
            Entry::Occupied(first) => {
                let first = first.get();
                warnings.extend(shadowed(T::KIND, first.name(), first.path(), entry.path()));
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
    opened: Vec<LoadedPlugin>,
    hook_files: Vec<LoadedHooksFile>,
    mcp_servers: Vec<LoadedMcpServer>,
    lsp_servers: Vec<LoadedLspServer>,
    warnings: WarningList,
}

impl Found {
    /// Adds the parts of a plugin to those of others.
    fn open(&mut self, mut plugin: LoadedPlugin) {
        let warnings = &mut self.warnings;
        keep(
            &mut self.skills,
            std::mem::take(&mut plugin.skills),
            warnings,
        );
        keep(
            &mut self.agents,
            std::mem::take(&mut plugin.agents),
            warnings,
        );
        keep(
            &mut self.commands,
            std::mem::take(&mut plugin.commands),
            warnings,
        );
        let styles = std::mem::take(&mut plugin.output_styles);
        keep(&mut self.output_styles, styles, warnings);
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
                && !is_trusted(trust, &folder)
            {
                skill.disarm();
                self.warnings.push(untrusted(ResourceKind::Skill, &folder));
            }
        }
        for agent in self.agents.values_mut() {
            let of_project = agent.definition.origin == ResourceOrigin::Project;
            if of_project && agent.can_run_code() && !is_trusted(trust, &agent.definition.path) {
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
        CompiledResources {
            snapshot,
            hook_files: self.hook_files,
            mcp_servers: self.mcp_servers,
            lsp_servers: self.lsp_servers,
            warnings: self.warnings.into_vec(),
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

/// None for the same file, seen through two roots.
fn shadowed(
    kind: ResourceKind,
    name: &str,
    kept: &Path,
    dropped: &Path,
) -> Option<ResourceWarning> {
    (kept != dropped).then(|| ResourceWarning::Shadowed {
        kind,
        name: name.to_owned(),
        kept: kept.to_owned(),
        dropped: dropped.to_owned(),
    })
}
