//! Roots and loaded resources to one snapshot.

use crate::content::ContentName;
use crate::error::ResourceError;
use crate::plugin::{LoadedPlugin, PluginLoader};
use crate::skill::{LoadedSkill, SkillLoader};
use crate::warning::{ResourceWarning, WarningList};
use halter_protocol::{PluginId, ResourceSnapshot, Revision};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};

/// Compiles skills and plugins into a snapshot.
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
#[derive(Debug, Clone, Default)]
#[must_use = "nothing is read before `compile`"]
pub struct ResourceCompiler {
    skill_roots: Vec<PathBuf>,
    plugin_roots: Vec<PathBuf>,
    loaded_skills: Vec<LoadedSkill>,
    loaded_plugins: Vec<LoadedPlugin>,
}

/// A snapshot, and warnings about files that were left out or changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompiledResources {
    /// The skills and plugins.
    pub snapshot: ResourceSnapshot,
    /// What a user should know.
    pub warnings: Vec<ResourceWarning>,
}

impl CompiledResources {
    /// The hooks files of the plugins that were found. None of them is loaded.
    pub fn hook_files(&self) -> impl Iterator<Item = (&PluginId, &Path)> {
        self.warnings.iter().flat_map(|warning| match warning {
            ResourceWarning::PluginNotLoaded {
                plugin_id,
                hook_files,
                ..
            } => hook_files
                .iter()
                .map(|file| (plugin_id, file.as_path()))
                .collect(),
            _ => Vec::new(),
        })
    }
}

impl ResourceCompiler {
    /// A compiler with nothing to compile yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Searches these roots for skills. Of two skills of one name, that of the
    /// first root wins.
    pub fn with_skill_roots(mut self, roots: Vec<PathBuf>) -> Self {
        self.skill_roots = roots;
        self
    }

    /// Searches these roots for plugins.
    pub fn with_plugin_roots(mut self, roots: Vec<PathBuf>) -> Self {
        self.plugin_roots = roots;
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
        let mut warnings = WarningList::default();
        let skills = skills_by_name(or_search(self.loaded_skills, &self.skill_roots, |root| {
            let found = SkillLoader::new(root).load();
            warnings.extend(found.warnings);
            found.skills
        }));
        let plugins = plugins_by_id(or_search(self.loaded_plugins, &self.plugin_roots, |root| {
            let found = PluginLoader::new(root).load();
            warnings.extend(found.warnings);
            found.plugins
        }));
        warnings.extend(skills.shadowed);
        warnings.extend(plugins.shadowed);
        let mut warnings = warnings.into_vec();
        // A plugin is reported whatever the limit on warnings leaves out.
        warnings.extend(plugins.kept.values().map(LoadedPlugin::not_loaded));
        let snapshot = ResourceSnapshot {
            revision: revision(&skills.kept, &plugins.kept),
            skills: skills
                .kept
                .into_values()
                .map(|skill| (skill.name().clone(), skill.into_definition()))
                .collect(),
            plugins: plugins
                .kept
                .into_iter()
                .map(|(id, plugin)| (id, plugin.manifest))
                .collect(),
        };
        CompiledResources { snapshot, warnings }
    }
}

/// The resources given, or those of the roots if none were.
fn or_search<T>(
    given: Vec<T>,
    roots: &[PathBuf],
    search: impl FnMut(&PathBuf) -> Vec<T>,
) -> Vec<T> {
    if given.is_empty() {
        roots.iter().flat_map(search).collect()
    } else {
        given
    }
}

/// Resources under their names, and what was left out of two with one name.
struct Named<K, T> {
    kept: BTreeMap<K, T>,
    shadowed: Vec<ResourceWarning>,
}

fn first_of_each<K: Ord, T>(
    resources: Vec<T>,
    key: impl Fn(&T) -> K,
    shadowed: impl Fn(&T, &T) -> Option<ResourceWarning>,
) -> Named<K, T> {
    let mut named = Named {
        kept: BTreeMap::new(),
        shadowed: Vec::new(),
    };
    for resource in resources {
        match named.kept.entry(key(&resource)) {
            Entry::Vacant(place) => {
                place.insert(resource);
            }
            Entry::Occupied(first) => named.shadowed.extend(shadowed(first.get(), &resource)),
        }
    }
    named
}

fn skills_by_name(skills: Vec<LoadedSkill>) -> Named<halter_protocol::SkillName, LoadedSkill> {
    first_of_each(
        skills,
        |skill| skill.name().clone(),
        |kept, dropped| {
            // The same file, seen through two roots.
            (kept.path() != dropped.path()).then(|| ResourceWarning::SkillShadowed {
                name: kept.name().clone(),
                kept: kept.path().to_owned(),
                dropped: dropped.path().to_owned(),
            })
        },
    )
}

fn plugins_by_id(plugins: Vec<LoadedPlugin>) -> Named<PluginId, LoadedPlugin> {
    first_of_each(
        plugins,
        |plugin| plugin.id.clone(),
        |kept, dropped| {
            let (kept, dropped) = (&kept.manifest, &dropped.manifest);
            (kept.root != dropped.root).then(|| ResourceWarning::PluginShadowed {
                name: kept.name.clone(),
                kept: kept.root.clone(),
                dropped: dropped.root.clone(),
            })
        },
    )
}

/// What the whole is called by its content. Nothing has the name of the empty
/// snapshot.
fn revision<K, L>(
    skills: &BTreeMap<K, LoadedSkill>,
    plugins: &BTreeMap<L, LoadedPlugin>,
) -> Revision {
    if skills.is_empty() && plugins.is_empty() {
        return ResourceSnapshot::empty().revision;
    }
    let mut name = ContentName::default().field("skills");
    for skill in skills.values() {
        name = name.field(skill.content_name());
    }
    name = name.field("plugins");
    for plugin in plugins.values() {
        name = name
            .field(&plugin.manifest.name)
            .field(&plugin.manifest.version);
    }
    name.finish("rev").into()
}
