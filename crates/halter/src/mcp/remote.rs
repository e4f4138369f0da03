//! Servers over HTTP, from their descriptions.

use super::{ServerEnvironment, seconds};
use crate::error::invalid;
use crate::services::client_settings;
use halter_config::{McpServerTable, McpTransport};
use halter_mcp::auth::TokenStore;
use halter_mcp::http::HttpClientLoader;
use halter_mcp::{HttpSettings, HttpTransport, ServerName};
use halter_providers::http::network_client;
use halter_runtime::HalterError;
use std::sync::Arc;

/// The directory with the tokens of servers, below the state directory.
const TOKENS: &str = "mcp-tokens";

/// Where a server is and what it is sent, from its table.
pub(super) fn http_settings(
    name: &ServerName,
    table: &McpServerTable,
    around: &ServerEnvironment<'_>,
    expand: &impl Fn(&str) -> anyhow::Result<String>,
) -> anyhow::Result<HttpSettings> {
    let wrong = |message: String, hint: &str| anyhow::Error::from(invalid(message).with_hint(hint));
    let Some(url) = &table.url else {
        let message = format!("MCP server `{name}` has no `url`");
        return Err(wrong(message, "name its address"));
    };
    if table.command.is_some() {
        let message = format!("MCP server `{name}` has a `command`, which is not for its `type`");
        return Err(wrong(message, "take one of the two out"));
    }
    if table.sandbox {
        let message = format!("MCP server `{name}` runs elsewhere and cannot be in a sandbox here");
        return Err(wrong(message, "take `sandbox` out of its table"));
    }
    let mut settings = HttpSettings::new(name, &expand(url)?, client(around))?;
    settings.transport = match table.transport {
        McpTransport::Sse => HttpTransport::LegacySse,
        _ => HttpTransport::Streamable,
    };
    for (header, value) in &table.headers {
        settings.header(name, header, &expand(value)?)?;
    }
    for (header, variable) in &table.headers_from_env {
        let Some(value) = around.variable(variable) else {
            let message = format!("MCP server `{name}`: the variable {variable} is not set");
            let hint = format!("set it: it holds the header {header}");
            return Err(HalterError::new("mcp_variable", message)
                .with_hint(hint)
                .into());
        };
        settings.header(name, header, &value)?;
    }
    settings.read_timeout = seconds(table.sse_read_timeout_secs, settings.read_timeout);
    settings.end_session = table.terminate_on_close;
    let (given, oauth) = (&table.oauth, &mut settings.oauth);
    let expanded = |text: &Option<String>| text.as_deref().map(expand).transpose();
    oauth.client_id = expanded(&given.client_id)?;
    oauth.client_secret = expanded(&given.client_secret)?.map(Into::into);
    oauth.client_metadata_url = expanded(&given.client_metadata_url)?;
    oauth.scopes.clone_from(&given.scopes);
    let state = around.environment.state_dir();
    oauth.store = state.map(|state| TokenStore::new(state.join(TOKENS)));
    Ok(settings)
}

/// Servers are reached as model services are.
fn client(around: &ServerEnvironment<'_>) -> HttpClientLoader {
    let settings = client_settings(around.environment);
    Arc::new(move || Ok(network_client(&settings)?))
}
