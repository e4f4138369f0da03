//! `halter validate`: is the configuration fit for use?

use crate::args::JsonArg;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::harness::{self, Models, Store};
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
    if arguments.json {
        context
            .data
            .json(&json!({"valid": true, "warnings": warnings}))?;
        return Ok(Exit::Success);
    }
    context.data.line("config valid")?;
    for warning in warnings {
        context.data.line(&format!("warning: {warning}"))?;
    }
    Ok(Exit::Success)
}
