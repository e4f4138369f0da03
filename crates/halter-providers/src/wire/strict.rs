//! Which schemas OpenAI keeps a model to, word for word.

use serde_json::{Map, Value};

/// Objects inside objects that a strict schema may have, in levels.
const STRICT_LEVELS: usize = 10;

/// Members of objects that a strict schema may have in all.
const STRICT_PROPERTIES: usize = 100;

/// True if a service takes the schema as strict.
pub(super) fn is_strict(schema: &Value) -> bool {
    let mut check = StrictCheck { properties: 0 };
    schema.get("anyOf").is_none() && check.allows(schema, 0)
}

struct StrictCheck {
    properties: usize,
}

impl StrictCheck {
    fn allows(&mut self, schema: &Value, level: usize) -> bool {
        let Value::Object(members) = schema else {
            return false;
        };
        let typed = ["type", "anyOf", "$ref"]
            .iter()
            .any(|keyword| members.contains_key(*keyword));
        level <= STRICT_LEVELS
            && typed
            && is_closed(members)
            && members
                .iter()
                .all(|(keyword, value)| self.allows_keyword(keyword, value, level))
    }

    fn allows_keyword(&mut self, keyword: &str, value: &Value, level: usize) -> bool {
        match keyword {
            "title" | "description" | "enum" | "const" | "pattern" | "minimum" | "maximum"
            | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" | "minItems" | "maxItems" => {
                true
            }
            "type" => is_known_type(value),
            "format" => is_known_format(value),
            // `is_closed` has looked at these.
            "required" | "additionalProperties" => true,
            "$ref" => value
                .as_str()
                .is_some_and(|target| target == "#" || target.starts_with("#/$defs/")),
            "items" => self.allows(value, level + 1),
            "anyOf" => value
                .as_array()
                .is_some_and(|options| options.iter().all(|option| self.allows(option, level + 1))),
            "properties" => {
                self.properties += value.as_object().map_or(0, Map::len);
                self.properties <= STRICT_PROPERTIES && self.allows_each(value, level + 1)
            }
            "$defs" => level == 0 && self.allows_each(value, level + 1),
            _ => false,
        }
    }

    fn allows_each(&mut self, schemas: &Value, level: usize) -> bool {
        schemas
            .as_object()
            .is_some_and(|schemas| schemas.values().all(|schema| self.allows(schema, level)))
    }
}

/// True unless it is an object with optional or further members.
fn is_closed(members: &Map<String, Value>) -> bool {
    let is_object = match members.get("type") {
        Some(Value::String(name)) => name == "object",
        Some(Value::Array(names)) => names.iter().any(|name| name == "object"),
        _ => false,
    };
    let none = Map::new();
    let properties = members
        .get("properties")
        .and_then(Value::as_object)
        .unwrap_or(&none);
    if !is_object {
        return properties.is_empty();
    }
    let required: Vec<&str> = members
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    members.get("additionalProperties") == Some(&Value::Bool(false))
        && required.len() == properties.len()
        && required.iter().all(|name| properties.contains_key(*name))
}

fn is_known_type(value: &Value) -> bool {
    let known = |name: &Value| {
        name.as_str().is_some_and(|name| {
            matches!(
                name,
                "string" | "number" | "integer" | "boolean" | "object" | "array" | "null"
            )
        })
    };
    match value {
        Value::Array(names) => names.iter().all(known),
        name => known(name),
    }
}

fn is_known_format(value: &Value) -> bool {
    value.as_str().is_some_and(|format| {
        matches!(
            format,
            "date-time"
                | "time"
                | "date"
                | "duration"
                | "email"
                | "hostname"
                | "ipv4"
                | "ipv6"
                | "uuid"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_closed_schema_is_strict() {
        for schema in [
            json!({"type": "object", "properties": {}, "additionalProperties": false}),
            json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "where"},
                    "lines": {"type": ["integer", "null"], "minimum": 1},
                    "kind": {"type": "string", "enum": ["a", "b"]},
                    "at": {"type": "string", "format": "date-time"},
                    "edits": {"type": "array", "items": {"$ref": "#/$defs/Edit"}},
                    "either": {"anyOf": [{"type": "string"}, {"type": "null"}]}
                },
                "required": ["path", "lines", "kind", "at", "edits", "either"],
                "additionalProperties": false,
                "$defs": {"Edit": {
                    "type": "object",
                    "properties": {"old": {"type": "string"}},
                    "required": ["old"],
                    "additionalProperties": false
                }}
            }),
        ] {
            assert!(is_strict(&schema), "{schema}");
        }
    }

    #[test]
    fn anything_a_service_might_refuse_is_not_strict() {
        let member = |schema: Value| json!({"type": "object", "properties": {"a": schema}, "required": ["a"], "additionalProperties": false});
        assert!(is_strict(&member(json!({"type": "string"}))));
        for schema in [
            json!({"type": "object", "properties": {}}),
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": false}),
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["b"], "additionalProperties": false}),
            json!({"anyOf": [{"type": "object"}]}),
            member(json!({})),
            member(json!(true)),
            member(json!({"type": "string", "default": "x"})),
            member(json!({"type": "string", "format": "uri"})),
            member(json!({"type": "object"})),
            member(json!({"oneOf": [{"type": "string"}]})),
            member(json!({"type": "array", "items": {}})),
            member(json!({"$ref": "https://example.com/x"})),
        ] {
            assert!(!is_strict(&schema), "{schema}");
        }
    }

    #[test]
    fn a_strict_schema_has_so_many_levels_and_members_and_no_more() {
        let nested = |levels: usize| {
            (0..levels).fold(json!({"type": "string"}), |inner, _| {
                json!({"type": "object", "properties": {"a": inner}, "required": ["a"], "additionalProperties": false})
            })
        };
        assert!(is_strict(&nested(STRICT_LEVELS)));
        assert!(!is_strict(&nested(STRICT_LEVELS + 1)));
        let wide = |members: usize| {
            let names: Vec<String> = (0..members).map(|n| format!("m{n}")).collect();
            let properties: Map<String, Value> = names
                .iter()
                .map(|name| (name.clone(), json!({"type": "string"})))
                .collect();
            json!({"type": "object", "properties": properties, "required": names, "additionalProperties": false})
        };
        assert!(is_strict(&wide(STRICT_PROPERTIES)));
        assert!(!is_strict(&wide(STRICT_PROPERTIES + 1)));
    }
}
