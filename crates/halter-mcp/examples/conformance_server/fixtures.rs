//! What the suite expects to find, as data.

use rmcp::ErrorData;
use rmcp::model::Tool;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A red dot.
const IMAGE: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";
/// No sound.
const AUDIO: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=";

/// Data as a type of the protocol.
pub fn parsed<T: DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value)
        .map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

/// Data as a result. Older revisions never see the type of a result.
pub fn complete<T: DeserializeOwned>(mut value: Value) -> Result<T, ErrorData> {
    if let Some(fields) = value.as_object_mut() {
        fields.insert("resultType".to_owned(), json!("complete"));
    }
    parsed(value)
}

/// A result with a text.
pub fn text(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}], "isError": false})
}

/// The results that are always the same.
pub fn fixed(name: &str) -> Option<Value> {
    let image = json!({"type": "image", "data": IMAGE, "mimeType": "image/png"});
    let embedded = |uri: &str, kind: &str, text: &str| json!({"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": text}});
    let content = match name {
        "test_simple_text" => {
            json!([{"type": "text", "text": "This is a simple text response for testing."}])
        }
        "test_image_content" => json!([image]),
        "test_audio_content" => json!([{"type": "audio", "data": AUDIO, "mimeType": "audio/wav"}]),
        "test_embedded_resource" => {
            json!([embedded(
                "test://embedded-resource",
                "text/plain",
                "This is an embedded resource content."
            )])
        }
        "test_multiple_content_types" => json!([
            {"type": "text", "text": "Multiple content types test:"},
            image,
            embedded("test://mixed-content-resource", "application/json", "{\"test\":\"data\",\"value\":123}"),
        ]),
        "test_error_handling" => {
            let content = json!([{"type": "text", "text": "This tool intentionally returns an error for testing"}]);
            return Some(json!({"content": content, "isError": true}));
        }
        "json_schema_2020_12_tool" | "test_custom_headers" => {
            json!([{"type": "text", "text": "called"}])
        }
        _ => return None,
    };
    Some(json!({"content": content, "isError": false}))
}

/// The tools, in a fixed order.
pub fn tool_list() -> Vec<Tool> {
    let none = json!({"type": "object", "properties": {}});
    let string = json!({"type": "string"});
    let plain = [
        "test_simple_text",
        "test_image_content",
        "test_audio_content",
        "test_embedded_resource",
        "test_multiple_content_types",
        "test_tool_with_logging",
        "test_logging_tool",
        "test_error_handling",
        "test_tool_with_progress",
        "test_elicitation_sep1034_defaults",
        "test_elicitation_sep1330_enums",
        "test_missing_capability",
        "test_streaming_elicitation",
        "test_trigger_tool_change",
        "test_trigger_prompt_change",
        "test_reconnection",
        "test_input_required_result_elicitation",
        "test_input_required_result_sampling",
        "test_input_required_result_list_roots",
        "test_input_required_result_request_state",
        "test_input_required_result_multiple_inputs",
        "test_input_required_result_multi_round",
        "test_input_required_result_tampered_state",
        "test_input_required_result_capabilities",
    ];
    let mut tools: Vec<(&str, Value)> = plain.map(|name| (name, none.clone())).to_vec();
    tools.push((
        "test_sampling",
        json!({"type": "object", "properties": {"prompt": string}, "required": ["prompt"]}),
    ));
    tools.push((
        "test_elicitation",
        json!({"type": "object", "properties": {"message": string}, "required": ["message"]}),
    ));
    tools.push((
        "test_custom_headers",
        json!({
            "type": "object",
            "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
            "required": ["region"],
        }),
    ));
    tools.push(("json_schema_2020_12_tool", json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": string, "city": string},
        }},
        "properties": {
            "name": string,
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": string,
            "email": string,
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false,
    })));
    let tool = |(name, schema): (&str, Value)| {
        let about = format!("The fixture {name}");
        parsed(json!({"name": name, "description": about, "inputSchema": schema})).ok()
    };
    tools.into_iter().filter_map(tool).collect()
}

/// Asks for a name and an address.
pub fn user_form() -> Value {
    json!({
        "type": "object",
        "properties": {"username": {"type": "string"}, "email": {"type": "string"}},
        "required": ["username", "email"],
    })
}

/// A form in which everything has a default.
pub fn form_with_defaults() -> Value {
    json!({"type": "object", "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": true},
    }})
}

/// A form with every kind of choice.
pub fn form_with_choices() -> Value {
    let titled = |what: &str| {
        json!([
            {"const": "value1", "title": format!("First {what}")},
            {"const": "value2", "title": format!("Second {what}")},
            {"const": "value3", "title": format!("Third {what}")},
        ])
    };
    let options = json!(["option1", "option2", "option3"]);
    json!({"type": "object", "properties": {
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": titled("Option")},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["Option One", "Option Two", "Option Three"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled("Choice")}},
    }})
}

/// The list of resources.
pub fn resources() -> Value {
    json!({"resources": [
        {"uri": "test://static-text", "name": "text", "mimeType": "text/plain"},
        {"uri": "test://static-binary", "name": "binary", "mimeType": "image/png"},
        {"uri": "test://watched-resource", "name": "watched", "mimeType": "text/plain"},
    ]})
}

/// The list of templates.
pub fn templates() -> Value {
    json!({"resourceTemplates": [
        {"uriTemplate": "test://template/{id}/data", "name": "data", "mimeType": "application/json"},
    ]})
}

/// The content of a resource.
pub fn resource(uri: &str) -> Option<Value> {
    let content = match uri {
        "test://static-text" => {
            json!({"uri": uri, "mimeType": "text/plain", "text": "This is the content of the static text resource."})
        }
        "test://static-binary" => json!({"uri": uri, "mimeType": "image/png", "blob": IMAGE}),
        "test://watched-resource" => {
            json!({"uri": uri, "mimeType": "text/plain", "text": "watched"})
        }
        other => {
            let id = other
                .strip_prefix("test://template/")?
                .strip_suffix("/data")?;
            let text =
                json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
            json!({"uri": uri, "mimeType": "application/json", "text": text.to_string()})
        }
    };
    Some(content)
}

/// The list of prompts.
pub fn prompts() -> Value {
    json!({"prompts": [
        {"name": "test_simple_prompt", "description": "A text"},
        {"name": "test_prompt_with_arguments", "description": "A text with two arguments", "arguments": [
            {"name": "arg1", "description": "The first", "required": true},
            {"name": "arg2", "description": "The second", "required": true},
        ]},
        {"name": "test_prompt_with_embedded_resource", "description": "A resource", "arguments": [
            {"name": "resourceUri", "description": "Which one", "required": true},
        ]},
        {"name": "test_prompt_with_image", "description": "An image"},
        {"name": "test_input_required_result_prompt", "description": "Asks first"},
    ]})
}

/// The messages of a prompt.
pub fn prompt(name: &str, arguments: &Value) -> Option<Value> {
    let user = |content: Value| json!({"role": "user", "content": content});
    let text = |text: String| user(json!({"type": "text", "text": text}));
    let argument = |name: &str| arguments[name].as_str().unwrap_or_default().to_owned();
    let messages = match name {
        "test_simple_prompt" => json!([text("This is a simple prompt for testing.".to_owned())]),
        "test_prompt_with_arguments" => {
            let (one, two) = (argument("arg1"), argument("arg2"));
            json!([text(format!(
                "Prompt with arguments: arg1='{one}', arg2='{two}'"
            ))])
        }
        "test_prompt_with_embedded_resource" => {
            let resource = json!({"uri": argument("resourceUri"), "mimeType": "text/plain", "text": "Embedded resource content for testing."});
            json!([
                user(json!({"type": "resource", "resource": resource})),
                text("Please process the embedded resource above.".to_owned()),
            ])
        }
        "test_prompt_with_image" => json!([
            user(json!({"type": "image", "data": IMAGE, "mimeType": "image/png"})),
            text("Please analyze the image above.".to_owned()),
        ]),
        _ => return None,
    };
    Some(messages)
}
