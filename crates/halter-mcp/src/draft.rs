//! Schemas of older drafts of JSON Schema in the words of 2020-12, the only
//! draft that model services take. Many servers are written with libraries that
//! say tuples and exclusive bounds as draft 7 and draft 4 do.

use serde_json::{Map, Value, json};

/// Keywords that hold one schema.
const ONE: [&str; 11] = [
    "items",
    "additionalItems",
    "additionalProperties",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// Keywords that hold a list of schemas.
const LISTS: [&str; 5] = ["allOf", "anyOf", "oneOf", "items", "prefixItems"];

/// Keywords that hold schemas by name.
const NAMED: [&str; 6] = [
    "properties",
    "patternProperties",
    "$defs",
    "definitions",
    "dependentSchemas",
    "dependencies",
];

/// Says a schema in the words of 2020-12. No deeper than the schema, which is
/// bounded.
pub(crate) fn to_current_draft(schema: &mut Value) {
    let said = schema.clone();
    rewrite(schema, &said);
    let Some(fields) = schema.as_object_mut() else {
        return;
    };
    let named = fields.get("$schema").and_then(Value::as_str);
    if named.is_some_and(|it| !it.contains("json-schema.org/draft/2020-12/")) {
        fields.shift_remove("$schema");
    }
}

fn rewrite(schema: &mut Value, said: &Value) {
    let Some(fields) = schema.as_object_mut() else {
        return;
    };
    for (keyword, value) in fields.iter_mut() {
        let keyword = keyword.as_str();
        match value {
            Value::Array(list) if LISTS.contains(&keyword) => {
                list.iter_mut().for_each(|it| rewrite(it, said));
            }
            Value::Object(named) if NAMED.contains(&keyword) => {
                named.values_mut().for_each(|it| rewrite(it, said));
            }
            one if ONE.contains(&keyword) => rewrite(one, said),
            Value::String(target) if keyword == "$ref" => *target = moved(target, said),
            _ => {}
        }
    }
    rewrite_bound(fields, "exclusiveMinimum", "minimum");
    rewrite_bound(fields, "exclusiveMaximum", "maximum");
    rewrite_tuple(fields);
}

/// Draft 4 says by a boolean that the bound beside it is exclusive.
fn rewrite_bound(fields: &mut Map<String, Value>, exclusive: &str, bound: &str) {
    let Some(Value::Bool(is_exclusive)) = fields.get(exclusive) else {
        return;
    };
    let is_exclusive = *is_exclusive;
    fields.shift_remove(exclusive);
    if is_exclusive && let Some(value) = fields.shift_remove(bound) {
        fields.insert(exclusive.to_owned(), value);
    }
}

/// Up to 2019-09 a list under `items` is a tuple. `items` is what follows the
/// tuple now; OpenAI refuses an array without it, and knows no `prefixItems`.
fn rewrite_tuple(fields: &mut Map<String, Value>) {
    if fields.get("items").is_some_and(Value::is_array) {
        let tuple = fields.shift_remove("items");
        let rest = fields.shift_remove("additionalItems");
        fields.extend(rest.map(|rest| ("items".to_owned(), rest)));
        let tuple = tuple.filter(|it| it != &json!([]));
        fields.extend(tuple.map(|tuple| ("prefixItems".to_owned(), tuple)));
    }
    let Some(Value::Array(tuple)) = fields.get("prefixItems") else {
        return;
    };
    let forms = forms_of(tuple);
    let length = u64::try_from(tuple.len()).unwrap_or(u64::MAX);
    let most = fields.get("maxItems").and_then(Value::as_u64);
    let is_closed = fields.get("items") == Some(&Value::Bool(false));
    if most.is_some_and(|most| most <= length) || is_closed {
        // Nothing follows, so this allows no more than before.
        let most = most.unwrap_or(length).min(length);
        fields.insert("maxItems".to_owned(), json!(most));
        fields.insert("items".to_owned(), forms);
    } else if !fields.get("items").is_some_and(Value::is_object) {
        fields.insert("items".to_owned(), json!({}));
    }
}

/// Any of the schemas of a tuple, for services that know no tuples. One that
/// holds tuples itself is not repeated: it would grow with each level.
fn forms_of(tuple: &[Value]) -> Value {
    match tuple {
        forms if forms.iter().any(has_tuple) => json!({}),
        [first, others @ ..] if others.iter().all(|it| it == first) => first.clone(),
        forms => json!({"anyOf": forms}),
    }
}

fn has_tuple(schema: &Value) -> bool {
    match schema {
        Value::Array(items) => items.iter().any(has_tuple),
        Value::Object(fields) => {
            fields.contains_key("prefixItems") || fields.values().any(has_tuple)
        }
        _ => false,
    }
}

/// Where a reference into a tuple points now. Libraries refer to what they have
/// said before by its place.
fn moved(target: &str, said: &Value) -> String {
    let Some(path) = target.strip_prefix("#/") else {
        return target.to_owned();
    };
    let mut at = Some(said);
    let mut steps = vec!["#"];
    for step in path.split('/') {
        let is_tuple = at
            .and_then(|it| it.get("items"))
            .is_some_and(Value::is_array);
        steps.push(match step {
            "items" if is_tuple => "prefixItems",
            "additionalItems" if is_tuple => "items",
            other => other,
        });
        let name = step.replace("~1", "/").replace("~0", "~");
        at = at.and_then(|it| match it {
            Value::Array(list) => list.get(name.parse::<usize>().ok()?),
            other => other.get(&name),
        });
    }
    steps.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{SCHEMA_BYTES, SCHEMA_DEPTH};

    fn current(mut schema: Value) -> Value {
        to_current_draft(&mut schema);
        schema
    }

    #[test]
    fn tuples_are_said_in_a_way_that_all_services_take() {
        let (a, b) = (json!({"type": "string"}), json!({"type": "number"}));
        let both = json!({"anyOf": [a, b]});
        for (old, new) in [
            (
                json!({"items": [a, b], "minItems": 2, "maxItems": 2}),
                json!({"minItems": 2, "maxItems": 2, "prefixItems": [a, b], "items": both}),
            ),
            (
                json!({"items": [a, b], "additionalItems": false}),
                json!({"prefixItems": [a, b], "maxItems": 2, "items": both}),
            ),
            (
                json!({"items": [b, b], "maxItems": 2}),
                json!({"prefixItems": [b, b], "maxItems": 2, "items": b}),
            ),
            (
                json!({"items": [a], "additionalItems": b}),
                json!({"prefixItems": [a], "items": b}),
            ),
            (
                json!({"items": [a]}),
                json!({"prefixItems": [a], "items": {}}),
            ),
            (
                json!({"prefixItems": [a], "items": false}),
                json!({"prefixItems": [a], "maxItems": 1, "items": a}),
            ),
            (json!({"items": []}), json!({})),
            (json!({"items": a}), json!({"items": a})),
        ] {
            let told = old.to_string();
            assert_eq!(current(old), new, "{told}");
        }
    }

    #[test]
    fn exclusive_bounds_are_numbers_and_foreign_drafts_go() {
        let old = json!({
            "$schema": "http://json-schema.org/draft-07/schema#",
            "definitions": {"n": {"minimum": 0, "exclusiveMinimum": true}},
            "properties": {
                "items": {"maximum": 9, "exclusiveMaximum": false},
                "enum": {"exclusiveMinimum": true},
                "kept": {"exclusiveMinimum": 1, "default": {"items": []}},
            },
        });
        let new = json!({
            "definitions": {"n": {"exclusiveMinimum": 0}},
            "properties": {
                "items": {"maximum": 9},
                "enum": {},
                "kept": {"exclusiveMinimum": 1, "default": {"items": []}},
            },
        });
        assert_eq!(current(old), new);
        let own = json!({"$schema": "https://json-schema.org/draft/2020-12/schema"});
        assert_eq!(current(own.clone()), own);
    }

    #[test]
    fn references_into_tuples_point_to_where_they_are_now() {
        let schema = json!({"properties": {"a/b": {
            "items": [{"type": "number"}, {"$ref": "#/properties/a~1b/items/0"}],
            "additionalItems": {"items": {"$ref": "#/properties/a~1b/additionalItems"}},
        }}});
        let now = current(schema);
        let found = |path: &str| now.pointer(path).and_then(Value::as_str);
        let first = found("/properties/a~1b/prefixItems/1/$ref");
        assert_eq!(first, Some("#/properties/a~1b/prefixItems/0"));
        let rest = found("/properties/a~1b/items/items/$ref");
        assert_eq!(rest, Some("#/properties/a~1b/items"));
    }

    #[test]
    fn nested_tuples_do_not_grow_without_bound() {
        let mut nested = json!({"type": "string", "description": "d".repeat(1000)});
        for _ in 0..SCHEMA_DEPTH {
            nested = json!({"items": [nested], "maxItems": 1});
        }
        assert!(current(nested).to_string().len() < SCHEMA_BYTES / 2);
    }
}
