//! A tool of a server as a tool of a session.

use crate::client::CallOrders;
use crate::draft::to_current_draft;
use crate::error::McpError;
use crate::limits::{
    DESCRIPTION_BYTES, PROPERTY_NAME_BYTES, QUOTED_BYTES, SCHEMA_BYTES, SCHEMA_DEPTH,
};
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
use halter_tools::{SchemaCheck, SourceInstructions, Tool, ToolContext, first_sentence};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

/// What may stand at the root of a schema without naming a property.
const PLAIN_KEYWORDS: [&str; 12] = [
    "$schema",
    "$id",
    "$defs",
    "definitions",
    "type",
    "title",
    "description",
    "properties",
    "required",
    "additionalProperties",
    "examples",
    "default",
];

/// A tool that a server says it has.
#[derive(Debug, Clone, PartialEq)]
pub struct OfferedTool {
    /// The name that the server gives it.
    pub own_name: String,
    /// Name, description and schema as models see them.
    pub spec: ToolSpec,
    /// What approvals of it remember.
    pub definition: ServedDefinition,
    /// Arguments that models know by another name, by that name.
    pub(crate) renamed: BTreeMap<String, String>,
    /// What the server says of the structured data of its results.
    output_schema: Option<Value>,
}

impl OfferedTool {
    /// The tool, if its schema can be used.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn new(server: &ServerName, tool: &rmcp::model::Tool) -> Result<Self, String> {
        let own_name = tool.name.to_string();
        let (schema, renamed) = input_schema(&tool.input_schema)?;
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
            renamed,
            output_schema: tool.output_schema.as_deref().cloned().map(Value::Object),
        })
    }

    /// Checks whether results are as the server says; none if it says nothing,
    /// or nothing that can be checked.
    pub(crate) fn result_check(&self) -> Option<SchemaCheck> {
        let schema = self.output_schema.as_ref()?;
        if schema.to_string().len() > SCHEMA_BYTES || depth(schema) > SCHEMA_DEPTH {
            return None;
        }
        let check = SchemaCheck::new(schema.clone());
        check
            .inspect_err(|error| tracing::debug!(%error, "results of a tool are not checked"))
            .ok()
    }

    /// What models know by another name, in words.
    pub(crate) fn renamings(&self) -> Option<String> {
        let tool = self.own_name.escape_debug();
        let renamed = self.renamed.iter();
        let renamed = renamed.map(|(new, own)| format!("`{}` as `{new}`", own.escape_debug()));
        let list = renamed.collect::<Vec<_>>().join(", ");
        let said =
            format!("its tool `{tool}` takes {list}: services refuse names with other letters");
        (!list.is_empty()).then(|| shortened(&plain(&said), QUOTED_BYTES))
    }

    /// The arguments of a model as the server names them.
    fn own_arguments(&self, arguments: Map<String, Value>) -> Map<String, Value> {
        let own = |name: String| self.renamed.get(&name).cloned().unwrap_or(name);
        let arguments = arguments.into_iter();
        arguments.map(|(name, value)| (own(name), value)).collect()
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

/// The schema of an input: always that of an object, valid, and with names of
/// properties that services take; which of these the server spells otherwise.
fn input_schema(schema: &Map<String, Value>) -> Result<(Value, BTreeMap<String, String>), String> {
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
    to_current_draft(&mut schema);
    let mut renamed = BTreeMap::new();
    if let Some(fields) = schema.as_object_mut() {
        match fields.get("type") {
            None => {
                fields.insert("type".to_owned(), json!("object"));
            }
            Some(kind) if kind == "object" => {}
            Some(kind) => {
                let kind = shortened(&plain(&kind.to_string()), QUOTED_BYTES);
                return Err(format!("its schema is of type {kind}, not an object"));
            }
        }
        // Services want it, also where there is nothing to say.
        fields.entry("properties").or_insert_with(|| json!({}));
        renamed = rename_properties(fields)?;
    }
    let wrong = |reason: String| {
        let reason = shortened(&plain(&reason), QUOTED_BYTES);
        format!("its schema is not valid JSON Schema (draft 2020-12): {reason}")
    };
    // Services take no other draft, and refuse every request that has one.
    jsonschema::draft202012::meta::validate(&schema).map_err(|error| wrong(error.to_string()))?;
    SchemaCheck::new(schema.clone()).map_err(|error| wrong(error.to_string()))?;
    make_plain(&mut schema);
    Ok((schema, renamed))
}

/// Takes what nobody sees out of the texts of a schema, which models read as
/// they read a description. No deeper than [`SCHEMA_DEPTH`].
fn make_plain(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(make_plain),
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) if ["title", "description"].contains(&name.as_str()) => {
                        *text = plain(text);
                    }
                    value => make_plain(value),
                }
            }
        }
        _ => {}
    }
}

/// Gives properties whose names a service refuses others. Returns the server's
/// own names by these.
fn rename_properties(schema: &mut Map<String, Value>) -> Result<BTreeMap<String, String>, String> {
    let mut renamed = BTreeMap::new();
    let properties = schema.get("properties").and_then(Value::as_object);
    let names = properties.into_iter().flat_map(|it| it.keys());
    for own in names.filter(|name| !is_taken(name)) {
        let shown = shortened(&plain(own), QUOTED_BYTES);
        let taken = |letter: char| letter.is_ascii_alphanumeric() || "_.-".contains(letter);
        let letters = own.chars().map(|it| if taken(it) { it } else { '_' });
        let new: String = letters.take(PROPERTY_NAME_BYTES).collect();
        let clashes = properties.is_some_and(|it| it.contains_key(&new));
        if new.is_empty() || clashes || renamed.insert(new, own.clone()).is_some() {
            return Err(format!("services refuse its property `{shown}`"));
        }
    }
    if renamed.is_empty() && !has_refused_branch(schema) {
        return Ok(renamed);
    }
    // Elsewhere than in the two places below a name may stand in any keyword.
    let plain_keyword = |name: &String| PLAIN_KEYWORDS.contains(&name.as_str());
    if let Some(keyword) = schema.keys().find(|it| !plain_keyword(it)) {
        let keyword = shortened(&plain(keyword), QUOTED_BYTES);
        return Err(format!(
            "services refuse names of its properties, and it has a `{keyword}` that may mean them"
        ));
    }
    let new_names = renamed
        .iter()
        .map(|(new, own)| (own.as_str(), new.as_str()));
    let new_names: HashMap<&str, &str> = new_names.collect();
    let new_name = |own: &str| new_names.get(own).copied().unwrap_or(own).to_owned();
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        let given = std::mem::take(properties).into_iter();
        properties.extend(given.map(|(own, property)| (new_name(&own), property)));
    }
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        for name in required {
            *name = name
                .as_str()
                .map_or(Value::Null, |own| json!(new_name(own)));
        }
    }
    Ok(renamed)
}

/// Whether a choice of schemas at the root names a property that a service
/// refuses: where choices are not taken, its properties are those of the root.
fn has_refused_branch(schema: &Map<String, Value>) -> bool {
    let choices = ["oneOf", "anyOf", "allOf"].map(|choice| schema.get(choice));
    let branches = choices.into_iter().flatten().filter_map(Value::as_array);
    let properties = branches
        .flatten()
        .filter_map(|branch| branch.get("properties")?.as_object());
    properties.flat_map(Map::keys).any(|name| !is_taken(name))
}

/// Whether every service takes a property of this name.
fn is_taken(name: &str) -> bool {
    let taken = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    (1..=PROPERTY_NAME_BYTES).contains(&name.len()) && name.bytes().all(taken)
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
    /// Made for the first result.
    pub(crate) result_check: OnceLock<Option<SchemaCheck>>,
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
            asked: Arc::default(),
        };
        let arguments = self.offered.own_arguments(arguments);
        let called = self.server.call_tool(&self.offered, arguments, &orders);
        match called.await {
            Ok(result) => {
                let make = || self.offered.result_check();
                let check = self.result_check.get_or_init(make).as_ref();
                converted(&self.offered, check, result)
            }
            Err(error) => Err(failure(&error).into()),
        }
    }
}

pub(crate) fn failure(error: &McpError) -> ToolError {
    let code = match error {
        McpError::Cancelled { .. } => ToolErrorCode::Cancelled,
        McpError::CallDeadline { .. } => ToolErrorCode::TimedOut,
        McpError::Ended { .. } => ToolErrorCode::OutcomeUnknown,
        McpError::Changed { .. } => ToolErrorCode::PolicyDenied,
        _ => ToolErrorCode::Failed,
    };
    let message = match error {
        McpError::Ended { .. } => {
            format!("{error}; look at what it has done before you call it again")
        }
        error => error.to_string(),
    };
    ToolError::new(code, message)
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
        let hidden = json!({"properties": {"description": {"anyOf": [
            {"type": "string", "description": "a\u{200b}b\u{e0041}"}]}}});
        let shown = schema(hidden).unwrap().spec.input_schema;
        let told = shown.pointer("/properties/description/anyOf/0/description");
        assert_eq!(told, Some(&json!("ab")));
        let empty = schema(json!({})).unwrap().spec.input_schema;
        assert_eq!(empty, json!({"type": "object", "properties": {}}));
        assert!(schema(json!({"type": "string"})).is_err());
        for wrong in [
            json!({"type": "object", "properties": {"a": {"type": "sometimes"}}}),
            json!({"type": "object", "properties": {"a": {"$ref": "https://a.example/s"}}}),
            json!({"type": "object", "properties": {"a": {"pattern": "("}}}),
            json!({"type": "object", "required": "a"}),
            json!({"type": "object", "properties": []}),
        ] {
            let reason = schema(wrong).unwrap_err();
            assert!(reason.contains("not valid JSON Schema"), "{reason}");
        }
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
    fn properties_that_services_refuse_have_other_names_for_models() {
        let schema = |schema: Value| offered(json!({"name": "t", "inputSchema": schema}));
        let long = "l".repeat(PROPERTY_NAME_BYTES + 1);
        let tool = schema(json!({
            "type": "object", "required": ["$filter", "a"],
            "properties": {"$filter": {"type": "string"}, "a": {}, &long: {}},
        }));
        let tool = tool.unwrap();
        let cut = "l".repeat(PROPERTY_NAME_BYTES);
        let expected = json!({
            "type": "object", "required": ["_filter", "a"],
            "properties": {"_filter": {"type": "string"}, "a": {}, &cut: {}},
        });
        assert_eq!(tool.spec.input_schema, expected);
        let given = json!({"_filter": "x", "a": 1});
        let own = tool.own_arguments(given.as_object().unwrap().clone());
        assert_eq!(Value::Object(own), json!({"$filter": "x", "a": 1}));
        for wrong in [
            json!({"properties": {"a b": {}, "a_b": {}}}),
            json!({"properties": {"a b": {}, "a/b": {}}}),
            json!({"properties": {"": {}}}),
            json!({"properties": {"a b": {}}, "dependentRequired": {"a b": ["c"]}}),
            json!({"oneOf": [{"properties": {"a b": {}}}]}),
        ] {
            let reason = schema(wrong).unwrap_err();
            assert!(reason.contains("services refuse"), "{reason}");
        }
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
