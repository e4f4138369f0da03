//! A payload as handlers of public files expect it.

use crate::event::HookEventName;
use halter_protocol::public_tools::{public_input, public_tool_name};
use serde_json::{Map, Value};
use std::path::Path;

/// Reasons for the end of a session that public files know.
const END_REASONS: [&str; 5] = ["clear", "resume", "logout", "prompt_input_exit", "other"];

/// What a result that names a file calls it there.
pub(crate) const PUBLIC_PATH: &str = "filePath";

/// The payload with public names of tools and fields. What public files do not
/// know stays in it.
pub(crate) fn public_payload(event: HookEventName, payload: &Value, cwd: &Path) -> Value {
    let Some(fields) = payload.as_object() else {
        return payload.clone();
    };
    let mut public = fields.clone();
    // Hook scripts read it unasked; where it is tried without a session there is
    // no such file.
    public
        .entry("transcript_path")
        .or_insert_with(|| Value::from(""));
    if let Some(mode) = fields.get("permission_mode").and_then(Value::as_str) {
        public.insert("permission_mode".to_owned(), public_mode(mode).into());
    }
    if let Some(tool) = fields.get("tool_name").and_then(Value::as_str) {
        public.insert("tool_name".to_owned(), public_tool_name(tool).into());
        if let Some(input) = fields.get("tool_input") {
            public.insert("tool_input".to_owned(), public_input(tool, input, cwd));
        }
    }
    match event {
        HookEventName::SessionEnd => end_reason(&mut public),
        HookEventName::PostToolUseFailure => failure(&mut public),
        HookEventName::PostToolUse => response(&mut public),
        _ => {}
    }
    Value::Object(public)
}

fn public_mode(mode: &str) -> &str {
    match mode {
        "read_only" => "plan",
        "prompt" => "default",
        "workspace_write" => "acceptEdits",
        "full_access" | "allow" => "bypassPermissions",
        other => other,
    }
}

fn end_reason(public: &mut Map<String, Value>) {
    let known = |reason: &str| END_REASONS.contains(&reason);
    if let Some(reason) = public.get("reason").and_then(Value::as_str)
        && !known(reason)
    {
        let own = Value::from(reason);
        public.insert("reason".to_owned(), "other".into());
        public.insert("halter_reason".to_owned(), own);
    }
}

/// The error of a call is a text there.
fn failure(public: &mut Map<String, Value>) {
    let Some(error) = public.get("error") else {
        return;
    };
    let code = error.get("code").cloned();
    let interrupted = code.as_ref().and_then(Value::as_str) == Some("cancelled");
    if let Some(message) = error.get("message").cloned() {
        public.insert("error".to_owned(), message);
        public.insert("error_code".to_owned(), code.unwrap_or_default());
        public.insert("is_interrupt".to_owned(), interrupted.into());
    }
}

/// Results of files name the file as public ones do, besides our name for it.
fn response(public: &mut Map<String, Value>) {
    if let Some(Value::Object(response)) = public.get_mut("tool_response")
        && let Some(path) = response.get("path").cloned()
    {
        response.entry(PUBLIC_PATH).or_insert(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn public(event: HookEventName, payload: Value) -> Value {
        public_payload(event, &payload, Path::new("/p"))
    }

    #[test]
    fn names_and_fields_are_the_public_ones() {
        let told = public(
            HookEventName::PreToolUse,
            json!({"tool_name": "write", "tool_input": {"path": "a", "content": "b"},
                   "permission_mode": "workspace_write"}),
        );
        let expected = json!({
            "tool_name": "Write", "tool_input": {"file_path": "/p/a", "content": "b"},
            "permission_mode": "acceptEdits", "transcript_path": "",
        });
        assert_eq!(told, expected);
    }

    #[test]
    fn reasons_errors_and_results_are_as_public_files_expect() {
        let told = public(HookEventName::SessionEnd, json!({"reason": "done"}));
        assert_eq!(told["reason"], "other");
        assert_eq!(told["halter_reason"], "done");
        let told = public(HookEventName::SessionEnd, json!({"reason": "clear"}));
        assert_eq!(told["reason"], "clear");
        let error = json!({"code": "cancelled", "message": "stopped"});
        let told = public(HookEventName::PostToolUseFailure, json!({"error": error}));
        assert_eq!(
            (&told["error"], &told["is_interrupt"]),
            (&json!("stopped"), &json!(true))
        );
        let told = public(
            HookEventName::PostToolUse,
            json!({"tool_name": "write", "tool_response": {"path": "a"}}),
        );
        assert_eq!(told["tool_response"], json!({"path": "a", "filePath": "a"}));
    }
}
