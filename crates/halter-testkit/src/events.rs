//! Collecting, checking and rendering event streams.

mod render;

pub use render::render;

use crate::deadline::{PATIENCE, in_time, within};
use futures::{Stream, StreamExt};
use halter_protocol::{
    Delivery, Message, SessionEvent, SessionEventPayload, ToolError, ToolExecutionOutcome,
    ToolResult, TurnError,
};

/// Reads a stream to its end.
///
/// # Panics
/// If the stream yields an error or does not end in time.
pub async fn collect(
    stream: impl Stream<Item = anyhow::Result<SessionEvent>>,
) -> Vec<SessionEvent> {
    match collect_until_error(stream).await {
        (events, None) => events,
        (events, Some(error)) => {
            panic!("the stream failed: {error:#}\nbefore:\n{}", render(&events))
        }
    }
}

/// Reads a stream to its end or its first error, which must be its last item.
///
/// # Panics
/// If the stream does not end in time, or goes on after an error.
pub async fn collect_until_error(
    stream: impl Stream<Item = anyhow::Result<SessionEvent>>,
) -> (Vec<SessionEvent>, Option<anyhow::Error>) {
    let mut stream = std::pin::pin!(stream);
    let mut events = Vec::new();
    let reading = async {
        while let Some(item) = stream.next().await {
            match item {
                Ok(event) => events.push(event),
                Err(error) => {
                    assert!(stream.next().await.is_none(), "a stream ends at its error");
                    return Some(error);
                }
            }
        }
        None
    };
    match in_time(reading).await {
        Some(error) => (events, error),
        None => panic!(
            "the stream did not end within {PATIENCE:?}, after:\n{}",
            last_in_brief(&events)
        ),
    }
}

/// The last events, of each its beginning: what a stream hangs at.
fn last_in_brief(events: &[SessionEvent]) -> String {
    let first = events.len().saturating_sub(20);
    let last = events.iter().skip(first);
    let brief = last.map(|event| format!("{:.400}", format!("{:?}", event.payload)));
    brief.collect::<Vec<_>>().join("\n")
}

/// Reads a stream until an event fits, which is the last one returned.
///
/// # Panics
/// If the stream ends, fails or takes too long before one does.
pub async fn collect_until(
    mut stream: impl Stream<Item = anyhow::Result<SessionEvent>> + Unpin,
    mut fits: impl FnMut(&SessionEventPayload) -> bool,
) -> Vec<SessionEvent> {
    let mut events = Vec::new();
    let reading = async {
        loop {
            match stream.next().await {
                Some(Ok(event)) => {
                    let last = fits(&event.payload);
                    events.push(event);
                    if last {
                        return;
                    }
                }
                Some(Err(error)) => panic!("the stream failed: {error:#}"),
                None => panic!("the stream ended before the event:\n{}", render(&events)),
            }
        }
    };
    within("an event of a stream", reading).await;
    events
}

/// Questions to a list of events.
pub trait EventsExt {
    /// The kinds, in order.
    fn kinds(&self) -> Vec<&str>;

    /// The kinds of the lossless events, in order.
    fn lossless_kinds(&self) -> Vec<&str>;

    /// The events of a kind.
    fn of_kind(&self, kind: &str) -> Vec<&SessionEvent>;

    /// Where the first event of a kind stands.
    ///
    /// # Panics
    /// If there is none.
    fn position(&self, kind: &str) -> usize;

    /// The text deltas, joined.
    fn streamed_text(&self) -> String;

    /// The messages, in order.
    fn messages(&self) -> Vec<&Message>;

    /// The outcomes of calls, in the order they ended.
    fn outcomes(&self) -> Vec<&ToolExecutionOutcome>;

    /// The result of the only call.
    ///
    /// # Panics
    /// Unless exactly one call ended.
    fn only_result(&self) -> &Result<std::sync::Arc<ToolResult>, ToolError>;

    /// Why the last turn failed.
    ///
    /// # Panics
    /// If it did not.
    fn turn_error(&self) -> &TurnError;

    /// Checks that lossless events are numbered without gaps, that best-effort
    /// ones repeat the number before them, and that only the first event has a
    /// schema version.
    ///
    /// # Panics
    /// If one does not.
    fn assert_gap_free(&self);
}

impl EventsExt for [SessionEvent] {
    fn kinds(&self) -> Vec<&str> {
        self.iter().map(|event| event.payload.kind()).collect()
    }

    fn lossless_kinds(&self) -> Vec<&str> {
        self.iter()
            .filter(|event| event.delivery == Delivery::Lossless)
            .map(|event| event.payload.kind())
            .collect()
    }

    fn of_kind(&self, kind: &str) -> Vec<&SessionEvent> {
        self.iter()
            .filter(|event| event.payload.kind() == kind)
            .collect()
    }

    fn position(&self, kind: &str) -> usize {
        self.iter()
            .position(|event| event.payload.kind() == kind)
            .unwrap_or_else(|| panic!("no {kind} in:\n{}", render(self)))
    }

    fn streamed_text(&self) -> String {
        self.iter()
            .filter_map(|event| match &event.payload {
                SessionEventPayload::DeltaItem { delta } => Some(delta.text.as_str()),
                _ => None,
            })
            .collect()
    }

    fn messages(&self) -> Vec<&Message> {
        self.iter()
            .filter_map(|event| match &event.payload {
                SessionEventPayload::MessageItem { message } => Some(message.as_ref()),
                _ => None,
            })
            .collect()
    }

    fn outcomes(&self) -> Vec<&ToolExecutionOutcome> {
        self.iter()
            .filter_map(|event| match &event.payload {
                SessionEventPayload::ToolExecutionCompleted { outcome } => Some(outcome),
                _ => None,
            })
            .collect()
    }

    fn only_result(&self) -> &Result<std::sync::Arc<ToolResult>, ToolError> {
        match self.outcomes().as_slice() {
            [outcome] => &outcome.result,
            others => panic!("{} calls ended:\n{}", others.len(), render(self)),
        }
    }

    fn turn_error(&self) -> &TurnError {
        self.iter()
            .rev()
            .find_map(|event| match &event.payload {
                SessionEventPayload::TurnFailed { error, .. } => Some(error),
                _ => None,
            })
            .unwrap_or_else(|| panic!("no turn failed:\n{}", render(self)))
    }

    fn assert_gap_free(&self) {
        let mut last: Option<u64> = None;
        for (index, event) in self.iter().enumerate() {
            let sequence = event.sequence();
            let expected = match (last, &event.delivery) {
                (None, _) => sequence,
                (Some(last), Delivery::Lossless) => last + 1,
                (Some(last), _) => last,
            };
            assert_eq!(
                sequence,
                expected,
                "event {index} has the wrong number:\n{}",
                render(self)
            );
            assert_eq!(
                event.schema_version.is_some(),
                index == 0,
                "the first event of a stream, and only that, has a schema version"
            );
            last = Some(sequence);
        }
    }
}
