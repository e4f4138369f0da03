//! What was asked, and what the tools have returned since. Results are read
//! tolerantly: a field that is missing or of another type is nothing to say,
//! not a failure.

use crate::provider::ProviderRequest;
use halter_protocol::{ContentPart, Message, ToolCall, ToolError, ToolResult};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::HashMap;

/// The latest request of the user and everything since, read from the
/// transcript: the offline model remembers nothing itself.
pub struct Exchange<'a> {
    /// The latest words of the user.
    pub asked: String,
    /// Steps with tool calls since then.
    pub steps: usize,
    /// What the calls came to, in call order.
    pub findings: Vec<Finding<'a>>,
    /// The names of the tools on offer.
    pub tools: Vec<&'a str>,
}

/// What one call came to.
pub struct Finding<'a> {
    /// The tool.
    pub tool: &'a str,
    /// The arguments, where the call is known.
    pub arguments: Value,
    /// What the tool returned, or why it did not.
    pub outcome: Result<Cow<'a, Value>, &'a ToolError>,
}

impl<'a> Exchange<'a> {
    /// Reads the newest messages of the request, back to the user's.
    pub fn of(request: &'a ProviderRequest) -> Self {
        let tools = request.tools.iter();
        let mut exchange = Self {
            asked: String::new(),
            steps: 0,
            findings: Vec::new(),
            tools: tools.map(|tool| tool.name.as_str()).collect(),
        };
        let mut since: Vec<&'a Message> = Vec::new();
        for message in request.messages.iter_newest_first() {
            if let Message::User(user) = message.as_ref() {
                // What was attached or piped in follows the task in parts of its own.
                let task = user.parts.iter().find_map(|part| match part {
                    ContentPart::Text { text } => Some(text.clone()),
                    _ => None,
                });
                exchange.asked = task.unwrap_or_default();
                break;
            }
            since.push(message);
        }
        exchange.follow(since.into_iter().rev());
        exchange
    }

    fn follow(&mut self, messages: impl Iterator<Item = &'a Message>) {
        let mut calls: HashMap<String, ToolCall> = HashMap::new();
        for message in messages {
            match message {
                Message::Assistant(assistant) => {
                    let made = assistant.tool_calls();
                    calls = made.map(|call| (call.id.0.clone(), call)).collect();
                    self.steps += usize::from(!calls.is_empty());
                }
                Message::Tool(result) => {
                    let call = calls.remove(result.call_id.as_str());
                    self.findings.push(Finding {
                        tool: result.tool_name.as_str(),
                        arguments: call.map(|call| call.arguments).unwrap_or_default(),
                        outcome: match &result.error {
                            Some(error) => Err(error),
                            None => Ok(value_of(&result.content)),
                        },
                    });
                }
                _ => {}
            }
        }
    }

    /// True if a tool of this name may be called.
    pub fn offers(&self, tool: &str) -> bool {
        self.tools.contains(&tool)
    }

    /// What the calls of a tool returned, with their arguments; failures left
    /// out.
    pub fn returned<'b>(&'b self, tool: &'b str) -> impl Iterator<Item = (&'b Value, &'b Value)> {
        let findings = self.findings.iter();
        findings
            .filter(move |finding| finding.tool == tool)
            .filter_map(|finding| {
                let value = finding.outcome.as_ref().ok()?;
                Some((&finding.arguments, value.as_ref()))
            })
    }

    /// The calls that failed, and why.
    pub fn failures(&self) -> impl Iterator<Item = (&Finding<'a>, &'a ToolError)> {
        let findings = self.findings.iter();
        findings.filter_map(|finding| Some((finding, *finding.outcome.as_ref().err()?)))
    }
}

fn value_of(result: &ToolResult) -> Cow<'_, Value> {
    match result {
        ToolResult::Json { value } => Cow::Borrowed(value),
        ToolResult::Text { text } => {
            Cow::Owned(serde_json::from_str(text).unwrap_or_else(|_| Value::from(text.as_str())))
        }
        ToolResult::Parts { .. } => Cow::Owned(Value::from(result.to_model_text())),
        _ => Cow::Owned(Value::Null),
    }
}

/// A text field, empty where there is none.
pub fn text_of<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// A number field.
pub fn number_of(value: &Value, field: &str) -> Option<u64> {
    value.get(field)?.as_u64()
}

/// The rows in a result of `glob` or `grep`.
pub fn rows(value: &Value) -> &[Value] {
    let list = value
        .as_array()
        .or_else(|| value.get("matches")?.as_array());
    list.map(Vec::as_slice).unwrap_or_default()
}

/// The paths of files in a result of `glob`.
pub fn paths_in(value: &Value) -> impl Iterator<Item = &str> {
    let files = rows(value)
        .iter()
        .filter(|row| text_of(row, "file_type") != "dir");
    files.filter_map(|row| row.as_str().or_else(|| row.get("path")?.as_str()))
}

/// The text of a file in a result of `read`.
pub fn content_of(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| text_of(value, "content"))
}
