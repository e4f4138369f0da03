//! What our layer adds to a call of an MCP server over standard streams, against
//! the same call with the protocol's own library and nothing else.
//!
//! Two processes of one server answer, and the calls take turns, so that both
//! see the machine in the same state. The middle of all calls counts.

use anyhow::Context;
use async_trait::async_trait;
use halter_bench::measure::median;
use halter_bench::report::{Claim, print, remark};
use halter_exec::Environment;
use halter_mcp::{
    McpServers, ProgramSettings, ServerEvents, ServerName, ServerSettings, ServerStatus,
    WorkingDirectories,
};
use halter_protocol::{ResourceSnapshot, SessionMemory};
use halter_tools::policy::{PolicySettings, SessionScope, StandardPolicy};
use halter_tools::{
    MemoryChanges, NoDeferredTools, NoEarlierMessages, NobodyToAsk, PathLockMap, ScratchDir, Tool,
    ToolContext, ToolEventSink, ToolRuntimeEvent, ToolSessionState, ToolSessionStore,
};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig,
};
use rmcp::service::{RequestContext, RoleServer, RunningService};
use rmcp::{ErrorData, RoleClient, ServerHandler, ServiceExt};
use serde_json::json;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::unix::pipe;
use tokio_util::sync::CancellationToken;

/// Calls of each kind that are measured, and those before them that are not.
const CALLS: usize = 2000;
const WARM_UP: usize = 200;

const SERVE: &str = "--serve";

fn main() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    match std::env::args().any(|argument| argument == SERVE) {
        true => runtime.block_on(serve()),
        false => runtime.block_on(compare()),
    }
}

async fn compare() -> anyhow::Result<()> {
    let (mut child, raw) = raw_client().await?;
    let (servers, tool) = our_client().await?;
    let context = context()?;
    let (mut floor, mut measured) = (Vec::new(), Vec::new());
    for round in 0..WARM_UP + CALLS {
        let begun = Instant::now();
        let arguments = json!({"text": "hello"});
        let arguments = arguments.as_object().cloned().context("an object")?;
        let params = CallToolRequestParams::new("echo").with_arguments(arguments);
        raw.call_tool(params).await?;
        let alone = begun.elapsed();
        let begun = Instant::now();
        let input = json!({"text": "hello"});
        tool.execute(context.clone(), input).await?;
        let ours = begun.elapsed();
        if round >= WARM_UP {
            floor.push(milliseconds(alone));
            measured.push(milliseconds(ours));
        }
    }
    servers.shutdown().await;
    raw.cancel().await?;
    child.kill()?;
    child.wait()?;
    let (floor, measured) = (median(floor), median(measured));
    remark(&format!(
        "a call of a server: {measured:.3} ms, with rmcp alone {floor:.3} ms (p50 of {CALLS})"
    ));
    print(&Claim {
        what: "what our layer adds to a call of an MCP server, p50",
        value: measured - floor,
        limit: 1.0,
        unit: "ms",
    });
    Ok(())
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

/// The library alone, on the streams of a process.
async fn raw_client() -> anyhow::Result<(Child, RunningService<RoleClient, ()>)> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg(SERVE)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let output = OwnedFd::from(child.stdout.take().context("no output")?);
    let input = OwnedFd::from(child.stdin.take().context("no input")?);
    let streams = (
        pipe::Receiver::from_owned_fd(output)?,
        pipe::Sender::from_owned_fd(input)?,
    );
    Ok((child, ().serve(streams).await?))
}

#[derive(Default)]
struct Tools(Mutex<Vec<Arc<dyn Tool>>>);

impl ServerEvents for Tools {
    fn tools(&self, _: &ServerName, tools: Vec<Arc<dyn Tool>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = tools;
    }

    fn state(&self, _: &ServerStatus) {}
}

async fn our_client() -> anyhow::Result<(McpServers, Arc<dyn Tool>)> {
    let program = ProgramSettings {
        program: std::env::current_exe()?.into(),
        arguments: vec![SERVE.into()],
        environment: Environment::from_iter(std::env::vars_os()),
        directory: "/".into(),
        sandbox: None,
    };
    let settings = ServerSettings::new(ServerName::new("bench")?, program);
    let tools = Arc::new(Tools::default());
    let host = Arc::new(WorkingDirectories::default());
    let servers = McpServers::start(vec![settings], host, tools.clone())?;
    servers.started().await;
    let tool = {
        let tools = tools.0.lock().unwrap_or_else(PoisonError::into_inner);
        tools.first().cloned()
    };
    Ok((servers, tool.context("the server has no tool")?))
}

struct Nothing;

#[async_trait]
impl ToolSessionState for Nothing {}

struct Unheard;

impl ToolEventSink for Unheard {
    fn emit(&self, _: ToolRuntimeEvent) {}
}

/// The surroundings of a call.
fn context() -> anyhow::Result<ToolContext> {
    let scope = SessionScope {
        working_dir: std::env::temp_dir(),
        ..SessionScope::default()
    };
    let store = ToolSessionStore::new(ScratchDir::new(std::env::temp_dir()));
    let _ = store.get_or_insert_with(|| Nothing);
    Ok(ToolContext {
        session_id: "session_1".into(),
        call_id: "call_1".into(),
        working_dir: std::env::temp_dir(),
        path_locks: Arc::new(PathLockMap::default()),
        memory: Arc::new(SessionMemory::default()),
        remembered: MemoryChanges::default(),
        earlier: Arc::new(NoEarlierMessages),
        tool_sessions: Arc::new(store),
        tools: Arc::new(NoDeferredTools),
        subagents: None,
        models: None,
        hosts: None,
        asker: Arc::new(NobodyToAsk),
        snapshot: Arc::new(ResourceSnapshot::empty()),
        cancel: CancellationToken::new(),
        emit: Arc::new(Unheard),
        policy: Arc::new(StandardPolicy::bind(PolicySettings::default(), scope)?),
        shell_timeout_secs: 10,
    })
}

/// A server on the library, with one tool.
struct Echo;

impl ServerHandler for Echo {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}});
        let schema = schema.as_object().cloned().unwrap_or_default();
        let tool = rmcp::model::Tool::new("echo", "Says it again.", Arc::new(schema));
        Ok(ListToolsResult::with_all_items(vec![tool]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let text = arguments.get("text").and_then(|text| text.as_str());
        let said = vec![ContentBlock::text(text.unwrap_or_default())];
        Ok(CallToolResult::success(said).into())
    }
}

async fn serve() -> anyhow::Result<()> {
    let service = Echo
        .serve((tokio::io::stdin(), tokio::io::stdout()))
        .await?;
    service.waiting().await?;
    Ok(())
}
