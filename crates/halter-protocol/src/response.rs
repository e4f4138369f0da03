//! Structured answers: a schema that the last answer of a turn must fit.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::sync::Arc;

/// The name of the tool through which a model gives its structured answer
/// where its service has no other way.
pub const FINAL_TOOL: &str = "final_output";

/// The member that holds the answer where the schema itself is not that of an
/// object.
const WRAPPED: &str = "output";

/// A JSON Schema for the answer of a turn. Cheap to clone.
///
/// Services take objects only, so any other schema is sent as that of an
/// object with one member, `output`, and what comes back is taken out of it.
///
/// ```
/// use halter_protocol::ResponseSchema;
/// use serde_json::json;
///
/// let schema = ResponseSchema::new(json!({"type": "array", "items": {"type": "string"}}));
/// assert_eq!(schema.as_object_schema()["required"], json!(["output"]));
/// assert_eq!(schema.unwrapped(json!({"output": ["a"]})), json!(["a"]));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ResponseSchema(#[schemars(with = "Value")] Arc<Value>);

impl ResponseSchema {
    /// Takes a schema as it is. Whether it is one is found out when a turn is
    /// submitted.
    pub fn new(schema: Value) -> Self {
        Self(Arc::new(schema))
    }

    /// The schema as it was given.
    pub fn value(&self) -> &Value {
        &self.0
    }

    /// The schema as services are told it: always that of an object.
    pub fn as_object_schema(&self) -> Cow<'_, Value> {
        if self.is_object() {
            return Cow::Borrowed(&self.0);
        }
        let mut wrapped = Map::new();
        wrapped.insert("type".to_owned(), json!("object"));
        let mut inner = (*self.0).clone();
        // References name definitions from the root.
        if let Value::Object(members) = &mut inner {
            members.shift_remove("$schema");
            for name in ["$defs", "definitions"] {
                if let Some(definitions) = members.shift_remove(name) {
                    wrapped.insert(name.to_owned(), definitions);
                }
            }
        }
        wrapped.insert("properties".to_owned(), json!({ WRAPPED: inner }));
        wrapped.insert("required".to_owned(), json!([WRAPPED]));
        wrapped.insert("additionalProperties".to_owned(), json!(false));
        Cow::Owned(Value::Object(wrapped))
    }

    /// The answer that a service's answer stands for.
    pub fn unwrapped(&self, answer: Value) -> Value {
        if self.is_object() {
            return answer;
        }
        match answer {
            Value::Object(mut members) if members.len() == 1 && members.contains_key(WRAPPED) => {
                members.shift_remove(WRAPPED).unwrap_or_default()
            }
            other => other,
        }
    }

    fn is_object(&self) -> bool {
        self.0.get("type").is_some_and(|kind| kind == "object")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_of_an_object_is_sent_as_it_is() {
        let schema = ResponseSchema::new(json!({"type": "object", "properties": {"output": {}}}));
        assert!(matches!(schema.as_object_schema(), Cow::Borrowed(_)));
        let answer = json!({"output": 1});
        assert_eq!(schema.unwrapped(answer.clone()), answer);
    }

    #[test]
    fn definitions_stay_where_references_find_them() {
        let schema = ResponseSchema::new(json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$ref": "#/$defs/Name",
            "$defs": {"Name": {"type": "string"}},
        }));
        assert_eq!(
            *schema.as_object_schema(),
            json!({
                "type": "object",
                "$defs": {"Name": {"type": "string"}},
                "properties": {"output": {"$ref": "#/$defs/Name"}},
                "required": ["output"],
                "additionalProperties": false,
            })
        );
        assert_eq!(schema.unwrapped(json!({"output": "Ada"})), json!("Ada"));
        assert_eq!(schema.unwrapped(json!("Ada")), json!("Ada"));
        let more = json!({"output": "Ada", "more": 1});
        assert_eq!(schema.unwrapped(more.clone()), more);
    }
}
