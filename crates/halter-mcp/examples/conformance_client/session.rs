//! What a session does with the tools of a server.

use async_trait::async_trait;
use halter_mcp::{
    McpError, McpServers, ServerEvents, ServerName, ServerSettings, ServerStatus,
    WorkingDirectories,
};
use halter_protocol::{
    Question, QuestionResponse, ResolvedBy, ResourceSnapshot, SessionMemory, ToolCall,
};
use halter_tools::policy::{PolicySettings, SessionScope, StandardPolicy};
use halter_tools::{
    Answers, MemoryChanges, NoDeferredTools, NoEarlierMessages, PathLockMap, QuestionAsker,
    ScratchDir, Tool, ToolContext, ToolEventSink, ToolRuntime, ToolRuntimeEvent, ToolSessionStore,
};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, PoisonError};
use tokio_util::sync::CancellationToken;

/// Keeps the tools of the server.
#[derive(Default)]
struct Tools(Mutex<Vec<Arc<dyn Tool>>>);

impl ServerEvents for Tools {
    fn tools(&self, _: &ServerName, tools: Vec<Arc<dyn Tool>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = tools;
    }

    fn state(&self, _: &ServerStatus) {}
}

/// A user who agrees, and leaves fields as they are proposed.
struct Agreeable;

#[async_trait]
impl QuestionAsker for Agreeable {
    async fn ask(&self, questions: Vec<Question>) -> Answers {
        let responses = questions.iter().map(|question| {
            let mut ids = question.options.iter().map(|option| option.id.as_str());
            // A field that has a default and no option for it is skipped.
            let proposed = question.question.contains("default");
            let agrees = |id: &&str| *id == "default" || (*id == "true" && !proposed);
            match ids.find(agrees) {
                Some(id) => QuestionResponse::selected(id),
                None => QuestionResponse::skipped(),
            }
        });
        Answers {
            responses: responses.collect(),
            by: ResolvedBy::User,
        }
    }
}

struct Unheard;

impl ToolEventSink for Unheard {
    fn emit(&self, _: ToolRuntimeEvent) {}
}

/// One server, and the tools it has.
pub struct Session {
    pub servers: McpServers,
    tools: Arc<Tools>,
}

impl Session {
    /// Connects to a server; it is ready afterwards, or failed.
    pub async fn start(settings: ServerSettings) -> anyhow::Result<Self> {
        let tools = Arc::new(Tools::default());
        let host = Arc::new(WorkingDirectories::default());
        let servers = McpServers::start(vec![settings], host, tools.clone())?;
        servers.started().await;
        Ok(Self { servers, tools })
    }

    pub fn status(&self) -> ServerStatus {
        self.servers.status().remove(0)
    }

    /// Calls what a scenario wants called: what it names, or all there is, at
    /// the same time.
    pub async fn play(&self, scenario: &str, context: &Value) -> anyhow::Result<()> {
        let server = self.status();
        let schemas: serde_json::Map<String, Value> = server
            .tools
            .iter()
            .map(|tool| (tool.own_name.clone(), json!(tool.spec.input_schema)))
            .collect();
        let schemas = Value::Object(schemas);
        let calls: Vec<(String, Value)> = match context["toolCalls"].as_array() {
            Some(calls) => calls
                .iter()
                .filter_map(|call| Some((call["name"].as_str()?, call["arguments"].clone())))
                .map(|(name, arguments)| (name.to_owned(), arguments))
                .collect(),
            None => server
                .tools
                .iter()
                .map(|tool| {
                    let arguments = crate::arguments(scenario, &tool.own_name, &schemas);
                    (tool.own_name.clone(), arguments)
                })
                .collect(),
        };
        let calls = calls.iter().map(|(name, arguments)| {
            let name = halter_mcp::tool_name(&server.name, name);
            self.call(name, arguments.clone())
        });
        for called in futures::future::join_all(calls).await {
            called?;
        }
        Ok(())
    }

    async fn call(&self, name: String, arguments: Value) -> anyhow::Result<()> {
        let runtime = {
            let tools = self.tools.0.lock().unwrap_or_else(PoisonError::into_inner);
            ToolRuntime::with_tools(tools.iter().cloned())
        };
        // The dispatch path refuses arguments that break a schema, so a model
        // leaves out what it has no value for.
        let mut arguments = arguments;
        if let Some(members) = arguments.as_object_mut() {
            members.retain(|_, value| !value.is_null());
        }
        let call = ToolCall {
            id: name.as_str().into(),
            name: name.as_str().into(),
            arguments,
        };
        match runtime.execute(&call, call_context()?).await {
            Ok(_) => Ok(()),
            // A call that lacks rights says how to get them.
            Err(error) => match error.message.split_once(" --scope '") {
                Some((_, scope)) => Err(McpError::LoginNeeded {
                    server: self.status().name,
                    scope: Some(scope.trim_end_matches(['\'', '`']).to_owned()),
                }
                .into()),
                None if error.message.contains("needs a login") => Err(McpError::LoginNeeded {
                    server: self.status().name,
                    scope: None,
                }
                .into()),
                None => {
                    eprintln!("{name}: {}", error.message);
                    Ok(())
                }
            },
        }
    }
}

fn call_context() -> anyhow::Result<ToolContext> {
    let directory = std::env::temp_dir();
    let scope = SessionScope {
        working_dir: directory.clone(),
        ..SessionScope::default()
    };
    Ok(ToolContext {
        session_id: "session_1".into(),
        call_id: "call_1".into(),
        working_dir: directory.clone(),
        path_locks: Arc::new(PathLockMap::default()),
        memory: Arc::new(SessionMemory::default()),
        remembered: MemoryChanges::default(),
        earlier: Arc::new(NoEarlierMessages),
        tool_sessions: Arc::new(ToolSessionStore::new(ScratchDir::new(directory))),
        tools: Arc::new(NoDeferredTools),
        subagents: None,
        models: None,
        asker: Arc::new(Agreeable),
        hosts: None,
        snapshot: Arc::new(ResourceSnapshot::empty()),
        cancel: CancellationToken::new(),
        emit: Arc::new(Unheard),
        policy: Arc::new(StandardPolicy::bind(PolicySettings::default(), scope)?),
        shell_timeout_secs: 10,
    })
}
