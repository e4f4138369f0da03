//! Writes an answer as events: ids are handed out, and blocks are ended
//! before the next one begins.

use halter_protocol::{BlockId, MessageId, StopReason, StreamEvent, ToolCallId, ToolName};

/// The events of one answer while it is written.
pub(crate) struct AnswerWriter {
    /// What all ids of this answer have in common; unique per answer.
    stem: String,
    blocks: usize,
    calls: usize,
    started: bool,
    open: Option<OpenBlock>,
    events: Vec<StreamEvent>,
}

struct OpenBlock {
    id: BlockId,
    kind: BlockKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum BlockKind {
    Text,
    Thinking,
    ToolCall,
}

impl AnswerWriter {
    pub fn new(stem: impl Into<String>) -> Self {
        Self {
            stem: stem.into(),
            blocks: 0,
            calls: 0,
            started: false,
            open: None,
            events: Vec::new(),
        }
    }

    /// The events written since the last time.
    pub fn take_events(&mut self) -> Vec<StreamEvent> {
        std::mem::take(&mut self.events)
    }

    /// The id the next call gets unless it brings its own.
    pub fn next_call_id(&mut self) -> ToolCallId {
        self.calls += 1;
        ToolCallId(format!("call_{}_{}", self.stem, self.calls))
    }

    /// Grows the open text block, or begins one.
    pub fn text(&mut self, delta: String) {
        let id = self.block(BlockKind::Text);
        self.events.push(StreamEvent::TextDelta { id, delta });
    }

    /// Grows the open reasoning block, or begins one.
    pub fn thinking(&mut self, delta: String) {
        let id = self.block(BlockKind::Thinking);
        self.events.push(StreamEvent::ThinkingDelta { id, delta });
    }

    /// Begins a tool call; its arguments follow.
    pub fn tool_call(&mut self, tool_call_id: ToolCallId, name: ToolName) {
        let id = self.open_block(BlockKind::ToolCall);
        self.events.push(StreamEvent::ToolCallStart {
            id,
            tool_call_id,
            name,
        });
    }

    /// Grows the arguments of the open tool call.
    pub fn arguments(&mut self, delta: String) {
        if let Some(OpenBlock {
            id,
            kind: BlockKind::ToolCall,
        }) = &self.open
        {
            let id = id.clone();
            self.events.push(StreamEvent::ToolArgsDelta { id, delta });
        }
    }

    /// An event that belongs to no block.
    pub fn event(&mut self, event: StreamEvent) {
        self.start();
        self.events.push(event);
    }

    /// Ends the open block, if any.
    pub fn end_block(&mut self) {
        let Some(OpenBlock { id, kind }) = self.open.take() else {
            return;
        };
        let opaque = None;
        self.events.push(match kind {
            BlockKind::Text => StreamEvent::TextEnd { id, opaque },
            BlockKind::Thinking => StreamEvent::ThinkingEnd { id, opaque },
            BlockKind::ToolCall => StreamEvent::ToolCallEnd { id, opaque },
        });
    }

    /// Ends the answer.
    pub fn end(&mut self, stop_reason: StopReason) {
        self.start();
        self.end_block();
        let id = self.message_id();
        self.events
            .push(StreamEvent::MessageEnd { id, stop_reason });
    }

    fn start(&mut self) {
        if !self.started {
            self.started = true;
            let id = self.message_id();
            self.events.push(StreamEvent::MessageStart { id });
        }
    }

    fn message_id(&self) -> MessageId {
        MessageId(format!("msg_{}", self.stem))
    }

    fn block(&mut self, kind: BlockKind) -> BlockId {
        match &self.open {
            Some(open) if open.kind == kind => open.id.clone(),
            _ => {
                let id = self.open_block(kind);
                self.events.push(match kind {
                    BlockKind::Thinking => StreamEvent::ThinkingStart { id: id.clone() },
                    _ => StreamEvent::TextStart { id: id.clone() },
                });
                id
            }
        }
    }

    fn open_block(&mut self, kind: BlockKind) -> BlockId {
        self.start();
        self.end_block();
        self.blocks += 1;
        let id = BlockId(format!("blk_{}_{}", self.stem, self.blocks));
        self.open = Some(OpenBlock {
            id: id.clone(),
            kind,
        });
        id
    }
}
