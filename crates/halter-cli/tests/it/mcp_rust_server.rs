//! A server on the SDK for Rust. It is this test program, started again.

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::{ErrorData, ServerHandler, ServiceExt};
use serde_json::json;
use std::sync::Arc;

/// The variable that makes this test program a server.
pub const VARIABLE: &str = "MCP_RUST_SERVER";

struct Shouting;

impl ServerHandler for Shouting {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        let mut info = ServerConfig::new(capabilities);
        info.server_info = Implementation::new("shouting", "1.0");
        info
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = json!({
            "type": "object",
            "properties": {"text": {"type": "string"}},
            "required": ["text"],
        });
        let schema = schema.as_object().cloned().unwrap_or_default();
        let tool = Tool::new("shout", "Says it louder.", Arc::new(schema));
        Ok(ListToolsResult::with_all_items(vec![tool]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let text = arguments.get("text").and_then(|text| text.as_str());
        let text = text.ok_or_else(|| ErrorData::invalid_params("no text", None))?;
        let said = vec![ContentBlock::text(text.to_uppercase())];
        Ok(CallToolResult::success(said).into())
    }
}

#[test]
fn serves() {
    if std::env::var_os(VARIABLE).is_none() {
        return;
    }
    // After the name of the test, which the harness has not ended with a line.
    println!();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let streams = (tokio::io::stdin(), tokio::io::stdout());
        let service = Shouting.serve(streams).await.unwrap();
        service.waiting().await.unwrap();
    });
    // The harness would say how the test ended.
    std::process::exit(0);
}
