//! Which model answers: one that somebody named, or, where nobody did, one whose key is there.

use std::fmt;

use crate::assemble::fill_from;
use crate::credentials::{not_blank, unknown};
use crate::environment::Environment;
use crate::error::ConfigError;
use crate::load::LoadedConfig;
use crate::origin::Origin;
use crate::schema::{ConfiguredProvider, HarnessConfig, ModelConfig, OFFLINE_MODEL};
use crate::services::{KNOWN_SERVICES, known_names};

/// Why a model answers. `Display` says it in a sentence.
///
/// ```
/// use halter_config::{Environment, HarnessConfig, ModelChoice};
///
/// let mut config = HarnessConfig::default();
/// let choice = config.choose_model(&Environment::from_iter([("GEMINI_API_KEY", "k")]));
/// assert!(matches!(choice, ModelChoice::KeyFound { .. }));
/// assert_eq!(config.models.default.unwrap().provider.as_str(), "gemini");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelChoice {
    /// Somebody named it: a file, a variable, a flag or a program.
    Named,
    /// Nobody named one, and this is the first service whose key is set.
    KeyFound {
        /// The service.
        provider: ConfiguredProvider,
        /// The model.
        model: String,
        /// The variable that holds the key.
        variable: String,
    },
    /// Nobody named one, and no key is set.
    Offline,
}

impl fmt::Display for ModelChoice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named => formatter.write_str("the model that was named answers"),
            Self::KeyFound {
                provider,
                model,
                variable,
            } => write!(
                formatter,
                "no model is configured and {variable} is set, so {provider}/{model} answers"
            ),
            Self::Offline => write!(
                formatter,
                "no model is configured and none of {} is set, so the built-in offline model \
                 answers",
                key_variables().collect::<Vec<_>>().join(", ")
            ),
        }
    }
}

/// The variables that are looked at, in this order.
fn key_variables() -> impl Iterator<Item = &'static str> {
    KNOWN_SERVICES
        .iter()
        .flat_map(|service| service.key_variables.iter().copied())
}

/// The model of the first service whose key is set.
fn found(environment: &Environment) -> ModelChoice {
    for service in &KNOWN_SERVICES {
        let variable = service.key_variables.iter().find(|variable| {
            let key = environment.text(variable).map(str::to_owned);
            key.and_then(not_blank).is_some()
        });
        if let (Some(variable), Some(model)) = (variable, service.first_model) {
            return ModelChoice::KeyFound {
                provider: ConfiguredProvider::from_name(service.name),
                model: model.to_owned(),
                variable: (*variable).to_owned(),
            };
        }
    }
    ModelChoice::Offline
}

impl HarnessConfig {
    /// Selects a model where none is configured: that of the first service whose key is set, in
    /// the order Anthropic, OpenAI, OpenRouter, Gemini; else the offline one. Servers on this
    /// computer are never selected: they are used when somebody names them.
    pub fn choose_model(&mut self, environment: &Environment) -> ModelChoice {
        if self.models.default.is_some() {
            return ModelChoice::Named;
        }
        let choice = found(environment);
        self.models.default = Some(match &choice {
            ModelChoice::KeyFound {
                provider, model, ..
            } => ModelConfig::new(provider.clone(), model.clone()),
            _ => ModelConfig::offline(),
        });
        choice
    }

    /// The model of an id: a role (`default`, `small`, `subagent`), `offline`, or a service and
    /// its model, such as `ollama/qwen3`. What the roles say of that very model holds for it.
    ///
    /// # Errors
    ///
    /// [`ConfigError::UnknownModel`] for an id that is neither, [`ConfigError::Refused`]
    /// for a service that is neither known nor has a table.
    pub fn model_with_id(&self, id: &str) -> Result<ModelConfig, ConfigError> {
        if let Ok(model) = self.model_named(id) {
            return Ok(model.clone());
        }
        if id == OFFLINE_MODEL {
            return Ok(ModelConfig::offline());
        }
        let unknown_model = || ConfigError::UnknownModel { id: id.to_owned() };
        let (name, model) = id.split_once('/').ok_or_else(unknown_model)?;
        if name.is_empty() || model.trim().is_empty() {
            return Err(unknown_model());
        }
        let provider = ConfiguredProvider::from_name(name);
        let described = known_names().contains(&name) || self.providers.get(&provider).is_some();
        if !described {
            return Err(unknown(&provider));
        }
        let roles = [
            &self.models.default,
            &self.models.small,
            &self.models.subagent,
        ];
        let configured = roles
            .into_iter()
            .flatten()
            .find(|own| own.provider == provider && own.model == model);
        Ok(configured
            .cloned()
            .unwrap_or_else(|| ModelConfig::new(provider, model)))
    }
}

impl LoadedConfig {
    /// Selects a model where no layer selected one; see [`HarnessConfig::choose_model`].
    ///
    /// # Errors
    ///
    /// If a variable that is now looked at has a value that cannot be used.
    pub fn choose_model(&mut self, environment: &Environment) -> Result<ModelChoice, ConfigError> {
        let choice = self.config.choose_model(environment);
        let origin = match &choice {
            ModelChoice::Named => return Ok(choice),
            ModelChoice::KeyFound { variable, .. } => Origin::Environment(variable.clone()),
            ModelChoice::Offline => Origin::Default,
        };
        self.note_default(origin);
        self.fill(environment)?;
        Ok(choice)
    }

    /// Puts the model that a flag names in the place of `[models.default]`. A role stays what it
    /// is: `small` for the default means the model of `[models.small]`.
    ///
    /// # Errors
    ///
    /// If the id names no model; see [`HarnessConfig::model_with_id`].
    pub fn use_model(
        &mut self,
        id: &str,
        flag: &str,
        environment: &Environment,
    ) -> Result<(), ConfigError> {
        let model = self.config.model_with_id(id)?;
        self.config.models.default = Some(model);
        self.origins
            .retain(|key, _| !key.starts_with("models.default."));
        self.note_default(Origin::Flag(flag.to_owned()));
        self.fill(environment)
    }

    fn note_default(&mut self, origin: Origin) {
        for name in ["provider", "model"] {
            self.origins
                .insert(format!("models.default.{name}"), origin.clone());
        }
    }

    fn fill(&mut self, environment: &Environment) -> Result<(), ConfigError> {
        let filled = fill_from(&mut self.config, environment)?;
        self.origins.extend(filled);
        Ok(())
    }
}
