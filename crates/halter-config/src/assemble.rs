//! Turns settings into a configuration: checks what concerns several keys, resolves paths, fills
//! in keys from the environment, and writes down where each value came from.

use std::path::{Path, PathBuf};

use halter_protocol::ModelRole;
use indexmap::IndexMap;

use crate::check::{check, is_header_name, is_provider_name};
use crate::credentials::{address_of, incomplete, not_blank, spoken, unknown};
use crate::document::fault_error;
use crate::environment::{Environment, expand_path, starts_at_home};
use crate::error::ConfigError;
use crate::keys::{KeyPath, Kind, spec};
use crate::origin::Origin;
use crate::schema::{
    ChatDialect, ConfiguredProvider, ExecBackendChoice, HarnessConfig, OFFLINE_MODEL,
    ProviderConfig, ProviderWire, SessionBackend,
};
use crate::services::{api_key_variables, known_service};
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
    let rules = attribute_rules(&mut config, &settings);
    let is_set = |key: &str| settings.get(&KeyPath::plain(key)).is_some();
    config.policy.shell.allow_is_set = is_set("policy.shell.allow");
    config.policy.write_roots_are_set = is_set("policy.allowed_write_roots");
    config.policy.read_roots_are_set = is_set("policy.allowed_read_roots");
    let network = ["enabled", "allowed_hosts", "allowed_loopback"];
    config.policy.network.is_set = network
        .iter()
        .any(|key| is_set(&format!("policy.network.{key}")));
    config.models.default_rates = default_rates(&config, &settings);
    let filled = fill_from(&mut config, environment)?;

    let mut origins = IndexMap::new();
    for (key, value) in leaves(&config)? {
        if !value.is_null() {
            origins.insert(key.to_string(), settings.origin(&key));
        }
    }
    origins.extend(roots);
    origins.extend(rules);
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
                return Err(ConfigError::value(
                    &key,
                    "is missing",
                    format!("add {name} to [{table}]"),
                )
                .at(first.origin.location().cloned()));
            }
        }
    }
    Ok(())
}

/// The models for which no table sets a rate.
fn default_rates(config: &HarnessConfig, settings: &Settings) -> Vec<(ConfiguredProvider, String)> {
    let (mut unset, mut set) = (Vec::new(), Vec::new());
    for role in ModelRole::ALL {
        let table = KeyPath::plain("models").child(role.as_str());
        if let (Some(_), Ok(model)) = (settings.first_below(&table), config.model_for(role)) {
            let models = match settings.get(&table.child("tokens_per_minute")) {
                None => &mut unset,
                Some(_) => &mut set,
            };
            models.push((model.provider.clone(), model.model.clone()));
        }
    }
    unset.retain(|model| !set.contains(model));
    unset
}

/// The database of an earlier layer has no effect when a later one keeps sessions in memory.
fn drop_unused_database(settings: &mut Settings) {
    let (backend, path) = (backend_key(), KeyPath::plain("sessions.sqlite_path"));
    let in_memory = settings
        .get(&backend)
        .is_some_and(|setting| setting.value.as_str() == Some("memory"));
    if in_memory && settings.origin(&backend).rank() > settings.origin(&path).rank() {
        settings.remove(&path);
    }
}

/// Tells each rule who wrote it; returns their origins.
fn attribute_rules(config: &mut HarnessConfig, settings: &Settings) -> Vec<(String, Origin)> {
    let permissions = &mut config.permissions;
    let mut origins = Vec::new();
    for (key, rules) in [
        ("permissions.allow", &mut permissions.allow),
        ("permissions.ask", &mut permissions.ask),
        ("permissions.deny", &mut permissions.deny),
    ] {
        let from = settings.get(&KeyPath::plain(key));
        let from = from.map(|setting| setting.elements.clone());
        for (index, (rule, origin)) in rules.iter_mut().zip(from.unwrap_or_default()).enumerate() {
            rule.source = origin.rule_source();
            rule.place = origin.location().cloned();
            origins.push((format!("{key}[{index}]"), origin));
        }
    }
    origins
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
    if let (Some(target), Some(threshold)) =
        (context.pre_compaction_target, context.compaction_threshold)
        && target >= threshold
    {
        return Err(ConfigError::value(
            "context.pre_compaction_target",
            format!(
                "is {target}, not less than context.compaction_threshold, which is {threshold}"
            ),
            "set both, the target below the threshold",
        )
        .at(later_of([
            "context.compaction_threshold",
            "context.pre_compaction_target",
        ])));
    }
    if config.sessions.sqlite_path.is_some() && config.sessions.backend != SessionBackend::Sqlite {
        return Err(ConfigError::value(
            "sessions.sqlite_path",
            "is set, but sessions are not kept in SQLite",
            "set sessions.backend = \"sqlite\", or take the path out",
        )
        .at(later_of(["sessions.backend", "sessions.sqlite_path"])));
    }
    let exec = &config.exec;
    let runtime_keys = [
        ("exec.socket", exec.socket.is_some()),
        ("exec.url", exec.url.is_some()),
        ("exec.token", exec.token.is_some()),
        ("exec.ca_file", exec.ca_file.is_some()),
        ("exec.container", exec.container.is_some()),
        ("exec.mounts", !exec.mounts.is_empty()),
    ];
    if exec.backend != ExecBackendChoice::TerminalRuntime
        && let Some((key, _)) = runtime_keys.iter().find(|(_, is_set)| *is_set)
    {
        return Err(ConfigError::value(
            *key,
            "is set, but no runtime runs the commands",
            "set exec.backend = \"terminal-runtime\", or take the line out",
        )
        .at(later_of(["exec.backend", key])));
    }
    if !exec.mounts.is_empty() && exec.container.is_none() {
        return Err(ConfigError::value(
            "exec.mounts",
            "is set, but commands do not run in containers",
            "set exec.container, or take the line out",
        )
        .at(later_of(["exec.container", "exec.mounts"])));
    }
    if exec.socket.is_some() && exec.url.is_some() {
        return Err(ConfigError::value(
            "exec.url",
            "is set, and exec.socket as well",
            "name the runtime by one of them",
        )
        .at(later_of(["exec.socket", "exec.url"])));
    }
    check_services(config, settings)
}

struct Resolver<'a> {
    environment: &'a Environment,
}

impl Resolver<'_> {
    /// Resolves every path; returns the origin of each root of skills and plugins,
    /// of each hook file and of each mount.
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
            ("hooks.files", &mut config.hooks.files),
            ("exec.mounts", &mut config.exec.mounts),
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
            ("exec.socket", &mut config.exec.socket),
            ("exec.ca_file", &mut config.exec.ca_file),
            ("runtime.working_dir", &mut config.runtime.working_dir),
            ("runtime.traces_dir", &mut config.runtime.traces_dir),
        ] {
            if let Some(path) = path {
                *path = self.at_file(path, &settings.origin(&KeyPath::plain(key)), key)?;
            }
        }
        for (provider, table) in config.providers.tables_mut() {
            if let Some(path) = &mut table.ca_file {
                let key = KeyPath::plain("providers")
                    .child(&provider)
                    .child("ca_file");
                *path = self.at_file(path, &settings.origin(&key), &key.to_string())?;
            }
        }
        for (server, table) in &mut config.mcp.servers {
            if let Some(path) = &mut table.cwd {
                let key = KeyPath::plain("mcp.servers").child(server).child("cwd");
                *path = self.at_file(path, &settings.origin(&key), &key.to_string())?;
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
        let path = self.environment.default_sqlite_path().ok_or_else(|| {
            ConfigError::value(
                "sessions.sqlite_path",
                "is missing, and there is no home directory for the default".to_owned(),
                "set sessions.sqlite_path, HOME or XDG_DATA_HOME",
            )
            .at(settings.origin(&backend_key()).location().cloned())
        })?;
        sessions.sqlite_path = Some(path);
        Ok(())
    }

    fn at_home(&self, path: &Path, origin: &Origin, key: &str) -> Result<PathBuf, ConfigError> {
        let home = self.environment.home();
        if home.is_none() && starts_at_home(path).is_some() {
            return Err(ConfigError::value(
                key.to_owned(),
                "starts with ~/, and HOME is not set",
                "set HOME, or write the whole path",
            )
            .at(origin.location().cloned()));
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

/// Fills in the keys and addresses of selected providers that no file has. Returns their origins.
pub(crate) fn fill_from(
    config: &mut HarnessConfig,
    environment: &Environment,
) -> Result<Vec<(String, Origin)>, ConfigError> {
    let lookup = |variable: &str| environment.text(variable).map(str::to_owned);
    let mut origins = Vec::new();
    for provider in config.selected_providers() {
        let table = config.providers.get(&provider);
        let has_key = table
            .and_then(|table| table.api_key.as_deref())
            .is_some_and(|key| !key.trim().is_empty());
        let has_address = table.is_some_and(|table| table.base_url.is_some());
        let key = api_key_variables(&provider)
            .into_iter()
            .find_map(|variable| Some((not_blank(lookup(&variable)?)?, variable)));
        if let (Some((key, variable)), false) = (key, has_key)
            && let Some(table) = config.providers.entry(&provider)
        {
            table.api_key = Some(key);
            origins.push((
                format!("providers.{provider}.api_key"),
                Origin::Environment(variable),
            ));
        }
        if let (Some(known), false) = (known_service(provider.as_str()), has_address)
            && let Some((address, variable)) = address_of(known, lookup)?
            && let Some(table) = config.providers.entry(&provider)
        {
            table.base_url = Some(address);
            origins.push((
                format!("providers.{provider}.base_url"),
                Origin::Environment(variable.to_owned()),
            ));
        }
    }
    Ok(origins)
}

/// Every table describes a service that can be spoken to, and every role a service that exists.
fn check_services(config: &HarnessConfig, settings: &Settings) -> Result<(), ConfigError> {
    let providers = KeyPath::plain("providers");
    for (provider, table) in config.providers.tables() {
        let path = providers.child(provider.as_str());
        let place = || {
            let first = settings.first_below(&path)?;
            first.origin.location().cloned()
        };
        check_service(&provider, table).map_err(|error| error.at(place()))?;
    }
    for role in ModelRole::ALL {
        let Ok(model) = config.model_for(role) else {
            continue;
        };
        let provider = &model.provider;
        let described = known_service(provider.as_str()).is_some()
            || *provider == ConfiguredProvider::Offline
            || config.providers.get(provider).is_some();
        if !described {
            let key = KeyPath::plain("models")
                .child(role.as_str())
                .child("provider");
            return Err(unknown_in(settings.origin(&key), provider));
        }
    }
    Ok(())
}

/// Nobody described a service that a file or a variable names.
fn unknown_in(origin: Origin, provider: &ConfiguredProvider) -> ConfigError {
    let error = unknown(provider);
    match origin {
        Origin::Environment(variable) => ConfigError::refused(
            "config_variable",
            format!(
                "{variable} names the unknown provider {:?}",
                provider.as_str()
            ),
            error.hint().unwrap_or_default(),
        ),
        origin => error.at(origin.location().cloned()),
    }
}

fn check_service(provider: &ConfiguredProvider, table: &ProviderConfig) -> Result<(), ConfigError> {
    let known = known_service(provider.as_str());
    let (wire, dialect) = match (table.wire, known) {
        (None, None) => return Err(incomplete(provider, "wire")),
        _ => spoken(provider, table)?,
    };
    if table.base_url.is_none() && known.is_none() {
        return Err(incomplete(provider, "base_url"));
    }
    let refused = |key: &str, problem: &str, hint: &str| {
        ConfigError::value(
            format!("providers.{provider}.{key}"),
            problem.to_owned(),
            hint.to_owned(),
        )
    };
    if table.dialect.is_some() && wire != ProviderWire::Chat {
        return Err(refused(
            "dialect",
            "is set, but the service does not speak the Chat wire",
            "set wire = \"chat\", or take the dialect out",
        ));
    }
    let routed = wire == ProviderWire::Chat && dialect == ChatDialect::OpenRouter;
    if table.routing.is_some() && !routed {
        return Err(refused(
            "routing",
            "is set, but only OpenRouter chooses between services",
            "take it out, or set wire = \"chat\" and dialect = \"openrouter\"",
        ));
    }
    Ok(())
}

impl HarnessConfig {
    /// Checks a configuration that a program wrote: the same limits that a file is held to.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Refused`] or [`ConfigError::Refused`] for the first value that no
    /// file could have.
    pub fn validate(&self) -> Result<(), ConfigError> {
        for (key, value) in leaves(self)? {
            let Some(spec) = spec(&key) else { continue };
            let limit_left_out = value.is_null() && spec.pattern.ends_with(".tokens_per_minute");
            if spec.kind == Kind::Secret || limit_left_out {
                continue;
            }
            check(&spec.kind, &value).map_err(|fault| fault_error(fault, &key, None))?;
        }
        for (provider, table) in self.providers.tables() {
            check_headers(provider.as_str(), &table.headers)?;
        }
        if let Some(name) = self
            .providers
            .named
            .keys()
            .find(|name| !is_provider_name(name) || *name == OFFLINE_MODEL)
        {
            return Err(ConfigError::value(
                KeyPath::plain("providers").child(name),
                "is not a name for a service",
                "use letters, digits, hyphens and underscores",
            ));
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
            return Err(ConfigError::value(
                &key,
                "is not the name of a request header",
                "use letters, digits and hyphens",
            ));
        }
        check(&Kind::Secret, &value.clone().into())
            .map_err(|fault| fault_error(fault, &key, None))?;
    }
    Ok(())
}
