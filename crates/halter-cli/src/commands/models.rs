//! `halter models`: the models of a service, and what is known of them.

use crate::args::ModelsArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, usage};
use crate::harness::{self, Models, Store};
use halter_config::ConfiguredProvider;
use halter_protocol::{ProviderError, ProviderErrorKind, ResolvedModel};
use halter_providers::catalog::{Known, ModelFacts};
use serde_json::{Value, json};

/// Asks a service for its models and prints them.
pub async fn models(context: &mut Context, arguments: ModelsArgs) -> Result<Exit, Failure> {
    context.errors_in_data = arguments.json.json;
    // No other service is needed, and so no key of one.
    let named = arguments.provider.map(|name| format!("{name}/*"));
    let loaded = harness::load_for(context, named.as_deref()).await?;
    let default = loaded.config.config.models.default.as_ref();
    let provider = default.map(|model| model.provider.clone());
    let provider = provider.unwrap_or(ConfiguredProvider::Offline);
    if provider == ConfiguredProvider::Offline {
        return Err(usage(
            "the offline model is the only one of its kind",
            "name a service: halter models anthropic",
        ));
    }
    let harness = harness::build(
        context,
        &loaded,
        halter::CompiledResources::default(),
        Models::Configured,
        Store::Memory,
    )
    .await?;
    let listed = harness.list_models(provider.as_str()).await;
    let listed = listed.map_err(unanswered)?;
    let facts: Vec<_> = listed
        .iter()
        .map(|model| (model, harness.catalog().facts(model)))
        .collect();
    if arguments.json.json {
        let models: Vec<Value> = facts
            .iter()
            .map(|(model, facts)| as_json(model, facts))
            .collect();
        context.data.json(&models)?;
        return Ok(Exit::Success);
    }
    let width = listed.iter().map(|model| model.id.as_str().len()).max();
    for (model, facts) in &facts {
        let width = width.unwrap_or(0);
        context.data.line(&format!(
            "{:<width$}  {}",
            model.id.as_str(),
            as_text(facts)
        ))?;
    }
    Ok(Exit::Success)
}

/// A service that does not answer, told as a turn that failed would be.
fn unanswered(error: anyhow::Error) -> Failure {
    let Some(refused) = error.downcast_ref::<ProviderError>() else {
        return error.into();
    };
    let code = match refused.kind {
        ProviderErrorKind::Authentication => "provider_authentication",
        ProviderErrorKind::RateLimited => "provider_rate_limited",
        ProviderErrorKind::Transient => "provider_unavailable",
        _ => "provider_failed",
    };
    let told = halter::HalterError::new(code, refused.message.clone());
    match &refused.hint {
        Some(hint) => told.with_hint(hint.clone()).into(),
        None => told.into(),
    }
}

fn as_json(model: &ResolvedModel, facts: &ModelFacts) -> Value {
    let known = |known: &Known<u32>| json!({"value": known.value, "source": known.source.as_str()});
    json!({
        "id": model.id.as_str(),
        "provider": model.provider.as_str(),
        "model": model.model,
        "context_window": known(&facts.context_window),
        "output_limit": facts.output_limit.as_ref().map(known),
        "prices": facts.prices.as_ref().map(|prices| json!({
            "dollars_per_million": {
                "input": dollars(prices.value.input),
                "cache_read": dollars(prices.value.cache_read),
                "cache_write": dollars(prices.value.cache_write),
                "output": dollars(prices.value.output),
            },
            "source": prices.source.as_str(),
        })),
    })
}

/// Billionths of a dollar per token as dollars per million.
fn dollars(billionths: u64) -> f64 {
    billionths as f64 / 1e3
}

fn as_text(facts: &ModelFacts) -> String {
    let window = &facts.context_window;
    let mut parts = vec![format!("{} tokens ({})", window.value, window.source)];
    if let Some(output) = &facts.output_limit {
        parts.push(format!(
            "answers up to {} ({})",
            output.value, output.source
        ));
    }
    if let Some(prices) = &facts.prices {
        parts.push(format!(
            "${} in, ${} out per million ({})",
            dollars(prices.value.input),
            dollars(prices.value.output),
            prices.source
        ));
    }
    parts.join(", ")
}
