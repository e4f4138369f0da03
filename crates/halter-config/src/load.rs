//! Loads a configuration from its layers: defaults, the user's file, the project's file, the
//! file that was named, and `HALTER_*` variables. A later layer wins key by key; lists replace
//! each other, except the roots of skills and plugins and hook files, which add up.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use serde_json::Value;

use crate::assemble::assemble;
use crate::document::{self, Entry};
use crate::environment::Environment;
use crate::error::ConfigError;
use crate::keys::KeyPath;
use crate::narrow::{Narrowing, narrow};
use crate::origin::{FileLayer, Origin};
use crate::project::{
    ProjectFile, blocking, find_project_config, read_fault, read_found, read_named,
};
use crate::schema::{HarnessConfig, SessionBackend};
use crate::settings::{Settings, leaves};
use crate::trust::TrustStore;
use crate::variables;
use crate::warning::ConfigWarning;

/// The files of the layers; absent ones are skipped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LayeredConfigPaths {
    /// The user's own file; skipped when it does not exist. See
    /// [`Environment::user_config_path`].
    pub user_config: Option<PathBuf>,
    /// The file found in the project; skipped when it does not exist. See
    /// [`find_project_config`](crate::find_project_config).
    pub project_config: Option<PathBuf>,
    /// The file that was named; trusted, and an error when it does not exist.
    pub explicit_config: Option<PathBuf>,
}

impl LayeredConfigPaths {
    /// The user's own file, the file of the project at the environment's current directory, and
    /// the file that was named.
    pub fn usual(environment: &Environment, explicit_config: Option<PathBuf>) -> Self {
        let directory = environment.current_dir().unwrap_or(Path::new("."));
        Self {
            user_config: environment.user_config_path(),
            project_config: find_project_config(directory),
            explicit_config,
        }
    }
}

/// A configuration with the origin of each of its values.
#[derive(Debug, Clone)]
pub struct LoadedConfig {
    /// The configuration. Paths are resolved, and the keys of selected providers are filled in
    /// from the environment where no file has them.
    pub config: HarnessConfig,
    /// Where each value came from, by its key as [`dotted_key`](crate::dotted_key) spells it. A root of skills or plugins has an entry of
    /// its own, such as `resources.skills.roots[0]`.
    pub origins: IndexMap<String, Origin>,
    /// What the user should know.
    pub warnings: Vec<ConfigWarning>,
    /// The project's file, if there was one.
    pub project: Option<LoadedProject>,
}

/// A project file that took part in loading.
#[derive(Debug, Clone)]
pub struct LoadedProject {
    /// The file as it was read.
    pub file: ProjectFile,
    /// Whether it counted in full.
    pub trusted: bool,
}

impl LoadedConfig {
    /// Where a value came from.
    pub fn origin(&self, key: &str) -> Origin {
        self.origins.get(key).cloned().unwrap_or(Origin::Default)
    }

    /// Keeps sessions in the user's database where no layer says where to keep them, as an
    /// interactive program wants. Returns false if there is no place for it.
    pub fn keep_sessions(&mut self, environment: &Environment) -> bool {
        let chosen = self.origin("sessions.backend") != Origin::Default;
        let has_place = environment.default_sqlite_path().is_some();
        if !chosen && has_place {
            self.config.sessions.backend = SessionBackend::Sqlite;
        }
        chosen || has_place
    }
}

/// Loads the file that is named, with this process's environment laid over it. The only function
/// of this library that reads the environment by itself; programs that want the other layers, or
/// an environment of their own, call [`load_layered`].
///
/// # Errors
///
/// Whatever is wrong with the file or a variable, with its place and the remedy;
/// [`ConfigError::MissingDefaultModel`] if neither names a model.
pub async fn load_path(path: impl AsRef<Path>) -> Result<HarnessConfig, ConfigError> {
    let paths = LayeredConfigPaths {
        explicit_config: Some(path.as_ref().to_path_buf()),
        ..LayeredConfigPaths::default()
    };
    let loaded = load_layered(paths, &Environment::capture(), &TrustStore::none()).await?;
    match loaded.config.models.default {
        Some(_) => Ok(loaded.config),
        None => Err(ConfigError::MissingDefaultModel),
    }
}

/// Loads all layers. A project file that is not trusted only narrows what the user's own file
/// and the defaults allow; see the table in the crate's README.
///
/// The layers need not name a model; see [`LoadedConfig::choose_model`].
///
/// # Errors
///
/// Whatever is wrong with a file or a variable, with its place and the remedy.
pub async fn load_layered(
    paths: LayeredConfigPaths,
    environment: &Environment,
    trust: &TrustStore,
) -> Result<LoadedConfig, ConfigError> {
    let (environment, trust) = (environment.clone(), trust.clone());
    blocking(move || load_now(&paths, &environment, &trust)).await
}

fn load_now(
    paths: &LayeredConfigPaths,
    environment: &Environment,
    trust: &TrustStore,
) -> Result<LoadedConfig, ConfigError> {
    let mut warnings = variables::unknown(environment);
    let mut settings = Settings::default();
    let mut sources: Vec<PathBuf> = apply_user(paths, &mut settings, &mut warnings)?
        .into_iter()
        .collect();
    let project = match project_of(paths)? {
        Some(file) => {
            let trusted = is_trusted(trust, &file, &mut warnings);
            let entries = document::parse(file.path(), file.content(), &mut warnings)?;
            if trusted {
                apply_trusted(&entries, &mut settings, &mut warnings);
            } else {
                for entry in &entries {
                    apply_narrowed(entry, &mut settings, &mut warnings);
                }
            }
            sources.push(file.path().to_path_buf());
            Some(LoadedProject { file, trusted })
        }
        None => None,
    };
    if let Some(path) = &paths.explicit_config {
        let path = absolute(path)?;
        let entries = document::parse(&path, &read_named(&path)?, &mut warnings)?;
        apply_all(&entries, FileLayer::Explicit, &mut settings);
        sources.push(path);
    }
    variables::apply(environment, &mut settings)?;
    let (mut config, origins) = assemble(settings, environment)?;
    config.sources = sources;
    Ok(LoadedConfig {
        config,
        origins,
        warnings,
        project,
    })
}

/// What holds before a project file has its say.
pub(crate) fn base_settings(paths: &LayeredConfigPaths) -> Result<Settings, ConfigError> {
    let mut settings = Settings::default();
    apply_user(paths, &mut settings, &mut Vec::new())?;
    Ok(settings)
}

/// The value of a key so far, the default included.
pub(crate) fn base_value(settings: &Settings, key: &KeyPath) -> Option<Value> {
    settings
        .get(key)
        .map(|setting| setting.value.clone())
        .or_else(|| default_value(key))
}

fn default_value(key: &KeyPath) -> Option<Value> {
    leaves(&HarnessConfig::default())
        .ok()?
        .into_iter()
        .find(|(leaf, _)| leaf == key)
        .map(|(_, value)| value)
}

/// Applies the user's file and returns its path, if there is one.
fn apply_user(
    paths: &LayeredConfigPaths,
    settings: &mut Settings,
    warnings: &mut Vec<ConfigWarning>,
) -> Result<Option<PathBuf>, ConfigError> {
    let Some(path) = &paths.user_config else {
        return Ok(None);
    };
    if same_file(Some(path), paths.explicit_config.as_deref()) {
        return Ok(None);
    }
    let path = absolute(path)?;
    let Some(content) = unless_missing(read_found(&path))? else {
        return Ok(None);
    };
    let entries = document::parse(&path, &content, warnings)?;
    apply_all(&entries, FileLayer::User, settings);
    Ok(Some(path))
}

/// The project's file, unless it is one of the other two.
fn project_of(paths: &LayeredConfigPaths) -> Result<Option<ProjectFile>, ConfigError> {
    let Some(path) = paths.project_config.as_deref() else {
        return Ok(None);
    };
    if same_file(Some(path), paths.explicit_config.as_deref())
        || same_file(Some(path), paths.user_config.as_deref())
    {
        return Ok(None);
    }
    unless_missing(ProjectFile::read_now(path))
}

fn is_trusted(trust: &TrustStore, file: &ProjectFile, warnings: &mut Vec<ConfigWarning>) -> bool {
    trust.is_trusted(file).unwrap_or_else(|error| {
        warnings.push(ConfigWarning::TrustRecord {
            problem: error.to_string(),
        });
        false
    })
}

fn apply_all(entries: &[Entry], layer: FileLayer, settings: &mut Settings) {
    for entry in entries {
        settings.apply(entry, layer);
    }
}

/// Applies a project file that counts in full, except that no project widens permissions.
pub(crate) fn apply_trusted(
    entries: &[Entry],
    settings: &mut Settings,
    warnings: &mut Vec<ConfigWarning>,
) {
    for entry in entries {
        if entry.spec.is_permission() {
            apply_narrowed(entry, settings, warnings);
        } else {
            settings.apply(entry, FileLayer::Project);
        }
    }
}

fn apply_narrowed(entry: &Entry, settings: &mut Settings, warnings: &mut Vec<ConfigWarning>) {
    let base = base_value(settings, &entry.key);
    let (value, reason) = match narrow(entry.spec, base.as_ref(), &entry.value) {
        Narrowing::Nothing => return,
        Narrowing::Take(value) => (Some(value), None),
        Narrowing::TakePart(value, reason) => (Some(value), Some(reason)),
        Narrowing::Refuse(reason) => (None, Some(reason)),
    };
    match value {
        Some(_) if entry.spec.adds_up() => settings.apply(entry, FileLayer::Project),
        Some(value) => {
            let origin = Origin::Project(entry.location.clone());
            settings.set(entry.key.clone(), value, origin);
        }
        None => {}
    }
    let Some(reason) = reason else { return };
    let (key, location) = (entry.key.to_string(), entry.location.clone());
    warnings.push(match entry.spec.is_permission() {
        true => ConfigWarning::ProjectWidens {
            key,
            location,
            reason,
        },
        false => ConfigWarning::Untrusted {
            key,
            location,
            reason,
        },
    });
}

fn absolute(path: &Path) -> Result<PathBuf, ConfigError> {
    std::path::absolute(path).map_err(|error| read_fault(path, error))
}

fn same_file(left: Option<&Path>, right: Option<&Path>) -> bool {
    let (Some(left), Some(right)) = (left, right) else {
        return false;
    };
    match (fs::canonicalize(left), fs::canonicalize(right)) {
        (Ok(left), Ok(right)) => left == right,
        _ => false,
    }
}

fn unless_missing<T>(outcome: Result<T, ConfigError>) -> Result<Option<T>, ConfigError> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(ConfigError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
