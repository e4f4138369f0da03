//! What the tests share.

use crate::fixture;
use async_trait::async_trait;
use halter_exec::Environment;
use halter_mcp::{
    Connection, McpServers, ProgramSettings, ServerEvents, ServerName, ServerSettings,
    ServerStatus, WorkingDirectories,
};
use halter_protocol::{ResourceSnapshot, SessionMemory, ToolCall, ToolError, ToolResult};
use halter_tools::policy::{PolicySettings, SessionScope, StandardPolicy};
use halter_tools::{
    MemoryChanges, NoDeferredTools, NoEarlierMessages, NobodyToAsk, PathLockMap, ScratchDir, Tool,
    ToolContext, ToolEventSink, ToolRuntime, ToolRuntimeEvent, ToolSessionStore,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Long enough for any of these tests, and an end to a test that hangs.
pub const ENOUGH: Duration = Duration::from_secs(60);

/// The fixture as a server that behaves in this way.
pub fn fixture_server(name: &str, behaviour: &str) -> ServerSettings {
    let environment =
        Environment::from_iter([("PATH", "/usr/bin:/bin"), (fixture::BEHAVIOUR, behaviour)]);
    let program = ProgramSettings {
        program: std::env::current_exe().unwrap().into(),
        arguments: fixture::arguments("fixture"),
        environment,
        directory: "/".into(),
        sandbox: None,
    };
    ServerSettings::new(ServerName::new(name).unwrap(), program)
}

/// The program of a server that is one.
pub fn program_of(settings: &mut ServerSettings) -> &mut ProgramSettings {
    match &mut settings.connection {
        Connection::Program(program) => program,
        other => panic!("{other:?} is no program"),
    }
}

/// Keeps what becomes of servers.
pub struct Recorded {
    tools: watch::Sender<BTreeMap<String, Vec<Arc<dyn Tool>>>>,
    /// How often servers were said to have other tools.
    changes: AtomicUsize,
}

impl ServerEvents for Recorded {
    fn tools(&self, server: &ServerName, tools: Vec<Arc<dyn Tool>>) {
        self.changes.fetch_add(1, Ordering::Relaxed);
        self.tools.send_modify(|all| {
            all.insert(server.to_string(), tools);
        });
    }

    fn state(&self, _: &ServerStatus) {}
}

/// Servers that were started, and the tools they have.
pub struct Started {
    pub servers: McpServers,
    recorded: Arc<Recorded>,
}

impl Started {
    pub fn new(settings: Vec<ServerSettings>) -> Self {
        let recorded = Arc::new(Recorded {
            tools: watch::Sender::default(),
            changes: AtomicUsize::new(0),
        });
        let host = Arc::new(WorkingDirectories(vec!["/work dir".into()]));
        let servers = McpServers::start(settings, host, recorded.clone()).unwrap();
        Self { servers, recorded }
    }

    /// One server, once it is ready or will not be.
    pub async fn one(settings: ServerSettings) -> Self {
        let started = Self::new(vec![settings]);
        started.servers.settled(ENOUGH).await;
        started
    }

    pub fn status(&self) -> ServerStatus {
        self.servers.status().remove(0)
    }

    /// How often servers were said to have other tools.
    pub fn changes(&self) -> usize {
        self.recorded.changes.load(Ordering::Relaxed)
    }

    /// Waits until there is a tool of this name.
    pub async fn has(&self, name: &str) {
        let mut tools = self.recorded.tools.subscribe();
        let there = tools.wait_for(|all| {
            let mut tools = all.values().flatten();
            tools.any(|tool| tool.spec().name.as_str() == name)
        });
        tokio::time::timeout(ENOUGH, there).await.unwrap().unwrap();
    }

    pub fn runtime(&self) -> ToolRuntime {
        let tools = self.recorded.tools.borrow();
        ToolRuntime::with_tools(tools.values().flatten().cloned())
    }

    /// A tool of a server, as it is now.
    pub fn tool(&self, name: &str) -> Option<Arc<dyn Tool>> {
        let tools = self.recorded.tools.borrow();
        let mut tools = tools.values().flatten();
        tools.find(|it| it.spec().name.as_str() == name).cloned()
    }

    /// Calls a tool as a session would.
    pub async fn call(&self, tool: &str, arguments: Value) -> Result<ToolResult, ToolError> {
        self.call_with(tool, arguments, &context(CancellationToken::new()))
            .await
    }

    /// Calls a tool, however long it takes.
    pub async fn call_slowly(&self, tool: &str) -> Result<ToolResult, ToolError> {
        let context = context(CancellationToken::new());
        self.call_patiently(tool, serde_json::json!({}), &context)
            .await
    }

    /// Calls a tool, however much time is said to pass.
    pub async fn call_patiently(
        &self,
        tool: &str,
        arguments: Value,
        context: &ToolContext,
    ) -> Result<ToolResult, ToolError> {
        let call = ToolCall {
            id: "call_1".into(),
            name: tool.into(),
            arguments,
        };
        let mut runtime = self.runtime();
        for tool in self.servers.resource_tools() {
            runtime.register(tool);
        }
        runtime.execute(&call, context.clone()).await
    }

    pub async fn call_with(
        &self,
        tool: &str,
        arguments: Value,
        context: &ToolContext,
    ) -> Result<ToolResult, ToolError> {
        let called = self.call_patiently(tool, arguments, context);
        tokio::time::timeout(ENOUGH, called).await.unwrap()
    }
}

/// Keeps the output of calls.
#[derive(Default)]
pub struct Output(pub Mutex<String>);

impl ToolEventSink for Output {
    fn emit(&self, event: ToolRuntimeEvent) {
        if let ToolRuntimeEvent::ToolOutput { chunk, .. } = event {
            self.0.lock().unwrap().push_str(&chunk);
        }
    }
}

struct Nothing;

#[async_trait]
impl halter_tools::ToolSessionState for Nothing {}

/// The surroundings of a call.
pub fn context(cancel: CancellationToken) -> ToolContext {
    context_with(cancel, Arc::new(Output::default()))
}

pub fn context_with(cancel: CancellationToken, emit: Arc<Output>) -> ToolContext {
    let scope = SessionScope {
        working_dir: std::env::temp_dir(),
        ..SessionScope::default()
    };
    let policy = StandardPolicy::bind(PolicySettings::default(), scope).unwrap();
    let store = ToolSessionStore::new(ScratchDir::new(std::env::temp_dir()));
    let _ = store.get_or_insert_with(|| Nothing);
    ToolContext {
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
        asker: Arc::new(NobodyToAsk),
        hosts: None,
        snapshot: Arc::new(ResourceSnapshot::empty()),
        cancel,
        emit,
        policy: Arc::new(policy),
        shell_timeout_secs: 10,
    }
}
