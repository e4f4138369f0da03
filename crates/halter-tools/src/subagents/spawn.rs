//! `spawn_agent`: hands work to a child session.

use super::AgentTypeLine;
use super::no_subagents;
use crate::availability::HarnessFacts;
use crate::context::ToolContext;
use crate::limits::{SUBAGENT_TASK_CHARS, SUBAGENT_TYPE_LINE_CHARS};
use crate::tool::Tool;
use crate::typed::input_schema;
use async_trait::async_trait;
use halter_protocol::resource::bare_name;
use halter_protocol::{
    Action, AgentId, ModelId, SpawnSubagentRequest, ToolCapabilities, ToolConcurrency, ToolError,
    ToolErrorCode, ToolResult, ToolSpec, WaitSubagentRequest,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;

/// The name of the tool.
pub const SPAWN_AGENT: &str = "spawn_agent";

/// Hand a piece of work to a subagent: a session of its own, which sees nothing
/// of this conversation and whose report is all you get. Say what to do, where,
/// and what to report. Without `wait` you go on at once and hear of the report
/// when it is there. Several subagents work side by side.
#[derive(Deserialize, JsonSchema)]
struct SpawnAgentInput {
    /// The task, with everything the subagent has to know.
    #[schemars(length(min = 1, max = SUBAGENT_TASK_CHARS))]
    message: String,
    /// What kind of subagent.
    agent_type: Option<String>,
    /// True: it also starts with what was said here so far.
    #[serde(default)]
    fork_context: bool,
    /// A registered model id, such as `default`, `small` or `subagent`.
    model: Option<String>,
    /// True: return its report instead of going on at once.
    #[serde(default)]
    wait: bool,
}

pub(super) struct SpawnAgentTool {
    types: Vec<AgentTypeLine>,
}

impl SpawnAgentTool {
    pub fn new(types: Vec<AgentTypeLine>) -> Self {
        Self { types }
    }

    /// All names that a call may use: the full ones, and bare ones of plugins'
    /// types that nothing else is called by.
    fn names(&self) -> Vec<Value> {
        let full: Vec<&str> = self.types.iter().map(|it| it.name.as_str()).collect();
        let bare = full.iter().map(|name| bare_name(name));
        let is_unique = |name: &str| bare.clone().filter(|it| *it == name).count() == 1;
        let unique = bare.clone().filter(|name| is_unique(name));
        let unique = unique.filter(|name| !full.contains(name));
        let names = full.iter().copied().chain(unique);
        names.map(Value::from).collect()
    }
}

#[async_trait]
impl Tool for SpawnAgentTool {
    fn spec(&self) -> ToolSpec {
        let (mut schema, mut description) = input_schema::<SpawnAgentInput>();
        if !self.types.is_empty() {
            description.push_str("\nTypes, `general` unless you name another:");
            for AgentTypeLine {
                name,
                description: when,
            } in &self.types
            {
                let when = when.lines().next().unwrap_or_default();
                let short: String = when.chars().take(SUBAGENT_TYPE_LINE_CHARS).collect();
                description.push_str(&format!("\n{name}: {short}"));
            }
            let names = self.names();
            if let Some(kind) = schema.pointer_mut("/properties/agent_type") {
                // The description of the tool says what each is for.
                *kind = serde_json::json!({ "type": "string", "enum": names });
            }
        }
        ToolSpec {
            name: SPAWN_AGENT.into(),
            description,
            input_schema: schema,
            concurrency: ToolConcurrency::ParallelSafe,
            capabilities: ToolCapabilities {
                // A start that is in the log before the child is.
                mutating: true,
                cancellable: true,
                long_running: true,
                ..ToolCapabilities::default()
            },
            provider_aliases: Default::default(),
        }
    }

    /// Starting a child changes nothing: what the child does is judged call by
    /// call, by a policy that is no wider.
    fn actions(&self, _input: &Value) -> Vec<Action> {
        vec![Action::Other { mutating: false }]
    }

    fn unavailable(&self, harness: &HarnessFacts<'_>) -> Option<String> {
        no_subagents(harness)
    }

    fn for_agent_types(&self, types: &[AgentTypeLine]) -> Option<Arc<dyn Tool>> {
        Some(Arc::new(Self::new(types.to_vec())))
    }

    fn summary(&self) -> Option<String> {
        Some("hand work to a subagent".to_owned())
    }

    fn is_rare(&self) -> bool {
        true
    }

    async fn execute(&self, context: ToolContext, input: Value) -> anyhow::Result<ToolResult> {
        let input: SpawnAgentInput = serde_json::from_value(input).map_err(|error| {
            let message = format!("the arguments of '{SPAWN_AGENT}' cannot be used: {error}");
            ToolError::new(ToolErrorCode::InvalidArguments, message)
        })?;
        let control = context.subagents()?;
        // What follows a subagent is of use from now on.
        for name in ["wait_agent", "send_input", "close_agent"] {
            context.load_tool(name);
        }
        let started = control
            .spawn(SpawnSubagentRequest {
                message: input.message,
                agent_type: input.agent_type,
                fork_context: input.fork_context,
                model: input.model.map(ModelId::from),
                wait: input.wait,
                uses: Vec::new(),
            })
            .await?;
        if !input.wait {
            return Ok(ToolResult::json(serde_json::to_value(started)?));
        }
        let status = report_of(&context, started.agent_id).await?;
        Ok(ToolResult::json(status))
    }
}

/// The report of one subagent. If the call is cancelled, so is the subagent.
pub(crate) async fn report_of(context: &ToolContext, target: AgentId) -> anyhow::Result<Value> {
    let control = context.subagents()?;
    let wait = WaitSubagentRequest {
        targets: vec![target.clone()],
        timeout_ms: None,
    };
    tokio::select! {
        biased;
        () = context.cancel.cancelled() => {
            control.cancel(&target, "nobody waits for it any more").await;
            Err(crate::context::cancelled().into())
        }
        waited = control.wait(wait) => Ok(serde_json::to_value(waited?.status)?),
    }
}
