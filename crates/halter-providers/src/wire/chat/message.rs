//! Messages after the system prompt, as the wire writes them.

use super::content::Content;
use super::details;
use super::kept::{KeptCall, KeptReasoning, kept};
use crate::limits::{CHAT_CALL_ID_BYTES, CHAT_TOOL_NAME_BYTES};
use crate::wire::common::is_own;
use crate::wire::names::{CallIds, ToolNames};
use halter_protocol::{AssistantMessage, AssistantPart, ResolvedModel, ToolCallId};
use serde::Serialize;
use serde_json::{Map, Value};

/// What tools and calls of a conversation are called on the wire.
pub(super) struct Names {
    pub tools: ToolNames,
    pub calls: CallIds,
}

impl Names {
    pub fn new(model: &ResolvedModel) -> Self {
        Self {
            tools: ToolNames::new(model.provider_kind.clone(), CHAT_TOOL_NAME_BYTES),
            calls: CallIds::new(CHAT_CALL_ID_BYTES),
        }
    }
}

/// A message that is a role and its content.
#[derive(Serialize)]
pub(super) struct PlainMessage {
    pub role: &'static str,
    pub content: Content,
}

/// A tool's answer.
#[derive(Serialize)]
pub(super) struct ResultMessage<'a> {
    role: &'static str,
    tool_call_id: &'a str,
    content: String,
}

impl<'a> ResultMessage<'a> {
    pub fn new(call: &'a ToolCallId, content: String, names: &'a Names) -> Self {
        Self {
            role: "tool",
            tool_call_id: names.calls.written(call),
            content,
        }
    }
}

/// What a model said.
#[derive(Serialize)]
pub(super) struct AssistantTurn {
    role: &'static str,
    /// Empty beside calls: not every server takes `null`.
    content: String,
    /// What the model thought, under the names it came with.
    #[serde(flatten)]
    reasoning: Map<String, Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call>,
}

#[derive(Serialize)]
struct Call {
    id: String,
    r#type: &'static str,
    function: Function,
    #[serde(flatten)]
    members: Map<String, Value>,
}

#[derive(Serialize)]
struct Function {
    name: String,
    arguments: String,
}

impl AssistantTurn {
    /// The answer for a model; none if nothing of it is left to send.
    pub fn new(
        message: &AssistantMessage,
        model: &ResolvedModel,
        names: &mut Names,
    ) -> Option<Self> {
        let own = is_own(message, model);
        let text = message.plain_text();
        let tool_calls: Vec<Call> = message
            .parts
            .iter()
            .filter_map(|part| call(part, own, names))
            .collect();
        let mut reasoning = Map::new();
        if own {
            add_reasoning(message, !tool_calls.is_empty(), &mut reasoning);
        }
        if text.is_empty() && tool_calls.is_empty() && reasoning.is_empty() {
            return None;
        }
        Some(Self {
            role: "assistant",
            content: text,
            reasoning,
            tool_calls,
        })
    }
}

fn call(part: &AssistantPart, own: bool, names: &mut Names) -> Option<Call> {
    let AssistantPart::ToolCall {
        id,
        name,
        arguments,
        malformed_arguments,
        opaque,
    } = part
    else {
        return None;
    };
    // A model knows its own ids, however odd they are.
    let (kept, id): (KeptCall, String) = match own {
        true => {
            names.calls.keep(id);
            (kept(opaque.as_ref()), id.0.clone())
        }
        false => (KeptCall::default(), names.calls.assign(id)),
    };
    // Servers read the arguments of past calls as JSON: what is none goes
    // back as the empty object it stands for. The text of a call that carried
    // another one belongs to that call only.
    let is_of_call =
        |text: &String| serde_json::from_str(text).is_ok_and(|it: Value| it == *arguments);
    let written = kept.arguments.filter(|_| malformed_arguments.is_none());
    let written = written.filter(is_of_call);
    Some(Call {
        id,
        r#type: "function",
        function: Function {
            name: names.tools.sent(name).into_owned(),
            arguments: written.unwrap_or_else(|| arguments.to_string()),
        },
        members: kept.members,
    })
}

/// Adds details and blocks for every message, a text under the name it came with only
/// to messages with calls: some models demand it there, others refuse it
/// elsewhere. An empty one is refused by all.
fn add_reasoning(message: &AssistantMessage, has_calls: bool, out: &mut Map<String, Value>) {
    let (mut details, mut blocks) = (Vec::new(), Vec::new());
    let mut texts: Option<(String, String)> = None;
    for part in &message.parts {
        let AssistantPart::Thinking { text, opaque } = part else {
            continue;
        };
        let kept: KeptReasoning = kept(opaque.as_ref());
        for detail in kept.details {
            details::merge(&mut details, detail);
        }
        blocks.extend(kept.blocks);
        if has_calls {
            out.extend(kept.members);
        }
        match (&mut texts, kept.field) {
            (Some((ours, all)), Some(field)) if *ours == field => all.push_str(text),
            (None, Some(field)) => texts = Some((field, text.clone())),
            _ => {}
        }
    }
    match texts {
        _ if !blocks.is_empty() => {
            out.insert("thinking_blocks".to_owned(), Value::Array(blocks));
        }
        _ if !details.is_empty() => {
            out.insert("reasoning_details".to_owned(), Value::Array(details));
        }
        Some((field, text)) if has_calls && !text.is_empty() => {
            out.insert(field, Value::String(text));
        }
        _ => {}
    }
}
