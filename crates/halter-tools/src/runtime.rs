//! The registry of tools, and the one way a call reaches its tool.

use crate::availability::{HarnessFacts, UnavailableTool, denied};
use crate::bounded::{bounded, bounded_error};
use crate::context::{ToolContext, cancelled};
use crate::deferred::{DeferredTool, first_sentence};
use crate::network::ConnectError;
use crate::observer::{ChangeObserver, with_field, written};
use crate::sent_schema::sent_schema;
use crate::tool::Tool;
use crate::validate::ArgumentCheck;
use futures::FutureExt;
use halter_policy::PolicyError;
use halter_protocol::{
    Action, CALL_TOOL, ToolCall, ToolConcurrency, ToolError, ToolErrorCode, ToolName, ToolResult,
    ToolSpec,
};
use indexmap::IndexMap;
use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

/// The tools of a session, by name, in the order they were registered.
///
/// Cloning shares the tools and their compiled schemas.
#[derive(Clone, Default)]
pub struct ToolRuntime {
    tools: IndexMap<ToolName, Registered>,
    /// Why tools that are there otherwise are of no use here, by name.
    unavailable: IndexMap<ToolName, String>,
    observer: Option<Arc<dyn ChangeObserver>>,
}

#[derive(Clone)]
struct Registered {
    tool: Arc<dyn Tool>,
    spec: Arc<ToolSpec>,
    check: Arc<ArgumentCheck>,
}

impl ToolRuntime {
    /// A registry without tools.
    pub fn new() -> Self {
        Self::default()
    }

    /// A registry of the given tools, in their order.
    pub fn with_tools(tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        let mut runtime = Self::new();
        for tool in tools {
            runtime.register(tool);
        }
        runtime
    }

    /// Adds a tool. One of the same name is replaced and its place kept, so
    /// that the order models see does not change.
    pub fn register(&mut self, tool: Arc<dyn Tool>) {
        let spec = Arc::new(tool.spec());
        let name = spec.name.clone();
        let check = Arc::new(ArgumentCheck::new(Arc::clone(&spec)));
        self.tools.insert(name, Registered { tool, spec, check });
    }

    /// Has somebody look at the files that calls change.
    pub fn set_change_observer(&mut self, observer: Arc<dyn ChangeObserver>) {
        self.observer = Some(observer);
    }

    /// The specs of all tools, in order of registration.
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.tools
            .values()
            .map(|entry| ToolSpec::clone(&entry.spec))
            .collect()
    }

    /// The spec of one tool.
    pub fn spec(&self, name: &str) -> Option<&ToolSpec> {
        self.tools.get(name).map(|entry| &*entry.spec)
    }

    /// A tool as a model is told of it that has not loaded it.
    pub fn deferred(&self, name: &str) -> Option<DeferredTool> {
        let entry = self.tools.get(name)?;
        let summary = entry.tool.summary();
        Some(DeferredTool {
            spec: Arc::new(sent(&entry.spec)),
            summary: summary.unwrap_or_else(|| first_sentence(&entry.spec.description)),
            instructions: entry.tool.source_instructions(),
        })
    }

    /// The specs as models are sent them, in order of registration: those with
    /// a schema that says no more than a model needs.
    pub fn sent_specs(&self) -> Vec<ToolSpec> {
        self.tools.values().map(|entry| sent(&entry.spec)).collect()
    }

    /// Which calls a call of the tool may run beside: none, if there is no such
    /// tool.
    pub fn concurrency_for(&self, name: &str) -> ToolConcurrency {
        self.spec(name)
            .map_or(ToolConcurrency::Exclusive, |spec| spec.concurrency)
    }

    /// One tool.
    pub fn get(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.tools.get(name).map(|entry| Arc::clone(&entry.tool))
    }

    /// The names of all tools, in order of registration.
    pub fn names(&self) -> impl Iterator<Item = &ToolName> {
        self.tools.keys()
    }

    /// The tool a model most likely meant by a name that is not registered.
    /// A suggestion to show, never a tool to run instead.
    pub fn suggestion(&self, name: &str) -> Option<&ToolName> {
        crate::suggest::nearest(name, self.tools.keys(), |known| known.as_str())
    }

    /// The same registry with only the named tools, in their present order.
    /// An empty list keeps them all.
    #[must_use]
    pub fn clone_filtered(&self, enabled: &[String]) -> Self {
        self.only(|name| enabled.is_empty() || enabled.iter().any(|wanted| wanted == name.as_str()))
    }

    /// The same registry with only the tools that `keep` wants, in their
    /// present order.
    #[must_use]
    pub fn only(&self, keep: impl Fn(&ToolName) -> bool) -> Self {
        let mut kept = self.clone();
        kept.tools.retain(|name, _| keep(name));
        kept.unavailable.retain(|name, _| keep(name));
        kept
    }

    /// Takes out the tools that are of no use in a harness, and those that a
    /// rule denies as a whole.
    pub fn take_unavailable(&mut self, harness: &HarnessFacts<'_>) -> Vec<UnavailableTool> {
        let mut taken = Vec::new();
        self.tools.retain(|name, entry| {
            let asked = AssertUnwindSafe(|| entry.tool.unavailable(harness));
            let reason = denied(harness, name.as_str()).or_else(|| {
                std::panic::catch_unwind(asked)
                    .unwrap_or_else(|panic| Some(format!("it panicked: {}", panic_text(&*panic))))
            });
            let Some(reason) = reason else { return true };
            let spec = ToolSpec::clone(&entry.spec);
            self.unavailable.insert(spec.name.clone(), reason.clone());
            taken.push(UnavailableTool { spec, reason });
            false
        });
        taken
    }

    /// Checks that the call names a tool and that its arguments fit the tool's
    /// schema. The error says which argument is wrong, how, and what is
    /// expected.
    pub fn validate(&self, call: &ToolCall) -> Result<(), ToolError> {
        self.entry(call)?.check.check(&call.arguments)
    }

    /// What a call that fits its schema would touch.
    pub fn actions(&self, call: &ToolCall) -> Result<Vec<Action>, ToolError> {
        let entry = self.entry(call)?;
        let mutating = entry.spec.capabilities.mutating;
        let asked =
            std::panic::catch_unwind(AssertUnwindSafe(|| entry.tool.actions(&call.arguments)));
        match asked {
            Ok(actions) if actions.is_empty() => Ok(vec![Action::Other { mutating }]),
            Ok(actions) => Ok(actions),
            Err(panic) => Err(panicked(call, &*panic)),
        }
    }

    /// Runs a call, after [`validate`](Self::validate).
    ///
    /// What the tool fails with becomes a [`ToolError`]: one it made itself is
    /// kept, a refusal by a rule of the policy is `policy_denied`, a failure
    /// after the call was cancelled is `cancelled`, and anything else (a missing
    /// file, a panic) is `tool_failed` with the whole chain of causes. Of a flood
    /// the first [`TOOL_RESULT_BYTES`](crate::limits::TOOL_RESULT_BYTES) are kept.
    pub async fn execute(
        &self,
        call: &ToolCall,
        context: ToolContext,
    ) -> Result<ToolResult, ToolError> {
        let entry = self.entry(call)?;
        entry.check.check(&call.arguments)?;
        context.check_cancelled()?;
        let token = context.cancel.clone();
        let observed = context.clone();
        // `execute` itself may panic before it returns its future.
        let run =
            AssertUnwindSafe(async { entry.tool.execute(context, call.arguments.clone()).await });
        match run.catch_unwind().await {
            Ok(Ok(result)) => Ok(self.observe(call, &observed, bounded(result)).await),
            Ok(Err(error)) => Err(bounded_error(explain(error, token.is_cancelled()))),
            Err(panic) => Err(bounded_error(panicked(call, &*panic))),
        }
    }

    /// The result, with what an observer of changed files adds.
    async fn observe(
        &self,
        call: &ToolCall,
        context: &ToolContext,
        result: ToolResult,
    ) -> ToolResult {
        let Some(observer) = &self.observer else {
            return result;
        };
        let paths = written(&self.actions(call).unwrap_or_default());
        if paths.is_empty() {
            return result;
        }
        let looked = AssertUnwindSafe(observer.changed(context, &paths)).catch_unwind();
        match looked.await {
            Ok(Some((name, value))) => with_field(result, name, value),
            Ok(None) => result,
            Err(panic) => {
                let reason = panic_text(&*panic);
                tracing::error!(reason, "an observer of changed files panicked");
                result
            }
        }
    }

    fn entry(&self, call: &ToolCall) -> Result<&Registered, ToolError> {
        self.tools
            .get(&call.name)
            .ok_or_else(|| self.unknown(call.name.as_str()))
    }

    fn unknown(&self, name: &str) -> ToolError {
        if name == CALL_TOOL {
            let message = "'call_tool' takes the `name` of a tool and its `arguments`, an object";
            return ToolError::new(ToolErrorCode::InvalidArguments, message);
        }
        let shown = crate::suggest::shortened(&name.escape_debug().to_string());
        let reason = self.unavailable.get(name);
        let mut message = match reason {
            Some(reason) => format!("the tool '{shown}' is of no use here: {reason}"),
            None => format!("there is no tool '{shown}'"),
        };
        if self.tools.is_empty() {
            message.push_str(" (no tools are available)");
        } else {
            match self.suggestion(name).filter(|_| reason.is_none()) {
                Some(near) => message.push_str(&format!("; did you mean '{near}'?")),
                None => message.push('.'),
            }
            let names: Vec<_> = self.names().map(ToolName::as_str).collect();
            message.push_str(&format!(" Available: {}", names.join(", ")));
        }
        ToolError::new(ToolErrorCode::UnknownTool, message)
    }
}

impl std::fmt::Debug for ToolRuntime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ToolRuntime")
            .field(&self.tools.keys().collect::<Vec<_>>())
            .finish()
    }
}

/// The error of a tool, as a model and the log see it.
fn explain(error: anyhow::Error, is_cancelled: bool) -> ToolError {
    let error = match error.downcast::<ToolError>() {
        Ok(own) => return own,
        Err(other) => other,
    };
    let message = told(&error);
    let is_denial = |cause: &(dyn std::error::Error + 'static)| {
        let refused = cause.downcast_ref::<ConnectError>();
        let denied = cause.downcast_ref::<PolicyError>();
        denied.is_some_and(PolicyError::is_denial)
            || refused.is_some_and(|it| matches!(it, ConnectError::Refused(_)))
    };
    if error.chain().any(is_out_of_descriptors) {
        return ToolError::new(ToolErrorCode::OutOfDescriptors, message);
    }
    if error.chain().any(is_denial) {
        return ToolError::new(ToolErrorCode::PolicyDenied, message);
    }
    if is_cancelled {
        let note = cancelled().message;
        return ToolError::new(ToolErrorCode::Cancelled, format!("{note}: {message}"));
    }
    ToolError::new(ToolErrorCode::Failed, message)
}

fn is_out_of_descriptors(cause: &(dyn std::error::Error + 'static)) -> bool {
    let refused = cause.downcast_ref::<PolicyError>();
    let failed = cause.downcast_ref::<std::io::Error>();
    refused.is_some_and(|it| matches!(it, PolicyError::OutOfDescriptors { .. }))
        || failed.is_some_and(halter_policy::is_out_of_descriptors)
}

/// An error with its causes, each said once: many errors repeat their cause.
fn told(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

fn sent(spec: &ToolSpec) -> ToolSpec {
    ToolSpec {
        input_schema: sent_schema(&spec.input_schema),
        ..spec.clone()
    }
}

fn panicked(call: &ToolCall, panic: &(dyn Any + Send)) -> ToolError {
    let message = format!("the tool '{}' panicked: {}", call.name, panic_text(panic));
    ToolError::new(ToolErrorCode::Failed, message)
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_said_once() {
        let full = PolicyError::Io {
            operation: "write",
            path: "/a".into(),
            source: std::io::Error::other("no room"),
        };
        let error = anyhow::Error::new(full).context("it could not be kept");
        assert_eq!(
            told(&error),
            "it could not be kept: cannot write '/a': no room"
        );
    }
}
