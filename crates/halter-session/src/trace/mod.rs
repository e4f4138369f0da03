//! A session as a text file: one JSON object per line.
//!
//! | line | says |
//! |---|---|
//! | `{"kind":"trace_header","trace_version":…,"session_id":…,"generated_at":…,"blueprint":…}` | first line of a file |
//! | `{"kind":"subagent_header",…,"parent_session_id":…}` | the session of a subagent begins |
//! | `{"kind":"trace_resumed","session_id":…,"resumed_at":…,"head_sequence":…}` | another process goes on |
//! | `{"kind":"pending_event","session_id":…,"delivery":…,"recorded_at":…,"payload":…}` | an event as it was generated, deltas included |
//! | an event of the session, without a `kind` of its own | it is committed |
//! | `{"kind":"trace_gap","session_id":…,"dropped_lines":…}` | the disk was too slow for that many lines |
//! | `{"kind":"unreadable_event","session_id":…,"sequence":…,"line":…}` | a stored line that is not JSON |
//!
//! The lines of subagents are in the file of the session above them all.
//! [`TraceRecorder`] writes such files while sessions run;
//! [`export_session_trace`] makes the committed part of one from a store.

mod recorder;

pub use recorder::{TraceError, TraceRecorder, TraceStart, TraceWriter};

use crate::codec::Texts;
use crate::error::StoreError;
use crate::limits::MAX_READ_EVENTS;
use crate::records::EventRecord;
use crate::store::SessionStore;
use halter_protocol::Timestamp;
use halter_protocol::{
    Delivery, PendingEvent, SessionBlueprint, SessionEvent, SessionEventPayload, SessionId,
};
use serde::Serialize;
use serde_json::value::RawValue;

/// The version of the lines a trace is made of.
pub const TRACE_VERSION: u32 = 2;

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Line<'a> {
    TraceHeader {
        trace_version: u32,
        session_id: &'a SessionId,
        generated_at: Timestamp,
        blueprint: &'a SessionBlueprint,
    },
    SubagentHeader {
        trace_version: u32,
        session_id: &'a SessionId,
        parent_session_id: Option<&'a SessionId>,
        generated_at: Timestamp,
        blueprint: &'a SessionBlueprint,
    },
    TraceResumed {
        session_id: &'a SessionId,
        resumed_at: Timestamp,
        head_sequence: u64,
    },
    PendingEvent {
        session_id: &'a SessionId,
        delivery: Delivery,
        recorded_at: Timestamp,
        payload: &'a SessionEventPayload,
    },
    TraceGap {
        session_id: &'a SessionId,
        dropped_lines: u64,
    },
    UnreadableEvent {
        session_id: &'a SessionId,
        sequence: u64,
        line: &'a str,
    },
}

impl<'a> Line<'a> {
    fn header(blueprint: &'a SessionBlueprint, generated_at: Timestamp) -> Self {
        if blueprint.subagent.is_some() {
            return Self::SubagentHeader {
                trace_version: TRACE_VERSION,
                session_id: &blueprint.session_id,
                parent_session_id: blueprint.parent_session_id.as_ref(),
                generated_at,
                blueprint,
            };
        }
        Self::TraceHeader {
            trace_version: TRACE_VERSION,
            session_id: &blueprint.session_id,
            generated_at,
            blueprint,
        }
    }

    fn pending(event: &'a PendingEvent) -> Self {
        Self::PendingEvent {
            session_id: &event.session_id,
            delivery: event.payload.delivery(),
            recorded_at: event.at,
            payload: &event.payload,
        }
    }
}

/// One line with its newline. What cannot be written as JSON leaves no line:
/// a trace must never fail a session.
fn line(content: &impl Serialize) -> String {
    let mut text = serde_json::to_string(content).unwrap_or_default();
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

/// The trace of a stored session: its header and every committed event, large
/// texts in place; then those of its subagents, each followed by its own.
pub async fn export_session_trace(
    store: &dyn SessionStore,
    session_id: &SessionId,
    generated_at: Timestamp,
) -> Result<String, StoreError> {
    let mut trace = String::new();
    let mut waiting = vec![session_id.clone()];
    while let Some(next) = waiting.pop() {
        let (lines, mut children) = match export_one(store, &next, generated_at).await {
            // A child may have been deleted.
            Err(StoreError::NotFound { .. }) if next != *session_id => continue,
            exported => exported?,
        };
        trace.push_str(&lines);
        children.reverse();
        waiting.append(&mut children);
    }
    Ok(trace)
}

/// The trace of one session, and the sessions of its subagents.
async fn export_one(
    store: &dyn SessionStore,
    session_id: &SessionId,
    generated_at: Timestamp,
) -> Result<(String, Vec<SessionId>), StoreError> {
    let opened = store.open(session_id).await?;
    let mut trace = line(&Line::header(&opened.record.blueprint, generated_at));
    let mut children: Vec<SessionId> = Vec::new();
    let mut after = 0;
    loop {
        let page = store.read(session_id, after, MAX_READ_EVENTS).await?;
        let Some(last) = page.last() else {
            return Ok((trace, children));
        };
        after = last.sequence;
        let mut texts = Texts::default();
        for record in &page {
            texts.fetch(store, &record.json).await?;
            let written = committed_line(session_id, record, &texts);
            if let Some(child) = started(&written)
                && !children.contains(&child)
            {
                children.push(child);
            }
            trace.push_str(&written);
        }
    }
}

/// The session of the subagent that an event tells of the start of.
fn started(line: &str) -> Option<SessionId> {
    // Most lines need not be read.
    if !line.contains("\"subagent_started\"") {
        return None;
    }
    match serde_json::from_str::<SessionEvent>(line).ok()?.payload {
        SessionEventPayload::SubagentStarted { subagent } => Some(subagent.session_id.clone()),
        _ => None,
    }
}

/// The stored line with its texts; fields this version does not know included.
fn committed_line(session_id: &SessionId, record: &EventRecord, texts: &Texts) -> String {
    if let Ok(json) = texts.event_line(&record.json, session_id)
        && let Ok(event) = serde_json::from_str::<&RawValue>(&json)
        && !json.contains('\n')
    {
        return line(&event);
    }
    line(&Line::UnreadableEvent {
        session_id,
        sequence: record.sequence,
        line: &record.json,
    })
}
