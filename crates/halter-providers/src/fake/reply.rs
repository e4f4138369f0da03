//! One scripted answer.

use super::Gate;
use crate::answer_writer::AnswerWriter;
use crate::playback::Cue;
use halter_protocol::{
    ProviderError, ProviderErrorKind, StopReason, StreamEvent, ToolCallId, ToolName, Usage,
};
use serde_json::Value;
use std::time::Duration;

/// One scripted answer, written in the order it happens.
///
/// Text that follows text grows the same block, one delta per piece; any other
/// content, or [`end_block`](Reply::end_block), ends it. Without
/// [`stop`](Reply::stop), the answer ends with `tool_use` if it calls tools
/// and with `end_turn` otherwise.
///
/// ```
/// use halter_providers::fake::{Gate, Reply};
/// use halter_protocol::ProviderErrorKind;
/// use serde_json::json;
/// use std::time::Duration;
///
/// let gate = Gate::new();
/// let answer = Reply::new()
///     .thinking("two files to look at")
///     .text("I look ")
///     .gate(&gate)
///     .text("at both.")
///     .tool_call("read", json!({"path": "a.txt"}))
///     .tool_call("read", json!({"path": "b.txt"}));
/// let overloaded = Reply::error(ProviderErrorKind::RateLimited, "slow down")
///     .backoff_hint(Duration::from_secs(2));
/// let broken_off = Reply::cut_after("I was about to");
/// let nothing_at_all = Reply::new();
/// ```
#[derive(Debug, Clone, Default)]
pub struct Reply {
    steps: Vec<Step>,
    calls_tools: bool,
    ending: Ending,
}

#[derive(Debug, Clone)]
enum Step {
    Text(String),
    Thinking(String),
    EndBlock,
    ToolCall(ScriptedCall),
    Event(StreamEvent),
    Delay(Duration),
    Gate(Gate),
}

#[derive(Debug, Clone)]
struct ScriptedCall {
    id: Option<ToolCallId>,
    name: ToolName,
    arguments: Vec<String>,
    complete: bool,
}

#[derive(Debug, Clone, Default)]
enum Ending {
    #[default]
    Natural,
    Stop(StopReason),
    Cut,
    Fail(ProviderError),
    Refuse(ProviderError),
}

impl Reply {
    /// An answer without content: with nothing added, the model says nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// A request that fails before anything is streamed: the error is that of
    /// [`Provider::stream`](crate::Provider::stream) itself.
    pub fn error(kind: ProviderErrorKind, message: impl Into<String>) -> Self {
        Self {
            ending: Ending::Refuse(ProviderError::new(message, kind)),
            ..Self::default()
        }
    }

    /// Text whose block never ends in a stream that just stops.
    pub fn cut_after(text: impl Into<String>) -> Self {
        Self::new().text(text).then_cut()
    }

    /// One more piece of text: a delta.
    pub fn text(self, delta: impl Into<String>) -> Self {
        self.step(Step::Text(delta.into()))
    }

    /// One more piece of visible reasoning: a delta.
    pub fn thinking(self, delta: impl Into<String>) -> Self {
        self.step(Step::Thinking(delta.into()))
    }

    /// Ends the block that text or thinking left open, so that more of the
    /// same begins another block, or so that the block is complete when the
    /// stream breaks.
    pub fn end_block(self) -> Self {
        self.step(Step::EndBlock)
    }

    /// A call of a tool. Several in one answer are parallel calls.
    pub fn tool_call(self, name: impl Into<ToolName>, arguments: Value) -> Self {
        self.call(ScriptedCall {
            id: None,
            name: name.into(),
            arguments: vec![arguments.to_string()],
            complete: true,
        })
    }

    /// A call with an id of the test's choice.
    pub fn tool_call_with_id(
        self,
        id: impl Into<ToolCallId>,
        name: impl Into<ToolName>,
        arguments: Value,
    ) -> Self {
        self.call(ScriptedCall {
            id: Some(id.into()),
            name: name.into(),
            arguments: vec![arguments.to_string()],
            complete: true,
        })
    }

    /// A call whose arguments are this text, delta by delta, JSON or not.
    pub fn tool_call_text<S: Into<String>>(
        self,
        name: impl Into<ToolName>,
        deltas: impl IntoIterator<Item = S>,
    ) -> Self {
        self.call(ScriptedCall {
            id: None,
            name: name.into(),
            arguments: deltas.into_iter().map(Into::into).collect(),
            complete: true,
        })
    }

    /// A call whose arguments break off; follow it with
    /// [`then_cut`](Reply::then_cut), [`then_error`](Reply::then_error) or a
    /// [`stop`](Reply::stop) at `max_tokens`.
    pub fn tool_call_cut(self, name: impl Into<ToolName>, arguments: impl Into<String>) -> Self {
        self.call(ScriptedCall {
            id: None,
            name: name.into(),
            arguments: vec![arguments.into()],
            complete: false,
        })
    }

    /// What the call has used so far, a [`Usage`] or its buckets.
    pub fn usage(self, usage: impl Into<Usage>) -> Self {
        let usage = usage.into();
        self.step(Step::Event(StreamEvent::UsageUpdate { usage }))
    }

    /// A warning that does not stop the answer.
    pub fn warning(self, message: impl Into<String>) -> Self {
        let message = message.into();
        self.step(Step::Event(StreamEvent::ProviderWarning { message }))
    }

    /// Any event, also one that does not belong here.
    pub fn raw_event(self, event: StreamEvent) -> Self {
        self.step(Step::Event(event))
    }

    /// Lets time pass, on tokio's clock: paused time works.
    pub fn delay(self, duration: Duration) -> Self {
        self.step(Step::Delay(duration))
    }

    /// Holds the answer until the test opens the gate.
    pub fn gate(self, gate: &Gate) -> Self {
        self.step(Step::Gate(gate.clone()))
    }

    /// Ends the answer for this reason, known or not.
    pub fn stop(mut self, reason: StopReason) -> Self {
        self.ending = Ending::Stop(reason);
        self
    }

    /// Ends the stream here, without `MessageEnd`.
    pub fn then_cut(mut self) -> Self {
        self.ending = Ending::Cut;
        self
    }

    /// Fails here, in the stream.
    pub fn then_error(mut self, kind: ProviderErrorKind, message: impl Into<String>) -> Self {
        self.ending = Ending::Fail(ProviderError::new(message, kind));
        self
    }

    /// Adds the server's wish to wait to the failure this answer ends with.
    pub fn backoff_hint(mut self, wait: Duration) -> Self {
        if let Ending::Fail(error) | Ending::Refuse(error) = &mut self.ending {
            error.backoff_hint = Some(wait);
        }
        self
    }

    fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    fn call(mut self, call: ScriptedCall) -> Self {
        self.calls_tools = true;
        self.step(Step::ToolCall(call))
    }

    /// True if the request itself fails and nothing is streamed.
    pub(super) fn refuses(&self) -> bool {
        matches!(self.ending, Ending::Refuse(_))
    }

    /// The cues to play, with ids that begin with `stem`.
    pub(super) fn into_cues(self, stem: String) -> Vec<Cue> {
        let mut writer = AnswerWriter::new(stem);
        let mut cues = Vec::new();
        for step in self.steps {
            match step {
                Step::Text(delta) => writer.text(delta),
                Step::Thinking(delta) => writer.thinking(delta),
                Step::EndBlock => writer.end_block(),
                Step::ToolCall(call) => write_call(&mut writer, call),
                Step::Event(event) => writer.event(event),
                Step::Delay(duration) => cues.push(Cue::Delay(duration)),
                Step::Gate(gate) => cues.push(Cue::Gate(gate)),
            }
            cues.extend(writer.take_events().into_iter().map(Cue::Event));
        }
        match self.ending {
            Ending::Natural if self.calls_tools => writer.end(StopReason::ToolUse),
            Ending::Natural => writer.end(StopReason::EndTurn),
            Ending::Stop(reason) => writer.end(reason),
            Ending::Cut => {}
            Ending::Fail(error) | Ending::Refuse(error) => cues.push(Cue::Fail(error)),
        }
        cues.extend(writer.take_events().into_iter().map(Cue::Event));
        cues
    }
}

fn write_call(writer: &mut AnswerWriter, call: ScriptedCall) {
    let id = call.id.unwrap_or_else(|| writer.next_call_id());
    writer.tool_call(id, call.name);
    for delta in call.arguments {
        writer.arguments(delta);
    }
    if call.complete {
        writer.end_block();
    }
}

impl From<&str> for Reply {
    fn from(text: &str) -> Self {
        Self::new().text(text)
    }
}

impl From<String> for Reply {
    fn from(text: String) -> Self {
        Self::new().text(text)
    }
}
