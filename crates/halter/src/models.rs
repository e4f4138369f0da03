//! Configured models to a registry of models and providers.

use crate::error::config_failure;
use crate::services::{Services, Unusable};
use halter_config::{ConfiguredProvider, HarnessConfig, ModelConfig, ModelsConfig};
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
        // Without a model of its own, small jobs are done by that of the session.
        if role == ModelRole::Small && config.models.small.is_none() {
            continue;
        }
        registry.register_model(resolved(
            ModelId::from(role.as_str()),
            model,
            &config.models,
        ));
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
        |model| resolved(ModelId::from(role.as_str()), model, &config.models),
    );
    model.provider = ProviderName::from(INJECTED);
    model
}

pub(crate) fn resolved(id: ModelId, model: &ModelConfig, models: &ModelsConfig) -> ResolvedModel {
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
        tokens_per_minute: models.rate_ceiling(model),
    }
}

pub(crate) fn provider_name(provider: &ConfiguredProvider) -> ProviderName {
    ProviderName::from(provider.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_a_rate_that_somebody_set_reaches_the_limiter() {
        let table = "version = 1\n[models.default]\nprovider = \"openai\"\nmodel = \"gpt-5\"\n";
        for (more, expected) in [("", None), ("tokens_per_minute = 500000\n", Some(500_000))] {
            let directory = tempfile::tempdir().unwrap();
            let file = directory.path().join("halter.toml");
            std::fs::write(&file, format!("{table}{more}")).unwrap();
            let config = halter_config::load_path(&file).await.unwrap();
            let model = config.model_for(ModelRole::Default).unwrap();
            assert_eq!(model.tokens_per_minute, Some(500_000), "as it is shown");
            let resolved = resolved("default".into(), model, &config.models);
            assert_eq!(resolved.tokens_per_minute, expected);
        }
    }
}
