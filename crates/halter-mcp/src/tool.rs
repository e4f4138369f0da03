//! A tool of a server as a tool of a session.

use crate::client::CallOrders;
use crate::error::McpError;
use crate::limits::{DESCRIPTION_BYTES, SCHEMA_BYTES, SCHEMA_DEPTH};
use crate::managed::ManagedServer;
use crate::names::{ServerName, tool_name};
use crate::result::converted;
use crate::text::{plain, shortened};
use async_trait::async_trait;
use halter_protocol::limits::DEFINITION_DIGITS;
use halter_protocol::{
    ContentHash, ServedDefinition, ToolCapabilities, ToolConcurrency, ToolError, ToolErrorCode,
    ToolResult, ToolSpec,
};
use halter_tools::{SourceInstructions, Tool, ToolContext, first_sentence};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// A tool that a server says it has.
#[derive(Debug, Clone, PartialEq)]
pub struct OfferedTool {
    /// The name that the server gives it.
    pub own_name: String,
    /// Name, description and schema as models see them.
    pub spec: ToolSpec,
    /// What approvals of it remember.
    pub definition: ServedDefinition,
}

impl OfferedTool {
    /// The tool, if its schema can be used.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn new(server: &ServerName, tool: &rmcp::model::Tool) -> Result<Self, String> {
        let own_name = tool.name.to_string();
        let schema = input_schema(&tool.input_schema)?;
        let hints = tool.annotations.clone().unwrap_or_default();
        let reads = hints.read_only_hint == Some(true) && hints.destructive_hint != Some(true);
        let described = tool.description.as_deref().unwrap_or_default();
        let described = shortened(plain(described).trim(), DESCRIPTION_BYTES);
        let spec = ToolSpec {
            name: tool_name(server, &own_name).into(),
            description: match described.as_str() {
                "" => format!("Tool of the MCP server `{server}`."),
                text => format!("{text}\n\n(Tool of the MCP server `{server}`.)"),
            },
            input_schema: schema,
            // Hints of a server only ever narrow: one that says that it reads
            // may run beside others, and is asked about all the same.
            concurrency: match reads {
                true => ToolConcurrency::ReadOnly,
                false => ToolConcurrency::Exclusive,
            },
            capabilities: ToolCapabilities {
                mutating: true,
                requires_approval: true,
                cancellable: true,
                long_running: true,
            },
            provider_aliases: Default::default(),
        };
        let definition = ServedDefinition {
            digest: digest(tool),
            destructive: hints.destructive_hint == Some(true),
        };
        Ok(Self {
            own_name,
            spec,
            definition,
        })
    }
}

/// Names all that a server says of a tool, in whatever order it says it.
fn digest(tool: &rmcp::model::Tool) -> String {
    let mut said = serde_json::to_value(tool).unwrap_or_default();
    said.sort_all_objects();
    let mut digest = ContentHash::hex_of(said.to_string().as_bytes());
    digest.truncate(DEFINITION_DIGITS);
    digest
}

/// The schema of an input: always that of an object.
fn input_schema(schema: &Map<String, Value>) -> Result<Value, String> {
    let mut schema = Value::Object(schema.clone());
    let bytes = schema.to_string().len();
    if bytes > SCHEMA_BYTES {
        return Err(format!(
            "its schema has {bytes} bytes, more than {SCHEMA_BYTES}"
        ));
    }
    if depth(&schema) > SCHEMA_DEPTH {
        return Err(format!(
            "its schema is nested deeper than {SCHEMA_DEPTH} levels"
        ));
    }
    if let Some(fields) = schema.as_object_mut() {
        match fields.get("type") {
            None => {
                fields.insert("type".to_owned(), json!("object"));
            }
            Some(kind) if kind == "object" => {}
            Some(kind) => return Err(format!("its schema is of type {kind}, not an object")),
        }
        // Services want it, also where there is nothing to say.
        fields.entry("properties").or_insert_with(|| json!({}));
    }
    Ok(schema)
}

fn depth(value: &Value) -> usize {
    let mut deepest = 0;
    let mut left = vec![(value, 1)];
    while let Some((value, level)) = left.pop() {
        deepest = deepest.max(level);
        if level > SCHEMA_DEPTH {
            return level;
        }
        match value {
            Value::Array(items) => left.extend(items.iter().map(|item| (item, level + 1))),
            Value::Object(fields) => left.extend(fields.values().map(|item| (item, level + 1))),
            _ => {}
        }
    }
    deepest
}

/// A tool of a server. It finds the server as it is when it is called.
pub(crate) struct ServerTool {
    pub(crate) server: Arc<ManagedServer>,
    pub(crate) offered: OfferedTool,
    /// What the server says of its use.
    pub(crate) instructions: Option<Arc<str>>,
}

#[async_trait]
impl Tool for ServerTool {
    fn spec(&self) -> ToolSpec {
        self.offered.spec.clone()
    }

    fn served_definition(&self) -> Option<ServedDefinition> {
        Some(self.offered.definition.clone())
    }

    fn source_instructions(&self) -> Option<SourceInstructions> {
        Some(SourceInstructions {
            source: format!("the MCP server `{}`", self.server.name()),
            text: self.instructions.clone()?,
        })
    }

    /// In quotation marks: these are words of the server in a message of ours.
    fn summary(&self) -> Option<String> {
        let said = first_sentence(&self.offered.spec.description);
        Some(format!("{said:?}"))
    }

    async fn execute(&self, context: ToolContext, input: Value) -> anyhow::Result<ToolResult> {
        let Value::Object(arguments) = input else {
            anyhow::bail!("the input is not an object");
        };
        let name = self.offered.spec.name.clone();
        let output = context.clone();
        let orders = CallOrders {
            cancel: context.cancel.clone(),
            output: Arc::new(move |text| output.emit_output(name.as_str(), text)),
            caller: Some(context),
        };
        let called = self.server.call_tool(&self.offered, arguments, &orders);
        match called.await {
            Ok(result) => converted(&self.offered, result),
            Err(error) => Err(failure(&error).into()),
        }
    }
}

pub(crate) fn failure(error: &McpError) -> ToolError {
    let code = match error {
        McpError::Cancelled { .. } => ToolErrorCode::Cancelled,
        McpError::CallDeadline { .. } => ToolErrorCode::TimedOut,
        McpError::Ended { .. } => ToolErrorCode::OutcomeUnknown,
        _ => ToolErrorCode::Failed,
    };
    ToolError::new(code, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(tool: Value) -> Result<OfferedTool, String> {
        let tool = serde_json::from_value(tool).unwrap();
        OfferedTool::new(&ServerName::new("x").unwrap(), &tool)
    }

    #[test]
    fn a_definition_is_all_that_a_server_says_in_any_order() {
        let digest = |tool: &str| {
            let tool = serde_json::from_str(tool).unwrap();
            offered(tool).unwrap().definition
        };
        let one = digest(r#"{"name":"t","inputSchema":{"a":1,"b":{"c":2,"d":3}}}"#);
        let same = digest(r#"{"inputSchema":{"b":{"d":3,"c":2},"a":1},"name":"t"}"#);
        assert_eq!(one, same);
        assert_eq!(one.digest.len(), DEFINITION_DIGITS);
        for other in [
            r#"{"name":"u","inputSchema":{"a":1,"b":{"c":2,"d":3}}}"#,
            r#"{"name":"t","inputSchema":{"a":1,"b":{"c":2,"d":4}}}"#,
            r#"{"name":"t","description":"x","inputSchema":{"a":1,"b":{"c":2,"d":3}}}"#,
            r#"{"name":"t","inputSchema":{"a":1,"b":{"c":2,"d":3}},"annotations":{"readOnlyHint":true}}"#,
        ] {
            assert_ne!(digest(other).digest, one.digest, "{other}");
        }
    }

    #[test]
    fn hints_only_narrow() {
        let with = |hints: Value| {
            let tool = json!({"name": "t", "inputSchema": {}, "annotations": hints});
            offered(tool).unwrap().spec
        };
        let reads = with(json!({"readOnlyHint": true}));
        assert!(reads.capabilities.mutating && reads.capabilities.requires_approval);
        assert_eq!(reads.concurrency, ToolConcurrency::ReadOnly);
        let both = with(json!({"readOnlyHint": true, "destructiveHint": true}));
        assert_eq!(both.concurrency, ToolConcurrency::Exclusive);
    }

    #[test]
    fn schemas_are_those_of_objects_and_bounded() {
        let schema = |schema: Value| offered(json!({"name": "t", "inputSchema": schema}));
        let empty = schema(json!({})).unwrap().spec.input_schema;
        assert_eq!(empty, json!({"type": "object", "properties": {}}));
        assert!(schema(json!({"type": "string"})).is_err());
        let mut nested = json!({"type": "object"});
        for _ in 0..(SCHEMA_DEPTH - 1) / 2 - 1 {
            nested = json!({"type": "object", "properties": {"a": nested}});
        }
        assert!(schema(nested.clone()).is_ok());
        for _ in 0..2 {
            nested = json!({"type": "object", "properties": {"a": nested}});
        }
        assert!(schema(nested).is_err());
        let empty = json!({"type": "object", "description": ""})
            .to_string()
            .len();
        let long = |room: usize| json!({"type": "object", "description": "a".repeat(room - empty)});
        assert!(schema(long(SCHEMA_BYTES)).is_ok());
        assert!(schema(long(SCHEMA_BYTES + 1)).is_err());
    }

    #[test]
    fn descriptions_are_plain_bounded_and_name_their_server() {
        let text = format!("a\u{200b}b\u{1b}[31m{}", "c".repeat(DESCRIPTION_BYTES));
        let tool = json!({"name": "t", "description": text, "inputSchema": {}});
        let description = offered(tool).unwrap().spec.description;
        assert!(description.starts_with("ab[31mccc"), "{description}");
        assert!(description.contains("bytes left out]"));
        assert!(description.ends_with("(Tool of the MCP server `x`.)"));
    }
}
