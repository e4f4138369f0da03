//! The stored form of events.
//!
//! A stored line is the JSON of a [`SessionEvent`] without its session's id,
//! which the store knows, so that sessions can share lines; earlier versions
//! wrote the id too. A string longer than [`MAX_INLINE_STRING_BYTES`] (a
//! tool's output, a large argument, an image) is stored as a blob: in the line
//! it is `""`, and the line starts with a table from the string's JSON pointer
//! to the hash of its bytes.
//!
//! ```json
//! {"blobs":{"/payload/outcome/result/ok/text":"af13…"},"sequence":7,…}
//! ```
//!
//! The same text is stored once, however many events and sessions hold it.
//! Payloads of kinds this version does not know stay in the line, byte for
//! byte. Decoding puts the texts back.

use crate::blob::{Blob, BlobHash};
use crate::error::StoreError;
use crate::limits::{MAX_INLINE_STRING_BYTES, MAX_READ_BYTES};
use crate::records::EventRecord;
use crate::store::SessionStore;
use bytes::Bytes;
use halter_protocol::{SessionEvent, SessionEventPayload, SessionId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// How a document with blobs starts. No document stored here has a field of
/// this name of its own.
const TABLE_START: &str = "{\"blobs\":{";

type Table = BTreeMap<String, BlobHash>;

/// Content to store beside documents, each once.
pub(crate) type BlobSet = BTreeMap<BlobHash, Bytes>;

/// The stored form of `event`; the blobs it needs are added to `blobs`.
pub(crate) fn encode_event(
    event: &SessionEvent,
    blobs: &mut BlobSet,
) -> serde_json::Result<Arc<str>> {
    let line = if let SessionEventPayload::Unknown(_) = event.payload {
        serde_json::to_string(event)?
    } else {
        let mut keep = |blob: Blob| {
            blobs.insert(blob.hash, blob.bytes);
        };
        encode(event, &mut keep)?
    };
    // The envelope comes before the payload, so the first is its own.
    let owner = owner_field(&event.session_id)?;
    Ok(Arc::from(line.replacen(&owner, "", 1)))
}

/// How an event names its session, with the comma behind it.
fn owner_field(session_id: &SessionId) -> serde_json::Result<String> {
    Ok(format!(
        "\"session_id\":{},",
        serde_json::to_string(session_id)?
    ))
}

/// The line of an event with the id of its session, which lines of earlier
/// versions have already.
fn with_owner<'a>(json: Cow<'a, str>, session_id: &SessionId) -> serde_json::Result<Cow<'a, str>> {
    #[derive(Deserialize)]
    struct Envelope<'a> {
        #[serde(borrow)]
        session_id: Option<&'a RawValue>,
    }
    if serde_json::from_str::<Envelope<'_>>(&json)?
        .session_id
        .is_some()
    {
        return Ok(json);
    }
    let place = "\"sequence\":";
    let named = format!("{}{place}", owner_field(session_id)?);
    Ok(Cow::Owned(json.replacen(place, &named, 1)))
}

/// The stored form of any document that serializes as an object; the blobs it
/// needs are given to `keep`.
pub(crate) fn encode(
    document: &impl Serialize,
    keep: &mut dyn FnMut(Blob),
) -> serde_json::Result<String> {
    let json = serde_json::to_string(document)?;
    if json.len() <= MAX_INLINE_STRING_BYTES {
        return Ok(json);
    }
    let mut value = serde_json::to_value(document)?;
    let mut table = Table::new();
    move_large_strings(&mut value, &mut String::new(), &mut table, keep);
    if table.is_empty() {
        return Ok(json);
    }
    let table = serde_json::to_string(&table)?;
    let rest = serde_json::to_string(&value)?;
    let fields = rest.strip_prefix('{').unwrap_or(&rest);
    Ok(format!("{{\"blobs\":{table},{fields}"))
}

fn move_large_strings(
    value: &mut Value,
    pointer: &mut String,
    table: &mut Table,
    keep: &mut dyn FnMut(Blob),
) {
    let parent = pointer.len();
    match value {
        Value::String(text) if text.len() > MAX_INLINE_STRING_BYTES => {
            let blob = Blob::new(std::mem::take(text).into_bytes());
            table.insert(pointer.clone(), blob.hash);
            keep(blob);
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                pointer.push('/');
                pointer.push_str(&index.to_string());
                move_large_strings(item, pointer, table, keep);
                pointer.truncate(parent);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields.iter_mut() {
                pointer.push('/');
                pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
                move_large_strings(field, pointer, table, keep);
                pointer.truncate(parent);
            }
        }
        _ => {}
    }
}

fn table_of(json: &str) -> Option<Table> {
    #[derive(Deserialize)]
    struct Start {
        blobs: Table,
    }
    if !json.starts_with(TABLE_START) {
        return None;
    }
    serde_json::from_str::<Start>(json)
        .ok()
        .map(|start| start.blobs)
}

/// Texts fetched from a store, to put back into stored documents; none for one
/// the store has lost.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    found: HashMap<BlobHash, Option<Arc<str>>>,
    any_lost: bool,
}

impl Texts {
    /// Fetches what `json` needs and is not here yet.
    pub async fn fetch(&mut self, store: &dyn SessionStore, json: &str) -> Result<(), StoreError> {
        for hash in self.missing(json) {
            let bytes = store.blob(&hash).await?;
            self.add(hash, bytes);
        }
        Ok(())
    }

    /// What `json` needs and is not here yet.
    pub fn missing(&self, json: &str) -> BTreeSet<BlobHash> {
        let hashes = table_of(json).unwrap_or_default().into_values();
        hashes
            .filter(|hash| !self.found.contains_key(hash))
            .collect()
    }

    /// Adds what a store has under a hash.
    pub fn add(&mut self, hash: BlobHash, bytes: Option<Bytes>) {
        let text = bytes
            .as_deref()
            .and_then(|bytes| std::str::from_utf8(bytes).ok());
        if text.is_none() {
            self.any_lost = true;
            tracing::warn!(%hash, "a stored text is missing; its place says so");
        }
        self.found.insert(hash, text.map(Arc::from));
    }

    /// True if the store had not all that was asked for.
    pub fn any_lost(&self) -> bool {
        self.any_lost
    }

    /// The line of an event with its texts and the id of its session in place.
    pub fn event_line<'a>(
        &self,
        json: &'a str,
        session_id: &SessionId,
    ) -> serde_json::Result<Cow<'a, str>> {
        with_owner(self.put_back(json)?, session_id)
    }

    /// The document with its texts in place.
    pub fn put_back<'a>(&self, json: &'a str) -> serde_json::Result<Cow<'a, str>> {
        let Some(table) = table_of(json) else {
            return Ok(Cow::Borrowed(json));
        };
        let mut value: Value = serde_json::from_str(json)?;
        if let Value::Object(fields) = &mut value {
            fields.shift_remove("blobs");
        }
        for (pointer, hash) in table {
            match self.found.get(&hash) {
                Some(Some(text)) => {
                    if let Some(place) = value.pointer_mut(&pointer) {
                        *place = Value::String(text.as_ref().to_owned());
                    }
                }
                _ => say_lost(&mut value, &pointer, &hash),
            }
        }
        serde_json::to_string(&value).map(Cow::Owned)
    }
}

/// Says in place of a text that the store has lost it: one missing output must
/// not make a session unusable, and nobody should take it for an empty one. The
/// bytes of an image cannot say it, so a text takes the place of the image.
fn say_lost(document: &mut Value, pointer: &str, hash: &BlobHash) {
    let why = |what: &str| {
        format!("[this {what} is lost: blob {hash} is missing from the session store]")
    };
    let part = pointer.strip_suffix("/data");
    if let Some(part) = part.and_then(|part| document.pointer_mut(part))
        && let Some(kind @ ("image" | "document")) = part.get("kind").and_then(Value::as_str)
        && part.get("media_type").is_some()
    {
        *part = serde_json::json!({"kind": "text", "text": why(kind)});
    } else if let Some(place) = document.pointer_mut(pointer) {
        *place = Value::String(why("text"));
    }
}

/// The event a stored line stands for, and its size with texts in place.
fn decode_event(
    session_id: &SessionId,
    record: &EventRecord,
    texts: &Texts,
) -> Result<(SessionEvent, usize), StoreError> {
    let corrupt = |why: String| StoreError::corrupt_event(session_id, record.sequence, why);
    let json = texts
        .event_line(&record.json, session_id)
        .map_err(|error| corrupt(error.to_string()))?;
    let event: SessionEvent =
        serde_json::from_str(&json).map_err(|error| corrupt(error.to_string()))?;
    if event.sequence() != record.sequence {
        return Err(corrupt(format!("it says it is event {}", event.sequence())));
    }
    Ok((event, json.len()))
}

/// The events after `after`, oldest first, texts in place.
///
/// As with [`SessionStore::read`], fewer than `limit` do not mean the end, none
/// do: the events of one call have at most [`MAX_READ_BYTES`] together, unless
/// the first alone has more.
pub async fn read_events(
    store: &dyn SessionStore,
    session_id: &SessionId,
    after: u64,
    limit: usize,
) -> Result<Vec<SessionEvent>, StoreError> {
    let records = store.read(session_id, after, limit).await?;
    let mut texts = Texts::default();
    let mut events = Vec::with_capacity(records.len());
    let mut total = 0;
    for record in &records {
        texts.fetch(store, &record.json).await?;
        let (event, bytes) = decode_event(session_id, record, &texts)?;
        total += bytes;
        if total > MAX_READ_BYTES && !events.is_empty() {
            break;
        }
        events.push(event);
    }
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::*;
    use halter_protocol::{
        ContentPart, Timestamp, ToolCall, ToolExecutionOutcome, ToolResult, UnknownPayload,
    };
    use serde_json::json;

    fn event(payload: SessionEventPayload) -> SessionEvent {
        SessionEvent::new_committed("ses_1".into(), 1, Timestamp::UNIX_EPOCH, payload)
    }

    fn completed(result: ToolResult) -> SessionEvent {
        event(SessionEventPayload::ToolExecutionCompleted {
            outcome: ToolExecutionOutcome::new(
                ToolCall {
                    id: "call_1".into(),
                    name: "shell".into(),
                    arguments: json!({}),
                },
                Ok(result.into()),
            ),
        })
    }

    fn texts(blobs: &BlobSet) -> Texts {
        let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).unwrap().into();
        Texts {
            found: blobs
                .iter()
                .map(|(hash, bytes)| (*hash, Some(text(bytes))))
                .collect(),
            any_lost: false,
        }
    }

    fn round_trip(event: &SessionEvent) -> (Arc<str>, BlobSet, SessionEvent) {
        let mut blobs = BlobSet::new();
        let json = encode_event(event, &mut blobs).unwrap();
        let record = EventRecord {
            sequence: 1,
            json: json.clone(),
        };
        let (back, _) = decode_event(&"ses_1".into(), &record, &texts(&blobs)).unwrap();
        (json, blobs, back)
    }

    #[test]
    fn a_string_is_moved_one_byte_past_its_limit() {
        for (extra, moved) in [(0, 0), (1, 1)] {
            let event = completed(ToolResult::text(
                "x".repeat(MAX_INLINE_STRING_BYTES + extra),
            ));
            let (json, blobs, back) = round_trip(&event);
            assert_eq!(back, event);
            assert_eq!(blobs.len(), moved);
            assert_eq!(json.starts_with(TABLE_START), moved == 1);
        }
    }

    #[test]
    fn strings_are_found_under_any_key_and_stored_once() {
        let large = "y".repeat(MAX_INLINE_STRING_BYTES * 2);
        let event = completed(ToolResult::json(json!({
            "a/b~c": [1.1, large, {"": large}],
            "blobs": {"/x": "not a table"},
            "small": "z",
        })));
        let (json, blobs, back) = round_trip(&event);
        assert_eq!(back, event);
        assert_eq!(blobs.len(), 1);
        assert!(json.len() < 1_000, "{json}");
    }

    #[test]
    fn a_payload_of_an_unknown_kind_stays_in_its_line() {
        let text = "z".repeat(MAX_INLINE_STRING_BYTES * 2);
        let line = format!(
            r#"{{"session_id":"ses_1","sequence":1,"delivery":"lossless","at":"1970-01-01T00:00:00Z","payload":{{"kind":"mind_read",  "x":1.10,"y":"{text}"}}}}"#
        );
        let event: SessionEvent = serde_json::from_str(&line).unwrap();
        assert!(matches!(
            &event.payload,
            SessionEventPayload::Unknown(UnknownPayload { .. })
        ));
        let (json, blobs, back) = round_trip(&event);
        assert_eq!(json.as_ref(), line.replace(r#""session_id":"ses_1","#, ""));
        assert!(blobs.is_empty());
        assert_eq!(back, event);
    }

    #[test]
    fn a_line_does_not_name_its_session_and_one_that_does_is_read() {
        let mut first = completed(ToolResult::text(r#"{"session_id":"ses_1","x":1}"#));
        first.schema_version = Some(1);
        let (json, _, back) = round_trip(&first);
        assert_eq!(back, first);
        assert!(
            json.starts_with(r#"{"schema_version":1,"sequence":1,"#),
            "{json}"
        );

        let earlier = EventRecord {
            sequence: 1,
            json: serde_json::to_string(&first).unwrap().into(),
        };
        let (back, _) = decode_event(&"ses_2".into(), &earlier, &Texts::default()).unwrap();
        assert_eq!(back, first, "an earlier line says itself whose it is");
    }

    #[test]
    fn a_lost_text_says_so() {
        let event = completed(ToolResult::text("x".repeat(MAX_INLINE_STRING_BYTES + 1)));
        let json = encode_event(&event, &mut BlobSet::new()).unwrap();
        let restored = Texts::default().put_back(&json).unwrap();
        assert!(restored.contains("this text is lost: blob"));
    }

    #[test]
    fn an_image_in_a_result_is_moved_and_a_lost_one_says_so() {
        let data = vec![7; MAX_INLINE_STRING_BYTES];
        let event = completed(ToolResult::parts([
            ContentPart::text("before"),
            ContentPart::image("image/png", data.clone()),
            ContentPart::document("application/pdf", data),
        ]));
        let (json, blobs, back) = round_trip(&event);
        assert_eq!(back, event);
        assert_eq!(blobs.len(), 1, "the same bytes are stored once");
        assert!(json.contains("/payload/outcome/result/ok/parts/1/data"));
        assert!(json.len() < 1_000, "{json}");

        let restored = Texts::default().event_line(&json, &"ses_1".into()).unwrap();
        let restored: SessionEvent = serde_json::from_str(&restored).unwrap();
        let SessionEventPayload::ToolExecutionCompleted { outcome } = restored.payload else {
            panic!("another kind");
        };
        let told = outcome.result.unwrap().to_model_text();
        let lines: Vec<&str> = told.lines().collect();
        assert!(lines[1].starts_with("[this image is lost: blob "), "{told}");
        assert!(
            lines[2].starts_with("[this document is lost: blob "),
            "{told}"
        );
    }

    #[test]
    fn a_line_that_lies_about_its_place_is_damaged() {
        let event = completed(ToolResult::Empty);
        let json = encode_event(&event, &mut BlobSet::new()).unwrap();
        let record = EventRecord { sequence: 2, json };
        let error = decode_event(&"ses_1".into(), &record, &Texts::default()).unwrap_err();
        assert_eq!(error.code(), "store_corrupt");
    }
}
