//! What the wires do alike: taking what stands before the messages, telling
//! their own model's answers from others, and the headers of a stream.

use halter_protocol::{
    AssembledPrompt, AssistantMessage, ResolvedModel, ToolMessage, ToolName, ToolSpec,
};
use std::collections::HashSet;
use std::sync::Arc;

/// The prompt and the tools of a conversation. They are given with every
/// request and seldom differ.
#[derive(Default)]
pub(super) struct Given {
    pub prompt: AssembledPrompt,
    pub tools: Arc<[ToolSpec]>,
}

/// What differs from what was given before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Changed {
    pub prompt: bool,
    pub tools: bool,
}

impl Given {
    /// Takes what is different. Looks at addresses first: both are shared from
    /// request to request.
    pub fn set(&mut self, prompt: &AssembledPrompt, tools: &Arc<[ToolSpec]>) -> Changed {
        let same_prompt = std::ptr::eq(self.prompt.segments(), prompt.segments());
        let changed = Changed {
            prompt: !same_prompt && self.prompt != *prompt,
            tools: !Arc::ptr_eq(&self.tools, tools) && self.tools != *tools,
        };
        if changed.prompt {
            self.prompt = prompt.clone();
        }
        if changed.tools {
            self.tools = Arc::clone(tools);
        }
        changed
    }
}

/// The deferred tools that were loaded in a conversation.
#[derive(Default)]
pub(super) struct Loaded {
    tools: Arc<[Arc<ToolSpec>]>,
    /// Those that stand with the message that loaded them.
    placed: HashSet<ToolName>,
    /// They stand with messages; else behind the other tools.
    by_message: bool,
}

impl Loaded {
    /// Has tools stand with the messages that load them.
    pub fn place_with_messages(&mut self) {
        self.by_message = true;
    }

    /// Takes what is loaded by now; true if it is more than before.
    pub fn set(&mut self, tools: &Arc<[Arc<ToolSpec>]>) -> bool {
        let changed = self.tools != *tools;
        if changed {
            self.tools = Arc::clone(tools);
        }
        changed
    }

    /// The tools that a message loads, where they stand with it.
    pub fn place(&mut self, message: &ToolMessage) -> Vec<Arc<ToolSpec>> {
        if !self.by_message {
            return Vec::new();
        }
        let mut placed = Vec::new();
        for name in &message.loaded {
            let tool = self.tools.iter().find(|tool| tool.name == *name);
            if let Some(tool) = tool.filter(|_| self.placed.insert(name.clone())) {
                placed.push(Arc::clone(tool));
            }
        }
        placed
    }

    /// The tools that stand behind the others: all, or those whose message is
    /// no longer there.
    pub fn behind(&self) -> impl Iterator<Item = &ToolSpec> {
        let tools = self.tools.iter().map(AsRef::as_ref);
        tools.filter(|tool| !self.placed.contains(&tool.name))
    }

    /// The tools that stand with messages.
    pub fn with_messages(&self) -> impl Iterator<Item = &ToolSpec> {
        let tools = self.tools.iter().map(AsRef::as_ref);
        tools.filter(|tool| self.placed.contains(&tool.name))
    }
}

/// True if the model that is asked wrote the message.
pub(super) fn is_own(message: &AssistantMessage, model: &ResolvedModel) -> bool {
    let meta = &message.replay_meta;
    meta.provider_name.as_ref() == Some(&model.provider)
        && meta.model.as_deref() == Some(model.model.as_str())
}

/// The headers of a request for a stream, with the key in one of them.
pub(super) fn stream_headers(key: Option<(&str, String)>) -> Vec<(String, String)> {
    let mut headers = vec![
        ("content-type".to_owned(), "application/json".to_owned()),
        ("accept".to_owned(), "text/event-stream".to_owned()),
    ];
    headers.extend(key.map(|(name, value)| (name.to_owned(), value)));
    headers
}

/// The key as a bearer token.
pub(super) fn bearer(key: &str) -> (&'static str, String) {
    ("authorization", format!("Bearer {key}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use halter_protocol::{PromptSegment, PromptSegmentKind};

    #[test]
    fn only_what_differs_is_taken() {
        let prompt = |text: &str| {
            AssembledPrompt::new([PromptSegment::new(PromptSegmentKind::System, text)])
        };
        let none: Arc<[ToolSpec]> = Arc::from([]);
        let mut given = Given::default();
        let changed = |prompt, tools| Changed { prompt, tools };
        assert_eq!(given.set(&prompt("a"), &none), changed(true, false));
        assert_eq!(given.set(&prompt("a"), &none), changed(false, false));
        let tool: ToolSpec = serde_json::from_value(serde_json::json!({
            "name": "read", "description": "", "input_schema": {},
        }))
        .unwrap();
        let one: Arc<[ToolSpec]> = Arc::from([tool]);
        assert_eq!(given.set(&prompt("b"), &one), changed(true, true));
        assert_eq!(given.prompt, prompt("b"));
        assert_eq!(given.tools, one);
    }
}
