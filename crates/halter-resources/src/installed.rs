//! Plugins that a user has installed: copies in a directory of their own, and a
//! record of where they came from.

use crate::error::ResourceError;
use crate::limits::{MAX_MANIFEST_BYTES, MAX_TRUSTED_BYTES, MAX_TRUSTED_FILES, PLUGIN_LOCK_WAIT};
use crate::manifest::plugin_name;
use crate::plugin::{LoadedPlugin, PluginLoader};
use halter_config::lock_within;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

const RECORD: &str = "plugins.json";
const PLUGINS: &str = "plugins";

/// The plugins in a directory, usually that of the user's configuration.
#[derive(Debug, Clone)]
pub struct InstalledPlugins {
    directory: PathBuf,
}

/// What is known of an installed plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstalledPlugin {
    /// Where it came from: a folder or the address of a repository.
    pub source: String,
    /// The commit it is pinned to, if it came from a repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The version it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Whether sessions have it.
    pub enabled: bool,
}

/// Where a plugin to install comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginSource {
    /// What the user named.
    pub source: String,
    /// The commit that was checked out, if it is a repository.
    pub commit: Option<String>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Record {
    #[serde(default)]
    plugins: BTreeMap<String, InstalledPlugin>,
}

impl InstalledPlugins {
    /// The plugins below `directory`. Nothing is read or created yet.
    pub fn at(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
        }
    }

    /// The directory that holds the copies, one for each plugin.
    pub fn root(&self) -> PathBuf {
        self.directory.join(PLUGINS)
    }

    /// What is installed, by name. Blocks on the file system, as all of this
    /// does.
    ///
    /// # Errors
    /// If the record cannot be read.
    pub fn list(&self) -> Result<BTreeMap<String, InstalledPlugin>, ResourceError> {
        Ok(self.read()?.plugins)
    }

    /// The names of those that are not in force.
    ///
    /// # Errors
    /// If the record cannot be read.
    pub fn disabled(&self) -> Result<Vec<String>, ResourceError> {
        let plugins = self.read()?.plugins.into_iter();
        let disabled = plugins.filter(|(_, plugin)| !plugin.enabled);
        Ok(disabled.map(|(name, _)| name).collect())
    }

    /// Checks the plugin in a folder, copies it, and records where it came from.
    /// Returns what was installed, and what is wrong with parts of it.
    ///
    /// # Errors
    /// If the folder is no plugin, holds links that lead out of it, is too
    /// large, or if a plugin of that name is installed already.
    pub fn install(
        &self,
        folder: &Path,
        source: PluginSource,
    ) -> Result<(LoadedPlugin, Vec<String>), ResourceError> {
        let (plugin, warnings) = check(folder)?;
        let name = plugin.manifest.name.clone();
        // Before the work of a copy, and again once nobody else writes.
        if self.read()?.plugins.contains_key(&name) {
            return Err(ResourceError::PluginInstalled { name });
        }
        let failed = |error| self.failed(error);
        fs::create_dir_all(self.root()).map_err(failed)?;
        // Beside the plugins, so that half a copy is never taken for one.
        let copy = tempfile::Builder::new()
            .prefix(".installing-")
            .tempdir_in(&self.directory)
            .map_err(failed)?;
        let mut copying = Copying {
            root: &plugin.manifest.root,
            files: 0,
            bytes: 0,
        };
        copying
            .directory(&plugin.manifest.root, copy.path())
            .map_err(|error| not_a_plugin(folder, error.to_string()))?;
        let _lock = self.lock()?;
        let mut record = self.read()?;
        let place = self.root().join(&name);
        if place.exists() || record.plugins.contains_key(&name) {
            return Err(ResourceError::PluginInstalled { name });
        }
        fs::rename(copy.path(), &place).map_err(failed)?;
        record.plugins.insert(
            name,
            InstalledPlugin {
                source: source.source,
                commit: source.commit,
                version: plugin.manifest.version.clone(),
                enabled: plugin.default_enabled,
            },
        );
        if let Err(error) = self.write(&record) {
            let _ = fs::remove_dir_all(&place);
            return Err(error);
        }
        Ok((plugin, warnings))
    }

    /// Removes a plugin and its record.
    ///
    /// # Errors
    /// If it is not installed, or cannot be removed.
    pub fn remove(&self, name: &str) -> Result<InstalledPlugin, ResourceError> {
        let _lock = self.lock()?;
        let mut record = self.read()?;
        let name = plugin_name(name).map_err(|_| unknown(name))?;
        let removed = record.plugins.remove(&name).ok_or_else(|| unknown(&name))?;
        match fs::remove_dir_all(self.root().join(&name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(self.failed(error));
            }
            _ => {}
        }
        self.write(&record)?;
        Ok(removed)
    }

    /// Puts a plugin in force, or out of it.
    ///
    /// # Errors
    /// If it is not installed, or the record cannot be written.
    pub fn set_enabled(&self, name: &str, enabled: PluginSwitch) -> Result<(), ResourceError> {
        let _lock = self.lock()?;
        let mut record = self.read()?;
        let plugin = record.plugins.get_mut(name).ok_or_else(|| unknown(name))?;
        plugin.enabled = enabled == PluginSwitch::On;
        self.write(&record)
    }

    /// Waits its turn among those who change what is installed; none if nothing
    /// is. The lock ends with what is returned.
    fn lock(&self) -> Result<Option<fs::File>, ResourceError> {
        match fs::File::open(&self.directory) {
            Ok(directory) => {
                locked(directory, PLUGIN_LOCK_WAIT).map_err(|error| self.failed(error))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed(error)),
        }
    }

    fn read(&self) -> Result<Record, ResourceError> {
        let path = self.directory.join(RECORD);
        let file = match fs::File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Record::default()),
            Err(error) => return Err(self.failed(error)),
        };
        let mut text = String::new();
        let mut bounded = file.take(MAX_MANIFEST_BYTES);
        bounded
            .read_to_string(&mut text)
            .map_err(|error| self.failed(error))?;
        serde_json::from_str(&text).map_err(|error| self.failed(error.into()))
    }

    fn write(&self, record: &Record) -> Result<(), ResourceError> {
        let failed = |error| self.failed(error);
        let text = serde_json::to_vec_pretty(record).map_err(|error| failed(error.into()))?;
        let mut file = tempfile::NamedTempFile::new_in(&self.directory).map_err(failed)?;
        file.write_all(&text).map_err(failed)?;
        file.persist(self.directory.join(RECORD))
            .map_err(|error| failed(error.error))?;
        Ok(())
    }

    fn failed(&self, error: io::Error) -> ResourceError {
        ResourceError::PluginStore {
            directory: self.directory.clone(),
            reason: error.to_string(),
        }
    }
}

fn locked(directory: fs::File, wait: Duration) -> io::Result<Option<fs::File>> {
    match lock_within(&directory, wait) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(io::Error::other(
            "another process has been writing there for too long; try again when it has ended",
        )),
        result => result.map(|()| Some(directory)),
    }
}

/// Whether a plugin is in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PluginSwitch {
    /// Sessions have it.
    On,
    /// They do not.
    Off,
}

/// The one plugin of a folder.
fn check(folder: &Path) -> Result<(LoadedPlugin, Vec<String>), ResourceError> {
    let loaded = PluginLoader::new(folder).load();
    let warnings: Vec<String> = loaded.warnings.iter().map(ToString::to_string).collect();
    let top = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let mut plugins = loaded.plugins;
    match plugins.pop() {
        Some(plugin) if plugin.manifest.root == top => Ok((plugin, warnings)),
        Some(last) => {
            let all = plugins.iter().chain([&last]);
            let names: Vec<&str> = all.map(|it| it.manifest.name.as_str()).collect();
            let reason = format!(
                "it holds plugins and is none itself; name the folder of one: {}",
                names.join(", ")
            );
            Err(not_a_plugin(folder, reason))
        }
        None if warnings.is_empty() => {
            let reason = "it has no manifest and none of the usual folders of a plugin";
            Err(not_a_plugin(folder, reason.to_owned()))
        }
        None => Err(not_a_plugin(folder, warnings.join("; "))),
    }
}

fn not_a_plugin(path: &Path, reason: String) -> ResourceError {
    ResourceError::NotAPlugin {
        path: path.to_owned(),
        reason,
    }
}

fn unknown(name: &str) -> ResourceError {
    ResourceError::PluginUnknown {
        name: name.to_owned(),
    }
}

struct Copying<'a> {
    root: &'a Path,
    files: usize,
    bytes: u64,
}

impl Copying<'_> {
    fn directory(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            if entry.file_name() == ".git" {
                continue;
            }
            self.files += 1;
            if self.files > MAX_TRUSTED_FILES {
                let problem = format!("it has more than {MAX_TRUSTED_FILES} files");
                return Err(io::Error::other(problem));
            }
            let (path, target) = (entry.path(), to.join(entry.file_name()));
            let kind = entry.file_type()?;
            if kind.is_dir() {
                fs::create_dir(&target)?;
                self.directory(&path, &target)?;
            } else if kind.is_symlink() {
                let leads = fs::read_link(&path)?;
                let inside = fs::canonicalize(&path).is_ok_and(|it| it.starts_with(self.root));
                if leads.is_absolute() || !inside {
                    let problem = format!("the link {} leads out of it", path.display());
                    return Err(io::Error::other(problem));
                }
                std::os::unix::fs::symlink(leads, &target)?;
            } else if kind.is_file() {
                self.bytes = self.bytes.saturating_add(entry.metadata()?.len());
                if self.bytes > MAX_TRUSTED_BYTES {
                    let problem = format!("it has more than {MAX_TRUSTED_BYTES} bytes");
                    return Err(io::Error::other(problem));
                }
                fs::copy(&path, &target)?;
            } else {
                let problem = format!("{} is neither a file nor a folder", path.display());
                return Err(io::Error::other(problem));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_change_what_is_installed_wait_for_each_other() {
        let directory = tempfile::tempdir().unwrap();
        let open = || fs::File::open(directory.path()).unwrap();
        let held = locked(open(), PLUGIN_LOCK_WAIT).unwrap();
        let error = locked(open(), Duration::ZERO).unwrap_err();
        assert!(error.to_string().contains("another process"), "{error}");
        drop(held);
        assert!(locked(open(), Duration::ZERO).unwrap().is_some());
    }
}
