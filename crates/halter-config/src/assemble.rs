//! Turns settings into a configuration: checks what concerns several keys, resolves paths, fills
//! in keys from the environment, and writes down where each value came from.

use std::path::{Path, PathBuf};

use halter_protocol::ModelRole;
use indexmap::IndexMap;

use crate::check::{check, is_header_name};
use crate::credentials::api_key_variable;
use crate::document::fault_error;
use crate::environment::{Environment, expand_path, starts_at_home};
use crate::error::ConfigError;
use crate::keys::{KeyPath, spec};
use crate::origin::Origin;
use crate::schema::{HarnessConfig, SessionBackend};
use crate::settings::{Settings, leaves};

pub(crate) fn assemble(
    mut settings: Settings,
    environment: &Environment,
) -> Result<(HarnessConfig, IndexMap<String, Origin>), ConfigError> {
    check_model_tables(&settings)?;
    drop_unused_database(&mut settings);
    let mut config = settings.to_config()?;
    check_together(&config, &settings)?;
    let resolver = Resolver { environment };
    let roots = resolver.resolve(&mut config, &settings)?;
    let filled = fill_keys(&mut config, environment);

    let mut origins = IndexMap::new();
    for (key, value) in leaves(&config)? {
        if !value.is_null() {
            origins.insert(key.to_string(), settings.origin(&key));
        }
    }
    origins.extend(roots);
    origins.extend(filled);
    Ok((config, origins))
}

/// A model table needs both its provider and its model, whichever layers they come from.
fn check_model_tables(settings: &Settings) -> Result<(), ConfigError> {
    for role in ModelRole::ALL {
        let table = KeyPath::plain("models").child(role.as_str());
        let Some(first) = settings.first_below(&table) else {
            continue;
        };
        for name in ["provider", "model"] {
            let key = table.child(name);
            if settings.get(&key).is_none() {
                return Err(ConfigError::InvalidValue {
                    location: first.origin.location().cloned(),
                    key: key.to_string(),
                    problem: "is missing".to_owned(),
                    hint: format!("add {name} to [{table}]"),
                });
            }
        }
    }
    Ok(())
}

/// A later layer that keeps sessions in memory makes the database of an earlier one moot.
fn drop_unused_database(settings: &mut Settings) {
    let (backend, path) = (backend_key(), KeyPath::plain("sessions.sqlite_path"));
    let in_memory = settings
        .get(&backend)
        .is_some_and(|setting| setting.value.as_str() == Some("memory"));
    if in_memory && settings.origin(&backend).rank() > settings.origin(&path).rank() {
        settings.remove(&path);
    }
}

fn backend_key() -> KeyPath {
    KeyPath::plain("sessions.backend")
}

/// Checks that concern several keys.
fn check_together(config: &HarnessConfig, settings: &Settings) -> Result<(), ConfigError> {
    let later_of = |keys: [&str; 2]| {
        keys.map(|key| settings.origin(&KeyPath::plain(key)))
            .into_iter()
            .max_by_key(Origin::rank)
            .and_then(|origin| origin.location().cloned())
    };
    let context = &config.context;
    if context.pre_compaction_target >= context.compaction_threshold {
        return Err(ConfigError::InvalidValue {
            location: later_of([
                "context.compaction_threshold",
                "context.pre_compaction_target",
            ]),
            key: "context.pre_compaction_target".to_owned(),
            problem: format!(
                "is {}, not less than context.compaction_threshold, which is {}",
                context.pre_compaction_target, context.compaction_threshold
            ),
            hint: "set both, the target below the threshold".to_owned(),
        });
    }
    if config.sessions.sqlite_path.is_some() && config.sessions.backend != SessionBackend::Sqlite {
        return Err(ConfigError::InvalidValue {
            location: later_of(["sessions.backend", "sessions.sqlite_path"]),
            key: "sessions.sqlite_path".to_owned(),
            problem: "is set, but sessions are not kept in SQLite".to_owned(),
            hint: "set sessions.backend = \"sqlite\", or take the path out".to_owned(),
        });
    }
    Ok(())
}

struct Resolver<'a> {
    environment: &'a Environment,
}

impl Resolver<'_> {
    /// Resolves every path; returns the origin of each root of skills and plugins.
    fn resolve(
        &self,
        config: &mut HarnessConfig,
        settings: &Settings,
    ) -> Result<Vec<(String, Origin)>, ConfigError> {
        let mut origins = Vec::new();
        for (key, roots) in [
            ("resources.skills.roots", &mut config.resources.skills.roots),
            (
                "resources.plugins.roots",
                &mut config.resources.plugins.roots,
            ),
        ] {
            let from = settings
                .get(&KeyPath::plain(key))
                .map(|setting| setting.elements.clone())
                .unwrap_or_default();
            let mut resolved: Vec<PathBuf> = Vec::new();
            for (root, origin) in roots.iter().zip(from) {
                let path = self.at_file(root, &origin, key)?;
                if !resolved.contains(&path) {
                    origins.push((format!("{key}[{}]", resolved.len()), origin));
                    resolved.push(path);
                }
            }
            *roots = resolved;
        }
        for (key, path) in [
            ("sessions.sqlite_path", &mut config.sessions.sqlite_path),
            ("runtime.working_dir", &mut config.runtime.working_dir),
            ("runtime.traces_dir", &mut config.runtime.traces_dir),
        ] {
            if let Some(path) = path {
                *path = self.at_file(path, &settings.origin(&KeyPath::plain(key)), key)?;
            }
        }
        for (key, roots) in [
            (
                "policy.allowed_write_roots",
                &mut config.policy.allowed_write_roots,
            ),
            (
                "policy.allowed_read_roots",
                &mut config.policy.allowed_read_roots,
            ),
        ] {
            for root in roots {
                *root = self.at_home(root, &settings.origin(&KeyPath::plain(key)), key)?;
            }
        }
        self.default_database(config, settings)?;
        Ok(origins)
    }

    /// Libraries below do not know the user's directories, so the default is written here.
    fn default_database(
        &self,
        config: &mut HarnessConfig,
        settings: &Settings,
    ) -> Result<(), ConfigError> {
        let sessions = &mut config.sessions;
        if sessions.backend != SessionBackend::Sqlite || sessions.sqlite_path.is_some() {
            return Ok(());
        }
        let path =
            self.environment
                .default_sqlite_path()
                .ok_or_else(|| ConfigError::InvalidValue {
                    location: settings.origin(&backend_key()).location().cloned(),
                    key: "sessions.sqlite_path".to_owned(),
                    problem: "is missing, and there is no home directory for the default"
                        .to_owned(),
                    hint: "set sessions.sqlite_path, HOME or XDG_DATA_HOME".to_owned(),
                })?;
        sessions.sqlite_path = Some(path);
        Ok(())
    }

    fn at_home(&self, path: &Path, origin: &Origin, key: &str) -> Result<PathBuf, ConfigError> {
        let home = self.environment.home();
        if home.is_none() && starts_at_home(path).is_some() {
            return Err(ConfigError::InvalidValue {
                location: origin.location().cloned(),
                key: key.to_owned(),
                problem: "starts with ~/, and HOME is not set".to_owned(),
                hint: "set HOME, or write the whole path".to_owned(),
            });
        }
        Ok(expand_path(path, home))
    }

    /// A path that starts at the directory of the file that set it, or at the current directory
    /// when a variable did.
    fn at_file(&self, path: &Path, origin: &Origin, key: &str) -> Result<PathBuf, ConfigError> {
        let expanded = self.at_home(path, origin, key)?;
        let directory = match origin {
            Origin::Environment(_) => self.environment.current_dir(),
            _ => origin
                .location()
                .and_then(|location| location.file.parent()),
        };
        let joined = directory.map_or(expanded.clone(), |directory| directory.join(expanded));
        Ok(joined.components().collect())
    }
}

/// Fills in the keys of selected providers that no file has. Returns their origins.
fn fill_keys(config: &mut HarnessConfig, environment: &Environment) -> Vec<(String, Origin)> {
    let mut origins = Vec::new();
    for provider in config.selected_providers() {
        let Some(variable) = api_key_variable(&provider) else {
            continue;
        };
        let key = environment
            .text(variable)
            .map(str::trim)
            .unwrap_or_default();
        let configured = config
            .providers
            .get(&provider)
            .and_then(|table| table.api_key.as_deref())
            .is_some_and(|key| !key.trim().is_empty());
        if key.is_empty() || configured {
            continue;
        }
        if let Some(table) = config.providers.entry(&provider) {
            table.api_key = Some(key.to_owned());
            origins.push((
                format!("providers.{provider}.api_key"),
                Origin::Environment(variable.to_owned()),
            ));
        }
    }
    origins
}

impl HarnessConfig {
    /// Checks a configuration that a program wrote: the same limits that a file is held to.
    ///
    /// # Errors
    ///
    /// [`ConfigError::InvalidValue`] or [`ConfigError::WrongType`] for the first value that no
    /// file could have.
    pub fn validate(&self) -> Result<(), ConfigError> {
        for (key, value) in leaves(self)? {
            let Some(spec) = spec(&key) else { continue };
            let limit_left_out = value.is_null() && spec.pattern.ends_with(".tokens_per_minute");
            if spec.kind.is_secret() || limit_left_out {
                continue;
            }
            check(spec.kind, &value).map_err(|fault| fault_error(fault, &key, None))?;
        }
        for (table, headers) in [
            ("openai", &self.providers.openai),
            ("anthropic", &self.providers.anthropic),
            ("openrouter", &self.providers.openrouter),
        ]
        .into_iter()
        .filter_map(|(name, table)| Some((name, &table.as_ref()?.headers)))
        {
            check_headers(table, headers)?;
        }
        check_together(self, &Settings::default())
    }
}

fn check_headers(table: &str, headers: &IndexMap<String, String>) -> Result<(), ConfigError> {
    for (name, value) in headers {
        let key = KeyPath::plain("providers")
            .child(table)
            .child("headers")
            .child(name);
        if !is_header_name(name) {
            return Err(ConfigError::InvalidValue {
                location: None,
                key: key.to_string(),
                problem: "is not the name of a request header".to_owned(),
                hint: "use letters, digits and hyphens".to_owned(),
            });
        }
        check(crate::keys::Kind::Header, &value.clone().into())
            .map_err(|fault| fault_error(fault, &key, None))?;
    }
    Ok(())
}
