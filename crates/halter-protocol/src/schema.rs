//! The JSON Schema of the event stream, in a form that generators of types
//! understand.

use crate::event::SessionEvent;
use serde_json::{Map, Value, json};

/// The JSON Schema of one line of an event stream.
///
/// It takes kinds and roles that it does not list, as every consumer must. For
/// the sake of generators no member stands beside a `$ref` that has any of its
/// own, every value says which types it can have, and the branches of a tagged
/// union have titles.
pub fn event_schema() -> Value {
    let mut schema = schemars::schema_for!(SessionEvent).to_value();
    let definitions = schema.get("$defs").cloned().unwrap_or_default();
    rewrite(&mut schema, &definitions);
    let names = definitions.as_object().into_iter().flatten();
    for (name, definition) in names {
        let text = schema.to_string();
        let Some(kept) = schema.get_mut("$defs").and_then(Value::as_object_mut) else {
            continue;
        };
        if !text.contains(&format!("\"{}\"", reference(name))) {
            // It was merged into the branch that named it.
            kept.remove(name);
        } else if definition.get("oneOf").is_some()
            && let Some(union) = kept.get_mut(name)
        {
            open_union(name, union);
        }
    }
    schema
}

/// The same as indented text, as checked in.
pub fn event_schema_text() -> String {
    format!("{:#}\n", event_schema())
}

fn reference(name: &str) -> String {
    format!("#/$defs/{name}")
}

/// Rewrites a schema and all schemas in it.
fn rewrite(schema: &mut Value, definitions: &Value) {
    let Some(object) = schema.as_object_mut() else {
        return;
    };
    merge_reference(object, definitions);
    let says_nothing = |key: &String| matches!(key.as_str(), "description" | "default" | "title");
    if object.keys().all(says_nothing) {
        let any = [
            "object", "array", "string", "integer", "number", "boolean", "null",
        ];
        object.insert("type".to_owned(), json!(any));
    }
    for key in ["properties", "$defs"] {
        let inner = object.get_mut(key).and_then(Value::as_object_mut);
        for schema in inner.into_iter().flat_map(Map::values_mut) {
            rewrite(schema, definitions);
        }
    }
    for key in ["oneOf", "anyOf"] {
        let inner = object.get_mut(key).and_then(Value::as_array_mut);
        for schema in inner.into_iter().flatten() {
            rewrite(schema, definitions);
        }
    }
    if let Some(items) = object.get_mut("items") {
        rewrite(items, definitions);
    }
}

/// Replaces a `$ref` that has properties beside it, which is how the branch of
/// a tagged union names its content, by the members of what it refers to.
fn merge_reference(object: &mut Map<String, Value>, definitions: &Value) {
    if !object.contains_key("properties") {
        return;
    }
    let Some(Value::String(target)) = object.remove("$ref") else {
        return;
    };
    let name = target.trim_start_matches("#/$defs/");
    let content = definitions.get(name).and_then(Value::as_object);
    for (key, value) in content.into_iter().flatten() {
        match (object.get_mut(key), value) {
            (Some(Value::Object(own)), Value::Object(more)) => own.extend(more.clone()),
            (Some(Value::Array(own)), Value::Array(more)) => own.extend(more.clone()),
            (Some(_), _) => {}
            (None, value) => {
                object.insert(key.clone(), value.clone());
            }
        }
    }
}

/// Gives each branch of a tagged union a title, and adds one for the tags that
/// are not known.
fn open_union(name: &str, union: &mut Value) {
    let Some(branches) = union.get_mut("oneOf").and_then(Value::as_array_mut) else {
        return;
    };
    let suffix = if name == "SessionEventPayload" {
        "Event"
    } else {
        name
    };
    let Some(tag) = ["kind", "role"].into_iter().find(|tag| {
        let mut branches = branches.iter();
        branches.all(|branch| constant(branch, tag).is_some())
    }) else {
        return;
    };
    let mut known = Vec::new();
    for branch in branches.iter_mut() {
        let word = constant(branch, tag).unwrap_or_default().to_owned();
        if let Some(object) = branch.as_object_mut() {
            let title = format!("{}{suffix}", camel_case(&word));
            object.insert("title".to_owned(), json!(title));
        }
        known.push(word);
    }
    branches.push(json!({
        "type": "object",
        "properties": {tag: {"type": "string", "not": {"enum": known}}},
        "required": [tag],
        "title": format!("Other{suffix}"),
        "description": format!("A {tag} that this version does not know: keep it or skip it."),
    }));
}

fn constant<'a>(branch: &'a Value, tag: &str) -> Option<&'a str> {
    branch.get("properties")?.get(tag)?.get("const")?.as_str()
}

fn camel_case(word: &str) -> String {
    word.split('_')
        .map(|part| match part.split_at_checked(1) {
            Some((first, rest)) => format!("{}{rest}", first.to_ascii_uppercase()),
            None => String::new(),
        })
        .collect()
}
