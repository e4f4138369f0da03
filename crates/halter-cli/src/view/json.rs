//! Output for programs.

use super::{Activity, View};
use crate::failure::error_json;
use crate::output::Data;
use halter::HalterError;
use halter_protocol::{AssistantMessage, Message, SessionEvent, SessionEventPayload, Usage};
use serde::Serialize;
use serde_json::Value;
use std::io;
use std::sync::Arc;

/// What one line tells of a turn.
#[derive(Serialize)]
struct TurnResult {
    /// The last assistant message.
    #[serde(flatten)]
    answer: AssistantMessage,
    /// The answer as a value, if a schema asked for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    structured_output: Option<Value>,
    /// What all model calls of the turn used and cost.
    turn_usage: Usage,
}

/// One line when everything is done: the last assistant message.
pub struct JsonResultView<'a> {
    data: &'a mut Data,
    activity: Activity,
    last: Option<Arc<Message>>,
    result: Option<TurnResult>,
    /// What all turns used.
    used: Usage,
}

impl<'a> JsonResultView<'a> {
    /// Writes to `data`.
    pub fn new(data: &'a mut Data, activity: Activity) -> Self {
        Self {
            data,
            activity,
            last: None,
            result: None,
            used: Usage::default(),
        }
    }
}

impl View for JsonResultView<'_> {
    fn event(&mut self, event: SessionEvent) -> io::Result<()> {
        self.activity.observe(&event);
        match event.payload {
            SessionEventPayload::MessageItem { message } if message.as_assistant().is_some() => {
                self.last = Some(message);
            }
            SessionEventPayload::TurnCompleted {
                structured_output,
                usage,
                ..
            } => {
                let last = self.last.take();
                let answer = last.as_ref().and_then(|message| message.as_assistant());
                self.used.saturating_accumulate(&usage);
                let turn_usage = self.used;
                self.result = answer.map(|answer| TurnResult {
                    answer: answer.without_opaque(),
                    structured_output,
                    turn_usage,
                });
            }
            _ => {}
        }
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        self.data.json(&self.result)
    }

    fn activity(&mut self) -> &mut Activity {
        &mut self.activity
    }
}

/// The structured answer, when there is one, and nothing else.
pub struct ValueView<'a> {
    data: &'a mut Data,
    activity: Activity,
}

impl<'a> ValueView<'a> {
    /// Writes to `data`.
    pub fn new(data: &'a mut Data, activity: Activity) -> Self {
        Self { data, activity }
    }
}

impl View for ValueView<'_> {
    fn event(&mut self, event: SessionEvent) -> io::Result<()> {
        self.activity.observe(&event);
        match event.payload {
            SessionEventPayload::TurnCompleted {
                structured_output: Some(output),
                ..
            } => self.data.json(&output),
            _ => Ok(()),
        }
    }

    fn activity(&mut self) -> &mut Activity {
        &mut self.activity
    }
}

/// Every event of the session, a line each.
pub struct StreamingView<'a> {
    data: &'a mut Data,
    activity: Activity,
}

impl<'a> StreamingView<'a> {
    /// Writes to `data`.
    pub fn new(data: &'a mut Data, activity: Activity) -> Self {
        Self { data, activity }
    }
}

impl View for StreamingView<'_> {
    fn event(&mut self, event: SessionEvent) -> io::Result<()> {
        self.activity.observe(&event);
        self.data.json(&event.without_opaque())
    }

    fn subagent_event(&mut self, event: SessionEvent) -> io::Result<()> {
        self.data.json(&event.without_opaque())
    }

    fn refuse(&mut self, error: &HalterError) -> io::Result<()> {
        self.data.json(&error_json(error))
    }

    fn activity(&mut self) -> &mut Activity {
        &mut self.activity
    }
}
