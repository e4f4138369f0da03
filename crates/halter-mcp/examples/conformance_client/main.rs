//! The client that the public conformance suite drives: servers over HTTP, as a
//! session uses them, with a user who agrees to everything. The suite names the
//! address last, and the scenario by a variable.
//!
//! ```sh
//! cargo run -p halter-mcp --example conformance_client -- http://localhost:1234/mcp
//! ```

// Indexing JSON never panics.
#![allow(clippy::indexing_slicing, clippy::print_stderr, missing_docs)]

mod session;

use anyhow::{Context as _, bail};
use halter_mcp::auth::{Login, LoginRequest, TokenStore};
use halter_mcp::{HttpSettings, McpError, ServerName, ServerSettings, ServerState};
use secrecy::SecretString;
use serde_json::{Value, json};
use session::Session;
use std::sync::Arc;

/// How often a user logs in before they lose patience.
const LOGINS: usize = 3;

/// Where the browser of the user is sent in the end. Nothing listens there:
/// the user pastes the address.
const REDIRECT: &str = "http://127.0.0.1:8765/callback";

/// The description of the client that the suite knows.
const CLIENT_METADATA: &str = "https://conformance-test.local/client-metadata.json";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url = std::env::args().next_back().context("no address")?;
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    let context = std::env::var("MCP_CONFORMANCE_CONTEXT").ok();
    let context: Value = match context {
        Some(text) => serde_json::from_str(&text)?,
        None => Value::Null,
    };
    let tokens = tempfile::tempdir()?;
    let settings = settings(&url, &context, TokenStore::new(tokens.path()))?;
    let mut logins = 0;
    let mut logged_in = async |scope: Option<String>| {
        logins += 1;
        match logins > LOGINS {
            true => bail!("the user has logged in {LOGINS} times and has enough of it"),
            false => log_in(&settings, scope).await,
        }
    };
    loop {
        let session = Session::start(settings.clone()).await?;
        let done = match session.status().state {
            ServerState::Ready => session.play(&scenario, &context).await,
            ServerState::Failed(error) | ServerState::Restarting(error) => Err(error.into()),
            other => bail!("the server is {other:?}"),
        };
        session.servers.shutdown().await;
        match done {
            Ok(()) => return Ok(()),
            Err(error) => match error.downcast_ref::<McpError>() {
                Some(McpError::LoginNeeded { scope, .. }) => logged_in(scope.clone()).await?,
                _ => return Err(error),
            },
        }
    }
}

fn settings(url: &str, context: &Value, store: TokenStore) -> anyhow::Result<ServerSettings> {
    let name = ServerName::new("conformance")?;
    let mut http = HttpSettings::new(&name, url, Arc::new(client))?;
    http.oauth.store = Some(store);
    http.oauth.client_metadata_url = Some(CLIENT_METADATA.to_owned());
    let text = |key: &str| context[key].as_str().map(str::to_owned);
    http.oauth.client_id = text("client_id");
    http.oauth.client_secret = text("client_secret").map(SecretString::from);
    let mut settings = ServerSettings::new(name, http);
    settings.sampling = true;
    Ok(settings)
}

/// A client without certificates: the suite speaks plain HTTP.
fn client() -> anyhow::Result<reqwest::Client> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let client = reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .build()?;
    Ok(client)
}

/// Logs in as a user does who is logged in at the authorization server already:
/// its page sends the browser back at once.
async fn log_in(settings: &ServerSettings, scope: Option<String>) -> anyhow::Result<()> {
    let scopes = scope.unwrap_or_default();
    let request = LoginRequest {
        redirect_uri: REDIRECT.to_owned(),
        scopes: scopes.split_whitespace().map(str::to_owned).collect(),
        challenge: None,
    };
    let login = Login::begin(settings, request).await?;
    let page = client()?.get(login.address().clone()).send().await?;
    let location = page.headers().get("location");
    let location = location.context("the login page sends nobody back")?;
    login.finish(location.to_str()?).await?;
    Ok(())
}

/// The arguments that a scenario wants for a tool.
fn arguments(scenario: &str, tool: &str, schemas: &Value) -> Value {
    match (scenario, tool) {
        ("tools_call", "add_numbers") => json!({"a": 5, "b": 3}),
        ("json-schema-2020-12-preservation", tool) => match schemas.as_object() {
            Some(schemas) => {
                let others = schemas.iter().find(|(name, _)| name.as_str() != tool);
                json!({"schema": others.map(|(_, schema)| schema)})
            }
            None => json!({}),
        },
        _ => {
            let required = schemas[tool]["required"].as_array();
            let required = required.into_iter().flatten().filter_map(Value::as_str);
            required.map(|name| (name.to_owned(), json!("x"))).collect()
        }
    }
}
