//! A schema as models are sent it: without what only a checker needs.

use serde_json::{Map, Value};

/// Bounds that a call is checked against all the same. A model that passes one
/// is told so; in every request they would say little.
const UNSENT: [&str; 9] = [
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "pattern",
];

/// The mark of a parameter that is for programs: a call may have it, and no
/// model is told of it before an error names it.
const FOR_PROGRAMS: &str = "unsent";

/// The schema of a tool's input, as short as a model can do with: bounds and
/// lengths go, a default of nothing, parameters for programs, and `null` for a
/// parameter that may be left out anyway.
pub fn sent_schema(schema: &Value) -> Value {
    match schema {
        Value::Object(members) => Value::Object(sent_object(members)),
        Value::Array(values) => values.iter().map(sent_schema).collect(),
        other => other.clone(),
    }
}

fn sent_object(members: &Map<String, Value>) -> Map<String, Value> {
    let mut sent = Map::new();
    for (name, value) in members {
        let left_out = match name.as_str() {
            "default" => is_nothing(value),
            // A service may hold a model to a schema that is closed and whole.
            "additionalProperties" => *value == Value::Bool(false) && has_optional(members),
            name => UNSENT.contains(&name) && !value.is_object(),
        };
        if left_out {
            continue;
        }
        let value = match (name.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                Value::Object(sent_properties(properties, members))
            }
            // Values, not schemas.
            ("enum" | "const" | "default" | "required" | "examples", value) => value.clone(),
            (_, value) => sent_schema(value),
        };
        sent.insert(name.clone(), value);
    }
    sent
}

fn sent_properties(
    properties: &Map<String, Value>,
    object: &Map<String, Value>,
) -> Map<String, Value> {
    let told = |property: &Value| property.get(FOR_PROGRAMS).is_none();
    let sent = properties.iter().filter(|(_, property)| told(property));
    let sent = sent.map(|(name, property)| {
        let mut property = sent_schema(property);
        if !is_required(object, name)
            && let Some(members) = property.as_object_mut()
        {
            without_null(members);
        }
        (name.clone(), property)
    });
    sent.collect()
}

/// Takes `null` out of the types and values of a property.
fn without_null(property: &mut Map<String, Value>) {
    let Some(Value::Array(types)) = property.get_mut("type") else {
        return;
    };
    types.retain(|name| name != "null");
    if let [only] = types.as_slice() {
        let only = only.clone();
        property.insert("type".to_owned(), only);
    }
    if let Some(Value::Array(values)) = property.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
}

fn is_nothing(value: &Value) -> bool {
    matches!(value, Value::Null | Value::Bool(false)) || value.as_u64() == Some(0)
}

fn is_required(object: &Map<String, Value>, name: &str) -> bool {
    let required = object.get("required").and_then(Value::as_array);
    required.is_some_and(|all| all.iter().any(|it| it == name))
}

fn has_optional(object: &Map<String, Value>) -> bool {
    let properties = object.get("properties").and_then(Value::as_object);
    properties.is_some_and(|all| all.keys().any(|name| !is_required(object, name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_a_checker_needs_is_left_out() {
        let schema = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "minLength": 1, "description": "The file."},
                "pattern": {"type": ["string", "null"], "enum": ["a", null], "maxLength": 5},
                "count": {"type": "integer", "minimum": 1, "maximum": 9, "default": 3},
                "quiet": {"type": "boolean", "default": false},
                "patience": {"type": "integer", "default": 10, "unsent": true},
            },
            "required": ["path"],
            "additionalProperties": false,
        });
        assert_eq!(
            sent_schema(&schema),
            json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "The file."},
                    "pattern": {"type": "string", "enum": ["a"]},
                    "count": {"type": "integer", "default": 3},
                    "quiet": {"type": "boolean"},
                },
                "required": ["path"],
            })
        );
    }

    #[test]
    fn a_schema_that_a_service_may_enforce_stays_so() {
        let whole = json!({
            "type": "object",
            "properties": {"a": {"type": ["string", "null"]}},
            "required": ["a"],
            "additionalProperties": false,
        });
        assert_eq!(sent_schema(&whole), whole);
        // A map of strings is no closed object.
        let map = json!({"type": "object", "additionalProperties": {"type": "string"}});
        assert_eq!(sent_schema(&map), map);
    }
}
