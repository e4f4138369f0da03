//! What a strict Chat server refuses.

use super::{definition, reasoning};
use crate::codec::{ModelRequest, Problem};
use crate::fields;
use crate::media;
use crate::openai::{
    bad_type, bad_value, check_answer_format, check_content_type, check_file, check_function,
    check_image_url, is_reasoning_model, missing, no_images, unsupported,
};
use crate::wire::Dialect;
use serde_json::Value;
use std::collections::HashSet;

const FIELDS: &str = "model messages tools tool_choice parallel_tool_calls stream stream_options \
    max_tokens max_completion_tokens temperature top_p n stop seed user store metadata \
    response_format reasoning_effort verbosity frequency_penalty presence_penalty \
    logit_bias logprobs top_logprobs modalities audio prediction service_tier \
    prompt_cache_key prompt_cache_options prompt_cache_retention safety_identifier \
    web_search_options functions function_call moderation";

pub(super) fn check(request: &ModelRequest<'_>) -> Result<(), Problem> {
    check_content_type(request)?;
    let body = request.body;
    let object = fields::object(body)?;
    // Other servers have fields of their own.
    if request.strict
        && request.dialect == Dialect::Vendor
        && let Some(field) = object.keys().find(|field| !fields::is_word(field, FIELDS))
    {
        return Err(Problem::invalid(format!(
            "Unrecognized request argument supplied: {field}"
        )));
    }
    let model = fields::text(body, "model").filter(|model| !model.is_empty());
    let model = model.ok_or_else(|| missing("model"))?;
    check_settings(body, model)?;
    check_tools(body)?;
    let messages = fields::present(body, "messages")
        .ok_or_else(|| missing("messages"))?
        .as_array()
        .ok_or_else(|| bad_type("messages", "an array of messages"))?;
    if messages.is_empty() {
        return Err(bad_value(
            "messages",
            "Invalid 'messages': empty array. Expected an array with minimum length 1.",
        ));
    }
    let asked = Asked {
        model,
        dialect: request.dialect,
    };
    for (index, message) in messages.iter().enumerate() {
        check_message(message, &format!("messages[{index}]"), asked)?;
    }
    check_pairs(messages)
}

fn check_settings(body: &Value, model: &str) -> Result<(), Problem> {
    if fields::present(body, "stream_options").is_some() && !fields::flag(body, "stream") {
        return Err(bad_value(
            "stream_options",
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
        ));
    }
    check_response_format(body)?;
    if !is_reasoning_model(model) {
        return Ok(());
    }
    if fields::present(body, "max_tokens").is_some() {
        return Err(Problem::invalid(
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        )
        .at("max_tokens")
        .with_code("unsupported_parameter"));
    }
    ["temperature", "top_p"]
        .into_iter()
        .find(|field| fields::present(body, field).is_some())
        .map_or(Ok(()), |field| Err(unsupported(field)))
}

fn check_response_format(body: &Value) -> Result<(), Problem> {
    let format = fields::present(body, "response_format");
    let Some(format) = format.filter(|format| fields::kind(format) == "json_schema") else {
        return Ok(());
    };
    let named = format.get("json_schema");
    let named = named.ok_or_else(|| missing("response_format.json_schema"))?;
    check_answer_format(named, "response_format.json_schema")
}

fn check_tools(body: &Value) -> Result<(), Problem> {
    let tools = match fields::present(body, "tools") {
        None => return Ok(()),
        Some(Value::Array(tools)) if !tools.is_empty() => tools,
        Some(_) => {
            return Err(bad_value(
                "tools",
                "Invalid 'tools': expected an array with minimum length 1.",
            ));
        }
    };
    for (index, tool) in tools.iter().enumerate() {
        let at = format!("tools[{index}].{}", fields::kind(tool));
        let function = definition(tool).ok_or_else(|| missing(&at))?;
        check_function(function, &at)?;
    }
    Ok(())
}

/// What a request asks for, as far as its messages depend on it.
#[derive(Clone, Copy)]
struct Asked<'a> {
    model: &'a str,
    dialect: Dialect,
}

fn check_message(message: &Value, at: &str, asked: Asked<'_>) -> Result<(), Problem> {
    let role = fields::text(message, "role").ok_or_else(|| missing(&format!("{at}.role")))?;
    match role {
        "system" | "developer" | "user" => check_parts(message, at, role, asked),
        "assistant" => check_assistant(message, at, asked.model),
        "tool" => {
            if fields::text(message, "tool_call_id").is_none() {
                return Err(missing(&format!("{at}.tool_call_id")));
            }
            check_parts(message, at, role, asked)
        }
        _ => Err(bad_value(
            &format!("{at}.role"),
            format!(
                "Invalid value: '{role}'. Supported values are: 'system', 'assistant', 'user', 'developer' and 'tool'."
            ),
        )),
    }
}

fn check_parts(message: &Value, at: &str, role: &str, asked: Asked<'_>) -> Result<(), Problem> {
    let parts = match message.get("content") {
        Some(Value::String(_)) => return Ok(()),
        Some(Value::Array(parts)) if !parts.is_empty() => parts,
        _ => {
            return Err(bad_type(
                &format!("{at}.content"),
                "a string or a non-empty array of parts",
            ));
        }
    };
    for (index, part) in parts.iter().enumerate() {
        let kind = fields::kind(part);
        let allowed = match role {
            "user" => matches!(kind, "text" | "image_url" | "input_audio" | "file"),
            _ => kind == "text",
        };
        if !allowed {
            return Err(bad_value(
                &format!("{at}.content[{index}].type"),
                format!(
                    "Invalid value: '{kind}'. Messages with role '{role}' do not take content of this type."
                ),
            ));
        }
        check_media(part, &format!("{at}.content[{index}]"), asked)?;
    }
    Ok(())
}

fn check_media(part: &Value, at: &str, asked: Asked<'_>) -> Result<(), Problem> {
    let inner = |key: &str| {
        let at = format!("{at}.{key}");
        match fields::present(part, key) {
            Some(value) => Ok((value, at)),
            None => Err(missing(&at)),
        }
    };
    match fields::kind(part) {
        "image_url" if media::is_text_only(asked.model) => Err(match asked.dialect {
            Dialect::Local => Problem::invalid("this model does not support image input"),
            Dialect::OpenRouter => Problem::new(404, "No endpoints found that support image input"),
            _ => no_images(at),
        }),
        "image_url" => {
            let (image, at) = inner("image_url")?;
            let url = fields::text(image, "url").ok_or_else(|| missing(&format!("{at}.url")))?;
            check_image_url(url, &format!("{at}.url"))
        }
        "file" if asked.dialect == Dialect::Local => Err(bad_value(
            &format!("{at}.type"),
            "Invalid value: 'file'. This server takes no files.",
        )),
        "file" => {
            let (file, at) = inner("file")?;
            check_file(file, &at)
        }
        _ => Ok(()),
    }
}

fn check_assistant(message: &Value, at: &str, model: &str) -> Result<(), Problem> {
    let calls = fields::items(message, "tool_calls");
    let says = ["content", "refusal", "audio", "function_call"]
        .iter()
        .any(|key| fields::present(message, key).is_some());
    if calls.is_empty() && !says {
        return Err(bad_type(
            &format!("{at}.content"),
            "a string, as there are no tool calls",
        ));
    }
    if fields::text(message, "reasoning_content") == Some("") {
        return Err(bad_value(
            &format!("{at}.reasoning_content"),
            "'reasoning_content' must not be empty.",
        ));
    }
    for (index, call) in calls.iter().enumerate() {
        let at = format!("{at}.tool_calls[{index}]");
        let id = fields::text(call, "id")
            .filter(|id| !id.is_empty())
            .ok_or_else(|| missing(&format!("{at}.id")))?;
        let kind = fields::kind(call);
        let keys = match kind {
            "function" => ["name", "arguments"],
            "custom" => ["name", "input"],
            _ => return Err(missing(&format!("{at}.type"))),
        };
        let made = definition(call).unwrap_or(&Value::Null);
        if let Some(key) = keys.iter().find(|key| fields::text(made, key).is_none()) {
            return Err(bad_type(&format!("{at}.{kind}.{key}"), "a string"));
        }
        if reasoning::lacks(message, id, model) {
            return Err(bad_value(
                &format!("{at}.reasoning_content"),
                "The reasoning of a message with tool calls must be passed back to the API unmodified.",
            ));
        }
    }
    Ok(())
}

fn check_pairs(messages: &[Value]) -> Result<(), Problem> {
    let mut open: Vec<&str> = Vec::new();
    let mut seen = HashSet::new();
    for (index, message) in messages.iter().enumerate() {
        if fields::text(message, "role") == Some("tool") {
            let id = fields::text(message, "tool_call_id").unwrap_or_default();
            let Some(place) = open.iter().position(|call| *call == id) else {
                return Err(Problem::invalid(
                    "Invalid parameter: messages with role 'tool' must be a response to a preceding message with 'tool_calls'.",
                )
                .at(format!("messages[{index}].role")));
            };
            open.remove(place);
            continue;
        }
        unanswered(&open, index)?;
        open = fields::items(message, "tool_calls")
            .iter()
            .filter_map(|call| fields::text(call, "id"))
            .collect();
        if let Some(id) = open.iter().find(|id| !seen.insert(**id)) {
            return Err(Problem::invalid(format!("Duplicate tool call id '{id}'."))
                .at(format!("messages[{index}].tool_calls")));
        }
    }
    unanswered(&open, messages.len())
}

fn unanswered(open: &[&str], index: usize) -> Result<(), Problem> {
    if open.is_empty() {
        return Ok(());
    }
    Err(Problem::invalid(format!(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: {}",
        open.join(", ")
    ))
    .at(format!("messages[{index}].role")))
}
