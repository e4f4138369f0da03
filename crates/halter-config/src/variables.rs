//! The `HALTER_*` variables that override a configuration.

use std::ffi::OsStr;

use halter_protocol::ModelRole;
use serde_json::Value;

use crate::check::{Reason, check, is_provider_name};
use crate::environment::Environment;
use crate::error::{ConfigError, nearest, suggestion};
use crate::keys::{KeyPath, spec};
use crate::origin::Origin;
use crate::schema::{ConfiguredProvider, HarnessConfig, ModelConfig, ModelsConfig, OFFLINE_MODEL};
use crate::services::known_names;
use crate::settings::Settings;
use crate::warning::ConfigWarning;

/// The variable that names one model for every role.
pub const MODEL_VARIABLE: &str = "HALTER_MODEL";

/// `HALTER_*` variables that belong to the faces; loading neither reads nor reports them. A face
/// adds its own with [`Environment::reserving`].
pub const RESERVED_VARIABLES: &[&str] = &["HALTER_CONFIG", "HALTER_LOG", "HALTER_COLOR"];

/// How the text of a variable is read.
#[derive(Debug, Clone, Copy)]
enum Form {
    Word,
    Flag,
    /// Names with commas between them.
    Names,
    /// Directories with colons between them.
    Directories,
}

const OVERRIDES: &[(&str, &str, Form)] = &[
    ("HALTER_SESSION_BACKEND", "sessions.backend", Form::Word),
    ("HALTER_POLICY_SANDBOX", "policy.sandbox", Form::Word),
    (
        "HALTER_POLICY_SHELL_ENABLED",
        "policy.shell.enabled",
        Form::Flag,
    ),
    (
        "HALTER_POLICY_NETWORK_ENABLED",
        "policy.network.enabled",
        Form::Flag,
    ),
    (
        "HALTER_SKILL_ROOTS",
        "resources.skills.roots",
        Form::Directories,
    ),
    (
        "HALTER_PLUGIN_ROOTS",
        "resources.plugins.roots",
        Form::Directories,
    ),
    (
        "HALTER_POLICY_SHELL_ALLOW",
        "policy.shell.allow",
        Form::Names,
    ),
    (
        "HALTER_POLICY_ALLOWED_HOSTS",
        "policy.network.allowed_hosts",
        Form::Names,
    ),
    ("HALTER_TOOLS_ENABLED", "tools.enabled", Form::Names),
];

/// Every variable that overrides a key, with that key; for help texts.
pub fn override_variables() -> impl Iterator<Item = (&'static str, &'static str)> {
    OVERRIDES
        .iter()
        .map(|(variable, key, _)| (*variable, *key))
        .chain([(MODEL_VARIABLE, "models")])
}

/// Lays the variables over the settings.
pub(crate) fn apply(environment: &Environment, settings: &mut Settings) -> Result<(), ConfigError> {
    for (variable, key, form) in OVERRIDES {
        let Some(raw) = environment.get(variable) else {
            continue;
        };
        let Some(value) = read(variable, raw, *form)? else {
            continue;
        };
        let key = KeyPath::plain(key);
        if let Some(spec) = spec(&key) {
            check(&spec.kind, &value).map_err(|fault| match fault.reason {
                Reason::Type { expected, found } => fault_of(
                    variable,
                    format!("holds {found}"),
                    format!("set {expected}"),
                ),
                Reason::Value { problem, hint } => fault_of(variable, problem, hint),
            })?;
        }
        settings.set(key, value, Origin::Environment((*variable).to_owned()));
    }
    apply_model(environment, settings)
}

impl HarnessConfig {
    /// Lays `HALTER_MODEL` over a configuration that a program wrote as a literal, as loading a
    /// file does.
    ///
    /// # Errors
    ///
    /// If the variable names no model.
    pub fn apply_model_override(&mut self, environment: &Environment) -> Result<(), ConfigError> {
        let Some((provider, model)) = named_model(environment)? else {
            return Ok(());
        };
        self.models = ModelsConfig {
            default: Some(ModelConfig::new(provider, model)),
            ..ModelsConfig::default()
        };
        Ok(())
    }
}

/// The model that `HALTER_MODEL` names, if it is set.
fn named_model(
    environment: &Environment,
) -> Result<Option<(ConfiguredProvider, &str)>, ConfigError> {
    let Some(raw) = environment.get(MODEL_VARIABLE) else {
        return Ok(None);
    };
    let text = utf8(MODEL_VARIABLE, raw)?.trim();
    if text.is_empty() {
        return Ok(None);
    }
    parse_model(text).map(Some)
}

fn apply_model(environment: &Environment, settings: &mut Settings) -> Result<(), ConfigError> {
    let Some((provider, model)) = named_model(environment)? else {
        return Ok(());
    };
    for role in ModelRole::ALL {
        // The limits in the table belong to the model that is replaced.
        let table = KeyPath::plain("models").child(role.as_str());
        settings.remove(&table);
        for (name, value) in [("provider", provider.as_str()), ("model", model)] {
            settings.set(
                table.child(name),
                Value::from(value),
                Origin::Environment(MODEL_VARIABLE.to_owned()),
            );
        }
    }
    Ok(())
}

fn parse_model(text: &str) -> Result<(ConfiguredProvider, &str), ConfigError> {
    if text == OFFLINE_MODEL {
        return Ok((ConfiguredProvider::Offline, OFFLINE_MODEL));
    }
    let Some((provider, model)) = text.split_once('/') else {
        let hint = match nearest(text, known_names()) {
            Some(name) if name == OFFLINE_MODEL => "did you mean `offline`?".to_owned(),
            _ => "set `offline` or provider/model, such as openai/gpt-5".to_owned(),
        };
        return Err(fault_of(
            MODEL_VARIABLE,
            format!("is {text:?}, which names no provider"),
            hint,
        ));
    };
    let provider = provider.trim();
    if !is_provider_name(provider) {
        return Err(fault_of(
            MODEL_VARIABLE,
            format!("names the unknown provider {provider:?}"),
            suggestion(provider, "providers", &known_names()),
        ));
    }
    match model.trim() {
        "" => Err(fault_of(
            MODEL_VARIABLE,
            "names no model after the slash".to_owned(),
            "set provider/model, such as openai/gpt-5".to_owned(),
        )),
        model => Ok((ConfiguredProvider::from_name(provider), model)),
    }
}

/// The value of a variable; `None` when it is blank and so counts as unset.
fn read(variable: &str, raw: &OsStr, form: Form) -> Result<Option<Value>, ConfigError> {
    let text = utf8(variable, raw)?;
    let blank = text.trim().is_empty();
    match form {
        Form::Word | Form::Flag if blank => Ok(None),
        Form::Word => Ok(Some(Value::from(text.trim()))),
        Form::Flag => match text.trim() {
            "true" => Ok(Some(Value::Bool(true))),
            "false" => Ok(Some(Value::Bool(false))),
            other => Err(fault_of(
                variable,
                format!("is {other:?}"),
                "set true or false".to_owned(),
            )),
        },
        // An empty list of tools means all of them, which nobody who clears it can want.
        Form::Names if blank && variable == "HALTER_TOOLS_ENABLED" => Err(fault_of(
            variable,
            "is blank".to_owned(),
            "name at least one tool, or unset it".to_owned(),
        )),
        Form::Names | Form::Directories if blank => Ok(Some(Value::Array(Vec::new()))),
        Form::Names => split(variable, text.split(',').map(str::trim)).map(Some),
        Form::Directories => split(variable, text.split(':')).map(Some),
    }
}

fn split<'a>(variable: &str, parts: impl Iterator<Item = &'a str>) -> Result<Value, ConfigError> {
    let mut list: Vec<Value> = Vec::new();
    for part in parts {
        if part.trim().is_empty() {
            return Err(fault_of(
                variable,
                "has an empty entry".to_owned(),
                "take out the extra separator".to_owned(),
            ));
        }
        let value = Value::from(part);
        if !list.contains(&value) {
            list.push(value);
        }
    }
    Ok(Value::Array(list))
}

fn utf8<'a>(variable: &str, raw: &'a OsStr) -> Result<&'a str, ConfigError> {
    raw.to_str().ok_or_else(|| {
        fault_of(
            variable,
            "is not valid UTF-8".to_owned(),
            "set it to plain text, or write the setting in a file".to_owned(),
        )
    })
}

fn fault_of(variable: &str, problem: String, hint: String) -> ConfigError {
    ConfigError::refused("config_variable", format!("{} {}", variable, problem), hint)
}

/// A warning for each `HALTER_*` variable that nobody reads.
pub(crate) fn unknown(environment: &Environment) -> Vec<ConfigWarning> {
    let known: Vec<&str> = override_variables()
        .map(|(variable, _)| variable)
        .chain(RESERVED_VARIABLES.iter().copied())
        .collect();
    environment
        .halter_variables()
        .filter(|(name, _)| !known.contains(name) && !environment.is_reserved(name))
        .map(|(name, _)| ConfigWarning::UnknownVariable {
            variable: name.to_owned(),
            hint: nearest(name, known.iter().copied())
                .map(|candidate| format!("did you mean {candidate}?")),
        })
        .collect()
}
