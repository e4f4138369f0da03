//! `halter validate`: is the configuration fit for use?

use crate::args::JsonArg;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::harness::{self, Models, Store};
use halter_config::inert_keys;
use serde_json::json;

/// Checks everything a session would need, without starting one.
pub async fn validate(context: &mut Context, arguments: JsonArg) -> Result<Exit, Failure> {
    context.errors_in_data = arguments.json;
    let loaded = harness::load_silently(context).await?;
    let resources = harness::compile(context, &loaded).await?;
    let mut warnings = harness::warnings(&loaded.config);
    warnings.extend(resources.messages());
    // The store is opened by whoever uses it; a check leaves no file behind.
    harness::build(
        context,
        &loaded,
        resources,
        Models::Configured,
        Store::Memory,
    )
    .await?;
    let inert = inert_keys(&loaded.config);
    if arguments.json {
        let inert: Vec<_> = inert
            .iter()
            .map(|key| {
                json!({
                    "key": key.key,
                    "waits_for": key.waits_for,
                    "origin": key.origin.to_string(),
                })
            })
            .collect();
        context
            .data
            .json(&json!({"valid": true, "no_effect_yet": inert, "warnings": warnings}))?;
        return Ok(Exit::Success);
    }
    context.data.line("config valid")?;
    for key in inert {
        let (key, origin, part) = (key.key, key.origin, key.waits_for);
        context
            .data
            .line(&format!("no effect yet: {key} ({origin}) waits for {part}"))?;
    }
    for warning in warnings {
        context.data.line(&format!("warning: {warning}"))?;
    }
    Ok(Exit::Success)
}
