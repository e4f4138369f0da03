//! Recordings of model traffic: what a harness writes into one of itself, and
//! what it takes from it on replay.

use crate::error::config_failure;
use halter_config::{ConfigError, HarnessConfig, ModelConfig, ProviderConfig, known_service};
use halter_providers::cassette::{self, Cassette, CassetteError};
use halter_providers::wire::{is_compacting_vendor, is_tool_loading_vendor};
use halter_runtime::HalterError;
use serde_json::{Value, json};
use std::path::PathBuf;

/// An address that no request reaches.
const NOWHERE: &str = "http://127.0.0.1:9";

/// The file of a cassette.
pub(crate) fn file(cassette: &Cassette) -> Option<PathBuf> {
    match cassette {
        Cassette::Record(file) | Cassette::Replay(file) => Some(file.clone()),
        _ => None,
    }
}

pub(crate) fn failure(error: CassetteError) -> anyhow::Error {
    let summary = HalterError::new(error.code(), error.to_string());
    anyhow::Error::new(error).context(summary)
}

/// The model of a configuration, and what of its service shapes requests: of
/// its address only the path. Keys and headers are not among it.
pub(crate) fn made_with(config: &HarnessConfig) -> Option<Value> {
    let model = config.models.default.as_ref()?;
    let table = config.providers.get(&model.provider).cloned();
    let table = table.unwrap_or_default();
    let known = known_service(model.provider.as_str());
    let address = table.base_url.as_deref();
    let address = address.or(known.map(|known| known.base_url))?;
    let service = ProviderConfig {
        base_url: Some(format!("{NOWHERE}{}", path_of(address))),
        wire: table.wire,
        dialect: table.dialect,
        temperature: table.temperature,
        // The address is not recorded, and what it would say of this is.
        native_compaction: table
            .native_compaction
            .or_else(|| is_compacting_vendor(address).then_some(true)),
        native_tool_loading: table
            .native_tool_loading
            .or_else(|| is_tool_loading_vendor(address).then_some(true)),
        routing: table.routing,
        ..ProviderConfig::default()
    };
    Some(json!({ "model": model, "service": service }))
}

/// What follows the host of an address.
fn path_of(address: &str) -> &str {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    rest.find('/').and_then(|at| rest.get(at..)).unwrap_or("")
}

/// Has the model of a recording answer, whatever the configuration says.
pub(crate) fn use_recorded(config: &mut HarnessConfig, cassette: &Cassette) -> anyhow::Result<()> {
    let Cassette::Replay(file) = cassette else {
        return Ok(());
    };
    let Some(mut made_with) = cassette::made_with(file).map_err(failure)? else {
        return Ok(());
    };
    let mut part = |name: &str| made_with.get_mut(name).map(Value::take).unwrap_or_default();
    let unreadable = |source| config_failure(ConfigError::Json { source });
    let model: ModelConfig = serde_json::from_value(part("model")).map_err(unreadable)?;
    let service: ProviderConfig = serde_json::from_value(part("service")).map_err(unreadable)?;
    if let Some(table) = config.providers.entry(&model.provider) {
        table.base_url = service.base_url;
        table.wire = service.wire;
        table.dialect = service.dialect;
        table.temperature = service.temperature;
        table.native_compaction = service.native_compaction;
        table.native_tool_loading = service.native_tool_loading;
        table.routing = service.routing;
    }
    config.models.default = Some(model);
    Ok(())
}
