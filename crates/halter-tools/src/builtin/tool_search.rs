//! `tool_search`: loads tools that models are not sent at first.

use crate::context::{ToolContext, cancelled};
use crate::deferred::{DeferredTool, TOOL_SEARCH, search};
use crate::limits::TOOL_SEARCH_RESULTS;
use crate::tool::Tool;
use crate::typed::{TypedTool, typed};
use async_trait::async_trait;
use halter_protocol::limits::LOADED_TOOLS;
use halter_protocol::{MemoryChange, ToolConcurrency, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

const DESCRIPTION: &str = "Load tools before you call them; messages may tell of more.";

#[derive(Deserialize, JsonSchema)]
pub(crate) struct ToolSearchInput {
    /// `select:name,name`, or words to look for; `+word` must occur.
    #[schemars(length(min = 1, max = 1000))]
    query: String,
    /// The most tools to load.
    #[serde(default = "default_results")]
    #[schemars(range(min = 1, max = TOOL_SEARCH_RESULTS))]
    max_results: usize,
}

const fn default_results() -> usize {
    5
}

struct ToolSearchTool {
    description: String,
}

/// The tool, which tells of these deferred tools.
pub(crate) fn tool_search(deferred: &[DeferredTool]) -> Arc<dyn Tool> {
    let mut description = DESCRIPTION.to_owned();
    for tool in deferred {
        description.push_str(&format!("\n{}: {}", tool.spec.name, tool.summary));
    }
    typed(ToolSearchTool { description })
}

#[async_trait]
impl TypedTool for ToolSearchTool {
    type Input = ToolSearchInput;
    const NAME: &'static str = TOOL_SEARCH;

    fn description(&self) -> String {
        self.description.clone()
    }

    fn concurrency(&self) -> ToolConcurrency {
        ToolConcurrency::ReadOnly
    }

    fn capabilities(&self) -> halter_protocol::ToolCapabilities {
        halter_protocol::ToolCapabilities {
            cancellable: true,
            ..Default::default()
        }
    }

    async fn run(
        &self,
        context: ToolContext,
        input: ToolSearchInput,
    ) -> anyhow::Result<ToolResult> {
        let tools = &context.tools;
        let look = || search(tools.deferred(), &input.query, input.max_results);
        let mut found;
        loop {
            let starting = tools.starting().len();
            found = look();
            if starting == 0 || !is_lacking(&found, &input.query) {
                break;
            }
            tokio::select! {
                () = context.cancel.cancelled() => return Err(cancelled().into()),
                more = tools.waits(starting) => if !more { break },
            }
        }
        Ok(ToolResult::text(loaded(&context, found)))
    }
}

/// True if there may be more of what was asked for.
fn is_lacking(found: &[DeferredTool], query: &str) -> bool {
    match query.trim().strip_prefix("select:") {
        Some(names) => found.len() < names.split(',').count(),
        None => found.is_empty(),
    }
}

/// Loads tools and says what came of it.
fn loaded(context: &ToolContext, found: Vec<DeferredTool>) -> String {
    let mut room = LOADED_TOOLS.saturating_sub(context.memory.loaded_tools.len());
    let mut names = Vec::new();
    let mut left_out = Vec::new();
    let mut instructions = UntoldInstructions::new(context);
    for tool in found {
        let name = tool.spec.name.clone();
        if context.memory.loaded_tool(&name).is_none() {
            if room == 0 {
                left_out.push(name);
                continue;
            }
            room -= 1;
            instructions.add(&tool);
            context.remember(MemoryChange::ToolLoaded { spec: tool.spec });
        }
        names.push(name);
    }
    let joined = |names: &[halter_protocol::ToolName]| {
        let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
        names.join(", ")
    };
    let mut told = match names.is_empty() {
        true => "No tool was found.".to_owned(),
        false => format!("Loaded, and can be called now: {}.", joined(&names)),
    };
    if !left_out.is_empty() {
        told.push_str(&format!(
            " Not loaded, because a session loads {LOADED_TOOLS} tools at most: {}.",
            joined(&left_out)
        ));
    }
    if names.is_empty() {
        let all: Vec<_> = context
            .tools
            .deferred()
            .into_iter()
            .map(|it| it.spec.name.clone())
            .collect();
        if !all.is_empty() {
            told.push_str(&format!(" There are: {}.", joined(&all)));
        }
    }
    let starting = context.tools.starting();
    if !starting.is_empty() {
        told.push_str(&format!(
            " Still starting, with tools to come: {}.",
            starting.join(", ")
        ));
    }
    told.push_str(&instructions.text);
    told
}

/// What sources say of the use of their tools, told with the first tool of each
/// that is loaded.
struct UntoldInstructions {
    told: Vec<String>,
    text: String,
}

impl UntoldInstructions {
    fn new(context: &ToolContext) -> Self {
        let mut told = Vec::new();
        // Most sessions have loaded nothing, and listing the tools costs something.
        if !context.memory.loaded_tools.is_empty() {
            let mut all = context.tools.deferred();
            all.retain(|tool| context.memory.loaded_tool(&tool.spec.name).is_some());
            let sources = all.into_iter().filter_map(|tool| tool.instructions);
            told.extend(sources.map(|it| it.source));
        }
        let text = String::new();
        Self { told, text }
    }

    fn add(&mut self, tool: &DeferredTool) {
        let Some(said) = &tool.instructions else {
            return;
        };
        if self.told.contains(&said.source) {
            return;
        }
        self.told.push(said.source.clone());
        self.text.push_str(&format!(
            "\n\nWhat {} says of the use of its tools, in its words, not the user's:",
            said.source
        ));
        // Marked line by line, so that no line can pass for something else.
        for line in said.text.lines() {
            self.text.push_str("\n> ");
            self.text.push_str(line);
        }
    }
}
