//! What a strict server checks of a request, written from the rules of the
//! wire and without a look at the encoder.

use serde_json::Value;
use std::collections::HashSet;

/// Panics with the reason for which a server would refuse the request.
pub fn assert_acceptable(body: &Value) {
    if let Err(reason) = check(body) {
        panic!("{reason}\n{body:#}");
    }
}

fn check(body: &Value) -> Result<(), String> {
    let members: Vec<&String> = body.as_object().unwrap().keys().collect();
    if members.last().map(|name| name.as_str()) != Some("messages") {
        return Err(format!("messages are not last: {members:?}"));
    }
    for gone in ["temperature", "top_p", "top_k"] {
        if body.get(gone).is_some() {
            return Err(format!("{gone}: Extra inputs are not permitted"));
        }
    }
    check_marks(body)?;
    let messages = body["messages"].as_array().unwrap();
    let mut seen_ids = HashSet::new();
    let mut expected_role = "user";
    let mut open: HashSet<String> = HashSet::new();
    for (place, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap();
        if role != expected_role {
            return Err(format!("messages.{place}: the role is {role}"));
        }
        let content = message["content"].as_array().unwrap();
        if content.is_empty() {
            return Err(format!("messages.{place}: no content"));
        }
        if role == "user" {
            check_user(place, content, &mut open)?;
            expected_role = "assistant";
        } else {
            open = check_assistant(place, content, &mut seen_ids)?;
            expected_role = "user";
        }
    }
    match open.is_empty() {
        true => Ok(()),
        false => Err(format!("{open:?} have no results")),
    }
}

fn check_user(place: usize, content: &[Value], open: &mut HashSet<String>) -> Result<(), String> {
    let mut results_over = false;
    for block in content {
        match block["type"].as_str().unwrap() {
            "tool_result" if results_over => {
                return Err(format!("messages.{place}: a result after other content"));
            }
            "tool_result" => {
                let id = block["tool_use_id"].as_str().unwrap();
                if !open.remove(id) {
                    return Err(format!("messages.{place}: unexpected result of {id}"));
                }
                for inner in block["content"].as_array().into_iter().flatten() {
                    let kind = inner["type"].as_str().unwrap();
                    if !["text", "image", "document"].contains(&kind) {
                        return Err(format!("messages.{place}: {kind} in a result"));
                    }
                    check_text(place, inner)?;
                }
            }
            "text" | "image" | "document" => {
                results_over = true;
                check_text(place, block)?;
            }
            other => return Err(format!("messages.{place}: {other} in a user message")),
        }
    }
    match open.is_empty() {
        true => Ok(()),
        false => Err(format!("messages.{place}: no results of {open:?}")),
    }
}

fn check_assistant(
    place: usize,
    content: &[Value],
    seen_ids: &mut HashSet<String>,
) -> Result<HashSet<String>, String> {
    let mut calls = HashSet::new();
    for block in content {
        match block["type"].as_str().unwrap() {
            "tool_use" => {
                let id = block["id"].as_str().unwrap();
                if !is_name(id, usize::MAX) || !seen_ids.insert(id.to_owned()) {
                    return Err(format!("messages.{place}: the id {id:?}"));
                }
                if !is_name(block["name"].as_str().unwrap(), 64) || !block["input"].is_object() {
                    return Err(format!("messages.{place}: name or input of {id}"));
                }
                calls.insert(id.to_owned());
            }
            "thinking" => {
                if block["signature"].as_str().is_none_or(str::is_empty) {
                    return Err(format!("messages.{place}: thinking without signature"));
                }
            }
            "redacted_thinking" => {}
            "text" => check_text(place, block)?,
            other => return Err(format!("messages.{place}: {other} in an answer")),
        }
    }
    let last = content.last().unwrap()["type"].as_str().unwrap();
    match last.ends_with("thinking") {
        true => Err(format!("messages.{place}: the final block is thinking")),
        false => Ok(calls),
    }
}

fn check_text(place: usize, block: &Value) -> Result<(), String> {
    match block["text"].as_str() {
        Some(text) if text.trim().is_empty() => Err(format!("messages.{place}: a blank text")),
        _ => Ok(()),
    }
}

fn check_marks(body: &Value) -> Result<(), String> {
    let mut marks = 0;
    let lists = [&body["tools"], &body["system"]].into_iter();
    let contents = body["messages"].as_array().unwrap().iter();
    for list in lists.chain(contents.map(|message| &message["content"])) {
        for block in list.as_array().into_iter().flatten() {
            if block.get("cache_control").is_some() {
                marks += 1;
                let kind = block["type"].as_str().unwrap_or("tool");
                if kind.ends_with("thinking") {
                    return Err("a mark on thinking".to_owned());
                }
            }
        }
    }
    match marks <= 4 {
        true => Ok(()),
        false => Err(format!("{marks} cache marks")),
    }
}

fn is_name(text: &str, most: usize) -> bool {
    let taken = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    (1..=most).contains(&text.len()) && text.bytes().all(taken)
}
