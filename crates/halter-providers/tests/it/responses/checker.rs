//! What a strict service checks of `input`, written from its rules alone.

use serde_json::Value;
use std::collections::HashSet;

/// Checks the placement of items.
pub fn check(body: &str) -> Result<(), String> {
    let body: Value = serde_json::from_str(body).map_err(|error| error.to_string())?;
    if body["store"] != false || body["stream"] != true {
        return Err("the request is not stateless or does not stream".to_owned());
    }
    let items = body["input"].as_array().ok_or("no input")?;
    let mut open: Vec<&str> = Vec::new();
    let mut seen = HashSet::new();
    for (index, item) in items.iter().enumerate() {
        let kind = item["type"].as_str().ok_or(format!("{index}: no type"))?;
        match kind {
            "message" => {
                message(item).map_err(|error| format!("{index}: {error}"))?;
                let said_by_model = item["role"] == "assistant";
                if !open.is_empty() && !said_by_model {
                    return Err(format!("{index}: {open:?} have no output"));
                }
            }
            "function_call" => {
                let id = text(item, "call_id")?;
                text(item, "name")?;
                text(item, "arguments")?;
                if !seen.insert(id) {
                    return Err(format!("{index}: call_id {id} twice"));
                }
                open.push(id);
            }
            "function_call_output" => {
                let id = text(item, "call_id")?;
                output(item).map_err(|error| format!("{index}: {error}"))?;
                if open.first() != Some(&id) {
                    return Err(format!("{index}: output of {id}, open are {open:?}"));
                }
                open.remove(0);
            }
            "reasoning" => {
                let followed = items[index + 1..]
                    .iter()
                    .find(|item| item["type"] != "reasoning")
                    .is_some_and(|item| item.get("id").is_some());
                if !followed || !item["encrypted_content"].is_string() {
                    return Err(format!("{index}: reasoning without what followed it"));
                }
            }
            _ => {}
        }
    }
    match open.is_empty() {
        true => Ok(()),
        false => Err(format!("{open:?} have no output")),
    }
}

fn text<'a>(item: &'a Value, member: &str) -> Result<&'a str, String> {
    item[member]
        .as_str()
        .ok_or(format!("{member} is not a string in {item}"))
}

/// A text, or parts as a user's message has them.
fn output(item: &Value) -> Result<(), String> {
    let Some(parts) = item["output"].as_array() else {
        return text(item, "output").map(drop);
    };
    let allowed = ["input_text", "input_image", "input_file"];
    let wrong = parts
        .iter()
        .find(|part| !allowed.iter().any(|kind| part["type"] == *kind));
    match wrong {
        _ if parts.is_empty() => Err("no output".to_owned()),
        Some(part) => Err(format!("a part {part}")),
        None => Ok(()),
    }
}

fn message(item: &Value) -> Result<(), String> {
    let allowed: &[&str] = match item["role"].as_str() {
        Some("user") => &["input_text", "input_image", "input_file"],
        Some("developer" | "system") => &["input_text"],
        Some("assistant") => &["output_text", "refusal"],
        role => return Err(format!("role {role:?}")),
    };
    match &item["content"] {
        Value::String(text) if !text.is_empty() => Ok(()),
        Value::Array(parts) if !parts.is_empty() => {
            let wrong = parts
                .iter()
                .find(|part| !allowed.iter().any(|kind| part["type"] == *kind));
            wrong.map_or(Ok(()), |part| Err(format!("a part {part}")))
        }
        content => Err(format!("content {content}")),
    }
}

#[test]
fn the_checker_refuses_what_a_service_refuses() {
    let body = |input: &str| format!(r#"{{"store":false,"stream":true,"input":[{input}]}}"#);
    let call = r#"{"type":"function_call","call_id":"a","name":"n","arguments":"{}"}"#;
    let output = r#"{"type":"function_call_output","call_id":"a","output":""}"#;
    let hello = r#"{"type":"message","role":"user","content":"hello"}"#;
    let reasoning = r#"{"type":"reasoning","id":"rs","encrypted_content":"x"}"#;
    assert_eq!(check(&body(&format!("{hello},{call},{output}"))), Ok(()));
    for wrong in [
        call.to_owned(),
        output.to_owned(),
        format!("{call},{hello},{output}"),
        format!("{call},{output},{call},{output}"),
        format!("{reasoning},{hello}"),
        r#"{"type":"message","role":"tool","content":"x"}"#.to_owned(),
        r#"{"type":"message","role":"user","content":[]}"#.to_owned(),
    ] {
        assert!(check(&body(&wrong)).is_err(), "{wrong}");
    }
}
