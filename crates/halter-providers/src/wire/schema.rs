//! What services ask of the schema of a tool's input.

use super::body::Warnings;
use halter_protocol::ToolSpec;
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// Choices of schemas, which services refuse at the root of a tool's schema.
const CHOICES: [&str; 3] = ["oneOf", "anyOf", "allOf"];

/// What OpenAI refuses there as well.
const REFUSED_BY_OPENAI: [&str; 2] = ["enum", "not"];

/// The schema of a tool's input as OpenAI takes it for a function. What is
/// left out is said.
pub(super) fn function_parameters<'a>(
    spec: &'a ToolSpec,
    warnings: &mut Warnings,
) -> Cow<'a, Value> {
    warn_of_choices([spec], warnings);
    let mut schema = object_root(&spec.input_schema);
    for keyword in REFUSED_BY_OPENAI {
        if schema.get(keyword).is_some() {
            if let Value::Object(members) = schema.to_mut() {
                members.shift_remove(keyword);
            }
            warnings.add(sent_without(spec, keyword));
        }
    }
    schema
}

/// Says what [`object_root`] leaves out of the schemas of tools.
pub(super) fn warn_of_choices<'a>(
    specs: impl IntoIterator<Item = &'a ToolSpec>,
    warnings: &mut Warnings,
) {
    for spec in specs {
        let given = |choice: &&str| spec.input_schema.get(choice).is_some();
        for choice in CHOICES.into_iter().filter(given) {
            warnings.add(sent_without(spec, choice));
        }
    }
}

fn sent_without(spec: &ToolSpec, keyword: &str) -> String {
    format!(
        "the schema of tool '{}' was sent without the '{keyword}' at its root, \
         which this model service refuses; calls are still checked against it",
        spec.name
    )
}

/// The schema with an object at its root, as services demand: a missing
/// `type` or `properties` is added, anything that is no schema of an object
/// becomes the schema of any object, and choices of schemas go. What these say
/// of properties stays, since a model knows no others.
pub(super) fn object_root(schema: &Value) -> Cow<'_, Value> {
    let Value::Object(members) = schema else {
        return Cow::Owned(json!({"type": "object", "properties": {}}));
    };
    let has_type = members.get("type") == Some(&Value::from("object"));
    let has_properties = members.get("properties").is_some_and(Value::is_object);
    let has_choices = CHOICES.iter().any(|choice| members.contains_key(*choice));
    if has_type && has_properties && !has_choices {
        return Cow::Borrowed(schema);
    }
    let mut members = members.clone();
    members.insert("type".to_owned(), Value::from("object"));
    let mut properties = match members.get_mut("properties") {
        Some(Value::Object(properties)) => std::mem::take(properties),
        _ => Map::new(),
    };
    for choice in CHOICES {
        let branches = members.shift_remove(choice);
        let branches = branches.as_ref().and_then(Value::as_array);
        for branch in branches.into_iter().flatten() {
            let named = branch.get("properties").and_then(Value::as_object);
            for (name, property) in named.into_iter().flatten() {
                properties.entry(name).or_insert_with(|| property.clone());
            }
        }
    }
    members.insert("properties".to_owned(), Value::Object(properties));
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
            (
                json!({"type": "object", "anyOf": [{"properties": {"a": {}}}, {"required": ["b"]}],
                    "properties": {"b": {}}, "oneOf": [{"properties": {"b": true, "c": {}}}]}),
                json!({"type": "object", "properties": {"b": {}, "c": {}, "a": {}}}),
            ),
        ] {
            assert_eq!(*object_root(&given), expected);
        }
    }
}
