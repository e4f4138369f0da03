//! Tools that do what a test tells them.

use async_trait::async_trait;
use futures::future::BoxFuture;
use halter_protocol::{Action, ToolCapabilities, ToolConcurrency, ToolResult, ToolSpec};
use halter_providers::Gate;
use halter_tools::{Tool, ToolContext};
use serde_json::{Value, json};
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

type Behaviour =
    Box<dyn Fn(ToolContext, Value) -> BoxFuture<'static, anyhow::Result<ToolResult>> + Send + Sync>;

/// A tool of a test's own making. Unless told otherwise it is exclusive, takes
/// any object and returns `ok`.
///
/// ```
/// use halter_testkit::{Gate, ScriptedTool};
///
/// let gate = Gate::new();
/// let look = ScriptedTool::new("look").read_only().returns("a cat").build();
/// let slow = ScriptedTool::new("slow").mutating().waits_at(&gate).build();
/// assert!(look.calls().is_empty());
/// ```
pub struct ScriptedTool {
    spec: ToolSpec,
    behaviour: Behaviour,
    gate: Option<Gate>,
    polling: bool,
    actions: Vec<Action>,
    diff: Option<String>,
    calls: Mutex<Vec<Value>>,
}

impl ScriptedTool {
    /// A tool of this name.
    pub fn new(name: &str) -> Self {
        Self {
            spec: ToolSpec {
                name: name.into(),
                description: format!("The tool {name} of a test."),
                input_schema: json!({"type": "object"}),
                concurrency: ToolConcurrency::Exclusive,
                capabilities: ToolCapabilities::default(),
                provider_aliases: Default::default(),
            },
            behaviour: Box::new(|_, _| Box::pin(async { Ok(ToolResult::text("ok")) })),
            gate: None,
            polling: false,
            actions: Vec::new(),
            diff: None,
            calls: Mutex::default(),
        }
    }

    /// Runs beside other reads.
    pub fn read_only(mut self) -> Self {
        self.spec.concurrency = ToolConcurrency::ReadOnly;
        self
    }

    /// Runs beside anything that is not exclusive.
    pub fn parallel_safe(mut self) -> Self {
        self.spec.concurrency = ToolConcurrency::ParallelSafe;
        self
    }

    /// Says that it changes something.
    pub fn mutating(mut self) -> Self {
        self.spec.capabilities.mutating = true;
        self
    }

    /// Shows this as what it would change.
    pub fn shows(mut self, diff: &str) -> Self {
        self.diff = Some(diff.to_owned());
        self
    }

    /// Wants a person to approve its calls.
    pub fn requires_approval(mut self) -> Self {
        self.spec.capabilities.requires_approval = true;
        self
    }

    /// Says that it stops by its token.
    pub fn cancellable(mut self) -> Self {
        self.spec.capabilities.cancellable = true;
        self
    }

    /// Says that it may take long.
    pub fn long_running(mut self) -> Self {
        self.spec.capabilities.long_running = true;
        self
    }

    /// Says that calling it again is how one waits.
    pub fn polling(mut self) -> Self {
        self.polling = true;
        self
    }

    /// Says that its calls would do this, too.
    pub fn touches(mut self, action: Action) -> Self {
        self.actions.push(action);
        self
    }

    /// Takes input of this schema.
    pub fn schema(mut self, schema: Value) -> Self {
        self.spec.input_schema = schema;
        self
    }

    /// Holds each call at a gate before it returns, deaf to its token.
    pub fn waits_at(mut self, gate: &Gate) -> Self {
        self.gate = Some(gate.clone());
        self
    }

    /// Returns this text.
    pub fn returns(self, text: &str) -> Self {
        let text = text.to_owned();
        self.runs(move |_, _| {
            let text = text.clone();
            async move { Ok(ToolResult::text(text)) }
        })
    }

    /// Fails with this message.
    pub fn fails(self, message: &str) -> Self {
        let message = message.to_owned();
        self.runs(move |_, _| {
            let message = message.clone();
            async move { Err(anyhow::anyhow!(message)) }
        })
    }

    /// Waits for its token and then fails, as a cancellable tool does.
    pub fn waits_for_cancel(self) -> Self {
        self.cancellable().runs(|context, _| async move {
            context.cancel.cancelled().await;
            Err(anyhow::anyhow!("stopped as asked"))
        })
    }

    /// Does anything.
    pub fn runs<F, Fut>(mut self, behaviour: F) -> Self
    where
        F: Fn(ToolContext, Value) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = anyhow::Result<ToolResult>> + Send + 'static,
    {
        self.behaviour = Box::new(move |context, input| Box::pin(behaviour(context, input)));
        self
    }

    /// The tool, to register and to look at afterwards.
    pub fn build(self) -> Arc<Self> {
        Arc::new(self)
    }

    /// The inputs of all calls that ran, in the order they started.
    pub fn calls(&self) -> Vec<Value> {
        self.calls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

#[async_trait]
impl Tool for ScriptedTool {
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    async fn execute(&self, context: ToolContext, input: Value) -> anyhow::Result<ToolResult> {
        self.calls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(input.clone());
        if let Some(gate) = &self.gate {
            gate.pass().await;
        }
        (self.behaviour)(context, input).await
    }

    fn actions(&self, _input: &Value) -> Vec<Action> {
        self.actions.clone()
    }

    async fn diff(&self, _context: ToolContext, _input: &Value) -> Option<String> {
        self.diff.clone()
    }

    fn is_polling(&self, _input: &Value) -> bool {
        self.polling
    }
}
