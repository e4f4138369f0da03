//! A provider that makes one tool call, so that a call from the command line
//! takes the same way as a call from a model.

use async_trait::async_trait;
use futures::StreamExt;
use halter::providers::{Provider, ProviderCapabilities, ProviderRequest, StreamEvent};
use halter_protocol::{BlockId, Message, MessageId, ProviderError, StopReason, ToolCall};
use tokio_util::sync::CancellationToken;

/// Makes its call, then is done.
pub struct OneCall {
    call: ToolCall,
}

impl OneCall {
    /// A provider of this call.
    pub fn new(call: ToolCall) -> Self {
        Self { call }
    }

    fn call_events(&self) -> Vec<StreamEvent> {
        let (id, block) = (MessageId::new(), BlockId::new());
        vec![
            StreamEvent::MessageStart { id: id.clone() },
            StreamEvent::ToolCallStart {
                id: block.clone(),
                tool_call_id: self.call.id.clone(),
                name: self.call.name.clone(),
            },
            StreamEvent::ToolArgsDelta {
                id: block.clone(),
                delta: self.call.arguments.to_string(),
            },
            StreamEvent::ToolCallEnd {
                id: block,
                opaque: None,
            },
            StreamEvent::MessageEnd {
                id,
                stop_reason: StopReason::ToolUse,
            },
        ]
    }
}

fn closing_events() -> Vec<StreamEvent> {
    let (id, block) = (MessageId::new(), BlockId::new());
    vec![
        StreamEvent::MessageStart { id: id.clone() },
        StreamEvent::TextStart { id: block.clone() },
        StreamEvent::TextDelta {
            id: block.clone(),
            delta: "done".to_owned(),
        },
        StreamEvent::TextEnd {
            id: block,
            opaque: None,
        },
        StreamEvent::MessageEnd {
            id,
            stop_reason: StopReason::EndTurn,
        },
    ]
}

#[async_trait]
impl Provider for OneCall {
    fn capabilities(&self) -> ProviderCapabilities {
        ProviderCapabilities::new()
    }

    async fn stream(
        &self,
        request: ProviderRequest,
        _cancel: CancellationToken,
    ) -> anyhow::Result<futures::stream::BoxStream<'static, Result<StreamEvent, ProviderError>>>
    {
        let called = request
            .messages
            .iter()
            .any(|message| matches!(message.as_ref(), Message::Tool(_)));
        let events = match called {
            true => closing_events(),
            false => self.call_events(),
        };
        Ok(futures::stream::iter(events.into_iter().map(Ok)).boxed())
    }
}
