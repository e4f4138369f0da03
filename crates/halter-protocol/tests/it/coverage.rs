//! The golden streams hold every field of every kind and every known value, so
//! that a field or value that goes or narrows fails the golden tests.

use crate::fixtures::{schema, streams};
use serde_json::Value;
use std::collections::BTreeSet;

/// What the schema allows and no golden stream holds. Fails when out of date,
/// in both directions.
const NOT_IN_STREAMS: &[&str] = &["field SubagentStatus.worktree"];

/// Walks values and the schema that describes them side by side.
struct Walk<'a> {
    schema: &'a Value,
    seen: BTreeSet<String>,
}

impl<'a> Walk<'a> {
    fn resolve(&self, schema: &'a Value, place: &str) -> (&'a Value, String) {
        match schema.get("$ref").and_then(Value::as_str) {
            Some(reference) => {
                let name = reference.trim_start_matches("#/$defs/");
                (&self.schema["$defs"][name], name.to_owned())
            }
            None => (schema, place.to_owned()),
        }
    }

    /// Notes every field and value of `value` under the name of its type.
    fn visit(&mut self, schema: &'a Value, place: &str, value: &Value) {
        let (schema, place) = self.resolve(schema, place);
        for keyword in ["oneOf", "anyOf"] {
            if let Some(branches) = schema.get(keyword).and_then(Value::as_array) {
                for branch in branches {
                    if describes(branch, value) {
                        self.visit(branch, &branch_name(branch, &place), value);
                    }
                }
            }
        }
        if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
            for (name, property) in properties {
                if let Some(value) = value.get(name) {
                    let field = format!("{place}.{name}");
                    self.seen.insert(format!("field {field}"));
                    self.visit(property, &field, value);
                }
            }
        }
        if let (Some(items), Some(values)) = (schema.get("items"), value.as_array()) {
            for value in values {
                self.visit(items, &format!("{place}[]"), value);
            }
        }
        if let Some(text) = value.as_str() {
            let known = known_values(schema);
            if known.contains(&text) {
                self.seen.insert(format!("value {place} {text}"));
            }
        }
    }

    /// Everything the schema could lead to.
    fn expect(&self, schema: &'a Value, place: &str, all: &mut BTreeSet<String>) {
        let (schema, place) = self.resolve(schema, place);
        for keyword in ["oneOf", "anyOf"] {
            let branches = schema.get(keyword).and_then(Value::as_array);
            for branch in branches.into_iter().flatten() {
                self.expect(branch, &branch_name(branch, &place), all);
            }
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        for (name, property) in properties.into_iter().flatten() {
            let field = format!("{place}.{name}");
            if all.insert(format!("field {field}")) {
                self.expect(property, &field, all);
            }
        }
        if let Some(items) = schema.get("items") {
            self.expect(items, &format!("{place}[]"), all);
        }
        for value in known_values(schema) {
            all.insert(format!("value {place} {value}"));
        }
    }
}

/// Whether a branch is the one a value takes, by what tells the branches of
/// our types apart: a constant, a tag, a required field, or being nothing.
fn describes(branch: &Value, value: &Value) -> bool {
    if let Some(constant) = branch.get("const") {
        return constant == value;
    }
    if branch.get("type").is_some_and(|kind| kind == "null") {
        return value.is_null();
    }
    let required = branch.get("required").and_then(Value::as_array);
    required.into_iter().flatten().all(|name| {
        let name = name.as_str().unwrap();
        let constant = branch["properties"][name].get("const");
        value
            .get(name)
            .is_some_and(|field| constant.is_none_or(|constant| constant == field))
    })
}

/// A branch of a tagged enum is named by its tag.
fn branch_name(branch: &Value, place: &str) -> String {
    let tag = ["kind", "role"]
        .iter()
        .find_map(|tag| branch["properties"][tag]["const"].as_str());
    match tag {
        Some(tag) => format!("{place}:{tag}"),
        None => place.to_owned(),
    }
}

/// The values an open enum knows, or the one a closed enum's branch stands for.
fn known_values(schema: &Value) -> Vec<&str> {
    let examples = schema.get("examples").and_then(Value::as_array);
    let listed = examples.into_iter().flatten().filter_map(Value::as_str);
    listed
        .chain(schema.get("const").and_then(Value::as_str))
        .collect()
}

#[test]
fn every_field_and_value_is_in_a_golden_stream() {
    let schema = schema();
    let mut walk = Walk {
        schema: &schema,
        seen: BTreeSet::new(),
    };
    for stream in streams() {
        for line in &stream.lines {
            let value: Value = serde_json::from_str(line).unwrap();
            walk.visit(&schema, "SessionEvent", &value);
        }
    }
    let mut all = BTreeSet::new();
    walk.expect(&schema, "SessionEvent", &mut all);
    let kinds = all
        .iter()
        .filter(|entry| entry.starts_with("value SessionEventPayload:"));
    assert!(kinds.count() >= 19, "the walk reaches every kind: {all:#?}");
    let missing: Vec<&String> = all.difference(&walk.seen).collect();
    assert_eq!(missing, NOT_IN_STREAMS, "record a stream that holds it");
}
