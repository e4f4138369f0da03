//! The trait every tool implements.

use crate::availability::HarnessFacts;
use crate::context::ToolContext;
use crate::deferred::SourceInstructions;
use crate::subagents::AgentTypeLine;
use async_trait::async_trait;
use halter_protocol::{Action, ServedDefinition, ToolResult, ToolSpec};
use serde_json::Value;
use std::sync::Arc;

/// Something a model can call.
///
/// A tool enforces policy itself, through [`ToolContext::policy`]: it opens
/// files by the policy's door and starts nothing the policy has not allowed.
/// An error it returns reaches the model as text, so it says what happened, to
/// what, and what to do next. For a tool whose input is a struct, see
/// [`TypedTool`](crate::TypedTool).
#[async_trait]
pub trait Tool: Send + Sync {
    /// Name, description, schema and behaviour of the tool. Asked once, at
    /// registration: the answer is part of the prompt and must not change.
    fn spec(&self) -> ToolSpec;

    /// Runs one call. `input` fits the schema of [`spec`](Self::spec) when the
    /// call comes through a [`ToolRuntime`](crate::ToolRuntime).
    async fn execute(&self, context: ToolContext, input: Value) -> anyhow::Result<ToolResult>;

    /// What the call would touch, from its input alone. Policy decides on it
    /// before the call starts. Nothing by default: then it counts as
    /// [`Action::Other`], mutating if the spec's capabilities say so.
    fn actions(&self, _input: &Value) -> Vec<Action> {
        Vec::new()
    }

    /// What the call would change, as a unified diff, for a person who decides
    /// about it. Nothing by default, and where no text changes.
    async fn diff(&self, _context: ToolContext, _input: &Value) -> Option<String> {
        None
    }

    /// Why the tool is of no use in a harness, for a person to read: a program
    /// that is missing, a service nobody configured. Models are then neither
    /// told of it nor may call it. Asked once, when the harness is built.
    fn unavailable(&self, _harness: &HarnessFacts<'_>) -> Option<String> {
        None
    }

    /// What the tool does, in one line, for a list of deferred tools. The first
    /// sentence of its description by default.
    fn summary(&self) -> Option<String> {
        None
    }

    /// True if most sessions do without the tool, so that its schema need not
    /// be in every request.
    fn is_rare(&self) -> bool {
        false
    }

    /// What a server outside of this program says of the tool, if it is one of
    /// a server: a person's approval holds only for what they approved.
    fn served_definition(&self) -> Option<ServedDefinition> {
        None
    }

    /// What the server says of the use of its tools, if it is one of a server.
    fn source_instructions(&self) -> Option<SourceInstructions> {
        None
    }

    /// The tool for a session with these types of subagents; none if it is the
    /// same for all.
    fn for_agent_types(&self, _types: &[AgentTypeLine]) -> Option<Arc<dyn Tool>> {
        None
    }

    /// True if repeating this call is how one waits: the guard against
    /// repeated calls leaves it alone.
    fn is_polling(&self, _input: &Value) -> bool {
        false
    }
}
