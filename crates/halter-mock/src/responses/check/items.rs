//! Input items: shapes, pairs of calls and outputs, reasoning as it was.

use crate::codec::{ModelRequest, Problem};
use crate::fields;
use crate::media;
use crate::openai::{bad_value, check_file, check_image_url, missing, no_images};
use crate::responses::{compaction, is_model_made};
use crate::signing;
use serde_json::Value;
use std::collections::HashSet;

pub(super) fn check(
    input: &[Value],
    request: &ModelRequest<'_>,
    model: &str,
) -> Result<(), Problem> {
    if input.is_empty() {
        return Err(missing("input"));
    }
    for (index, item) in input.iter().enumerate() {
        let at = format!("input[{index}]");
        check_item(item, &at, model)?;
        if fields::kind(item) == "compaction" {
            compaction::check_item(item, &at, model, request.strict)?;
        }
        if fields::kind(item) == "reasoning" {
            check_reasoning(item, input.get(index + 1), request, model)?;
        }
    }
    check_pairs(input, "function_call")?;
    check_pairs(input, "custom_tool_call")?;
    check_reasoning_kept(input, model)
}

fn check_item(item: &Value, at: &str, model: &str) -> Result<(), Problem> {
    let need = |key: &str| match fields::text(item, key) {
        Some(_) => Ok(()),
        None => Err(missing(&format!("{at}.{key}"))),
    };
    match fields::kind(item) {
        "message" | "" => check_message(item, at, model),
        "function_call" => {
            need("call_id")?;
            need("name")?;
            need("arguments")
        }
        "custom_tool_call" => {
            need("call_id")?;
            need("name")?;
            need("input")
        }
        "function_call_output" | "custom_tool_call_output" => {
            need("call_id")?;
            check_output(item, at, model)
        }
        "additional_tools" => check_additional_tools(item, at),
        _ => Ok(()),
    }
}

/// Tools that are there from this item on.
fn check_additional_tools(item: &Value, at: &str) -> Result<(), Problem> {
    if fields::text(item, "role") != Some("developer") {
        let message = "Invalid value: only 'developer' provides additional tools.";
        return Err(bad_value(&format!("{at}.role"), message.to_owned()));
    }
    let tools = fields::items(item, "tools");
    if tools.is_empty() {
        return Err(missing(&format!("{at}.tools")));
    }
    for (index, tool) in tools.iter().enumerate() {
        super::check_tool(tool, &format!("{at}.tools[{index}]"))?;
    }
    Ok(())
}

fn check_message(item: &Value, at: &str, model: &str) -> Result<(), Problem> {
    let role = fields::text(item, "role").ok_or_else(|| missing(&format!("{at}.role")))?;
    if !["user", "assistant", "system", "developer"].contains(&role) {
        return Err(bad_value(
            &format!("{at}.role"),
            format!(
                "Invalid value: '{role}'. Supported values are: 'assistant', 'system', 'developer', and 'user'."
            ),
        ));
    }
    let parts = match item.get("content") {
        Some(Value::String(_)) => return Ok(()),
        Some(Value::Array(parts)) => parts,
        _ => return Err(missing(&format!("{at}.content"))),
    };
    for (index, part) in parts.iter().enumerate() {
        let kind = fields::kind(part);
        let allowed = match role {
            "assistant" => matches!(kind, "output_text" | "refusal"),
            _ => matches!(kind, "input_text" | "input_image" | "input_file"),
        };
        if !allowed {
            return Err(bad_value(
                &format!("{at}.content[{index}]"),
                format!("Invalid value: '{kind}' is not a content type of a {role} message."),
            ));
        }
        check_media(part, &format!("{at}.content[{index}]"), model)?;
    }
    Ok(())
}

fn check_output(item: &Value, at: &str, model: &str) -> Result<(), Problem> {
    let bad = |index: usize, kind: &str| {
        bad_value(
            &format!("{at}.output[{index}]"),
            format!("Invalid value: '{kind}' is not a content type of a tool output."),
        )
    };
    match item.get("output") {
        Some(Value::String(_)) => Ok(()),
        Some(Value::Array(parts)) => {
            for (index, part) in parts.iter().enumerate() {
                if !matches!(
                    fields::kind(part),
                    "input_text" | "input_image" | "input_file"
                ) {
                    return Err(bad(index, fields::kind(part)));
                }
                check_media(part, &format!("{at}.output[{index}]"), model)?;
            }
            Ok(())
        }
        _ => Err(missing(&format!("{at}.output"))),
    }
}

/// Images and files that are inside the request.
fn check_media(part: &Value, at: &str, model: &str) -> Result<(), Problem> {
    match fields::kind(part) {
        "input_image" => {
            if media::is_text_only(model) {
                return Err(no_images(at));
            }
            match fields::text(part, "image_url") {
                Some(url) => check_image_url(url, &format!("{at}.image_url")),
                None if fields::text(part, "file_id").is_some() => Ok(()),
                None => Err(missing(&format!("{at}.image_url"))),
            }
        }
        "input_file" => check_file(part, at),
        _ => Ok(()),
    }
}

fn check_reasoning(
    item: &Value,
    next: Option<&Value>,
    request: &ModelRequest<'_>,
    model: &str,
) -> Result<(), Problem> {
    let id = fields::text(item, "id").unwrap_or_default();
    if !next.is_some_and(is_model_made) {
        return Err(Problem::invalid(format!(
            "Item '{id}' of type 'reasoning' was provided without its required following item."
        ))
        .at("input"));
    }
    let Some(encrypted) = fields::text(item, "encrypted_content") else {
        // Without the content the server would need to have stored the item.
        return if request.body.get("store") == Some(&Value::Bool(false)) {
            Err(Problem::new(
                404,
                format!("Item with id '{id}' not found. Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this item from your input."),
            )
            .at("input"))
        } else {
            Ok(())
        };
    };
    let summary: String = fields::items(item, "summary")
        .iter()
        .filter_map(|part| fields::text(part, "text"))
        .collect();
    let is_foreign = !request.strict && !encrypted.is_empty();
    if is_foreign || signing::is_signed(encrypted, model, &["reasoning", id, &summary]) {
        Ok(())
    } else {
        Err(Problem::invalid(format!(
            "The encrypted content for item {id} could not be verified. Reason: Encrypted content could not be decrypted or parsed."
        ))
        .with_code("invalid_encrypted_content"))
    }
}

fn check_pairs(input: &[Value], kind: &str) -> Result<(), Problem> {
    let output_kind = format!("{kind}_output");
    let mut called = HashSet::new();
    let mut answered = HashSet::new();
    for item in input {
        let id = fields::text(item, "call_id").unwrap_or_default();
        if fields::kind(item) == kind && !called.insert(id) {
            return Err(
                Problem::invalid(format!("Duplicate call_id '{id}' in input.")).at("input"),
            );
        }
        if fields::kind(item) == output_kind {
            if !called.contains(id) {
                return Err(Problem::invalid(format!(
                    "No tool call found for function call output with call_id {id}."
                ))
                .at("input"));
            }
            if !answered.insert(id) {
                return Err(
                    Problem::invalid(format!("Duplicate output for function call {id}."))
                        .at("input"),
                );
            }
        }
    }
    let open = input
        .iter()
        .filter(|item| fields::kind(item) == kind)
        .filter_map(|item| fields::text(item, "call_id"))
        .find(|id| !answered.contains(id));
    match open {
        Some(id) => Err(
            Problem::invalid(format!("No tool output found for function call {id}.")).at("input"),
        ),
        None => Ok(()),
    }
}

/// In the current turn each call still has the reasoning that led to it.
fn check_reasoning_kept(input: &[Value], model: &str) -> Result<(), Problem> {
    let turn_start = input
        .iter()
        .rposition(|item| fields::text(item, "role") == Some("user"))
        .unwrap_or(0);
    let mut thought: Option<String> = None;
    for item in input.iter().skip(turn_start) {
        match fields::kind(item) {
            "reasoning" => thought
                .get_or_insert_default()
                .push_str(fields::text(item, "id").unwrap_or_default()),
            kind @ ("function_call" | "custom_tool_call") => {
                let call_id = fields::text(item, "call_id").unwrap_or_default();
                if signing::lacks_reasoning(call_id, model, thought.as_deref()) {
                    let id = fields::text(item, "id").unwrap_or(call_id);
                    return Err(Problem::invalid(format!(
                        "Item '{id}' of type '{kind}' was provided without its required 'reasoning' item."
                    ))
                    .at("input"));
                }
            }
            _ if !is_model_made(item) => thought = None,
            _ => {}
        }
    }
    Ok(())
}
