//! From events to bytes on the wire: framing, faults, delays.

use crate::codec::{Frame, Place};
use crate::gates::Gates;
use crate::scenario::{ChatQuirk, Delivery, Fault, LineEnding, Step};
use crate::wire::MockWire;
use bytes::Bytes;
use futures::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use thiserror::Error;
use tokio_util::sync::CancellationToken;

/// One thing the body does.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum BodyAction {
    Bytes(Bytes),
    Wait(Duration),
    Gate(String),
    Stall,
    Reset,
}

/// Why a body broke off.
#[derive(Debug, Error)]
pub(crate) enum Broken {
    #[error("the scenario resets the connection")]
    Reset,
    #[error("the service stops")]
    Stopped,
}

/// A response's body.
pub(crate) type ResponseBody = UnsyncBoxBody<Bytes, Broken>;

/// What a body needs while it is sent.
#[derive(Debug, Clone)]
pub(crate) struct BodyContext {
    pub gates: Arc<Gates>,
    pub stopping: CancellationToken,
    /// Tells the connection to end with a reset.
    pub reset: Arc<AtomicBool>,
}

/// The events of a step as actions. `error` is the event of an `error_event`.
pub(crate) fn stream_actions(
    mut frames: Vec<Frame>,
    step: &Step,
    wire: MockWire,
    error: Option<Frame>,
) -> Vec<BodyAction> {
    let delivery = &step.delivery;
    if delivery.omit_terminator
        && frames
            .last()
            .is_some_and(|frame| frame.place == Place::Last)
    {
        frames.pop();
    }
    let hold = step
        .hold
        .as_ref()
        .map(|hold| (position(&frames, hold.after), &hold.gate));
    let fault = step
        .fault
        .as_ref()
        .and_then(|fault| Some((position(&frames, point(fault)?), fault)));
    let mut writer = StreamWriter::new(delivery, wire);
    if step.quirks.contains(&ChatQuirk::ProcessingComments) && wire == MockWire::Chat {
        writer.comment("OPENROUTER PROCESSING");
        writer.comment("OPENROUTER PROCESSING");
    }
    let count = frames.len();
    for index in 0..=count {
        if let Some((_, gate)) = hold.filter(|(at, _)| *at == index) {
            writer.actions.push(BodyAction::Gate(gate.clone()));
        }
        if let Some((_, fault)) = fault.filter(|(at, _)| *at == index)
            && writer.apply_fault(fault, error.as_ref()) == AfterFault::End
        {
            return writer.finish();
        }
        if let Some(frame) = frames.get(index) {
            writer.frame(frame);
        }
    }
    writer.finish()
}

/// A body in one piece as actions; a fault comes in its middle.
pub(crate) fn whole_actions(body: String, step: &Step) -> Vec<BodyAction> {
    let half = body.len() / 2;
    let bytes = Bytes::from(body);
    let mut actions = vec![BodyAction::Bytes(bytes.slice(..half))];
    if let Some(hold) = &step.hold {
        actions.push(BodyAction::Gate(hold.gate.clone()));
    }
    match &step.fault {
        Some(Fault::Stall { .. }) => actions.push(BodyAction::Stall),
        Some(Fault::Truncate { .. }) => {}
        Some(Fault::Reset { .. }) => actions.push(BodyAction::Reset),
        Some(Fault::Garbage { data, .. }) => {
            actions.push(BodyAction::Bytes(Bytes::from(data.clone())))
        }
        _ => actions.push(BodyAction::Bytes(bytes.slice(half..))),
    }
    split_writes(actions, step.delivery.write_bytes)
}

fn point(fault: &Fault) -> Option<Option<usize>> {
    match fault {
        Fault::ErrorEvent { after, .. }
        | Fault::Stall { after }
        | Fault::Truncate { after }
        | Fault::Reset { after }
        | Fault::Garbage { after, .. } => Some(*after),
        Fault::Http(_) | Fault::Hang {} => None,
    }
}

/// The index of the event before which something happens.
fn position(frames: &[Frame], after: Option<usize>) -> usize {
    let end = frames
        .iter()
        .position(|frame| matches!(frame.place, Place::Closing | Place::Last))
        .unwrap_or(frames.len());
    match after {
        None => end,
        Some(0) => frames
            .iter()
            .position(|frame| frame.place != Place::Opening)
            .unwrap_or(end),
        Some(count) => frames
            .iter()
            .enumerate()
            .filter(|(_, frame)| frame.place == Place::Delta)
            .nth(count.saturating_sub(1))
            .map_or(end, |(index, _)| index + 1),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AfterFault {
    Continue,
    End,
}

struct StreamWriter<'a> {
    delivery: &'a Delivery,
    wire: MockWire,
    newline: &'static str,
    actions: Vec<BodyAction>,
    frames: usize,
}

impl<'a> StreamWriter<'a> {
    fn new(delivery: &'a Delivery, wire: MockWire) -> Self {
        let mut writer = Self {
            delivery,
            wire,
            newline: match delivery.line_ending {
                LineEnding::Lf => "\n",
                LineEnding::Crlf => "\r\n",
                LineEnding::Cr => "\r",
            },
            actions: Vec::new(),
            frames: 0,
        };
        if delivery.bom {
            writer.write("\u{feff}".to_owned());
        }
        writer
    }

    fn write(&mut self, text: String) {
        self.actions.push(BodyAction::Bytes(Bytes::from(text)));
    }

    fn comment(&mut self, words: &str) {
        let newline = self.newline;
        self.write(format!(": {words}{newline}{newline}"));
    }

    fn ping(&mut self) {
        if self.wire == MockWire::Anthropic {
            let data = serde_json::json!({"type": "ping"});
            self.event(&Frame::named("ping", &data, Place::Between));
        } else {
            self.comment("keep-alive");
        }
    }

    fn frame(&mut self, frame: &Frame) {
        if self.frames > 0 && self.delivery.gap_ms > 0 {
            self.actions.push(BodyAction::Wait(Duration::from_millis(
                self.delivery.gap_ms,
            )));
        }
        if self.frames > 0 && self.delivery.pings {
            self.ping();
        }
        if let Some(words) = &self.delivery.comment {
            self.comment(&words.replace(['\r', '\n'], " "));
        }
        self.frames += 1;
        self.event(frame);
    }

    fn event(&mut self, frame: &Frame) {
        let (newline, space) = (self.newline, if self.delivery.no_space { "" } else { " " });
        let mut text = String::with_capacity(frame.data.len() + 64);
        if let Some(event) = &frame.event {
            text.push_str(&format!("event:{space}{event}{newline}"));
        }
        for line in self.data_lines(&frame.data).lines() {
            text.push_str("data:");
            text.push_str(space);
            text.push_str(line);
            text.push_str(newline);
        }
        text.push_str(newline);
        self.write(text);
    }

    /// The data, spread over lines when asked for. Strings hold no raw line
    /// breaks, so every break is between JSON tokens.
    fn data_lines(&self, data: &str) -> String {
        self.delivery
            .multiline_data
            .then(|| serde_json::from_str::<serde_json::Value>(data).ok())
            .flatten()
            .map_or_else(|| data.to_owned(), |value| format!("{value:#}"))
    }

    fn apply_fault(&mut self, fault: &Fault, error: Option<&Frame>) -> AfterFault {
        match fault {
            Fault::ErrorEvent { .. } => {
                if let Some(error) = error {
                    self.event(error);
                }
                AfterFault::End
            }
            Fault::Stall { .. } => {
                self.actions.push(BodyAction::Stall);
                AfterFault::End
            }
            Fault::Truncate { .. } => AfterFault::End,
            Fault::Reset { .. } => {
                self.actions.push(BodyAction::Reset);
                AfterFault::End
            }
            Fault::Garbage { data, .. } => {
                self.write(data.clone());
                AfterFault::Continue
            }
            Fault::Http(_) | Fault::Hang {} => AfterFault::Continue,
        }
    }

    fn finish(self) -> Vec<BodyAction> {
        split_writes(self.actions, self.delivery.write_bytes)
    }
}

/// Joins neighbouring writes and cuts them anew, through everything.
fn split_writes(actions: Vec<BodyAction>, write_bytes: Option<usize>) -> Vec<BodyAction> {
    let Some(size) = write_bytes.filter(|size| *size > 0) else {
        return actions;
    };
    let mut split = Vec::new();
    let mut pending: Vec<u8> = Vec::new();
    let flush = |pending: &mut Vec<u8>, split: &mut Vec<BodyAction>| {
        for piece in pending.chunks(size) {
            split.push(BodyAction::Bytes(Bytes::copy_from_slice(piece)));
        }
        pending.clear();
    };
    for action in actions {
        match action {
            BodyAction::Bytes(bytes) => pending.extend_from_slice(&bytes),
            other => {
                flush(&mut pending, &mut split);
                split.push(other);
            }
        }
    }
    flush(&mut pending, &mut split);
    split
}

/// A body that runs the actions.
pub(crate) fn body(actions: Vec<BodyAction>, context: BodyContext) -> ResponseBody {
    let state = (VecDeque::from(actions), context);
    let frames = stream::unfold(state, |(mut actions, context)| async move {
        loop {
            let played = match actions.pop_front()? {
                BodyAction::Bytes(bytes) => Some(Ok(hyper::body::Frame::data(bytes))),
                action => wait(action, &context).await.map(Err),
            };
            if let Some(item) = played {
                // Being pending once makes the server flush what it has.
                tokio::task::yield_now().await;
                return Some((item, (actions, context)));
            }
        }
    });
    StreamBody::new(frames).boxed_unsync()
}

/// Runs an action that is no data; the error ends the body.
async fn wait(action: BodyAction, context: &BodyContext) -> Option<Broken> {
    let pause = async {
        match action {
            BodyAction::Wait(duration) => tokio::time::sleep(duration).await,
            BodyAction::Gate(name) => context.gates.opened(&name).await,
            BodyAction::Stall => std::future::pending().await,
            BodyAction::Reset => return Some(Broken::Reset),
            BodyAction::Bytes(_) => {}
        }
        None
    };
    let broken = tokio::select! {
        broken = pause => broken,
        () = context.stopping.cancelled() => Some(Broken::Stopped),
    };
    if matches!(broken, Some(Broken::Reset)) {
        context.reset.store(true, Ordering::Release);
    }
    broken
}

#[cfg(test)]
mod tests;
