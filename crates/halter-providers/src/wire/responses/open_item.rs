//! An output item while it streams, and the block it becomes.

use super::decode::unreadable;
use halter_protocol::{BlockId, OpaquePart, ProviderError, StreamEvent};

/// An output item while it streams.
pub(super) struct OpenItem {
    pub index: u64,
    pub block: BlockId,
    pub kind: ItemKind,
    pub done: bool,
    /// What was shown of a message or reasoning, in bytes.
    pub shown: usize,
    /// What was shown of a call's arguments.
    pub arguments: String,
    pub summary_index: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ItemKind {
    Message,
    Reasoning,
    Call,
    Other,
}

impl ItemKind {
    pub fn of(kind: &str) -> Self {
        match kind {
            "message" => Self::Message,
            "reasoning" => Self::Reasoning,
            "function_call" => Self::Call,
            _ => Self::Other,
        }
    }
}

impl OpenItem {
    pub fn new(index: u64, block: BlockId, kind: ItemKind) -> Self {
        Self {
            index,
            block,
            kind,
            done: false,
            shown: 0,
            arguments: String::new(),
            summary_index: None,
        }
    }

    /// Grows the block.
    pub fn show(&mut self, delta: String, out: &mut Vec<StreamEvent>) {
        if delta.is_empty() {
            return;
        }
        self.shown += delta.len();
        let id = self.block.clone();
        out.push(match self.kind {
            ItemKind::Message => StreamEvent::TextDelta { id, delta },
            _ => StreamEvent::ThinkingDelta { id, delta },
        });
    }

    /// Shows what deltas have left out of the whole text.
    pub fn show_rest(&mut self, whole: &str, out: &mut Vec<StreamEvent>) {
        if let Some(rest) = whole.get(self.shown..) {
            self.show(rest.to_owned(), out);
        }
    }

    /// Shows what deltas have left out of the arguments. That they are those
    /// of the deltas is checked: a call must run as it was shown.
    pub fn complete_arguments(
        &mut self,
        whole: &str,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        let Some(rest) = whole.strip_prefix(self.arguments.as_str()) else {
            return Err(unreadable(
                "a function call whose arguments are not those it streamed",
            ));
        };
        if !rest.is_empty() {
            out.push(StreamEvent::ToolArgsDelta {
                id: self.block.clone(),
                delta: rest.to_owned(),
            });
        }
        Ok(())
    }

    /// Ends the block.
    pub fn finish(&mut self, opaque: Option<OpaquePart>, out: &mut Vec<StreamEvent>) {
        self.done = true;
        self.arguments = String::new();
        let id = self.block.clone();
        out.push(match self.kind {
            ItemKind::Message => StreamEvent::TextEnd { id, opaque },
            ItemKind::Call => StreamEvent::ToolCallEnd { id, opaque },
            ItemKind::Reasoning | ItemKind::Other => StreamEvent::ThinkingEnd { id, opaque },
        });
    }
}
