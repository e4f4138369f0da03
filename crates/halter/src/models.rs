//! Configured models to a registry of models and providers.

use crate::error::config_failure;
use crate::services::{Services, Unusable};
use halter_config::{ConfiguredProvider, HarnessConfig, ModelConfig};
use halter_protocol::{ModelId, ModelRole, ProviderKind, ProviderName, ResolvedModel};
use halter_providers::{ModelRegistry, Provider};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Providers that come from the embedding program.
#[derive(Default)]
pub(crate) struct InjectedProviders {
    /// Serves every role.
    pub all: Option<Arc<dyn Provider>>,
    /// Serve the models configured for a provider of that name.
    pub named: BTreeMap<ProviderName, Arc<dyn Provider>>,
}

/// The name of a provider that serves every role without being configured.
const INJECTED: &str = "custom";

/// Builds the registry of a configuration.
pub(crate) fn registry(
    config: &HarnessConfig,
    injected: Option<Arc<dyn Provider>>,
    services: &Arc<Services>,
) -> anyhow::Result<ModelRegistry> {
    let mut registry = ModelRegistry::new();
    if let Some(provider) = injected {
        services
            .need_no_cassette()
            .map_err(Unusable::into_failure)?;
        registry.register_provider(INJECTED, provider);
        for role in ModelRole::ALL {
            registry.register_model(injected_model(config, role));
        }
        return Ok(registry);
    }
    for role in ModelRole::ALL {
        let model = config.model_for(role).map_err(config_failure)?;
        registry.register_model(resolved(ModelId::from(role.as_str()), model));
    }
    for provider in config.selected_providers() {
        let served_by = services.provider(&provider);
        let served_by = served_by.map_err(Unusable::into_failure)?;
        registry.register_provider(provider_name(&provider), served_by);
    }
    registry.set_resolver(services.clone());
    Ok(registry)
}

fn injected_model(config: &HarnessConfig, role: ModelRole) -> ResolvedModel {
    let configured = config.model_for(role).ok();
    let mut model = configured.map_or_else(
        || ResolvedModel {
            id: ModelId::from(role.as_str()),
            provider: ProviderName::from(INJECTED),
            provider_kind: ProviderKind::Custom,
            model: INJECTED.to_owned(),
            max_input_tokens: None,
            max_output_tokens: None,
            reasoning: None,
            tokens_per_minute: None,
        },
        |model| resolved(ModelId::from(role.as_str()), model),
    );
    model.provider = ProviderName::from(INJECTED);
    model
}

pub(crate) fn resolved(id: ModelId, model: &ModelConfig) -> ResolvedModel {
    ResolvedModel {
        id,
        provider: provider_name(&model.provider),
        provider_kind: match &model.provider {
            ConfiguredProvider::Named(_) => ProviderKind::Custom,
            known => ProviderKind::from(known.as_str()),
        },
        model: model.model.clone(),
        max_input_tokens: model.max_input_tokens,
        max_output_tokens: model.max_output_tokens,
        reasoning: model.reasoning,
        tokens_per_minute: model.tokens_per_minute,
    }
}

pub(crate) fn provider_name(provider: &ConfiguredProvider) -> ProviderName {
    ProviderName::from(provider.to_string())
}
