//! Tools whose input is a struct.

use crate::availability::HarnessFacts;
use crate::context::ToolContext;
use crate::tool::Tool;
use async_trait::async_trait;
use halter_protocol::{
    Action, ToolCapabilities, ToolConcurrency, ToolError, ToolErrorCode, ToolName, ToolResult,
    ToolSpec,
};
use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;

/// A tool whose input is a Rust type: the type is the schema, its doc comments
/// are the descriptions a model reads, and [`run`](Self::run) gets the decoded
/// value. Turn it into a [`Tool`] with [`typed`].
///
/// Parameters that the type does not name are refused.
#[async_trait]
pub trait TypedTool: Send + Sync + 'static {
    /// The input of a call.
    type Input: DeserializeOwned + JsonSchema + Send;

    /// The name a model calls the tool by.
    const NAME: &'static str;

    /// What the tool does, in words a model acts on. The doc comment of
    /// [`Input`](Self::Input) unless overridden.
    fn description(&self) -> String {
        input_schema::<Self::Input>().1
    }

    /// Which calls it may run beside: none, unless overridden.
    fn concurrency(&self) -> ToolConcurrency {
        ToolConcurrency::Exclusive
    }

    /// What the harness must know to run it. Set `mutating` for a tool with
    /// effects, `cancellable` for one that stops by [`ToolContext::cancel`].
    fn capabilities(&self) -> ToolCapabilities {
        ToolCapabilities::default()
    }

    /// What the call would touch. See [`Tool::actions`].
    fn actions(&self, _input: &Value) -> Vec<Action> {
        Vec::new()
    }

    /// What the call would change. See [`Tool::diff`].
    async fn diff(&self, _context: ToolContext, _input: Self::Input) -> Option<String> {
        None
    }

    /// Why the tool is of no use in a harness. See [`Tool::unavailable`].
    fn unavailable(&self, _harness: &HarnessFacts<'_>) -> Option<String> {
        None
    }

    /// What the tool does, in one line. See [`Tool::summary`].
    const SUMMARY: Option<&'static str> = None;

    /// True if most sessions do without the tool. See [`Tool::is_rare`].
    const RARE: bool = false;

    /// True if repeating this call is how one waits.
    fn is_polling(&self, _input: &Value) -> bool {
        false
    }

    /// Runs one call.
    async fn run(&self, context: ToolContext, input: Self::Input) -> anyhow::Result<ToolResult>;
}

/// Makes a typed tool a [`Tool`].
pub fn typed<T: TypedTool>(tool: T) -> Arc<dyn Tool> {
    Arc::new(TypedAdapter(tool))
}

struct TypedAdapter<T>(T);

#[async_trait]
impl<T: TypedTool> Tool for TypedAdapter<T> {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: ToolName::from(T::NAME),
            description: self.0.description(),
            input_schema: input_schema::<T::Input>().0,
            concurrency: self.0.concurrency(),
            capabilities: self.0.capabilities(),
            provider_aliases: Default::default(),
        }
    }

    async fn execute(&self, context: ToolContext, input: Value) -> anyhow::Result<ToolResult> {
        let input = serde_json::from_value(input).map_err(|error| {
            ToolError::new(
                ToolErrorCode::InvalidArguments,
                format!("the arguments of '{}' cannot be used: {error}", T::NAME),
            )
        })?;
        self.0.run(context, input).await
    }

    fn actions(&self, input: &Value) -> Vec<Action> {
        self.0.actions(input)
    }

    async fn diff(&self, context: ToolContext, input: &Value) -> Option<String> {
        let input = serde_json::from_value(input.clone()).ok()?;
        self.0.diff(context, input).await
    }

    fn unavailable(&self, harness: &HarnessFacts<'_>) -> Option<String> {
        self.0.unavailable(harness)
    }

    fn summary(&self) -> Option<String> {
        T::SUMMARY.map(str::to_owned)
    }

    fn is_rare(&self) -> bool {
        T::RARE
    }

    fn is_polling(&self, input: &Value) -> bool {
        self.0.is_polling(input)
    }
}

/// The schema of an input type, as lean as a prompt wants it, and the type's
/// own doc comment.
pub(crate) fn input_schema<T: JsonSchema>() -> (Value, String) {
    let mut schema = SchemaSettings::draft2020_12()
        .for_deserialize()
        .with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        })
        .with_transform(RecursiveTransform(Lean))
        .into_generator()
        .into_root_schema_for::<T>();
    close(&mut schema);
    let description = match schema.ensure_object().shift_remove("description") {
        Some(Value::String(text)) => text,
        _ => String::new(),
    };
    (schema.to_value(), description)
}

/// Refuses parameters the type does not name. Left open where properties also
/// come from elsewhere (a flattened enum), which a closed object would refuse.
fn close(schema: &mut Schema) {
    let object = schema.ensure_object();
    let is_plain = [
        "allOf",
        "anyOf",
        "oneOf",
        "additionalProperties",
        "unevaluatedProperties",
    ]
    .iter()
    .all(|keyword| !object.contains_key(*keyword));
    if is_plain {
        object.insert("additionalProperties".into(), Value::Bool(false));
    }
}

/// Takes out what says nothing to a model: Rust's names of types and widths of
/// integers.
#[derive(Clone)]
struct Lean;

impl Transform for Lean {
    fn transform(&mut self, schema: &mut Schema) {
        let Some(object) = schema.as_object_mut() else {
            return;
        };
        object.shift_remove("title");
        let is_number = object
            .get("type")
            .is_some_and(|kind| kind.to_string().contains("\"integer\""));
        if is_number {
            object.shift_remove("format");
        }
        if let Some(Value::String(text)) = object.get_mut("description") {
            *text = unwrapped(text);
        }
    }
}

/// A doc comment with its paragraphs on one line each.
fn unwrapped(text: &str) -> String {
    text.split("\n\n")
        .map(|paragraph| {
            let is_list = paragraph.lines().any(|line| line.starts_with("- "));
            match is_list {
                true => paragraph.to_owned(),
                false => paragraph.split_whitespace().collect::<Vec<_>>().join(" "),
            }
        })
        .collect::<Vec<_>>()
        .join("\n\n")
}
