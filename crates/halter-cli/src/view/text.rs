//! The answer as it is written.

use super::{Activity, View};
use crate::output::Data;
use halter_protocol::{AssistantMessage, Message, SessionEvent, SessionEventPayload};
use std::io;

/// Writes the model's text as it arrives. What was missed because the output
/// was slow is made up for when the message is complete.
pub struct TextView<'a> {
    data: &'a mut Data,
    activity: Activity,
    /// The part of the current message that is written.
    streamed: String,
    /// True once a part was missed: the rest waits for the whole message.
    missed: bool,
}

impl<'a> TextView<'a> {
    /// Writes to `data`.
    pub fn new(data: &'a mut Data, activity: Activity) -> Self {
        Self {
            data,
            activity,
            streamed: String::new(),
            missed: false,
        }
    }

    fn answer(&mut self, answer: &AssistantMessage) -> io::Result<()> {
        let whole = answer.plain_text();
        let streamed = std::mem::take(&mut self.streamed);
        self.missed = false;
        if whole.is_empty() {
            return Ok(());
        }
        match whole.strip_prefix(&streamed) {
            Some(rest) => self.data.text(rest)?,
            None => {
                self.data.end_line(&streamed)?;
                self.data.text(&whole)?;
            }
        }
        self.data.end_line(&whole)
    }

    /// Text of an answer that never became a message.
    fn break_off(&mut self) -> io::Result<()> {
        let streamed = std::mem::take(&mut self.streamed);
        self.missed = false;
        match streamed.is_empty() {
            true => Ok(()),
            false => self.data.end_line(&streamed),
        }
    }
}

impl View for TextView<'_> {
    fn event(&mut self, event: SessionEvent) -> io::Result<()> {
        // First: what was said before belongs above the text.
        self.activity.observe(&event);
        match &event.payload {
            SessionEventPayload::DeltaItem { delta } if !self.missed => {
                self.streamed.push_str(&delta.text);
                self.data.text(&delta.text)
            }
            SessionEventPayload::Lagged { .. } => {
                self.missed = true;
                Ok(())
            }
            SessionEventPayload::MessageItem { message } => match message.as_ref() {
                Message::Assistant(answer) => self.answer(answer),
                _ => Ok(()),
            },
            SessionEventPayload::TurnCompleted { .. } | SessionEventPayload::TurnFailed { .. } => {
                self.break_off()
            }
            _ => Ok(()),
        }
    }

    fn activity(&mut self) -> &mut Activity {
        &mut self.activity
    }
}
