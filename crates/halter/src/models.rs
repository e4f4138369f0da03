//! Configured models to a registry of models and providers.

use crate::error::config_failure;
use halter_config::{
    ConfiguredProvider, Environment, HarnessConfig, ModelConfig, resolve_credentials,
};
use halter_protocol::{ModelId, ModelRole, ProviderKind, ProviderName, ResolvedModel};
use halter_providers::{ModelRegistry, OfflineProvider, Provider};
use halter_runtime::HalterError;
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
    injected: InjectedProviders,
    environment: &Environment,
) -> anyhow::Result<ModelRegistry> {
    let mut registry = ModelRegistry::new();
    if let Some(provider) = injected.all {
        registry.register_provider(INJECTED, provider);
        for role in ModelRole::ALL {
            registry.register_model(injected_model(config, role));
        }
        return Ok(registry);
    }
    check_credentials(config, &injected, environment)?;
    for role in ModelRole::ALL {
        let model = config.model_for(role).map_err(config_failure)?;
        registry.register_model(resolved(role, model));
        let name = provider_name(&model.provider);
        if let Some(provider) = injected.named.get(&name) {
            registry.register_provider(name, provider.clone());
        } else {
            registry.register_provider(name, built_in(&model.provider)?);
        }
    }
    Ok(registry)
}

/// Every selected provider that is not injected needs its key.
fn check_credentials(
    config: &HarnessConfig,
    injected: &InjectedProviders,
    environment: &Environment,
) -> anyhow::Result<()> {
    let mut needing = config.clone();
    for slot in [
        &mut needing.models.default,
        &mut needing.models.small,
        &mut needing.models.subagent,
    ] {
        if let Some(model) = slot
            && injected.named.contains_key(&provider_name(&model.provider))
        {
            model.provider = ConfiguredProvider::Offline;
        }
    }
    resolve_credentials(&needing, environment).map_err(config_failure)?;
    Ok(())
}

fn built_in(provider: &ConfiguredProvider) -> anyhow::Result<Arc<dyn Provider>> {
    match provider {
        ConfiguredProvider::Offline => Ok(Arc::new(OfflineProvider::new())),
        other => Err(HalterError::new(
            "provider_not_built",
            format!("provider '{}' cannot be used by this version yet", provider_name(other)),
        )
        .with_hint(
            "set HALTER_MODEL=offline or `provider = \"offline\"` under [models.default], or inject a provider with HalterBuilder::with_provider",
        )
        .into()),
    }
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
        |model| resolved(role, model),
    );
    model.provider = ProviderName::from(INJECTED);
    model
}

fn resolved(role: ModelRole, model: &ModelConfig) -> ResolvedModel {
    ResolvedModel {
        id: ModelId::from(role.as_str()),
        provider: provider_name(&model.provider),
        provider_kind: ProviderKind::from(provider_name(&model.provider).as_str()),
        model: model.model.clone(),
        max_input_tokens: model.max_input_tokens,
        max_output_tokens: model.max_output_tokens,
        reasoning: model.reasoning,
        tokens_per_minute: model.tokens_per_minute,
    }
}

fn provider_name(provider: &ConfiguredProvider) -> ProviderName {
    ProviderName::from(provider.to_string())
}
