//! What the texts of skills and commands have run and read: each command is
//! judged, and run, as a call of `shell` that the model would have made, each
//! file as one of `read`. What would have to be asked about, or is refused, is
//! left to the model with a note, unless the call that uses the text was
//! approved with it.

use super::Owner;
use super::judging::judged;
use crate::engine::SystemNote;
use crate::limits::{TEXT_COMMAND_OUTPUT_BYTES, TEXT_COMMANDS, TEXT_FILE_BYTES, TEXT_FILES};
use crate::toolset::Toolset;
use halter_hooks::HookEventName;
use halter_protocol::{
    CallToJudge, ContentHash, HookOpinion, InstructionFile, Objection, PolicyVerdict, ToolCall,
    ToolError, ToolErrorCode, ToolName, ToolResult,
};
use halter_resources::render::{RenderedText, TextCommand, TextPiece};
use halter_tools::{NoopToolEventSink, ToolContext};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

const SHELL: &str = "shell";
const READ: &str = "read";

/// Who has said yes to the commands of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Consent {
    /// Nobody but the policy: only what it allows runs.
    Policy,
    /// The call that uses the text was judged with them, and approved if need
    /// be.
    JudgedCall,
}

/// A text whose commands are judged and not run yet.
pub(super) struct MarkedText {
    pieces: Vec<JudgedPiece>,
    use_: TextUse,
}

/// What becomes of a text.
pub(super) enum TextUse {
    /// A system message that holds under a key.
    Note {
        key: String,
        /// What stands around the text.
        around: (String, String),
        /// The hash of what the model was told under the key.
        told: Option<String>,
    },
    /// A part of the user's message.
    Prompt,
}

enum JudgedPiece {
    Text(String),
    Run(Box<(ToolCall, ToolContext)>),
    File {
        path: String,
        context: Box<ToolContext>,
    },
}

/// A text that is complete.
pub(super) enum FinishedText {
    Note(SystemNote),
    Prompt(String),
}

impl Owner {
    /// Judges what a text wants run and read.
    pub(super) async fn judge_text(
        &mut self,
        rendered: RenderedText,
        use_: TextUse,
        consent: Consent,
        cancel: &CancellationToken,
    ) -> MarkedText {
        let mut pieces = Vec::new();
        let (mut commands, mut files) = (0, 0);
        for piece in rendered.pieces {
            pieces.push(match piece {
                TextPiece::Text(text) => JudgedPiece::Text(text),
                TextPiece::Command(command) => {
                    commands += 1;
                    self.judge_piece(&command, commands, consent, cancel).await
                }
                TextPiece::File(path) => {
                    files += 1;
                    self.judge_file(path, files, cancel).await
                }
                _ => continue,
            });
        }
        MarkedText { pieces, use_ }
    }

    async fn judge_piece(
        &mut self,
        command: &TextCommand,
        number: usize,
        consent: Consent,
        cancel: &CancellationToken,
    ) -> JudgedPiece {
        let left = |why: &str| {
            let note = format!("(not run: {why}; run it with `{SHELL}` where you need its output)");
            JudgedPiece::Text(command.as_text(&note))
        };
        if let Some(why) = self.why_left(command, number) {
            return left(&why);
        }
        let call = shell_call(&command.line, number);
        let why = match (self.verdict_on(&call, &[]).await, consent) {
            (Ok(PolicyVerdict::Allow), _) | (Ok(PolicyVerdict::Ask(_)), Consent::JudgedCall) => {
                match self.judged_context(&call, cancel.clone()).await {
                    Ok(mut context) => {
                        context.emit = Arc::new(NoopToolEventSink);
                        return JudgedPiece::Run(Box::new((call, context)));
                    }
                    Err(error) => error.to_string(),
                }
            }
            (Ok(PolicyVerdict::Ask(objection)), Consent::Policy) => {
                format!("it has to be approved, rule {}", objection.rule)
            }
            (Ok(PolicyVerdict::Deny(objection)), _) => {
                format!("refused by rule {}: {}", objection.rule, objection.message)
            }
            (Err(error), _) => error.to_string(),
        };
        left(&why)
    }

    /// Why a command is left to the model whatever the policy says.
    fn why_left(&mut self, command: &TextCommand, number: usize) -> Option<String> {
        if number > TEXT_COMMANDS {
            return Some(format!("a text runs {TEXT_COMMANDS} commands at most"));
        }
        if let Some(problem) = &command.problem {
            return Some(problem.clone());
        }
        // Hooks that look at commands see those that the model runs.
        let hooks = self.hooks_in_force();
        let guarded = hooks.listens_to_call(HookEventName::PreToolUse, SHELL);
        guarded.then(|| format!("hooks want to see each call of `{SHELL}`"))
    }

    /// The lines that a text has run: what is judged with the call that uses it.
    pub(super) fn lines_to_run(&mut self, rendered: &RenderedText) -> Vec<String> {
        let mut lines = Vec::new();
        let mut number = 0;
        for piece in &rendered.pieces {
            if let TextPiece::Command(command) = piece {
                number += 1;
                if self.why_left(command, number).is_none() {
                    lines.push(command.line.clone());
                }
            }
        }
        lines
    }

    /// What the policy says to lines that a call of another tool has run: the
    /// strictest of its verdicts.
    pub(super) async fn judge_lines(
        &mut self,
        lines: &[String],
        more_rules: &[String],
    ) -> Result<PolicyVerdict, ToolError> {
        let mut asked: Option<Objection> = None;
        for (index, line) in lines.iter().enumerate() {
            let call = shell_call(line, index + 1);
            match self.verdict_on(&call, more_rules).await? {
                PolicyVerdict::Allow => {}
                PolicyVerdict::Ask(objection) => {
                    asked.get_or_insert(objection);
                }
                denied => return Ok(denied),
            }
        }
        Ok(match asked {
            Some(objection) => PolicyVerdict::Ask(Objection {
                parts: lines.to_vec(),
                ..objection
            }),
            None => PolicyVerdict::Allow,
        })
    }

    /// What the policy says to a call that the model has not made.
    async fn verdict_on(
        &mut self,
        call: &ToolCall,
        more_rules: &[String],
    ) -> Result<PolicyVerdict, ToolError> {
        if let Some(objection) = self.grants.refusal(call.name.as_str()) {
            return Ok(PolicyVerdict::Deny(objection));
        }
        self.tools.tools.validate(call)?;
        let is_callable = |spec: &halter_protocol::ToolSpec| spec.name == call.name;
        let Some(spec) = self.tools.callable.iter().find(|spec| is_callable(spec)) else {
            let message = format!("this session has no `{}`", call.name);
            return Err(ToolError::new(ToolErrorCode::UnknownTool, message));
        };
        let capabilities = spec.capabilities;
        let actions = self.actions(call)?;
        let mut session_rules = self.engine.state().approved_rules.clone();
        session_rules.extend_from_slice(&self.grants.allowed);
        session_rules.extend_from_slice(more_rules);
        let policy = self.toolbox.policy(&self.blueprint, &self.resources);
        let call = CallToJudge {
            call: call.clone(),
            actions,
            capabilities,
            hook: HookOpinion::Nothing,
            session_rules,
            definition: None,
        };
        judged(policy.await?, &call).await
    }

    async fn judge_file(
        &mut self,
        path: String,
        number: usize,
        cancel: &CancellationToken,
    ) -> JudgedPiece {
        let written = || JudgedPiece::Text(format!("@{path}"));
        if number > TEXT_FILES {
            return written();
        }
        let call = text_call(READ, json!({"path": path}), number);
        // What is refused is left to the model, whose own call says why.
        match self.verdict_on(&call, &[]).await {
            Ok(PolicyVerdict::Allow) => {}
            _ => return written(),
        }
        match self.judged_context(&call, cancel.clone()).await {
            Ok(context) => JudgedPiece::File {
                path,
                context: Box::new(context),
            },
            Err(_) => written(),
        }
    }
}

fn text_call(tool: &str, arguments: Value, number: usize) -> ToolCall {
    ToolCall {
        id: format!("text_{tool}_{number}").as_str().into(),
        name: ToolName::from(tool),
        arguments,
    }
}

fn shell_call(line: &str, number: usize) -> ToolCall {
    text_call(SHELL, json!({"command": line}), number)
}

impl MarkedText {
    /// Runs and reads what the text wants, in order. None if the model was told
    /// the same already.
    pub(super) async fn finish(self, tools: &Toolset) -> Option<FinishedText> {
        let mut text = String::new();
        let mut files = String::new();
        for piece in self.pieces {
            match piece {
                JudgedPiece::Text(written) => text.push_str(&written),
                JudgedPiece::Run(run) => {
                    let (call, context) = *run;
                    let ran = tools.tools.execute(&call, context).await;
                    text.push_str(&shown(&ran));
                }
                JudgedPiece::File { path, context } => {
                    text.push('@');
                    text.push_str(&path);
                    files.push_str(&content(path, &context).await);
                }
            }
        }
        text.push_str(&files);
        match self.use_ {
            TextUse::Prompt => Some(FinishedText::Prompt(text)),
            TextUse::Note { key, around, told } => {
                let text = format!("{}{text}{}", around.0, around.1);
                let sha256 = ContentHash::hex_of(text.as_bytes());
                (told.as_ref() != Some(&sha256)).then(|| {
                    FinishedText::Note(SystemNote {
                        text,
                        tools: Vec::new(),
                        instructions: vec![InstructionFile {
                            path: key,
                            sha256: Some(sha256),
                        }],
                    })
                })
            }
        }
    }
}

/// The output of a command, as it stands in a text.
fn shown(ran: &Result<ToolResult, ToolError>) -> String {
    let value = match ran {
        Ok(ToolResult::Json { value }) => value,
        Ok(other) => return cut(&other.to_model_text()),
        Err(error) => return format!("[not run: {error}]"),
    };
    let stream = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
    let is = |name: &str| value.get(name).and_then(Value::as_bool) == Some(true);
    let stdout = cut(stream("stdout").trim_end());
    let status = value.get("exit_code").and_then(Value::as_i64);
    let ended = match status {
        _ if is("timed_out") => "stopped: it took too long".to_owned(),
        _ if is("cancelled") => "cancelled".to_owned(),
        Some(0) => return stdout,
        Some(code) => format!("failed with exit status {code}"),
        None => "failed".to_owned(),
    };
    let stderr = cut(stream("stderr").trim_end());
    let parts = [stdout, format!("[{ended}]"), stderr];
    let parts: Vec<String> = parts.into_iter().filter(|it| !it.is_empty()).collect();
    parts.join("\n")
}

fn cut(text: &str) -> String {
    if text.len() <= TEXT_COMMAND_OUTPUT_BYTES {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(TEXT_COMMAND_OUTPUT_BYTES);
    let kept = text.get(..end).unwrap_or_default();
    format!("{kept}\n[cut after {end} bytes; run the command for all of it]")
}

/// A file as it follows a text; nothing if there is no such file.
async fn content(path: String, context: &ToolContext) -> String {
    let policy = Arc::clone(&context.policy);
    let read = tokio::task::spawn_blocking(move || {
        let file = policy.door().open_read(Path::new(&path));
        let read = file.and_then(|mut file| file.read_bounded(TEXT_FILE_BYTES));
        let bytes = match read {
            Ok(bytes) => bytes,
            Err(error @ halter_tools::policy::PolicyError::ReadTooLarge { .. }) => {
                return format!("\n\n[@{path}: {error}; read it in parts]");
            }
            Err(_) => return String::new(),
        };
        match String::from_utf8(bytes) {
            Ok(text) => format!("\n\n<file path=\"{path}\">\n{}\n</file>", text.trim_end()),
            Err(_) => format!("\n\n[@{path} is no text; read it with `{READ}`]"),
        }
    });
    read.await.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_cut_at_its_limit() {
        let full = "é".repeat(TEXT_COMMAND_OUTPUT_BYTES / 2);
        assert_eq!(cut(&full), full);
        let over = cut(&format!("{full}x"));
        assert!(
            over.starts_with(&full) && over.contains("[cut after"),
            "{}",
            over.len()
        );
    }

    #[test]
    fn a_failure_shows_its_status_and_its_words() {
        let ran = |value: Value| shown(&Ok(ToolResult::json(value)));
        for (value, expected) in [
            (json!({"exit_code": 0, "stdout": "a\n", "stderr": "w"}), "a"),
            (
                json!({"exit_code": 3, "stdout": "a\n", "stderr": "bad\n"}),
                "a\n[failed with exit status 3]\nbad",
            ),
            (
                json!({"exit_code": 137, "stdout": "", "stderr": "", "timed_out": true}),
                "[stopped: it took too long]",
            ),
        ] {
            assert_eq!(ran(value), expected);
        }
        let error = ToolError::new(ToolErrorCode::PolicyDenied, "no");
        assert!(shown(&Err(error)).starts_with("[not run: "));
    }
}
