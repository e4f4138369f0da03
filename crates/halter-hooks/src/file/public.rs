//! A payload as handlers of public files expect it.

use crate::event::HookEventName;
use halter_protocol::public_tools::{public_input, public_path, public_tool_name};
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
    if let Some(server) = fields
        .get("tool_name")
        .and_then(Value::as_str)
        .and_then(server_of)
    {
        public.insert("mcp_server".to_owned(), server.into());
    }
    if let Some(turn) = fields.get("turn_id") {
        public.insert("prompt_id".to_owned(), turn.clone());
    }
    match event {
        HookEventName::SubagentStop => {
            // The conversation of a session of its own is that of the agent.
            if let Some(path) = fields.get("transcript_path") {
                public.insert("agent_transcript_path".to_owned(), path.clone());
            }
        }
        HookEventName::SessionEnd => end_reason(&mut public),
        HookEventName::PostToolUseFailure => failure(&mut public),
        HookEventName::PostToolUse => response(&mut public, cwd),
        _ => {}
    }
    Value::Object(public)
}

/// The server of a tool that is called `mcp__server__tool`.
fn server_of(tool: &str) -> Option<&str> {
    let (server, _) = tool.strip_prefix("mcp__")?.split_once("__")?;
    Some(server)
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

/// What public files call the reason for the end of a session; the value of any
/// other event is itself.
pub(crate) fn public_reason(event: HookEventName, value: &str) -> &str {
    match event == HookEventName::SessionEnd && !END_REASONS.contains(&value) {
        true => "other",
        false => value,
    }
}

fn end_reason(public: &mut Map<String, Value>) {
    if let Some(reason) = public.get("reason").and_then(Value::as_str) {
        let theirs = public_reason(HookEventName::SessionEnd, reason);
        if theirs != reason {
            let (own, theirs) = (Value::from(reason), Value::from(theirs));
            public.insert("reason".to_owned(), theirs);
            public.insert("halter_reason".to_owned(), own);
        }
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
fn response(public: &mut Map<String, Value>, cwd: &Path) {
    if let Some(Value::Object(response)) = public.get_mut("tool_response")
        && let Some(path) = response.get("path").and_then(Value::as_str)
    {
        let path = public_path(path, cwd);
        response.entry(PUBLIC_PATH).or_insert(path.into());
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
    fn what_a_call_and_an_agent_belong_to_is_told() {
        let told = public(
            HookEventName::PreToolUse,
            json!({"tool_name": "mcp__git__push", "turn_id": "turn_1"}),
        );
        assert_eq!(
            (&told["mcp_server"], &told["prompt_id"]),
            (&json!("git"), &json!("turn_1"))
        );
        let told = public(
            HookEventName::SubagentStop,
            json!({"transcript_path": "/t"}),
        );
        assert_eq!(told["agent_transcript_path"], "/t");
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
        assert_eq!(
            told["tool_response"],
            json!({"path": "a", "filePath": "/p/a"})
        );
    }
}
