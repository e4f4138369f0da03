//! What a handler of a file answered, in our terms.

use super::public::PUBLIC_PATH;
use crate::event::HookEventName;
use crate::response::{HookOutput, PermissionDecision};
use halter_exec::ExitStatus;
use halter_protocol::public_tools::our_input;
use halter_protocol::{HookEntryKind, HookRunEntry};
use serde_json::{Map, Value};
use std::path::Path;

/// An answer, and what its run reports besides.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct FileAnswer {
    pub output: HookOutput,
    pub notes: Vec<HookRunEntry>,
}

impl FileAnswer {
    fn note(&mut self, kind: HookEntryKind, text: impl Into<String>) {
        self.notes.push(HookRunEntry {
            kind,
            text: text.into(),
        });
    }

    /// Whether it stands in the way of anything.
    pub fn objects(&self) -> bool {
        let decides = [PermissionDecision::Deny, PermissionDecision::Ask];
        self.output.block_reason.is_some()
            || self.output.stop_reason.is_some()
            || decides.contains(&self.output.permission)
    }

    /// With what the same handler said of the next file. It allows what it
    /// allowed of each.
    pub fn join(&mut self, next: Self) {
        let context = std::mem::take(&mut self.output.additional_context);
        let suppresses = self.output.suppress_output;
        let same = self.output.permission == next.output.permission;
        self.output = next.output;
        if !same {
            self.output.permission = PermissionDecision::default();
        }
        self.output.additional_context.splice(0..0, context);
        self.output.suppress_output |= suppresses;
        self.notes.extend(next.notes);
    }

    fn without_effect(&mut self, what: &str) {
        self.note(HookEntryKind::Error, format!("{what} has no effect here"));
    }
}

/// What a handler was asked about.
pub(crate) struct Asked<'a> {
    pub event: HookEventName,
    /// The payload, in our names.
    pub payload: &'a Value,
    pub cwd: &'a Path,
}

/// The status by which a command blocks.
const BLOCKS: i32 = 2;

/// Characters of standard error that a failure quotes.
const QUOTED_CHARS: usize = 400;

impl Asked<'_> {
    /// The answer of a command. An error says in words how it failed.
    pub fn command(
        &self,
        status: ExitStatus,
        stdout: &[u8],
        stderr: &[u8],
    ) -> Result<FileAnswer, String> {
        let stderr = String::from_utf8_lossy(stderr);
        let stderr = stderr.trim();
        match status.code {
            Some(0) => self.text(stdout),
            Some(BLOCKS) => {
                let reason = match stderr.is_empty() {
                    false => stderr.to_owned(),
                    true => "blocked without a reason (status 2)".to_owned(),
                };
                let mut answer = FileAnswer::default();
                answer.output.block_reason = Some(reason);
                Ok(answer)
            }
            _ if is_object(stdout) => self.text(stdout),
            code => {
                let how = match (code, status.signal) {
                    (Some(code), _) => format!("ended with status {code}"),
                    (None, Some(signal)) => format!("was ended by signal {signal}"),
                    (None, None) => "ended in an unknown way".to_owned(),
                };
                let said: String = stderr.chars().take(QUOTED_CHARS).collect();
                Err(match said.is_empty() {
                    true => how,
                    false => format!("{how}: {said}"),
                })
            }
        }
    }

    /// What a command that succeeded, or a server, has said: an object decides;
    /// other words are context where a prompt or a session begins.
    pub fn text(&self, text: &[u8]) -> Result<FileAnswer, String> {
        let Ok(text) = std::str::from_utf8(text) else {
            return Err("answered with what is no text".to_owned());
        };
        let text = text.trim();
        if text.starts_with('{') {
            return match serde_json::from_str::<Value>(text) {
                Ok(Value::Object(fields)) => self.object(fields),
                Ok(_) => Err("answered with JSON that is no object".to_owned()),
                Err(error) => Err(format!("answered with JSON that cannot be read: {error}")),
            };
        }
        let mut answer = FileAnswer::default();
        let is_context = matches!(
            self.event,
            HookEventName::UserPromptSubmit
                | HookEventName::SessionStart
                | HookEventName::SubagentStart
        );
        if is_context && !text.is_empty() {
            answer.output.additional_context.push(text.to_owned());
        }
        Ok(answer)
    }

    /// What a model said: whether it is fine, and if not, why.
    pub fn model(&self, text: &str) -> Result<FileAnswer, String> {
        let object = text.find('{').zip(text.rfind('}'));
        let object = object.and_then(|(start, end)| text.get(start..=end));
        let object = object.and_then(|it| serde_json::from_str::<Map<String, Value>>(it).ok());
        let Some(fields) = object else {
            return Err(
                "the model did not answer with {\"ok\": true} or {\"ok\": false, \
                        \"reason\": …}"
                    .to_owned(),
            );
        };
        match fields.get("ok") {
            Some(Value::Bool(true)) => Ok(FileAnswer::default()),
            Some(Value::Bool(false)) => {
                let reason = fields.get("reason").and_then(Value::as_str);
                let mut answer = FileAnswer::default();
                let reason = reason.unwrap_or("a model says no, without a reason");
                answer.output.block_reason = Some(reason.to_owned());
                Ok(answer)
            }
            Some(_) => Err("the model's `ok` is not true or false".to_owned()),
            None => self.object(fields),
        }
    }

    fn object(&self, fields: Map<String, Value>) -> Result<FileAnswer, String> {
        let mut answer = FileAnswer::default();
        let reason = text_of(&fields, "reason")?;
        for (key, value) in &fields {
            match key.as_str() {
                "continue" => {
                    let goes_on = value
                        .as_bool()
                        .ok_or("its `continue` is not true or false")?;
                    if !goes_on {
                        let why = text_of(&fields, "stopReason")?.or_else(|| reason.clone());
                        let why = why.unwrap_or_else(|| "a hook stopped the turn".to_owned());
                        answer.output.stop_reason = Some(why);
                    }
                }
                "decision" => self.decision(value, reason.clone(), &mut answer)?,
                "systemMessage" => {
                    if let Some(text) = text_of(&fields, key)? {
                        answer.note(HookEntryKind::Feedback, text);
                    }
                }
                "suppressOutput" => {
                    answer.output.suppress_output = value
                        .as_bool()
                        .ok_or("its `suppressOutput` is not true or false")?;
                }
                "hookSpecificOutput" => match value {
                    Value::Null => {}
                    Value::Object(own) => self.specific(own, &mut answer)?,
                    _ => return Err("its `hookSpecificOutput` is no object".to_owned()),
                },
                "reason" | "stopReason" => {}
                other => answer.without_effect(&format!("`{other}`")),
            }
        }
        Ok(answer)
    }

    fn decision(
        &self,
        value: &Value,
        reason: Option<String>,
        answer: &mut FileAnswer,
    ) -> Result<(), String> {
        match value.as_str() {
            Some("block" | "deny") => {
                let reason = reason.unwrap_or_else(|| "blocked without a reason".to_owned());
                answer.output.block_reason = Some(reason);
            }
            Some("approve" | "allow") => {
                // Elsewhere it only says that nothing is wrong.
                if self.event.has_call_to_permit() {
                    answer.output.permission = PermissionDecision::Allow;
                    answer.output.permission_reason = reason;
                }
            }
            None if value.is_null() => {}
            _ => {
                return Err(format!(
                    "its `decision` is {value}, not \"block\" or \"approve\""
                ));
            }
        }
        Ok(())
    }

    fn specific(&self, fields: &Map<String, Value>, answer: &mut FileAnswer) -> Result<(), String> {
        if let Some(name) = text_of(fields, "hookEventName")?
            && name.parse::<HookEventName>().ok() != Some(self.event)
        {
            return Err(format!(
                "its `hookSpecificOutput` is for `{name}`, and the event is {}",
                self.event
            ));
        }
        for (key, value) in fields {
            match key.as_str() {
                "hookEventName" | "permissionDecisionReason" => {}
                "permissionDecision" => {
                    let reason = text_of(fields, "permissionDecisionReason")?;
                    self.permission(value, reason, answer)?;
                }
                "additionalContext" => {
                    let text = text_of(fields, key)?.filter(|text| !text.trim().is_empty());
                    answer.output.additional_context.extend(text);
                }
                "updatedInput" => {
                    if !value.is_object() {
                        return Err("its `updatedInput` is no object".to_owned());
                    }
                    answer.output.updated_input = Some(self.our_input(value.clone()));
                }
                "updatedToolOutput" | "updatedMCPToolOutput" => {
                    answer.output.updated_output = Some(self.our_response(value.clone()));
                }
                "decision" if self.event == HookEventName::PermissionRequest => {
                    let fields = value.as_object().ok_or("its `decision` is no object")?;
                    self.request_decision(fields, answer)?;
                }
                other => answer.without_effect(&format!("`{other}`")),
            }
        }
        Ok(())
    }

    fn permission(
        &self,
        value: &Value,
        reason: Option<String>,
        answer: &mut FileAnswer,
    ) -> Result<(), String> {
        answer.output.permission = match value.as_str() {
            Some("allow") => PermissionDecision::Allow,
            Some("deny") => PermissionDecision::Deny,
            Some("ask") => PermissionDecision::Ask,
            Some("defer") => {
                answer.note(HookEntryKind::Error, "`defer` is read as `ask`");
                PermissionDecision::Ask
            }
            _ => {
                return Err(format!(
                    "its `permissionDecision` is {value}, not \"allow\", \"deny\" or \"ask\""
                ));
            }
        };
        answer.output.permission_reason = reason;
        Ok(())
    }

    /// What a hook says in place of a person.
    fn request_decision(
        &self,
        fields: &Map<String, Value>,
        answer: &mut FileAnswer,
    ) -> Result<(), String> {
        let message = text_of(fields, "message")?;
        match fields.get("behavior").and_then(Value::as_str) {
            Some("allow") if fields.get("updatedInput").is_some_and(|it| !it.is_null()) => {
                // What it would allow is not what would run.
                let text = "an `allow` with `updatedInput` allows nothing: rewrite at PreToolUse";
                answer.note(HookEntryKind::Error, text);
            }
            Some("allow") => {
                answer.output.permission = PermissionDecision::Allow;
                if fields
                    .get("updatedPermissions")
                    .is_some_and(|it| !it.is_null())
                {
                    answer.without_effect("`updatedPermissions`");
                }
            }
            Some("deny") => {
                answer.output.permission = PermissionDecision::Deny;
                answer.output.permission_reason = message.clone();
                if fields.get("interrupt").and_then(Value::as_bool) == Some(true) {
                    let why = message.unwrap_or_else(|| "a hook denied a call".to_owned());
                    answer.output.stop_reason = Some(why);
                }
            }
            _ => return Err("its `behavior` is not \"allow\" or \"deny\"".to_owned()),
        }
        Ok(())
    }

    /// Without what was only put in for public files.
    fn our_response(&self, mut rewritten: Value) -> Value {
        let given = self.payload.get("tool_response");
        if let Some(fields) = rewritten.as_object_mut()
            && given.is_some_and(|given| given.get(PUBLIC_PATH).is_none())
        {
            fields.remove(PUBLIC_PATH);
        }
        rewritten
    }

    fn our_input(&self, rewritten: Value) -> Value {
        let tool = self.payload.get("tool_name").and_then(Value::as_str);
        let given = self.payload.get("tool_input").unwrap_or(&Value::Null);
        our_input(tool.unwrap_or_default(), rewritten, given, self.cwd)
    }
}

fn is_object(text: &[u8]) -> bool {
    serde_json::from_slice::<Map<String, Value>>(text).is_ok()
}

/// A text, or nothing; an error if something else stands there.
fn text_of(fields: &Map<String, Value>, key: &str) -> Result<Option<String>, String> {
    match fields.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("its `{key}` is not a text")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn ask(event: HookEventName, answer: &Value) -> Result<FileAnswer, String> {
        let payload = json!({"tool_name": "write", "tool_input": {"path": "a", "content": "b"}});
        let asked = Asked {
            event,
            payload: &payload,
            cwd: Path::new("/p"),
        };
        asked.text(answer.to_string().as_bytes())
    }

    fn status(code: i32) -> ExitStatus {
        ExitStatus {
            code: Some(code),
            signal: None,
        }
    }

    fn run(
        event: HookEventName,
        code: i32,
        stdout: &str,
        stderr: &str,
    ) -> Result<HookOutput, String> {
        let asked = Asked {
            event,
            payload: &json!({}),
            cwd: Path::new("/"),
        };
        let answer = asked.command(status(code), stdout.as_bytes(), stderr.as_bytes());
        answer.map(|it| it.output)
    }

    #[test]
    fn a_status_decides() {
        use HookEventName::{PreToolUse, Stop, UserPromptSubmit};
        assert_eq!(run(PreToolUse, 0, "", ""), Ok(HookOutput::default()));
        assert_eq!(run(PreToolUse, 0, "words", ""), Ok(HookOutput::default()));
        let context = run(UserPromptSubmit, 0, " words\n", "").unwrap();
        assert_eq!(context.additional_context, ["words"]);
        let blocked = run(PreToolUse, 2, "{\"decision\":\"approve\"}", "not now\n").unwrap();
        assert_eq!(blocked.block_reason.as_deref(), Some("not now"));
        let blocked = run(Stop, 2, "", "").unwrap();
        assert!(blocked.block_reason.unwrap().contains("without a reason"));
        let failed = run(PreToolUse, 1, "", "boom").unwrap_err();
        assert_eq!(failed, "ended with status 1: boom");
        let decided = run(
            PreToolUse,
            1,
            "{\"decision\":\"block\",\"reason\":\"x\"}",
            "",
        )
        .unwrap();
        assert_eq!(decided.block_reason.as_deref(), Some("x"));
    }

    #[test]
    fn every_part_of_an_answer_is_read() {
        use HookEventName::{PermissionRequest, PreToolUse};
        let full = json!({
            "continue": false, "stopReason": "enough", "systemMessage": "for you",
            "suppressOutput": true,
            "hookSpecificOutput": {
                "hookEventName": "PreToolUse", "permissionDecision": "deny",
                "permissionDecisionReason": "no", "additionalContext": "know this",
                "updatedInput": {"file_path": "/p/a", "content": "c"},
            },
        });
        let answer = ask(PreToolUse, &full).unwrap();
        let expected = HookOutput {
            stop_reason: Some("enough".into()),
            permission: PermissionDecision::Deny,
            permission_reason: Some("no".into()),
            additional_context: vec!["know this".into()],
            updated_input: Some(json!({"path": "a", "content": "c"})),
            suppress_output: true,
            ..HookOutput::default()
        };
        assert_eq!(answer.output, expected);
        assert_eq!(answer.notes.len(), 1);

        let deny = json!({"hookSpecificOutput": {"decision":
            {"behavior": "deny", "message": "no", "interrupt": true}}});
        let answer = ask(PermissionRequest, &deny).unwrap().output;
        assert_eq!(answer.permission, PermissionDecision::Deny);
        assert_eq!(answer.stop_reason.as_deref(), Some("no"));
        let changed = json!({"hookSpecificOutput": {"decision":
            {"behavior": "allow", "updatedInput": {"content": "x"}}}});
        let answer = ask(PermissionRequest, &changed).unwrap();
        assert_eq!(answer.output.permission, PermissionDecision::Passthrough);
        assert!(answer.notes[0].text.contains("allows nothing"));
    }

    #[test]
    fn rubbish_is_a_failure() {
        for answer in [
            json!({"continue": "no"}),
            json!({"decision": "perhaps"}),
            json!({"decision": 7}),
            json!({"systemMessage": ["x"]}),
            json!({"suppressOutput": 1}),
            json!({"hookSpecificOutput": "x"}),
            json!({"hookSpecificOutput": {"hookEventName": "Stop"}}),
            json!({"hookSpecificOutput": {"permissionDecision": "maybe"}}),
            json!({"hookSpecificOutput": {"updatedInput": "x"}}),
            json!({"hookSpecificOutput": {"additionalContext": 1}}),
        ] {
            assert!(ask(HookEventName::PreToolUse, &answer).is_err(), "{answer}");
        }
        for text in ["{", "{\"a\":}", "{} {}"] {
            assert!(
                run(HookEventName::PreToolUse, 0, text, "").is_err(),
                "{text}"
            );
        }
    }

    #[test]
    fn what_has_no_effect_is_said() {
        let answer = ask(HookEventName::Stop, &json!({"terminalSequence": "x"})).unwrap();
        assert!(answer.notes[0].text.contains("terminalSequence"));
    }

    #[test]
    fn a_model_says_yes_no_or_nothing_that_counts() {
        let asked = Asked {
            event: HookEventName::Stop,
            payload: &json!({}),
            cwd: Path::new("/"),
        };
        let yes = asked.model("Sure.\n```json\n{\"ok\": true}\n```").unwrap();
        assert_eq!(yes, FileAnswer::default());
        let no = asked
            .model("{\"ok\": false, \"reason\": \"tests fail\"}")
            .unwrap();
        assert_eq!(no.output.block_reason.as_deref(), Some("tests fail"));
        assert!(asked.model("I think it is fine.").is_err());
        assert!(asked.model("{\"ok\": \"yes\"}").is_err());
    }
}
