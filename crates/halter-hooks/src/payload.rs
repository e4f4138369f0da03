//! The payload of each event: the one place where its fields are spelled.
//!
//! Every payload has `hook_event_name`, `halter_version`, `session_id`, `cwd`,
//! `model` (the registered model id), `permission_mode`, `turn_id` within a
//! turn, `agent_id` and `agent_type` in a subagent, and, added when a hook is run,
//! that hook's `plugin_id`. On top of these:
//!
//! | event | fields |
//! |---|---|
//! | `SessionStart` | `source` (`startup`, `resume`, `compact`), `working_dir` |
//! | `SessionEnd` | `reason` |
//! | `UserPromptSubmit` | `prompt`, and `attachments` if there are any |
//! | `PreToolUse` | `tool_name`, `tool_input`, `tool_use_id` |
//! | `PermissionRequest` | the same, `rule`, `reason` and `permission_suggestions`, a list of rules |
//! | `PermissionDenied` | those of `PreToolUse` and `reason` |
//! | `PostToolUse` | those of `PreToolUse`, `tool_response` and `duration_ms` |
//! | `PostToolUseFailure` | those of `PreToolUse`, `error` and `duration_ms` |
//! | `Notification` | `notification_type`, `message` |
//! | `PreCompact` | `trigger` (`manual`, `auto`), `custom_instructions` |
//! | `PostCompact` | `trigger`, `compact_summary` |
//! | `Stop` | `stop_hook_active`, `last_assistant_message` |
//! | `SubagentStart` | `agent_id`, `agent_type`, `parent_session_id` |
//! | `SubagentStop` | `agent_id`, `agent_type`, `stop_hook_active`, `last_assistant_message` |
//!
//! `attachments` lists images and documents as `{"kind": "image", "media_type":
//! "image/png", "bytes": 1234}`.
//!
//! A `tool_response` is a string, any JSON, `null`, or, for a result with images
//! or documents, a list of parts. Their bytes are not in it: a hook is told
//! `{"kind": "image", "media_type": "image/png", "bytes": 1234, "part": 1}`. In a
//! rewritten result, `part` stands for what the tool returned there, and `data`
//! in base64 for something else.

use crate::event::HookEventName;
use crate::point::HookPoint;
use halter_protocol::encoding::escape_path;
use halter_protocol::{
    CompactionReason, ContentPart, ModelId, PermissionMode, SessionId, ToolCall, ToolResult,
    TurnId, UserMessage,
};
use serde_json::{Map, Value, json};
use std::path::Path;

/// The version of the payloads, sent as `halter_version`.
pub const PAYLOAD_VERSION: u32 = 1;

/// What the payloads of a session's events have in common; [`of`](Self::of)
/// adds what each event is about.
#[derive(Debug, Clone, Copy)]
pub struct HookPayload<'a> {
    /// The session.
    pub session_id: &'a SessionId,
    /// The turn, if the event happens in one.
    pub turn_id: Option<&'a TurnId>,
    /// The session's directory.
    pub cwd: &'a Path,
    /// The registered model of the turn.
    pub model: &'a ModelId,
    /// The permission mode of the session.
    pub permission_mode: PermissionMode,
    /// The agent it is, if it is a subagent.
    pub agent_type: Option<&'a str>,
}

impl HookPayload<'_> {
    /// The payload of what happens at a point. A text result of a tool is a
    /// string, a structured one its JSON, an empty one `null`, one with images
    /// a list of its parts.
    pub fn of(&self, point: &HookPoint) -> Value {
        let fields: Vec<(&str, Value)> = match point {
            HookPoint::SessionStart { source } => vec![
                ("source", json!(source.as_str())),
                ("working_dir", json!(escape_path(self.cwd))),
            ],
            HookPoint::SessionEnd { reason } => vec![("reason", json!(reason))],
            HookPoint::UserPromptSubmit { message } => prompt_fields(message),
            HookPoint::PreToolUse { call } => call_fields(call),
            HookPoint::PermissionRequest { call, objection } => {
                let suggestions: Vec<&String> = objection.always.iter().collect();
                let mut fields = call_fields(call);
                fields.push(("rule", json!(objection.rule)));
                fields.push(("reason", json!(objection.message)));
                fields.push(("permission_suggestions", json!(suggestions)));
                fields
            }
            HookPoint::PermissionDenied { call, reason } => {
                let mut fields = call_fields(call);
                fields.push(("reason", json!(reason)));
                fields
            }
            HookPoint::PostToolUse {
                call,
                result,
                duration_ms,
            } => {
                let mut fields = call_fields(call);
                fields.push(("tool_response", response_value(result)));
                fields.push(("duration_ms", json!(duration_ms)));
                fields
            }
            HookPoint::PostToolUseFailure {
                call,
                error,
                duration_ms,
            } => {
                let error = json!({"code": error.code.as_str(), "message": error.message});
                let mut fields = call_fields(call);
                fields.push(("error", error));
                fields.push(("duration_ms", json!(duration_ms)));
                fields
            }
            HookPoint::Notification(notification) => vec![
                ("notification_type", json!(notification.notification_type)),
                ("message", json!(notification.message)),
            ],
            HookPoint::PreCompact {
                reason,
                instructions,
            } => vec![
                ("trigger", json!(trigger(reason))),
                ("custom_instructions", json!(instructions)),
            ],
            HookPoint::PostCompact { reason, summary } => vec![
                ("trigger", json!(trigger(reason))),
                ("compact_summary", json!(summary)),
            ],
            HookPoint::SubagentStart {
                agent_id,
                agent_type,
                parent_session_id,
            } => vec![
                ("agent_id", json!(agent_id)),
                ("agent_type", json!(agent_type)),
                ("parent_session_id", json!(parent_session_id)),
            ],
            HookPoint::SubagentStop {
                agent_id,
                agent_type,
                active,
                last_assistant_message,
            } => vec![
                ("agent_id", json!(agent_id)),
                ("agent_type", json!(agent_type)),
                ("stop_hook_active", json!(active)),
                ("last_assistant_message", json!(last_assistant_message)),
            ],
            HookPoint::Stop {
                active,
                last_assistant_message,
            } => vec![
                ("stop_hook_active", json!(active)),
                ("last_assistant_message", json!(last_assistant_message)),
            ],
        };
        self.with(point.event(), fields)
    }

    fn with<'f>(
        &self,
        event: HookEventName,
        fields: impl IntoIterator<Item = (&'f str, Value)>,
    ) -> Value {
        let mut payload = Map::new();
        let mut put = |name: &str, value: Value| payload.insert(name.to_owned(), value);
        put("hook_event_name", json!(event.as_str()));
        put("halter_version", json!(PAYLOAD_VERSION));
        put("session_id", json!(self.session_id));
        if let Some(turn_id) = self.turn_id {
            put("turn_id", json!(turn_id));
        }
        put("cwd", json!(escape_path(self.cwd)));
        put("model", json!(self.model));
        put("permission_mode", json!(self.permission_mode));
        if let Some(agent_type) = self.agent_type {
            put("agent_id", json!(self.session_id));
            put("agent_type", json!(agent_type));
        }
        for (name, value) in fields {
            put(name, value);
        }
        Value::Object(payload)
    }
}

fn trigger(reason: &CompactionReason) -> &'static str {
    match reason {
        CompactionReason::Requested => "manual",
        _ => "auto",
    }
}

/// A hook rewrote a result of parts, and one of them cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("part {index} of the rewritten result cannot be used: {reason}")]
pub struct UnusablePart {
    /// Which part, counted from 0.
    pub index: usize,
    /// Why.
    pub reason: String,
}

/// The tool result that a hook's rewritten output stands for: the reverse of
/// how [`HookPayload::of`] writes `given`, the result that the hook
/// was shown.
///
/// # Errors
/// Where `given` has parts: if the output is a list and one of it is no part.
pub fn tool_result(output: Value, given: &ToolResult) -> Result<ToolResult, UnusablePart> {
    Ok(match (output, given) {
        (Value::Null, _) => ToolResult::Empty,
        (Value::String(text), _) => ToolResult::Text { text },
        (Value::Array(output), ToolResult::Parts { parts }) => ToolResult::Parts {
            parts: rewritten_parts(output, parts)?,
        },
        (value, _) => ToolResult::Json { value },
    })
}

fn rewritten_parts(
    output: Vec<Value>,
    given: &[ContentPart],
) -> Result<Vec<ContentPart>, UnusablePart> {
    let parts = output.into_iter().enumerate().map(|(index, value)| {
        rewritten_part(value, given).map_err(|reason| UnusablePart { index, reason })
    });
    parts.collect()
}

fn rewritten_part(value: Value, given: &[ContentPart]) -> Result<ContentPart, String> {
    if let Some(place) = value.get("part").filter(|_| value.get("data").is_none()) {
        let part = place.as_u64().and_then(|place| usize::try_from(place).ok());
        let part = part.and_then(|place| given.get(place));
        return part
            .cloned()
            .ok_or_else(|| format!("the tool returned no part {place}"));
    }
    serde_json::from_value(value).map_err(|error| error.to_string())
}

fn response_value(result: &ToolResult) -> Value {
    match result {
        ToolResult::Empty => Value::Null,
        ToolResult::Json { value } => value.clone(),
        ToolResult::Parts { parts } => parts.iter().enumerate().map(referred_part).collect(),
        other => Value::String(other.to_model_text()),
    }
}

/// A part of a result; an image or document says which it is.
fn referred_part((index, part): (usize, &ContentPart)) -> Value {
    let mut value = part_value(part);
    if let (Some(_), Some(fields)) = (part.media(), value.as_object_mut()) {
        fields.insert("part".to_owned(), json!(index));
    }
    value
}

fn part_value(part: &ContentPart) -> Value {
    let kind = match part {
        ContentPart::Document { .. } => "document",
        _ => "image",
    };
    match part.media() {
        None => json!({"kind": "text", "text": part.describe()}),
        Some((media_type, data)) => {
            json!({"kind": kind, "media_type": media_type, "bytes": data.len()})
        }
    }
}

fn prompt_fields(message: &UserMessage) -> Vec<(&'static str, Value)> {
    let mut fields = vec![("prompt", json!(message.plain_text()))];
    let attached: Vec<Value> = message.attachments().map(part_value).collect();
    if !attached.is_empty() {
        fields.push(("attachments", Value::Array(attached)));
    }
    fields
}

fn call_fields(call: &ToolCall) -> Vec<(&'static str, Value)> {
    vec![
        ("tool_name", json!(call.name)),
        ("tool_input", call.arguments.clone()),
        ("tool_use_id", json!(call.id)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::point::SessionStartSource;
    use halter_protocol::{NotificationItem, Objection, ToolError, ToolErrorCode};

    fn check(event: HookEventName, payload: &Value, own: Value) {
        let mut expected = json!({
            "hook_event_name": event.as_str(),
            "halter_version": 1,
            "session_id": "ses_1",
            "turn_id": "turn_1",
            "cwd": "/project",
            "model": "default",
            "permission_mode": "workspace_write",
        });
        let fields = own.as_object().unwrap().clone();
        expected.as_object_mut().unwrap().extend(fields);
        assert_eq!(payload, &expected);
    }

    #[test]
    fn every_event_has_its_fields() {
        let (session_id, turn_id) = (SessionId::from("ses_1"), TurnId::from("turn_1"));
        let model = ModelId::from("default");
        let base = HookPayload {
            session_id: &session_id,
            turn_id: Some(&turn_id),
            cwd: Path::new("/project"),
            model: &model,
            permission_mode: PermissionMode::WorkspaceWrite,
            agent_type: None,
        };
        let call = ToolCall {
            id: "call_1".into(),
            name: "read".into(),
            arguments: json!({"path": "a"}),
        };
        let error = ToolError::new(ToolErrorCode::Failed, "gone");
        check(
            HookEventName::SessionStart,
            &base.of(&HookPoint::SessionStart {
                source: SessionStartSource::Resume,
            }),
            json!({"source": "resume", "working_dir": "/project"}),
        );
        check(
            HookEventName::SessionEnd,
            &base.of(&HookPoint::SessionEnd {
                reason: "shutdown".into(),
            }),
            json!({"reason": "shutdown"}),
        );
        check(
            HookEventName::UserPromptSubmit,
            &base.of(&HookPoint::UserPromptSubmit {
                message: UserMessage::text("hello"),
            }),
            json!({"prompt": "hello"}),
        );
        check(
            HookEventName::UserPromptSubmit,
            &base.of(&HookPoint::UserPromptSubmit {
                message: UserMessage::text("look").with_image("image/png", [1, 2]),
            }),
            json!({"prompt": "look",
                   "attachments": [{"kind": "image", "media_type": "image/png", "bytes": 2}]}),
        );
        check(
            HookEventName::PreToolUse,
            &base.of(&HookPoint::PreToolUse { call: call.clone() }),
            json!({"tool_name": "read", "tool_input": {"path": "a"}, "tool_use_id": "call_1"}),
        );
        let objection = Objection {
            always: Some("Read(a)".into()),
            ..Objection::new("ask_rule", "a rule asks")
        };
        check(
            HookEventName::PermissionRequest,
            &base.of(&HookPoint::PermissionRequest {
                call: call.clone(),
                objection,
            }),
            json!({"tool_name": "read", "tool_input": {"path": "a"}, "tool_use_id": "call_1",
                   "rule": "ask_rule", "reason": "a rule asks",
                   "permission_suggestions": ["Read(a)"]}),
        );
        check(
            HookEventName::PermissionDenied,
            &base.of(&HookPoint::PermissionDenied {
                call: call.clone(),
                reason: "no".into(),
            }),
            json!({"tool_name": "read", "tool_input": {"path": "a"}, "tool_use_id": "call_1",
                   "reason": "no"}),
        );
        check(
            HookEventName::PostToolUse,
            &base.of(&HookPoint::PostToolUse {
                call: call.clone(),
                result: ToolResult::text("hi").into(),
                duration_ms: 5,
            }),
            json!({"tool_name": "read", "tool_input": {"path": "a"}, "tool_use_id": "call_1",
                   "duration_ms": 5, "tool_response": "hi"}),
        );
        check(
            HookEventName::PostToolUseFailure,
            &base.of(&HookPoint::PostToolUseFailure {
                call,
                error,
                duration_ms: 6,
            }),
            json!({"duration_ms": 6, "tool_name": "read", "tool_input": {"path": "a"}, "tool_use_id": "call_1",
                   "error": {"code": "tool_failed", "message": "gone"}}),
        );
        check(
            HookEventName::Notification,
            &base.of(&HookPoint::Notification(NotificationItem {
                notification_type: "idle".into(),
                message: "waiting".into(),
            })),
            json!({"notification_type": "idle", "message": "waiting"}),
        );
        check(
            HookEventName::Stop,
            &base.of(&HookPoint::Stop {
                active: true,
                last_assistant_message: "done".into(),
            }),
            json!({"stop_hook_active": true, "last_assistant_message": "done"}),
        );
        check(
            HookEventName::SubagentStart,
            &base.of(&HookPoint::SubagentStart {
                agent_id: "ses_2".into(),
                agent_type: "reviewer".into(),
                parent_session_id: "ses_1".into(),
            }),
            json!({"agent_id": "ses_2", "agent_type": "reviewer", "parent_session_id": "ses_1"}),
        );
        check(
            HookEventName::SubagentStop,
            &base.of(&HookPoint::SubagentStop {
                agent_id: "ses_2".into(),
                agent_type: "reviewer".into(),
                active: false,
                last_assistant_message: "done".into(),
            }),
            json!({"agent_id": "ses_2", "agent_type": "reviewer", "stop_hook_active": false,
                   "last_assistant_message": "done"}),
        );
    }

    #[test]
    fn matcher_fields_are_in_the_payloads() {
        let (session_id, model) = (SessionId::from("s"), ModelId::from("m"));
        let base = HookPayload {
            session_id: &session_id,
            turn_id: None,
            cwd: Path::new("/"),
            model: &model,
            permission_mode: PermissionMode::Prompt,
            agent_type: Some("reviewer"),
        };
        let payload = base.of(&HookPoint::SessionStart {
            source: SessionStartSource::Startup,
        });
        assert_eq!(payload.get("turn_id"), None);
        let field = HookEventName::SessionStart.matcher_field().unwrap();
        assert_eq!(payload.get(field), Some(&json!("startup")));
    }

    #[test]
    fn results_survive_the_way_to_a_hook_and_back() {
        for result in [
            ToolResult::Empty,
            ToolResult::text("words"),
            ToolResult::json(json!({"a": [1, 2]})),
            ToolResult::json(json!([{"kind": "image", "part": 0}])),
            ToolResult::parts([]),
            pictures(),
        ] {
            let back = tool_result(response_value(&result), &result);
            assert_eq!(back, Ok(result));
        }
    }

    fn pictures() -> ToolResult {
        ToolResult::parts([
            ContentPart::text("before"),
            ContentPart::image("image/png", [1, 2, 3]),
            ContentPart::document("application/pdf", [4]),
        ])
    }

    #[test]
    fn a_hook_is_told_of_images_and_not_given_their_bytes() {
        assert_eq!(
            response_value(&pictures()),
            json!([
                {"kind": "text", "text": "before"},
                {"kind": "image", "media_type": "image/png", "bytes": 3, "part": 1},
                {"kind": "document", "media_type": "application/pdf", "bytes": 1, "part": 2},
            ])
        );
    }

    #[test]
    fn a_hook_may_leave_out_move_and_replace_parts() {
        let output = json!([
            {"kind": "image", "media_type": "image/png", "bytes": 3, "part": 1},
            {"kind": "text", "text": "after"},
            {"kind": "image", "media_type": "image/gif", "data": "BQ=="},
        ]);
        let expected = ToolResult::parts([
            ContentPart::image("image/png", [1, 2, 3]),
            ContentPart::text("after"),
            ContentPart::image("image/gif", [5]),
        ]);
        assert_eq!(tool_result(output, &pictures()), Ok(expected));
        let withheld = tool_result(json!("a picture"), &pictures());
        assert_eq!(withheld, Ok(ToolResult::text("a picture")));
    }

    #[test]
    fn a_part_that_cannot_be_used_is_an_error() {
        for (output, reason) in [
            (json!({"part": 3}), "the tool returned no part 3"),
            (json!({"part": "x"}), "the tool returned no part \"x\""),
            (json!("words"), "invalid type"),
            (
                json!({"kind": "image", "media_type": "image/png"}),
                "missing field `data`",
            ),
            (
                json!({"kind": "image", "media_type": "image/png", "data": "?"}),
                "symbol",
            ),
        ] {
            let error = tool_result(json!([output]), &pictures()).unwrap_err();
            assert_eq!(error.index, 0);
            assert!(error.reason.to_lowercase().contains(reason), "{error}");
        }
    }
}
