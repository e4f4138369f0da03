//! What was asked, and what the tools have returned since. Results are read
//! tolerantly: a field that is missing or of another type is nothing to say,
//! not a failure.

use crate::provider::ProviderRequest;
use halter_protocol::{ContentPart, Message, ToolError, ToolResult};
use serde_json::Value;

/// The latest request of the user and everything since, read from the
/// transcript: the offline model remembers nothing itself.
pub struct CurrentTurn<'a> {
    /// The latest words of the user.
    pub asked: String,
    /// Steps with tool calls since then.
    pub steps: usize,
    /// The names of the tools on offer.
    pub tools: Vec<&'a str>,
    findings: Vec<Finding<'a>>,
}

/// What one call came to.
pub struct Finding<'a> {
    pub tool: &'a str,
    /// Null where the call is not known.
    pub arguments: Value,
    pub returned: Result<Value, &'a ToolError>,
}

impl<'a> CurrentTurn<'a> {
    /// Reads the newest messages of the request, back to the user's.
    pub fn of(request: &'a ProviderRequest) -> Self {
        let tools = request.tools.iter().map(|tool| tool.name.as_str());
        let mut turn = Self {
            asked: String::new(),
            steps: 0,
            tools: tools.collect(),
            findings: Vec::new(),
        };
        let mut since: Vec<&'a Message> = Vec::new();
        for message in request.messages.iter_newest_first() {
            if let Message::User(user) = message.as_ref() {
                // What was attached or piped in follows the task in parts of its own.
                let task = user.parts.iter().find_map(|part| match part {
                    ContentPart::Text { text } => Some(text.clone()),
                    _ => None,
                });
                turn.asked = task.unwrap_or_default();
                break;
            }
            since.push(message);
        }
        let mut calls = Vec::new();
        for message in since.into_iter().rev() {
            match message {
                Message::Assistant(assistant) => {
                    calls = assistant.tool_calls().collect();
                    turn.steps += usize::from(!calls.is_empty());
                }
                Message::Tool(result) => {
                    let call = calls.iter().find(|call| call.id == result.call_id);
                    turn.findings.push(Finding {
                        tool: result.tool_name.as_str(),
                        arguments: call.map(|call| call.arguments.clone()).unwrap_or_default(),
                        returned: match &result.error {
                            Some(error) => Err(error),
                            None => Ok(value_of(&result.content)),
                        },
                    });
                }
                _ => {}
            }
        }
        turn
    }

    /// What the calls of a tool returned, with their arguments; failures left
    /// out.
    pub fn returned(&self, tool: &str) -> impl Iterator<Item = (&Value, &Value)> {
        let of_tool = self.findings.iter().filter(move |found| found.tool == tool);
        of_tool.filter_map(|found| Some((&found.arguments, found.returned.as_ref().ok()?)))
    }

    /// The calls that failed, and why.
    pub fn failures(&self) -> impl Iterator<Item = (&Finding<'a>, &'a ToolError)> {
        let findings = self.findings.iter();
        findings.filter_map(|found| Some((found, *found.returned.as_ref().err()?)))
    }

    /// True if no tool was called yet.
    pub fn is_fresh(&self) -> bool {
        self.findings.is_empty()
    }
}

fn value_of(result: &ToolResult) -> Value {
    match result {
        ToolResult::Json { value } => value.clone(),
        ToolResult::Text { text } => {
            serde_json::from_str(text).unwrap_or_else(|_| Value::from(text.as_str()))
        }
        result => Value::from(result.to_model_text()),
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
    let listed = value.get("matches").unwrap_or(value).as_array();
    listed.map(Vec::as_slice).unwrap_or_default()
}

/// The paths in a result of `glob`.
pub fn paths_in(value: &Value) -> impl Iterator<Item = &str> {
    let rows = rows(value).iter();
    rows.filter_map(|row| row.as_str().or_else(|| row.get("path")?.as_str()))
}

/// The text of a file in a result of `read`.
pub fn content_of(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| text_of(value, "content"))
}
