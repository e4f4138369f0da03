//! Tools that are loaded in the course of a conversation, for services that take
//! tools before it only.
//!
//! A longer list of tools would have such a service read the whole conversation
//! afresh. So the result that loads a tool tells of it in words, and one fixed
//! tool, `call_tool`, carries its calls. Only requests and answers know of it: what
//! comes out of a provider is a call of the tool that is meant.

use halter_protocol::{
    AssistantPart, BlockId, CALL_TOOL, ContentPart, Message, OpaquePart, StreamEvent, TOOL_SEARCH,
    ToolCallId, ToolCapabilities, ToolConcurrency, ToolMessage, ToolName, ToolResult, ToolSpec,
};
use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::Arc;

const DESCRIPTION: &str = "Call a tool that tool_search loaded.";

fn spec() -> ToolSpec {
    ToolSpec {
        name: ToolName::from(CALL_TOOL),
        description: DESCRIPTION.to_owned(),
        input_schema: json!({
            "type": "object",
            "properties": {"name": {"type": "string"}, "arguments": {"type": "object"}},
            "required": ["name", "arguments"],
        }),
        concurrency: ToolConcurrency::Exclusive,
        capabilities: ToolCapabilities::default(),
        provider_aliases: IndexMap::new(),
    }
}

/// True if some tool of the session itself has the name.
fn is_taken(tools: &[ToolSpec]) -> bool {
    tools.iter().any(|tool| tool.name.as_str() == CALL_TOOL)
}

/// The tools of a conversation as a service is told of them that takes none later.
#[derive(Default)]
pub(super) struct ToldTools {
    given: Arc<[ToolSpec]>,
    offered: Arc<[ToolSpec]>,
    /// Whether `call_tool` is offered: where tools can be loaded.
    carries: bool,
    /// Those that a result tells of.
    told: HashSet<ToolName>,
}

impl ToldTools {
    /// The tools to offer from the first request on.
    pub fn offered(&mut self, tools: &Arc<[ToolSpec]>) -> &Arc<[ToolSpec]> {
        if !Arc::ptr_eq(&self.given, tools) {
            self.given = Arc::clone(tools);
            let loads = tools.iter().any(|tool| tool.name.as_str() == TOOL_SEARCH);
            self.carries = loads && !is_taken(tools);
            self.offered = match self.carries {
                true => tools.iter().cloned().chain([spec()]).collect(),
                false => Arc::clone(tools),
            };
        }
        &self.offered
    }

    /// The loaded tools that no message tells of any more, or ever did. They have
    /// to stand with the others; a compaction, which cuts anyway, makes them so.
    pub fn untold(
        &self,
        loaded: &Arc<[Arc<ToolSpec>]>,
        new: &[Arc<Message>],
    ) -> Arc<[Arc<ToolSpec>]> {
        let telling = new.iter().flat_map(|message| loaded_by(message));
        let telling: HashSet<&ToolName> = telling.filter(|_| self.carries).collect();
        let is_told = |name| self.told.contains(name) || telling.contains(name);
        let untold = loaded.iter().filter(|tool| !is_told(&tool.name));
        untold.cloned().collect()
    }

    /// New messages as the service is sent them.
    pub fn translate(
        &mut self,
        loaded: &[Arc<ToolSpec>],
        new: Vec<Arc<Message>>,
    ) -> Vec<Arc<Message>> {
        if !self.carries {
            return new;
        }
        let mut translated = Vec::with_capacity(new.len());
        for (place, message) in new.iter().enumerate() {
            translated.push(match message.as_ref() {
                Message::Assistant(_) => {
                    // A call that came too early loads its tool: it is shown as it
                    // should have been made.
                    let rest = new.iter().skip(place + 1);
                    let results = rest.take_while(|it| matches!(it.as_ref(), Message::Tool(_)));
                    let names = results.flat_map(|result| loaded_by(result));
                    self.told.extend(names.cloned());
                    self.carried(message)
                }
                Message::Tool(result) if !result.loaded.is_empty() => {
                    Arc::new(Message::Tool(with_schemas(result, loaded)))
                }
                _ => Arc::clone(message),
            });
        }
        translated
    }

    /// The message with calls of told tools as calls of `call_tool`.
    fn carried(&self, message: &Arc<Message>) -> Arc<Message> {
        let mut message = Arc::clone(message);
        let is_carried = |part: &AssistantPart| matches!(part, AssistantPart::ToolCall { name, .. } if self.told.contains(name));
        let has_any = matches!(
            message.as_ref(),
            Message::Assistant(answer) if answer.parts.iter().any(is_carried)
        );
        if has_any && let Message::Assistant(answer) = Arc::make_mut(&mut message) {
            for part in answer.parts.iter_mut().filter(|part| is_carried(part)) {
                if let AssistantPart::ToolCall {
                    name, arguments, ..
                } = part
                {
                    *arguments = json!({"name": name, "arguments": arguments.take()});
                    *name = ToolName::from(CALL_TOOL);
                }
            }
        }
        message
    }
}

fn loaded_by(message: &Message) -> &[ToolName] {
    match message {
        Message::Tool(result) => &result.loaded,
        _ => &[],
    }
}

/// The result with what the model must know of the tools that it loads.
fn with_schemas(result: &ToolMessage, loaded: &[Arc<ToolSpec>]) -> ToolMessage {
    let mut text = format!("\n\nWith {CALL_TOOL} you can call:");
    for name in &result.loaded {
        if let Some(spec) = loaded.iter().find(|spec| spec.name == *name) {
            let told = json!({
                "name": spec.name,
                "description": spec.description,
                "parameters": spec.input_schema,
            });
            text.push_str(&format!("\n{told}"));
        }
    }
    let mut result = result.clone();
    if let Some(error) = &mut result.error {
        error.message.push_str(&text);
        return result;
    }
    result.content = Arc::new(match result.content.as_ref() {
        ToolResult::Parts { parts } => {
            let more = ContentPart::text(text.trim_start());
            ToolResult::parts(parts.iter().cloned().chain([more]))
        }
        other => ToolResult::text(other.to_model_text() + &text),
    });
    result
}

/// Turns calls of `call_tool` in an answer into calls of the tools that are meant.
pub(super) struct Unwrapping {
    /// No tool of the session itself has the name.
    applies: bool,
    /// Calls whose input is not complete, oldest first.
    open: Vec<OpenCall>,
}

struct OpenCall {
    block: BlockId,
    id: ToolCallId,
    input: String,
}

/// What a call of `call_tool` says.
#[derive(Deserialize)]
struct Carried {
    name: ToolName,
    #[serde(default)]
    arguments: Value,
}

impl Unwrapping {
    pub fn new(tools: &[ToolSpec]) -> Self {
        Self {
            applies: !is_taken(tools),
            open: Vec::new(),
        }
    }

    /// The events that stand for one: none while a call is not complete.
    pub fn take(&mut self, event: StreamEvent) -> Vec<StreamEvent> {
        match event {
            StreamEvent::ToolCallStart {
                id: block,
                tool_call_id: id,
                name,
            } if self.applies && name.as_str() == CALL_TOOL => {
                let input = String::new();
                self.open.push(OpenCall { block, id, input });
                Vec::new()
            }
            StreamEvent::ToolArgsDelta { id, delta } => match self.opened(&id) {
                Some(place) => {
                    if let Some(call) = self.open.get_mut(place) {
                        call.input.push_str(&delta);
                    }
                    Vec::new()
                }
                None => vec![StreamEvent::ToolArgsDelta { id, delta }],
            },
            StreamEvent::ToolCallEnd { id, opaque } => match self.opened(&id) {
                Some(place) => self.open.remove(place).unwrapped(opaque),
                None => vec![StreamEvent::ToolCallEnd { id, opaque }],
            },
            other => vec![other],
        }
    }

    fn opened(&self, block: &BlockId) -> Option<usize> {
        self.open.iter().position(|call| call.block == *block)
    }
}

impl OpenCall {
    /// The call of the tool that is meant; as it came, if it names none.
    fn unwrapped(self, opaque: Option<OpaquePart>) -> Vec<StreamEvent> {
        let carried: Result<Carried, _> = serde_json::from_str(&self.input);
        let (name, delta) = match carried {
            Ok(carried) => (carried.name, inner_input(&carried.arguments)),
            Err(_) => (ToolName::from(CALL_TOOL), self.input),
        };
        let id = self.block;
        vec![
            StreamEvent::ToolCallStart {
                id: id.clone(),
                tool_call_id: self.id,
                name,
            },
            StreamEvent::ToolArgsDelta {
                id: id.clone(),
                delta,
            },
            StreamEvent::ToolCallEnd { id, opaque },
        ]
    }
}

/// The arguments as JSON text. Some models write them as a text that is JSON.
fn inner_input(arguments: &Value) -> String {
    match arguments {
        Value::Null => "{}".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(name: &str, pieces: &[&str]) -> Vec<StreamEvent> {
        let block = BlockId::from("b");
        let mut events = vec![StreamEvent::ToolCallStart {
            id: block.clone(),
            tool_call_id: "call_1".into(),
            name: name.into(),
        }];
        events.extend(pieces.iter().map(|piece| StreamEvent::ToolArgsDelta {
            id: block.clone(),
            delta: (*piece).to_owned(),
        }));
        let opaque = None;
        events.push(StreamEvent::ToolCallEnd { id: block, opaque });
        events
    }

    fn unwrapped(tools: &[ToolSpec], given: Vec<StreamEvent>) -> Vec<StreamEvent> {
        let mut unwrapping = Unwrapping::new(tools);
        given
            .into_iter()
            .flat_map(|event| unwrapping.take(event))
            .collect()
    }

    #[test]
    fn a_carried_call_becomes_a_call_of_the_tool_that_is_meant() {
        for (pieces, name, input) in [
            (
                &[r#"{"name":"task","argum"#, r#"ents":{"a":[1]}}"#][..],
                "task",
                r#"{"a":[1]}"#,
            ),
            (&[r#"{"name":"task"}"#], "task", "{}"),
            (
                &[r#"{"name":"task","arguments":"{\"a\":1}"}"#],
                "task",
                r#"{"a":1}"#,
            ),
            (&[r#"{"name":"task","arguments":[1]}"#], "task", "[1]"),
            (&[r#"{"tool":"task"}"#], CALL_TOOL, r#"{"tool":"task"}"#),
            (&[r#"{"na"#], CALL_TOOL, r#"{"na"#),
        ] {
            let got = unwrapped(&[], events(CALL_TOOL, pieces));
            assert_eq!(got, events(name, &[input]), "{pieces:?}");
        }
    }

    #[test]
    fn other_calls_and_a_tool_of_that_very_name_pass() {
        let direct = events("task", &["{\"a\"", ":1}"]);
        assert_eq!(unwrapped(&[], direct.clone()), direct);
        let own = events(CALL_TOOL, &["{\"name\":\"task\"}"]);
        assert_eq!(unwrapped(&[spec()], own.clone()), own);
    }
}
