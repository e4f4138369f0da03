//! How wires ask for structured answers: in their own words where wire, model
//! and schema allow it, else with a tool.

use super::strict::is_strict;
use super::{OutputWay, RequestSettings};
use crate::final_tool::final_tool;
use halter_protocol::{FINAL_TOOL, ToolSpec};
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::HashSet;

/// A schema as the wires of OpenAI take it for an answer.
#[derive(Debug, Serialize)]
pub(super) struct NamedSchema<'a> {
    name: &'static str,
    schema: &'a Value,
    strict: bool,
}

impl<'a> NamedSchema<'a> {
    /// Strict where the service can keep a model to it.
    pub fn new(schema: &'a Value) -> Self {
        Self {
            name: FINAL_TOOL,
            strict: is_strict(schema),
            schema,
        }
    }
}

/// The schema for models of OpenAI; none for those from before there were such
/// answers.
pub(super) fn openai_schema(model: &str, schema: &Value) -> Option<Value> {
    let model = model.to_ascii_lowercase();
    let name = model.rsplit('/').next().unwrap_or(&model);
    let older = name == "gpt-4"
        || ["gpt-3.5", "gpt-4-", "chatgpt-4o", "o1-mini", "o1-preview"]
            .iter()
            .any(|family| name.starts_with(family));
    (!older).then(|| without_dialect(schema))
}

/// The schema without the name of its own dialect, which strict services do
/// not take.
fn without_dialect(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Value::Object(members) = &mut schema {
        members.shift_remove("$schema");
    }
    schema
}

/// How a request asks for a structured answer.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Asked {
    /// The schema in the wire's own words.
    pub schema: Option<Value>,
    /// The tool to add to the others.
    pub tool: Option<ToolSpec>,
}

impl Asked {
    /// How the settings are to be asked for. `native` makes of a schema what
    /// the wire takes; none if it takes no such schema.
    pub fn of(settings: &RequestSettings, native: impl FnOnce(&Value) -> Option<Value>) -> Self {
        let Some(wanted) = &settings.output else {
            return Self::default();
        };
        let schema = match wanted.way {
            OutputWay::Native | OutputWay::Both => native(&wanted.schema.as_object_schema()),
            OutputWay::Tool => None,
        };
        let with_tool = schema.is_none() || wanted.way == OutputWay::Both;
        Self {
            schema,
            tool: with_tool.then(|| final_tool(&wanted.schema)),
        }
    }
}

/// Keywords that say nothing about a value, or bounds that are checked when
/// the answer is there.
const LEFT_OUT: [&str; 20] = [
    "$schema",
    "$id",
    "$comment",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
];

/// Formats of strings that the service knows.
const FORMATS: [&str; 8] = [
    "date-time",
    "time",
    "date",
    "duration",
    "email",
    "hostname",
    "ipv4",
    "uuid",
];

/// The schema as Anthropic takes it for an answer: every object closed, without
/// bounds. What fits it may still miss the original, never the other way in
/// kind. None if the original says what cannot be said there.
pub(super) fn closed(schema: &Value) -> Option<Value> {
    if is_recursive(schema) {
        return None;
    }
    close(schema)
}

fn close(schema: &Value) -> Option<Value> {
    let members = schema.as_object()?;
    let typed = ["type", "enum", "const", "anyOf", "oneOf", "$ref"];
    if !typed.iter().any(|keyword| members.contains_key(*keyword)) {
        return None;
    }
    let mut closed = Map::new();
    for (keyword, value) in members {
        match keyword.as_str() {
            "type" | "title" | "description" | "enum" | "const" | "default" | "required" => {
                closed.insert(keyword.clone(), value.clone());
            }
            "$ref" => {
                value.as_str().and_then(definition)?;
                closed.insert(keyword.clone(), value.clone());
            }
            "format" if FORMATS.iter().any(|format| value == format) => {
                closed.insert(keyword.clone(), value.clone());
            }
            "items" => {
                closed.insert(keyword.clone(), close(value)?);
            }
            "anyOf" | "oneOf" => {
                let forms = value.as_array()?.iter().map(close);
                closed.insert("anyOf".to_owned(), forms.collect::<Option<Value>>()?);
            }
            "properties" | "$defs" | "definitions" => {
                closed.insert(keyword.clone(), close_each(value)?);
            }
            "additionalProperties" if value.is_boolean() => {}
            "format" => {}
            ignored if LEFT_OUT.contains(&ignored) => {}
            _ => return None,
        }
    }
    if takes_objects(members) {
        let closed_already = members.get("additionalProperties") == Some(&Value::Bool(false));
        if !closed.contains_key("properties") && !closed_already {
            return None;
        }
        closed.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
    Some(Value::Object(closed))
}

fn close_each(schemas: &Value) -> Option<Value> {
    let schemas = schemas.as_object()?.iter();
    let closed = schemas.map(|(name, schema)| Some((name.clone(), close(schema)?)));
    closed.collect::<Option<Map<_, _>>>().map(Value::Object)
}

fn takes_objects(members: &Map<String, Value>) -> bool {
    match members.get("type") {
        Some(Value::String(name)) => name == "object",
        Some(Value::Array(names)) => names.iter().any(|name| name == "object"),
        _ => false,
    }
}

/// The name of the definition that a reference points to.
fn definition(reference: &str) -> Option<&str> {
    ["#/$defs/", "#/definitions/"]
        .iter()
        .find_map(|place| reference.strip_prefix(place))
}

/// True if a definition leads back to itself.
fn is_recursive(schema: &Value) -> bool {
    let definitions = ["$defs", "definitions"]
        .iter()
        .filter_map(|place| schema.get(*place)?.as_object());
    let definitions: Vec<(&String, &Value)> = definitions.flatten().collect();
    definitions.iter().any(|(name, _)| {
        let mut seen = HashSet::new();
        let mut pending = vec![name.as_str()];
        while let Some(next) = pending.pop() {
            let found = definitions.iter().find(|(known, _)| known.as_str() == next);
            let Some((_, inner)) = found.filter(|_| seen.insert(next)) else {
                continue;
            };
            let mut references = Vec::new();
            collect_references(inner, &mut references);
            if references.contains(&name.as_str()) {
                return true;
            }
            pending.extend(references);
        }
        false
    })
}

fn collect_references<'a>(schema: &'a Value, found: &mut Vec<&'a str>) {
    match schema {
        Value::Object(members) => {
            let reference = members.get("$ref").and_then(Value::as_str);
            found.extend(reference.and_then(definition));
            for value in members.values() {
                collect_references(value, found);
            }
        }
        Value::Array(items) => {
            for item in items {
                collect_references(item, found);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::WantedOutput;
    use halter_protocol::ResponseSchema;
    use serde_json::json;

    #[test]
    fn objects_are_closed_and_bounds_left_out() {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {
                "n": {"type": "integer", "minimum": 1, "description": "how many"},
                "tags": {"type": "array", "items": {"$ref": "#/$defs/Tag"}, "minItems": 3},
                "when": {"type": "string", "format": "date"},
                "site": {"type": "string", "format": "uri"},
                "either": {"oneOf": [{"type": "string"}, {"type": "null"}]},
            },
            "required": ["n"],
            "$defs": {"Tag": {"type": "object", "properties": {"name": {"type": "string"}}}},
        });
        assert_eq!(
            closed(&schema).unwrap(),
            json!({
                "type": "object",
                "properties": {
                    "n": {"type": "integer", "description": "how many"},
                    "tags": {"type": "array", "items": {"$ref": "#/$defs/Tag"}},
                    "when": {"type": "string", "format": "date"},
                    "site": {"type": "string"},
                    "either": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                },
                "required": ["n"],
                "$defs": {"Tag": {
                    "type": "object",
                    "properties": {"name": {"type": "string"}},
                    "additionalProperties": false,
                }},
                "additionalProperties": false,
            })
        );
    }

    #[test]
    fn what_cannot_be_said_is_none() {
        let member = |schema: Value| json!({"type": "object", "properties": {"a": schema}});
        assert!(closed(&member(json!({"type": "string"}))).is_some());
        for schema in [
            json!({"type": "object"}),
            member(json!({})),
            member(json!(true)),
            member(json!({"type": "object", "additionalProperties": {"type": "string"}})),
            member(json!({"not": {"type": "string"}})),
            member(json!({"allOf": [{"type": "string"}]})),
            member(json!({"$ref": "https://example.com/x"})),
            member(json!({"$ref": "#"})),
            json!({
                "type": "object",
                "properties": {"tree": {"$ref": "#/$defs/Tree"}},
                "$defs": {
                    "Tree": {"type": "object", "properties": {"left": {"$ref": "#/$defs/Branch"}}},
                    "Branch": {"anyOf": [{"$ref": "#/$defs/Tree"}, {"type": "null"}]},
                },
            }),
        ] {
            assert_eq!(closed(&schema), None, "{schema}");
        }
    }

    #[test]
    fn a_closed_schema_is_strict_for_openai_and_no_other() {
        let strict = |schema: Value| {
            let schema = openai_schema("gpt-5", &schema).unwrap();
            NamedSchema::new(&schema).strict
        };
        assert!(strict(json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {"a": {"type": "string"}},
            "required": ["a"],
            "additionalProperties": false,
        })));
        assert!(!strict(
            json!({"type": "object", "properties": {"a": {"type": "string"}}})
        ));
        for older in ["gpt-4", "gpt-4-turbo", "openai/gpt-3.5-turbo", "o1-mini"] {
            assert_eq!(openai_schema(older, &json!({})), None, "{older}");
        }
        for newer in ["gpt-4o", "gpt-4.1", "o3", "gpt-5.2", "other"] {
            assert!(openai_schema(newer, &json!({})).is_some(), "{newer}");
        }
    }

    #[test]
    fn a_tool_asks_where_the_wire_cannot() {
        let wanted = |way| RequestSettings {
            output: Some(WantedOutput {
                schema: ResponseSchema::new(json!({"type": "string"})),
                way,
            }),
            ..RequestSettings::default()
        };
        let same = |schema: &Value| Some(schema.clone());
        let tool = Asked::of(&wanted(OutputWay::Tool), same);
        assert_eq!(
            tool.tool.unwrap().input_schema["required"],
            json!(["output"])
        );
        let cannot = Asked::of(&wanted(OutputWay::Native), |_| None);
        assert!(cannot.tool.is_some() && cannot.schema.is_none());
        let native = Asked::of(&wanted(OutputWay::Native), same);
        assert_eq!(native.schema.unwrap()["required"], json!(["output"]));
        assert_eq!(native.tool, None);
        let both = Asked::of(&wanted(OutputWay::Both), same);
        assert!(both.tool.is_some() && both.schema.is_some());
        assert_eq!(
            Asked::of(&RequestSettings::default(), same),
            Asked::default()
        );
    }
}
