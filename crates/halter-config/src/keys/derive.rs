//! Reads the keys and what each takes off the JSON Schema of the Rust types.

use halter_protocol::RuleEffect;
use serde_json::Value;

use super::{KeySpec, Kind, NARROW, Narrow};
use crate::limits::MAX_INTEGER;

/// Stands in a pattern for a name that people choose.
pub(super) const ANY_NAME: &str = "<name>";

/// Every key of a schema, in the order of the fields.
pub(super) fn keys(schema: &Value) -> Vec<KeySpec> {
    let mut found = Vec::new();
    walk(schema, schema, "", &mut found);
    found
}

fn walk(root: &Value, node: &Value, pattern: &str, found: &mut Vec<KeySpec>) {
    let node = followed(root, node);
    let below = |name: &str| match pattern {
        "" => name.to_owned(),
        table => format!("{table}.{name}"),
    };
    // A table with names of people's choosing holds one kind of thing, the known names included.
    if let Some(inner) = node.get("additionalProperties").filter(|it| it.is_object()) {
        return walk(root, inner, &below(ANY_NAME), found);
    }
    if let Some(fields) = node.get("properties").and_then(Value::as_object) {
        for (name, inner) in fields {
            walk(root, inner, &below(name), found);
        }
        return;
    }
    let narrow = NARROW.iter().find(|(key, _)| match key.strip_suffix('*') {
        Some(table) => pattern.starts_with(table),
        None => *key == pattern,
    });
    found.push(KeySpec {
        pattern: pattern.to_owned(),
        kind: kind(pattern, node),
        narrow: narrow.map_or(Narrow::Never, |(_, narrow)| *narrow),
    });
}

/// What a reference leads to; of something optional, the thing itself.
fn followed<'a>(root: &'a Value, node: &'a Value) -> &'a Value {
    let reference = |node: &'a Value| node.get("$ref").and_then(Value::as_str);
    let wrapped = ["allOf", "anyOf"]
        .iter()
        .filter_map(|name| node.get(name)?.as_array())
        .flatten()
        .find_map(reference);
    let target = reference(node)
        .or(wrapped)
        .and_then(|target| root.pointer(target.trim_start_matches('#')));
    match target {
        Some(inner) => followed(root, inner),
        None => node,
    }
}

fn kind(pattern: &str, node: &Value) -> Kind {
    let text = |name: &str| node.get(name).and_then(Value::as_str);
    let format = text("format").unwrap_or_default();
    let types = node.get("type");
    let is = |name: &str| {
        types.is_some_and(|types| {
            types == name
                || types
                    .as_array()
                    .is_some_and(|all| all.contains(&name.into()))
        })
    };
    let words: Vec<String> = node
        .get("oneOf")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|word| word.get("const")?.as_str().map(str::to_owned))
        .collect();
    match format {
        _ if pattern == "version" => Kind::Version,
        _ if pattern == "tools.deferred" => {
            Kind::WordOrNames(["auto", "off"].map(str::to_owned).to_vec())
        }
        _ if !words.is_empty() => Kind::Choice(words),
        _ if is("boolean") => Kind::Boolean,
        _ if is("integer") => {
            let bound = |name: &str| node.get(name).and_then(Value::as_u64);
            let most = match format {
                "uint32" => u64::from(u32::MAX),
                _ => MAX_INTEGER,
            };
            Kind::Integer {
                min: bound("minimum").unwrap_or(0),
                max: bound("maximum").unwrap_or(most),
            }
        }
        _ if is("number") => {
            let bound = |name: &str| node.get(name).and_then(Value::as_f64);
            Kind::Number {
                min: bound("minimum").unwrap_or(f64::MIN),
                max: bound("maximum").unwrap_or(f64::MAX),
            }
        }
        _ if pattern == "permissions.allow" => Kind::Rules(RuleEffect::Allow),
        _ if pattern == "permissions.ask" => Kind::Rules(RuleEffect::Ask),
        _ if pattern == "permissions.deny" => Kind::Rules(RuleEffect::Deny),
        _ if is("array") => match node.pointer("/items/$ref") {
            Some(_) => Kind::Loopback,
            None => Kind::Names,
        },
        "password" => Kind::Secret,
        _ if pattern.ends_with(".headers.<name>") => Kind::Secret,
        _ if pattern == "mcp.servers.<name>.env.<name>" => Kind::Secret,
        _ if pattern == "mcp.servers.<name>.oauth.client_secret" => Kind::Secret,
        "uri" => Kind::Url,
        "path" => Kind::FilePath,
        _ if !is("string") => Kind::Provider,
        _ if node.get("minLength").is_some() => Kind::Name,
        _ => Kind::Text,
    }
}
