//! Assembles a model's streamed answer into the parts of a message.

use halter_protocol::{
    AssistantPart, BlockId, OpaquePart, StopReason, StreamEvent, ToolCallId, ToolName, Usage,
};
use halter_providers::tokens::of_bytes;
use serde_json::{Map, Value};
use std::collections::HashSet;

/// A model's answer while it streams.
#[derive(Debug, Default)]
pub struct Answer {
    blocks: Vec<Block>,
    calls: HashSet<ToolCallId>,
    usage: Option<Usage>,
    stop_reason: Option<StopReason>,
}

#[derive(Debug)]
struct Block {
    id: BlockId,
    body: Body,
    ended: bool,
    opaque: Option<OpaquePart>,
}

#[derive(Debug)]
enum Body {
    Text(String),
    Thinking(String),
    ToolCall {
        id: ToolCallId,
        name: ToolName,
        arguments: String,
    },
}

/// What an event of the stream means to the engine.
#[derive(Debug, PartialEq)]
pub enum Progress {
    /// Nothing to show.
    Quiet,
    /// Text to show.
    Text(String),
    /// Reasoning to show.
    Thinking(String),
    /// A tool call is complete.
    Call(AssistantPart),
    /// Something the user should know.
    Warning(String),
    /// The answer is complete.
    Ended,
}

impl Answer {
    /// True if nothing was said.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Takes in one event of the stream.
    pub fn take(&mut self, event: StreamEvent) -> Progress {
        match event {
            StreamEvent::TextStart { id } => self.start(id, Body::Text(String::new())),
            StreamEvent::ThinkingStart { id } => self.start(id, Body::Thinking(String::new())),
            StreamEvent::ToolCallStart {
                id,
                tool_call_id,
                name,
            } => {
                if !self.calls.insert(tool_call_id.clone()) {
                    return Progress::Warning(format!(
                        "the model used the call id '{tool_call_id}' twice; the second call is ignored"
                    ));
                }
                self.start(
                    id,
                    Body::ToolCall {
                        id: tool_call_id,
                        name,
                        arguments: String::new(),
                    },
                )
            }
            StreamEvent::TextDelta { id, delta } | StreamEvent::ThinkingDelta { id, delta } => {
                self.grow(&id, delta)
            }
            StreamEvent::ToolArgsDelta { id, delta } => {
                if let Some(Body::ToolCall { arguments, .. }) = self.body(&id) {
                    arguments.push_str(&delta);
                }
                Progress::Quiet
            }
            StreamEvent::TextEnd { id, opaque }
            | StreamEvent::ThinkingEnd { id, opaque }
            | StreamEvent::ToolCallEnd { id, opaque } => self.end(&id, opaque),
            StreamEvent::UsageUpdate { usage } => {
                self.usage = Some(usage);
                Progress::Quiet
            }
            StreamEvent::MessageEnd { stop_reason, .. } => {
                self.stop_reason = Some(stop_reason);
                Progress::Ended
            }
            StreamEvent::ProviderWarning { message } => Progress::Warning(message),
            _ => Progress::Quiet,
        }
    }

    /// What the call used, as far as the provider said.
    pub fn usage(&self) -> Option<Usage> {
        self.usage
    }

    /// What was said so far, in tokens, estimated.
    pub fn tokens(&self) -> u64 {
        let bytes = |block: &Block| match &block.body {
            Body::Text(text) | Body::Thinking(text) => text.len(),
            Body::ToolCall { arguments, .. } => arguments.len(),
        };
        of_bytes(self.blocks.iter().map(bytes).sum())
    }

    /// Why the model stopped; none if the stream was cut off.
    pub fn stop_reason(&self) -> Option<&StopReason> {
        self.stop_reason.as_ref()
    }

    /// The parts of the message. Of an answer that was cut off, the parts that
    /// were complete and the text that was shown.
    pub fn into_parts(self) -> Vec<AssistantPart> {
        self.blocks
            .into_iter()
            .filter_map(Block::into_part)
            .collect()
    }

    fn start(&mut self, id: BlockId, body: Body) -> Progress {
        self.blocks.push(Block {
            id,
            body,
            ended: false,
            opaque: None,
        });
        Progress::Quiet
    }

    fn grow(&mut self, id: &BlockId, delta: String) -> Progress {
        match self.body(id) {
            Some(Body::Text(text)) => {
                text.push_str(&delta);
                Progress::Text(delta)
            }
            Some(Body::Thinking(text)) => {
                text.push_str(&delta);
                Progress::Thinking(delta)
            }
            _ => Progress::Quiet,
        }
    }

    fn end(&mut self, id: &BlockId, opaque: Option<OpaquePart>) -> Progress {
        let Some(block) = self.open_block(id) else {
            return Progress::Quiet;
        };
        block.ended = true;
        block.opaque = opaque;
        match block.call_part() {
            Some(part) => Progress::Call(part),
            None => Progress::Quiet,
        }
    }

    fn body(&mut self, id: &BlockId) -> Option<&mut Body> {
        self.open_block(id).map(|block| &mut block.body)
    }

    /// The newest open block of that id: streams grow the last block, so the
    /// search is short.
    fn open_block(&mut self, id: &BlockId) -> Option<&mut Block> {
        self.blocks
            .iter_mut()
            .rev()
            .find(|block| block.id == *id && !block.ended)
    }
}

impl Block {
    fn call_part(&self) -> Option<AssistantPart> {
        let Body::ToolCall {
            id,
            name,
            arguments,
        } = &self.body
        else {
            return None;
        };
        let (arguments, malformed_arguments) = parse_arguments(arguments);
        Some(AssistantPart::ToolCall {
            id: id.clone(),
            name: name.clone(),
            arguments,
            malformed_arguments,
            opaque: self.opaque.clone(),
        })
    }

    fn into_part(self) -> Option<AssistantPart> {
        match self.body {
            Body::ToolCall { .. } if !self.ended => None,
            Body::ToolCall { .. } => self.call_part(),
            Body::Text(text) if text.is_empty() && self.opaque.is_none() => None,
            Body::Text(text) => Some(AssistantPart::Text {
                text,
                opaque: self.opaque,
            }),
            // Reasoning that was cut off has no signature: no provider takes
            // it back.
            Body::Thinking(_) if !self.ended => None,
            Body::Thinking(text) if text.is_empty() && self.opaque.is_none() => None,
            Body::Thinking(text) => Some(AssistantPart::Thinking {
                text,
                opaque: self.opaque,
            }),
        }
    }
}

/// The arguments as an object, or an empty one and what was written instead.
/// A call without any argument text has no arguments.
fn parse_arguments(written: &str) -> (Value, Option<String>) {
    if written.trim().is_empty() {
        return (Value::Object(Map::new()), None);
    }
    match serde_json::from_str::<Value>(written) {
        Ok(value @ Value::Object(_)) => (value, None),
        _ => (Value::Object(Map::new()), Some(written.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn call(id: &str, arguments: &[&str], end: bool) -> Vec<StreamEvent> {
        let mut events = vec![StreamEvent::ToolCallStart {
            id: id.into(),
            tool_call_id: id.into(),
            name: "read".into(),
        }];
        events.extend(arguments.iter().map(|delta| StreamEvent::ToolArgsDelta {
            id: id.into(),
            delta: (*delta).to_owned(),
        }));
        if end {
            events.push(StreamEvent::ToolCallEnd {
                id: id.into(),
                opaque: None,
            });
        }
        events
    }

    #[test]
    fn argument_chunks_join_into_one_object() {
        let mut answer = Answer::default();
        for event in call("a", &["{\"pa", "th\":", "\"x\"}"], true) {
            answer.take(event);
        }
        assert_eq!(
            answer.into_parts(),
            [AssistantPart::ToolCall {
                id: "a".into(),
                name: "read".into(),
                arguments: json!({"path": "x"}),
                malformed_arguments: None,
                opaque: None,
            }]
        );
    }

    #[test]
    fn a_call_that_was_cut_off_is_dropped() {
        let mut answer = Answer::default();
        for event in call("a", &["{\"pa"], false) {
            answer.take(event);
        }
        assert!(answer.into_parts().is_empty());
    }

    #[test]
    fn malformed_arguments_are_kept_beside_an_empty_object() {
        for written in ["{oops", "[1]", "3"] {
            assert_eq!(
                parse_arguments(written),
                (json!({}), Some(written.to_owned()))
            );
        }
        assert_eq!(parse_arguments("  "), (json!({}), None));
    }

    #[test]
    fn a_repeated_call_id_is_refused() {
        let mut answer = Answer::default();
        for event in call("a", &[], true) {
            answer.take(event);
        }
        let again = answer.take(call("a", &[], true).remove(0));
        assert!(matches!(again, Progress::Warning(_)));
        assert_eq!(answer.into_parts().len(), 1);
    }
}
