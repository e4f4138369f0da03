//! Loading the parts of one plugin. A part that is broken costs itself.

use crate::definition_walk::{self, Definition};
use crate::files::{exists, read_text};
use crate::limits::{MAX_MANIFEST_BYTES, MAX_PLUGIN_SERVERS};
use crate::manifest::{Manifest, PartPlace, plugin_name};
use crate::plugin::{
    LoadedHooksFile, LoadedLspServer, LoadedMcpServer, LoadedPlugin, PluginPart, skipped,
};
use crate::skill::SKILL_FILE;
use crate::skill_walk;
use crate::warning::{ResourceWarning, WarningList};
use halter_protocol::resource::NAME_SEPARATOR;
use halter_protocol::{PluginId, PluginManifest, ResourceKind, ResourceOrigin};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// True if a directory without a manifest looks like a plugin.
pub(crate) fn has_usual_parts(dir: &Path) -> bool {
    let mut parts = PluginPart::ALL.into_iter();
    let alone = exists(&dir.join(SKILL_FILE));
    alone || parts.any(|part| is_part(&dir.join(part.default_place())))
}

/// A folder of plugins may hold one that is called `skills`.
fn is_part(place: &Path) -> bool {
    let is_plugin = |place: &Path| {
        let mut manifests = crate::plugin::MANIFEST_PLACES.iter();
        manifests.any(|it| exists(&place.join(it)))
    };
    exists(place) && !is_plugin(place)
}

/// A plugin whose manifest is valid.
pub(crate) struct Opened<'a> {
    root: &'a Path,
    manifest: Manifest,
    manifest_path: PathBuf,
    origin: &'a ResourceOrigin,
    plugin_id: PluginId,
    part_origin: ResourceOrigin,
}

impl<'a> Opened<'a> {
    /// `root` is canonical; `place` is where its manifest is.
    pub fn new(
        root: &'a Path,
        place: Option<&str>,
        origin: &'a ResourceOrigin,
    ) -> Result<Self, ResourceWarning> {
        let path = place.map_or_else(|| root.to_owned(), |place| root.join(place));
        let manifest = match place {
            Some(_) => {
                let text = read_text(root, &path, MAX_MANIFEST_BYTES).map_err(|unread| {
                    skipped(&path, unread.line(), unread.reason(MAX_MANIFEST_BYTES))
                })?;
                Manifest::parse(&text)
                    .map_err(|invalid| skipped(&path, invalid.line, invalid.reason))?
            }
            None => {
                let name = root.file_name().and_then(|name| name.to_str());
                Manifest {
                    name: plugin_name(name.unwrap_or_default())
                        .map_err(|reason| skipped(&path, None, reason))?,
                    default_enabled: true,
                    ..Manifest::default()
                }
            }
        };
        let plugin_id = PluginId::from(manifest.name.as_str());
        Ok(Self {
            root,
            manifest,
            manifest_path: path,
            origin,
            part_origin: ResourceOrigin::Plugin {
                plugin_id: plugin_id.clone(),
            },
            plugin_id,
        })
    }

    pub fn load(self, warnings: &mut WarningList) -> LoadedPlugin {
        let has_manifest = self.manifest_path != self.root;
        if self.manifest.version.is_none() && has_manifest {
            warnings.push(ResourceWarning::VersionMissing {
                plugin_id: self.plugin_id.clone(),
                path: self.manifest_path.clone(),
            });
        }
        if !self.manifest.unused.is_empty() {
            warnings.push(ResourceWarning::KeysUnused {
                kind: ResourceKind::Plugin,
                path: self.manifest_path.clone(),
                keys: self.manifest.unused.clone(),
            });
        }
        let skills = skill_walk::walk_folders(self.root, &self.part_origin, &self.skill_folders());
        warnings.extend(skills.warnings);
        let named = |name: &str| format!("{}{NAME_SEPARATOR}{name}", self.plugin_id);
        let mut plugin = LoadedPlugin {
            id: self.plugin_id.clone(),
            skills: skills
                .skills
                .into_iter()
                .map(|skill| {
                    let name = named(skill.name().as_str());
                    skill.of_plugin(name)
                })
                .collect(),
            agents: self.definitions(PluginPart::Agents, warnings),
            commands: self.definitions(PluginPart::Commands, warnings),
            output_styles: self.definitions(PluginPart::OutputStyles, warnings),
            hooks: self.hooks(warnings),
            mcp_servers: self.mcp_servers(warnings),
            lsp_servers: self.lsp_servers(warnings),
            default_enabled: self.manifest.default_enabled,
            manifest: PluginManifest {
                data: None,
                name: self.manifest.name.clone(),
                version: self.manifest.version.clone(),
                description: self.manifest.description.clone(),
                root: self.root.to_owned(),
                origin: self.origin.clone(),
                content: None,
            },
        };
        for agent in &mut plugin.agents {
            agent.definition.name = named(agent.definition.name.as_str()).into();
        }
        for command in &mut plugin.commands {
            command.definition.name = named(&command.definition.name);
        }
        for style in &mut plugin.output_styles {
            style.definition.name = named(&style.definition.name);
        }
        plugin.manifest.content = plugin.content();
        plugin
    }

    /// Skills that a manifest names come on top of those in the usual folder. A
    /// plugin without either may be one skill.
    fn skill_folders(&self) -> Vec<PathBuf> {
        let usual = self.root.join(PluginPart::Skills.default_place());
        let mut folders: Vec<PathBuf> = exists(&usual).then_some(usual).into_iter().collect();
        for place in self
            .manifest
            .parts
            .get(&PluginPart::Skills)
            .into_iter()
            .flatten()
        {
            if let PartPlace::Path(path) = place {
                let folder = self.root.join(path);
                if !folders.contains(&folder) {
                    folders.push(folder);
                }
            }
        }
        if folders.is_empty() && exists(&self.root.join(SKILL_FILE)) {
            folders.push(self.root.to_owned());
        }
        folders
    }

    /// The places of a part. What is written in JSON is always read from the
    /// usual file, and the manifest adds to it. For folders the manifest's places
    /// stand instead of the usual one, which is reported.
    fn places(&self, part: PluginPart, warnings: &mut WarningList) -> Vec<PartPlace> {
        let usual = part.default_place();
        let named = self.manifest.parts.get(&part);
        let mut places = match exists(&self.root.join(usual)) {
            true if part.may_be_inline() || named.is_none() => vec![PartPlace::Path(usual.into())],
            _ => Vec::new(),
        };
        for place in named.into_iter().flatten() {
            if !places.contains(place) {
                places.push(place.clone());
            }
        }
        let is_known = |place: &PartPlace| match place {
            PartPlace::Path(path) => path.starts_with(usual) || Path::new(usual).starts_with(path),
            PartPlace::Inline(_) => false,
        };
        let folder = self.root.join(usual);
        if exists(&folder) && !places.iter().any(is_known) {
            let key = part.manifest_key();
            let reason = format!(
                "the manifest's `{key}` names other places, which stand instead of this one; \
                 add `./{usual}` there to have both"
            );
            warnings.push(skipped(&folder, None, reason));
        }
        places
    }

    fn definitions<T: Definition>(&self, part: PluginPart, warnings: &mut WarningList) -> Vec<T> {
        let places = self.places(part, warnings).into_iter();
        let places = places.filter_map(|place| match place {
            PartPlace::Path(path) => Some(self.root.join(path)),
            PartPlace::Inline(_) => None,
        });
        let places: Vec<PathBuf> = places.collect();
        let found = definition_walk::walk_folders(self.root, &self.part_origin, &places);
        warnings.extend(found.warnings);
        found.definitions
    }

    /// The texts of a part that is written in JSON.
    fn texts(&self, part: PluginPart, warnings: &mut WarningList) -> Vec<(PathBuf, String)> {
        let mut texts = Vec::new();
        for place in self.places(part, warnings) {
            match place {
                PartPlace::Inline(value) => {
                    texts.push((self.manifest_path.clone(), value.to_string()));
                }
                PartPlace::Path(path) => {
                    let path = self.root.join(path);
                    match read_text(self.root, &path, MAX_MANIFEST_BYTES) {
                        Ok(text) => texts.push((path, text)),
                        Err(unread) => warnings.push(skipped(
                            &path,
                            unread.line(),
                            unread.reason(MAX_MANIFEST_BYTES),
                        )),
                    }
                }
            }
        }
        texts
    }

    fn hooks(&self, warnings: &mut WarningList) -> Vec<LoadedHooksFile> {
        let texts = self.texts(PluginPart::Hooks, warnings).into_iter();
        let files = texts.map(|(path, text)| LoadedHooksFile {
            plugin_id: self.plugin_id.clone(),
            plugin_root: self.root.to_owned(),
            path,
            text,
            allowed_http_hosts: self.manifest.allowed_http_hosts.clone(),
            allowed_env_vars: self.manifest.allowed_env_vars.clone(),
        });
        files.collect()
    }

    fn mcp_servers(&self, warnings: &mut WarningList) -> Vec<LoadedMcpServer> {
        let servers = self.servers(PluginPart::McpServers, warnings).into_iter();
        let servers = servers.map(|(name, config)| LoadedMcpServer {
            plugin_id: self.plugin_id.clone(),
            plugin_root: self.root.to_owned(),
            name,
            config,
        });
        servers.collect()
    }

    fn lsp_servers(&self, warnings: &mut WarningList) -> Vec<LoadedLspServer> {
        let servers = self.servers(PluginPart::LspServers, warnings).into_iter();
        let servers = servers.map(|(name, config)| LoadedLspServer {
            plugin_id: self.plugin_id.clone(),
            plugin_root: self.root.to_owned(),
            name,
            config,
        });
        servers.collect()
    }

    /// Entries under their names, which may stand below the key of the part.
    fn servers(&self, part: PluginPart, warnings: &mut WarningList) -> Vec<(String, Value)> {
        let mut servers: Map<String, Value> = Map::new();
        for (path, text) in self.texts(part, warnings) {
            let mut entries: Map<String, Value> = match serde_json::from_str(&text) {
                Ok(entries) => entries,
                Err(error) => {
                    let reason = format!("its {part} are not a JSON object: {error}");
                    warnings.push(skipped(&path, Some(error.line() as u64), reason));
                    continue;
                }
            };
            if let Some(Value::Object(below)) = entries.get_mut(part.manifest_key()) {
                entries = std::mem::take(below);
            }
            for (name, config) in entries {
                let usable = crate::name::usable_name(&name);
                let problem = match usable {
                    Err(reason) => Some(reason),
                    Ok(_) if !config.is_object() => {
                        Some(format!("the server `{name}` is not a JSON object"))
                    }
                    Ok(_) if servers.len() == MAX_PLUGIN_SERVERS => {
                        Some(format!("more than {MAX_PLUGIN_SERVERS} {part}"))
                    }
                    Ok(_) => None,
                };
                match problem {
                    Some(reason) => warnings.push(skipped(&path, None, reason)),
                    None => {
                        servers.insert(name, config);
                    }
                }
            }
        }
        servers.into_iter().collect()
    }
}
