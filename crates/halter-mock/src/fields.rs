//! Looking into JSON that may be anything.

use crate::codec::Problem;
use crate::media;
use serde_json::{Map, Value};

/// The string under a key.
pub(crate) fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key)?.as_str()
}

/// The elements under a key; none when it is no array.
pub(crate) fn items<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value
        .get(key)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// The value under a key, with an explicit `null` taken as absent.
pub(crate) fn present<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    value.get(key).filter(|value| !value.is_null())
}

/// Whether a flag is set.
pub(crate) fn flag(value: &Value, key: &str) -> bool {
    value.get(key).and_then(Value::as_bool) == Some(true)
}

/// The `type` of a block or item.
pub(crate) fn kind(value: &Value) -> &str {
    text(value, "type").unwrap_or_default()
}

/// The request as an object.
pub(crate) fn object(body: &Value) -> Result<&Map<String, Value>, Problem> {
    body.as_object()
        .ok_or_else(|| Problem::invalid("the request body must be a JSON object"))
}

/// Whether the word is one of these, which are separated by spaces.
pub(crate) fn is_word(word: &str, words: &str) -> bool {
    words.split_ascii_whitespace().any(|known| known == word)
}

/// Sets a member of an object.
pub(crate) fn set(target: &mut Value, key: &str, value: Value) {
    if let Some(object) = target.as_object_mut() {
        object.insert(key.to_owned(), value);
    }
}

/// Whether the text is 1 to `max` letters, digits, `_`, `-` or one of `also`.
pub(crate) fn is_name(text: &str, max: usize, also: &str) -> bool {
    (1..=max).contains(&text.len())
        && text.chars().all(|letter| {
            letter.is_ascii_alphanumeric() || "_-".contains(letter) || also.contains(letter)
        })
}

/// The texts of content that is a string or a list of parts, joined by lines,
/// and the number of images in it.
pub(crate) fn content(value: Option<&Value>) -> (String, usize) {
    match value {
        Some(Value::String(text)) => (text.clone(), 0),
        Some(Value::Array(parts)) => {
            let shown = |part: &'_ Value| match kind(part) {
                "tool_reference" => Some(format!("[tool {}]", text(part, "tool_name")?)),
                _ => text(part, "text").map(str::to_owned),
            };
            let texts: Vec<String> = parts.iter().filter_map(shown).collect();
            (texts.join("\n"), media::count_images(parts))
        }
        _ => (String::new(), 0),
    }
}

/// A tool's parameters: an object schema that is itself valid JSON Schema. The
/// error is the end of a sentence.
pub(crate) fn tool_schema(schema: Option<&Value>) -> Result<(), String> {
    let Some(schema) = schema.filter(|schema| schema.is_object()) else {
        return Err("must be a JSON Schema object".to_owned());
    };
    if text(schema, "type") != Some("object") {
        return Err("schema must have type \"object\"".to_owned());
    }
    jsonschema::draft202012::meta::validate(schema)
        .map_err(|error| format!("is not valid JSON Schema (draft 2020-12): {error}"))
}

/// What a strict tool's schema lacks: every object closed, every property
/// required where `all_required`.
pub(crate) fn strict_schema(schema: &Value, all_required: AllRequired) -> Result<(), String> {
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        if schema.get("additionalProperties") != Some(&Value::Bool(false)) {
            return Err(
                "'additionalProperties' is required to be supplied and to be false".to_owned(),
            );
        }
        let required = items(schema, "required");
        let missing = properties
            .keys()
            .find(|key| !required.iter().any(|name| name.as_str() == Some(key)));
        if let (AllRequired::Yes, Some(key)) = (all_required, missing) {
            return Err(format!(
                "'required' is required to be supplied and to be an array including every key in properties. Missing '{key}'"
            ));
        }
        for property in properties.values() {
            strict_schema(property, all_required)?;
        }
    }
    match schema.get("items") {
        Some(inner) => strict_schema(inner, all_required),
        None => Ok(()),
    }
}

/// Whether a strict schema must list every property as required.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AllRequired {
    /// It must.
    Yes,
    /// It may leave some out.
    No,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn strict_schemas_are_closed_all_the_way_down() {
        let closed = json!({"type":"object","properties":{"a":{"type":"array","items":
            {"type":"object","properties":{},"additionalProperties":false}}},
            "additionalProperties":false});
        assert_eq!(strict_schema(&closed, AllRequired::No), Ok(()));
        assert!(strict_schema(&closed, AllRequired::Yes).is_err());
        let open = json!({"type":"object","properties":{"a":{"type":"object","properties":{}}},
            "additionalProperties":false});
        assert!(strict_schema(&open, AllRequired::No).is_err());
    }
}
