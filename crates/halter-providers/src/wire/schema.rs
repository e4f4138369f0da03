//! What services ask of the schema of a tool's input.

use super::body::Warnings;
use halter_protocol::ToolSpec;
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// What the root of a function's schema may not have for OpenAI.
const REFUSED_AT_THE_ROOT: [&str; 5] = ["oneOf", "anyOf", "allOf", "enum", "not"];

/// The schema of a tool's input as OpenAI takes it for a function. What is
/// left out is said.
pub(super) fn function_parameters<'a>(
    spec: &'a ToolSpec,
    warnings: &mut Warnings,
) -> Cow<'a, Value> {
    let mut schema = object_root(&spec.input_schema);
    for keyword in REFUSED_AT_THE_ROOT {
        if schema.get(keyword).is_some() {
            if let Value::Object(members) = schema.to_mut() {
                members.shift_remove(keyword);
            }
            warnings.add(format!(
                "the schema of tool '{}' was sent without the '{keyword}' at its root, \
                 which this model service refuses; calls are still checked against it",
                spec.name
            ));
        }
    }
    schema
}

/// The schema with an object at its root, as services demand: a missing
/// `type` or `properties` is added, anything that is no schema of an object
/// becomes the schema of any object.
pub(super) fn object_root(schema: &Value) -> Cow<'_, Value> {
    let Value::Object(members) = schema else {
        return Cow::Owned(json!({"type": "object", "properties": {}}));
    };
    let has_type = members.get("type") == Some(&Value::from("object"));
    let has_properties = members.get("properties").is_some_and(Value::is_object);
    if has_type && has_properties {
        return Cow::Borrowed(schema);
    }
    let mut members = members.clone();
    members.insert("type".to_owned(), Value::from("object"));
    if !has_properties {
        members.insert("properties".to_owned(), Value::Object(Map::new()));
    }
    Cow::Owned(Value::Object(members))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_is_always_an_object_with_properties() {
        let whole = json!({"type": "object", "properties": {"a": {}}});
        assert!(matches!(object_root(&whole), Cow::Borrowed(_)));
        for (given, expected) in [
            (json!(true), json!({"type": "object", "properties": {}})),
            (json!({}), json!({"type": "object", "properties": {}})),
            (
                json!({"properties": {"a": {}}, "required": ["a"]}),
                json!({"properties": {"a": {}}, "required": ["a"], "type": "object"}),
            ),
        ] {
            assert_eq!(*object_root(&given), expected);
        }
    }
}
