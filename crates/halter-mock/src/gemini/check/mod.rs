//! What a strict Gemini server refuses.

mod contents;

use super::generation;
use crate::codec::{ModelRequest, Problem};
use crate::fields;
use serde_json::Value;
use std::collections::HashSet;

const FIELDS: &str = "contents systemInstruction tools toolConfig generationConfig cachedContent \
    safetySettings serviceTier store";
const COUNT_FIELDS: &str = "generateContentRequest model";
const CONFIG_FIELDS: &str = "maxOutputTokens temperature topP topK stopSequences candidateCount responseMimeType \
    responseJsonSchema responseSchema responseModalities responseFormat thinkingConfig \
    mediaResolution seed presencePenalty frequencyPenalty responseLogprobs logprobs \
    speechConfig imageConfig audioTimestamp enableEnhancedCivicAnswers routingConfig \
    modelConfig";

pub(super) fn check(request: &ModelRequest<'_>) -> Result<(), Problem> {
    let is_json = request
        .header("content-type")
        .is_some_and(|kind| kind.starts_with("application/json"));
    if !is_json {
        return Err(Problem::invalid("Content-Type must be application/json."));
    }
    if let Some(field) = fields::object(request.body)?.keys().find(|field| {
        let field = field.as_str();
        let counts = request.counting && fields::is_word(field, COUNT_FIELDS);
        request.strict && !counts && !fields::is_word(field, FIELDS)
    }) {
        return Err(unknown_name(field, ""));
    }
    let body = generation(request.body);
    check_config(request, body)?;
    check_tools(body)?;
    if let Some(instruction) = fields::present(body, "systemInstruction")
        && fields::items(instruction, "parts").is_empty()
    {
        return Err(Problem::invalid(
            "system_instruction.parts must not be empty.",
        ));
    }
    let model = request.path_model.unwrap_or_default();
    contents::check(fields::items(body, "contents"), model, request.strict)
}

fn unknown_name(name: &str, at: &str) -> Problem {
    let place = if at.is_empty() {
        String::new()
    } else {
        format!(" at '{at}'")
    };
    Problem::invalid(format!(
        "Invalid JSON payload received. Unknown name \"{name}\"{place}: Cannot find field."
    ))
}

fn check_config(request: &ModelRequest<'_>, body: &Value) -> Result<(), Problem> {
    let Some(config) = fields::present(body, "generationConfig") else {
        return Ok(());
    };
    let unknown = config.as_object().and_then(|config| {
        config
            .keys()
            .find(|field| request.strict && !fields::is_word(field, CONFIG_FIELDS))
    });
    if let Some(field) = unknown {
        return Err(unknown_name(field, "generation_config"));
    }
    check_response_schema(config)?;
    let Some(thinking) = fields::present(config, "thinkingConfig") else {
        return Ok(());
    };
    let level = fields::text(thinking, "thinkingLevel");
    if level.is_some() && fields::present(thinking, "thinkingBudget").is_some() {
        return Err(Problem::invalid(
            "You can only set only one of thinking budget and thinking level.",
        ));
    }
    let levels = [
        "MINIMAL",
        "LOW",
        "MEDIUM",
        "HIGH",
        "THINKING_LEVEL_UNSPECIFIED",
    ];
    match level {
        Some(level) if !levels.contains(&level.to_ascii_uppercase().as_str()) => {
            Err(Problem::invalid(format!(
                "Invalid value at 'generation_config.thinking_config.thinking_level': \"{level}\""
            )))
        }
        _ => Ok(()),
    }
}

fn check_response_schema(config: &Value) -> Result<(), Problem> {
    let json_schema = fields::present(config, "responseJsonSchema");
    if json_schema.is_some() && fields::text(config, "responseMimeType") != Some("application/json")
    {
        return Err(Problem::invalid(
            "response_json_schema is set without response_mime_type application/json.",
        ));
    }
    if json_schema.is_some_and(|schema| !schema.is_object()) {
        return Err(Problem::invalid(
            "Invalid value at 'generation_config.response_json_schema'.",
        ));
    }
    Ok(())
}

fn check_tools(body: &Value) -> Result<(), Problem> {
    let mut names = HashSet::new();
    let functions = fields::items(body, "tools")
        .iter()
        .flat_map(|tool| fields::items(tool, "functionDeclarations"));
    for (index, function) in functions.enumerate() {
        let at = format!("tools.function_declarations[{index}]");
        let name = fields::text(function, "name").unwrap_or_default();
        let starts_well =
            name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_');
        if !starts_well || !fields::is_name(name, 64, ".:") {
            return Err(Problem::invalid(format!(
                "{at}.name: Invalid function name. Must start with a letter or an underscore. Must be alphanumeric (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 64."
            )));
        }
        if !names.insert(name) {
            return Err(Problem::invalid(format!(
                "Duplicate function declaration found: {name}"
            )));
        }
        let plain = fields::present(function, "parameters");
        let json_schema = fields::present(function, "parametersJsonSchema");
        if plain.is_some() && json_schema.is_some() {
            return Err(Problem::invalid(format!(
                "{at}: parameters and parameters_json_schema are mutually exclusive."
            )));
        }
        if json_schema.is_some() {
            fields::tool_schema(json_schema).map_err(|reason| {
                Problem::invalid(format!("{at}.parameters_json_schema {reason}"))
            })?;
        }
        if let Some(schema) = plain {
            check_plain_schema(schema, &format!("{at}.parameters"))?;
        }
    }
    Ok(())
}

/// `parameters` takes a subset of OpenAPI, not JSON Schema.
fn check_plain_schema(schema: &Value, at: &str) -> Result<(), Problem> {
    const KEYS: &str = "type format title description nullable enum maxItems minItems properties required \
    minProperties maxProperties minLength maxLength pattern example anyOf \
    propertyOrdering default items minimum maximum additionalProperties prefixItems";
    let Some(object) = schema.as_object() else {
        return Err(Problem::invalid(format!("Invalid value at '{at}'.")));
    };
    if let Some(key) = object.keys().find(|key| !fields::is_word(key, KEYS)) {
        return Err(unknown_name(key, at));
    }
    let kinds = [
        "object", "array", "string", "number", "integer", "boolean", "null",
    ];
    match fields::text(schema, "type") {
        Some(kind) if !kinds.contains(&kind.to_ascii_lowercase().as_str()) => {
            return Err(Problem::invalid(format!(
                "Invalid value at '{at}.type': \"{kind}\""
            )));
        }
        _ => {}
    }
    for (name, inner) in schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        check_plain_schema(inner, &format!("{at}.properties[{name}]"))?;
    }
    schema.get("items").map_or(Ok(()), |items| {
        check_plain_schema(items, &format!("{at}.items"))
    })
}
