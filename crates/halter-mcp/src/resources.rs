//! Resources of servers: what they are, what they hold, and the two tools by
//! which models find and read them.

use crate::client::CallOrders;
use crate::error::McpError;
use crate::limits::{RESOURCE_LIST_BYTES, RESOURCE_PARTS, RESOURCE_URI_BYTES};
use crate::managed::{ManagedServer, ServerState};
use crate::names::{LIST_RESOURCES, READ_RESOURCE, ServerName};
use crate::result::{bound_texts, resource};
use crate::servers::{McpServers, ServerTable};
use crate::text::{plain, shortened};
use crate::tool::failure;
use async_trait::async_trait;
use halter_protocol::{
    ContentPart, ToolCapabilities, ToolConcurrency, ToolError, ToolErrorCode, ToolResult,
};
use halter_tools::{Tool, ToolContext, TypedTool, typed};
use schemars::JsonSchema;
use serde::Deserialize;
use std::fmt::Write as _;
use std::sync::{Arc, Weak};
use tokio_util::sync::CancellationToken;

impl McpServers {
    /// Reads a resource for a message of a user, waiting for a server that
    /// still starts. Nobody is asked anything meanwhile.
    ///
    /// # Errors
    /// If there is no such server, it has no such resource, or it fails.
    pub async fn read_resource(
        &self,
        server: &str,
        uri: &str,
        cancel: CancellationToken,
    ) -> Result<Vec<ContentPart>, McpError> {
        let orders = CallOrders {
            cancel,
            ..CallOrders::quiet()
        };
        read(&self.servers, server, uri, &orders).await
    }

    /// The tools by which models find and read resources. They hold no server.
    pub fn resource_tools(&self) -> Vec<Arc<dyn Tool>> {
        let table = || Arc::downgrade(&self.servers);
        vec![
            typed(ListResources { servers: table() }),
            typed(ReadResource { servers: table() }),
        ]
    }
}

/// A server by its name.
pub(crate) fn named<'a>(
    servers: &'a ServerTable,
    name: &str,
) -> Result<&'a Arc<ManagedServer>, McpError> {
    let server = ServerName::public(name).ok();
    let server = server.and_then(|name| servers.get(&name));
    server.ok_or_else(|| McpError::NoServer {
        name: name.to_owned(),
        known: servers.keys().map(ServerName::to_string).collect(),
    })
}

async fn read(
    servers: &ServerTable,
    server: &str,
    uri: &str,
    orders: &CallOrders,
) -> Result<Vec<ContentPart>, McpError> {
    let managed = named(servers, server)?;
    let link = managed.ready_link(orders).await?;
    if uri.len() > RESOURCE_URI_BYTES {
        let reason = format!("the address of a resource has {RESOURCE_URI_BYTES} bytes at most");
        return Err(McpError::BadRequest { reason });
    }
    let contents = link.read_resource(uri, orders).await;
    let contents = managed.with_last_words(&link, contents).await?;
    let left_out = contents.len().saturating_sub(RESOURCE_PARTS);
    let mut parts: Vec<ContentPart> = contents.iter().take(RESOURCE_PARTS).map(resource).collect();
    if parts.is_empty() {
        let uri = plain(uri);
        parts.push(ContentPart::text(format!(
            "[resource {uri}: nothing is in it]"
        )));
    }
    if left_out > 0 {
        parts.push(ContentPart::text(format!("[{left_out} parts left out]")));
    }
    bound_texts(&mut parts);
    Ok(parts)
}

/// What one server has, for a model to read.
async fn listed(server: &ManagedServer, orders: &CallOrders) -> Result<String, McpError> {
    let link = server.ready_link(orders).await?;
    let name = server.status().name;
    if link.capabilities().resources.is_none() {
        return Ok(format!("The server `{name}` has no resources.\n"));
    }
    let resources = server
        .with_last_words(&link, link.list_resources(orders).await)
        .await?;
    let templates = server
        .with_last_words(&link, link.list_templates(orders).await)
        .await?;
    let mut told = format!("Resources of the server `{name}`:\n");
    for it in &resources.items {
        let kind = it.mime_type.as_deref();
        let description = it.description.as_deref();
        told.push_str(&line(&it.uri, kind, &it.name, description));
    }
    if !templates.items.is_empty() {
        told.push_str("Patterns, with names in braces to replace:\n");
    }
    for it in &templates.items {
        let kind = it.mime_type.as_deref();
        let description = it.description.as_deref();
        told.push_str(&line(&it.uri_template, kind, &it.name, description));
    }
    if resources.items.is_empty() && templates.items.is_empty() {
        told.push_str("none\n");
    }
    for problem in resources.problems.iter().chain(&templates.problems) {
        // Writing to a string cannot fail.
        let _ = writeln!(told, "({problem})");
    }
    Ok(told)
}

fn line(uri: &str, kind: Option<&str>, name: &str, description: Option<&str>) -> String {
    let one_line = |text: &str| plain(text).split_whitespace().collect::<Vec<_>>().join(" ");
    let mut line = format!("- {}", one_line(uri));
    if let Some(kind) = kind {
        let _ = write!(line, " ({})", one_line(kind));
    }
    let _ = write!(line, ": {}", one_line(name));
    if let Some(description) = description.filter(|it| !it.trim().is_empty()) {
        let _ = write!(line, " - {}", one_line(description));
    }
    line.push('\n');
    line
}

fn orders_of(context: ToolContext, tool: &'static str) -> CallOrders {
    let output = context.clone();
    CallOrders {
        cancel: context.cancel.clone(),
        output: Arc::new(move |text| output.emit_output(tool, text)),
        caller: Some(context),
        asked: Arc::default(),
    }
}

/// They are judged as all calls of servers are: what a server does when it is
/// asked for a resource, only it knows.
fn capabilities() -> ToolCapabilities {
    ToolCapabilities {
        mutating: true,
        requires_approval: true,
        cancellable: true,
        long_running: true,
    }
}

fn stopped() -> ToolError {
    ToolError::new(ToolErrorCode::Failed, "the MCP servers are stopped")
}

#[derive(Deserialize, JsonSchema)]
struct ListResourcesInput {
    /// The server; all if absent.
    server: Option<String>,
}

struct ListResources {
    servers: Weak<ServerTable>,
}

#[async_trait]
impl TypedTool for ListResources {
    type Input = ListResourcesInput;
    const NAME: &'static str = LIST_RESOURCES;

    fn description(&self) -> String {
        "List the resources of MCP servers, with their addresses.".to_owned()
    }

    fn concurrency(&self) -> ToolConcurrency {
        ToolConcurrency::ReadOnly
    }

    fn capabilities(&self) -> ToolCapabilities {
        capabilities()
    }

    async fn run(
        &self,
        context: ToolContext,
        input: ListResourcesInput,
    ) -> anyhow::Result<ToolResult> {
        let servers = self.servers.upgrade().ok_or_else(stopped)?;
        let orders = orders_of(context, Self::NAME);
        if let Some(name) = input.server {
            let server = named(&servers, &name).map_err(|error| failure(&error))?;
            let told = listed(server, &orders).await;
            let told = told.map_err(|error| failure(&error))?;
            return Ok(ToolResult::text(shortened(&told, RESOURCE_LIST_BYTES)));
        }
        let mut told = String::new();
        for server in servers.values() {
            let status = server.status();
            match status.state {
                ServerState::Ready if status.has_resources => match listed(server, &orders).await {
                    Ok(list) => told.push_str(&list),
                    Err(error @ McpError::Cancelled { .. }) => {
                        return Err(failure(&error).into());
                    }
                    Err(error) => {
                        let _ = writeln!(told, "{error}");
                    }
                },
                ServerState::Starting => {
                    let _ = writeln!(told, "The server `{}` is still starting.", status.name);
                }
                _ => {}
            }
        }
        if told.is_empty() {
            told.push_str("No server has resources.");
        }
        Ok(ToolResult::text(shortened(&told, RESOURCE_LIST_BYTES)))
    }
}

#[derive(Deserialize, JsonSchema)]
struct ReadResourceInput {
    /// The server that has it.
    server: String,
    /// Its address.
    #[schemars(length(min = 1, max = RESOURCE_URI_BYTES))]
    uri: String,
}

struct ReadResource {
    servers: Weak<ServerTable>,
}

#[async_trait]
impl TypedTool for ReadResource {
    type Input = ReadResourceInput;
    const NAME: &'static str = READ_RESOURCE;

    fn description(&self) -> String {
        "Read a resource of an MCP server.".to_owned()
    }

    fn concurrency(&self) -> ToolConcurrency {
        ToolConcurrency::ReadOnly
    }

    fn capabilities(&self) -> ToolCapabilities {
        capabilities()
    }

    async fn run(
        &self,
        context: ToolContext,
        input: ReadResourceInput,
    ) -> anyhow::Result<ToolResult> {
        let servers = self.servers.upgrade().ok_or_else(stopped)?;
        let orders = orders_of(context, Self::NAME);
        let parts = read(&servers, &input.server, &input.uri, &orders).await;
        let mut parts = parts.map_err(|error| failure(&error))?;
        Ok(match parts.as_mut_slice() {
            [ContentPart::Text { text }] => ToolResult::text(std::mem::take(text)),
            _ => ToolResult::parts(parts),
        })
    }
}
