//! `tool_search`: loads tools that models are not sent at first.

use crate::context::{ToolContext, cancelled};
use crate::deferred::{DeferredTool, TOOL_SEARCH, canonical, search};
use crate::limits::TOOL_SEARCH_RESULTS;
use crate::tool::Tool;
use crate::typed::{TypedTool, typed};
use async_trait::async_trait;
use halter_protocol::limits::LOADED_TOOLS;
use halter_protocol::{MemoryChange, ToolConcurrency, ToolName, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

const DESCRIPTION: &str = "Load tools before you call them; messages may tell of more.";

#[derive(Deserialize, JsonSchema)]
pub(crate) struct ToolSearchInput {
    /// `select:name,name`, or words to look for; `+word` must occur.
    #[schemars(length(min = 1, max = 1000))]
    query: String,
    /// The most tools to load; 5 for words.
    #[schemars(range(min = 1, max = TOOL_SEARCH_RESULTS), extend("unsent" = true))]
    max_results: Option<usize>,
}

/// Tools that words load, unless a call says otherwise.
const DEFAULT_RESULTS: usize = 5;

impl ToolSearchInput {
    /// The names that it selects, if it does.
    fn selected(&self) -> Option<impl Iterator<Item = &str>> {
        let names = self.query.trim().strip_prefix("select:")?;
        Some(
            names
                .split(',')
                .map(str::trim)
                .filter(|name| !name.is_empty()),
        )
    }

    fn most(&self) -> usize {
        let named = self.selected().is_some();
        let most = if named {
            TOOL_SEARCH_RESULTS
        } else {
            DEFAULT_RESULTS
        };
        self.max_results.unwrap_or(most)
    }
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
        let look = || search(tools.deferred(), &input.query, input.most());
        let mut found;
        loop {
            let starting = tools.starting().len();
            found = look();
            if starting == 0 || !is_lacking(&found, &input) {
                break;
            }
            tokio::select! {
                () = context.cancel.cancelled() => return Err(cancelled().into()),
                more = tools.waits(starting) => if !more { break },
            }
        }
        Ok(ToolResult::text(loaded(&context, found, &input)))
    }
}

/// True if there may be more of what was asked for.
fn is_lacking(found: &[DeferredTool], input: &ToolSearchInput) -> bool {
    match input.selected() {
        Some(names) => found.len() < names.count().min(input.most()),
        None => found.is_empty(),
    }
}

/// What was selected and is not among what was found, by the reason.
#[derive(Default)]
struct Missing {
    /// Every request holds them.
    sent: Vec<ToolName>,
    /// They were loaded before.
    earlier: Vec<ToolName>,
    /// One call loads no more.
    cut: Vec<ToolName>,
    unknown: Vec<ToolName>,
}

impl Missing {
    fn of(context: &ToolContext, found: &[DeferredTool], input: &ToolSearchInput) -> Self {
        let mut missing = Self::default();
        let is_called =
            |tool: &DeferredTool, name: &str| canonical(tool.spec.name.as_str()) == canonical(name);
        let names = input.selected().into_iter().flatten();
        let mut names = names
            .filter(|name| !found.iter().any(|tool| is_called(tool, name)))
            .peekable();
        if names.peek().is_none() {
            return missing;
        }
        let (sent, deferred) = (context.tools.sent(), context.tools.deferred());
        for name in names {
            let is_sent = |sent: &ToolName| canonical(sent.as_str()) == canonical(name);
            let list = match deferred.iter().find(|tool| is_called(tool, name)) {
                _ if sent.iter().any(is_sent) => &mut missing.sent,
                Some(tool) if context.memory.loaded_tool(&tool.spec.name).is_some() => {
                    &mut missing.earlier
                }
                Some(_) => &mut missing.cut,
                None => &mut missing.unknown,
            };
            list.push(name.into());
        }
        missing
    }
}

/// Loads tools and says what came of it, and what would work where nothing did.
fn loaded(context: &ToolContext, found: Vec<DeferredTool>, input: &ToolSearchInput) -> String {
    let mut missing = Missing::of(context, &found, input);
    let mut room = LOADED_TOOLS.saturating_sub(context.memory.loaded_tools.len());
    let (mut names, mut earlier, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
    earlier.append(&mut missing.earlier);
    let mut instructions = UntoldInstructions::new(context);
    for tool in found {
        let name = tool.spec.name.clone();
        if context.memory.loaded_tool(&name).is_some() {
            earlier.push(name);
        } else if room == 0 {
            left_out.push(name);
        } else {
            room -= 1;
            instructions.add(&tool);
            context.remember(MemoryChange::ToolLoaded { spec: tool.spec });
            names.push(name);
        }
    }
    let joined = |names: &[ToolName]| {
        let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
        names.join(", ")
    };
    let is_vain = names.is_empty() && earlier.is_empty();
    let mut told = Vec::new();
    for (names, what) in [
        (&names, "Loaded, and can be called now".to_owned()),
        (&earlier, "Loaded before, and can be called".to_owned()),
        (&missing.sent, "Need no loading; call them".to_owned()),
        (
            &left_out,
            format!("Not loaded, because a session loads {LOADED_TOOLS} tools at most"),
        ),
        (
            &missing.cut,
            format!(
                "Not loaded, because this call loads {} at most; name them in another",
                input.most()
            ),
        ),
    ] {
        if !names.is_empty() {
            told.push(format!("{what}: {}.", joined(names)));
        }
    }
    if told.is_empty() {
        told.push("No tool was found.".to_owned());
    } else if !missing.unknown.is_empty() {
        told.push(format!("Not found: {}.", joined(&missing.unknown)));
    }
    let starting = context.tools.starting();
    if is_vain && missing.sent.is_empty() {
        let all = context.tools.deferred();
        let all: Vec<_> = all.into_iter().map(|it| it.spec.name.clone()).collect();
        if !all.is_empty() {
            told.push(format!(
                "There are: {}. Load them by `select:` and the name; others are not enabled here.",
                joined(&all)
            ));
        } else if starting.is_empty() {
            told.push("There is none to load; call the tools that you have.".to_owned());
        }
    }
    if !starting.is_empty() {
        told.push(format!(
            "Still starting, with tools to come: {}.",
            starting.join(", ")
        ));
    }
    let mut told = told.join(" ");
    if is_vain {
        for problem in context.tools.problems() {
            told.push_str(&format!("\nTools may be missing: {problem}"));
        }
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
