//! What a strict Responses server refuses.

mod items;

use crate::codec::{ModelRequest, Problem};
use crate::fields;
use crate::limits::MAX_CACHE_MARKS;
use crate::openai::{
    bad_type, bad_value, check_answer_format, check_content_type, check_function,
    is_reasoning_model, missing, unknown, unsupported,
};
use serde_json::Value;

const FIELDS: &str = "model input instructions tools tool_choice parallel_tool_calls max_output_tokens \
    max_tool_calls reasoning include store previous_response_id conversation \
    prompt_cache_key prompt_cache_options prompt_cache_retention text service_tier \
    truncation context_management background metadata safety_identifier stream \
    stream_options temperature top_p top_logprobs moderation image prompt user provider \
    models client_metadata";

/// The least output a request may ask for.
const MIN_OUTPUT_TOKENS: u64 = 16;

pub(super) fn check(request: &ModelRequest<'_>) -> Result<(), Problem> {
    check_content_type(request)?;
    let body = request.body;
    if request.compacting {
        super::compaction::check(request)?;
    }
    if let Some(field) = fields::object(body)?
        .keys()
        .find(|field| request.strict && !fields::is_word(field, FIELDS))
    {
        return Err(unknown(field));
    }
    let model = fields::text(body, "model").filter(|model| !model.is_empty());
    let model = model.ok_or_else(|| missing("model"))?;
    check_settings(body, model)?;
    for (index, tool) in fields::items(body, "tools").iter().enumerate() {
        check_tool(tool, &format!("tools[{index}]"))?;
    }
    check_stored_state(body)?;
    match fields::present(body, "input") {
        None => return Err(missing("input")),
        Some(Value::String(_)) => {}
        Some(Value::Array(input)) => items::check(input, request, model)?,
        Some(_) => return Err(bad_type("input", "a string or an array of items")),
    }
    check_marks(body)
}

fn check_settings(body: &Value, model: &str) -> Result<(), Problem> {
    for field in ["temperature", "top_p"] {
        if fields::present(body, field).is_some() && is_reasoning_model(model) {
            return Err(unsupported(field));
        }
    }
    if let Some(limit) = fields::present(body, "max_output_tokens") {
        let limit = limit
            .as_u64()
            .ok_or_else(|| bad_type("max_output_tokens", "an integer"))?;
        if limit < MIN_OUTPUT_TOKENS {
            return Err(bad_value(
                "max_output_tokens",
                format!(
                    "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= {MIN_OUTPUT_TOKENS}, but got {limit} instead."
                ),
            ));
        }
    }
    let effort = body
        .get("reasoning")
        .and_then(|reasoning| fields::text(reasoning, "effort"));
    let efforts = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];
    if effort.is_some_and(|effort| !efforts.contains(&effort)) {
        return Err(bad_value(
            "reasoning.effort",
            "Invalid value for 'reasoning.effort'. Supported values are: 'none', 'minimal', 'low', 'medium', 'high', 'xhigh' and 'max'.",
        ));
    }
    let format = body.get("text").and_then(|text| text.get("format"));
    match format.filter(|format| fields::kind(format) == "json_schema") {
        Some(format) => check_answer_format(format, "text.format"),
        None => Ok(()),
    }
}

fn check_tool(tool: &Value, at: &str) -> Result<(), Problem> {
    match fields::kind(tool) {
        "" => Err(missing(&format!("{at}.type"))),
        "namespace" => {
            for (index, inner) in fields::items(tool, "tools").iter().enumerate() {
                check_tool(inner, &format!("{at}.tools[{index}]"))?;
            }
            Ok(())
        }
        "function" | "custom" => {
            check_function(tool, at)?;
            let takes_text = fields::kind(tool) == "custom";
            match fields::present(tool, "parameters") {
                None if !takes_text => Err(missing(&format!("{at}.parameters"))),
                _ => Ok(()),
            }
        }
        // Tools that the vendor runs have their own fields.
        _ => Ok(()),
    }
}

/// No conversation can be made here, so none is found.
fn check_stored_state(body: &Value) -> Result<(), Problem> {
    let Some(conversation) = fields::present(body, "conversation") else {
        return Ok(());
    };
    if fields::text(body, "previous_response_id").is_some() {
        return Err(bad_value(
            "previous_response_id",
            "'previous_response_id' and 'conversation' are mutually exclusive.",
        ));
    }
    let id = conversation.as_str().or(fields::text(conversation, "id"));
    let id = id.unwrap_or_default();
    Err(Problem::new(404, format!("Conversation with id '{id}' not found.")).at("conversation"))
}

fn check_marks(body: &Value) -> Result<(), Problem> {
    let marks = fields::items(body, "input")
        .iter()
        .flat_map(|item| {
            fields::items(item, "content")
                .iter()
                .chain(fields::items(item, "output"))
        })
        .filter(|part| fields::present(part, "prompt_cache_breakpoint").is_some())
        .count();
    if marks > MAX_CACHE_MARKS {
        return Err(bad_value(
            "input",
            format!(
                "At most {MAX_CACHE_MARKS} prompt cache breakpoints are written per request, found {marks}."
            ),
        ));
    }
    Ok(())
}
