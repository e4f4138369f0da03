//! What goes into a store and comes out of it.

use crate::blob::Blob;
use crate::limits::MAX_PAGE_SESSIONS;
use halter_protocol::encoding::escaped_path;
use halter_protocol::{SCHEMA_VERSION, SessionBlueprint, SessionId, Timestamp};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

/// What a store keeps about a session from its first moment on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRecord {
    /// What is fixed when the session starts.
    pub blueprint: SessionBlueprint,
    /// The version of the event contract its events are written in.
    pub schema_version: u32,
}

impl SessionRecord {
    /// A session written in this version's event contract.
    pub fn new(blueprint: SessionBlueprint) -> Self {
        Self {
            blueprint,
            schema_version: SCHEMA_VERSION,
        }
    }
}

/// A stored event: its place and its line, kept byte for byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRecord {
    /// Its place in the log, from 1.
    pub sequence: u64,
    /// The stored form of the event: see [`codec`](crate::codec).
    pub json: Arc<str>,
}

/// A state of the session, so that opening it need not fold every event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The last event the state includes.
    pub sequence: u64,
    /// The stored form of the state: see [`checkpoint`](crate::checkpoint).
    pub json: Arc<str>,
}

/// What one append adds. All of it is stored, or none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AppendBatch {
    /// The next events, numbered without gaps from the head.
    pub events: Vec<EventRecord>,
    /// Content the events refer to; what is stored already is not stored again.
    pub blobs: Vec<Blob>,
    /// A state to replace the last checkpoint.
    pub checkpoint: Option<Checkpoint>,
    /// When the newest event happened.
    pub updated_at: Option<Timestamp>,
    /// What listings call the session; the first one given stays.
    pub title: Option<Arc<str>>,
}

/// The right to append to a session until somebody else acquires it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriterToken {
    /// The session.
    pub session_id: SessionId,
    /// Grows with every acquisition; only the newest may write.
    pub epoch: u64,
}

/// What an append must have survived when it returns. Whatever the level, a
/// later append is never kept without the earlier ones.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Durability {
    /// In order and visible to readers; a store may write it together with the
    /// next durable append.
    Buffered,
    /// Survives the death of the process at any moment.
    #[default]
    Durable,
    /// Survives the loss of power.
    PowerSafe,
}

/// What "durable" means for a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum DurabilityPolicy {
    /// Durable appends survive `kill -9`.
    #[default]
    Process,
    /// Durable appends survive the loss of power: one disk sync each.
    Power,
}

impl DurabilityPolicy {
    /// The level to ask the store for.
    pub fn level(self, wanted: Durability) -> Durability {
        match (self, wanted) {
            (Self::Power, Durability::Durable) => Durability::PowerSafe,
            (_, wanted) => wanted,
        }
    }
}

/// What a store knows of a session without reading its events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenedSession {
    /// What was stored when it was created.
    pub record: SessionRecord,
    /// The sequence of its last event, 0 without events.
    pub head: u64,
    /// What listings call it.
    pub title: Option<Arc<str>>,
    /// The newest checkpoint.
    pub checkpoint: Option<Checkpoint>,
}

/// Which part of a listing to return.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRequest {
    /// Where the page before ended; none for the first page.
    pub cursor: Option<PageCursor>,
    /// How many sessions; between 1 and [`MAX_PAGE_SESSIONS`].
    pub limit: usize,
}

impl PageRequest {
    /// The first page.
    pub fn first(limit: usize) -> Self {
        Self {
            cursor: None,
            limit,
        }
    }

    /// The page after `cursor`.
    pub fn after(cursor: PageCursor, limit: usize) -> Self {
        Self {
            cursor: Some(cursor),
            limit,
        }
    }

    /// The limit, forced into its range.
    pub fn clamped_limit(&self) -> usize {
        self.limit.clamp(1, MAX_PAGE_SESSIONS)
    }
}

impl Default for PageRequest {
    fn default() -> Self {
        Self::first(100)
    }
}

/// A place in a listing, as text to hand out and take back.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct PageCursor {
    updated_at_micros: i64,
    session_id: String,
}

impl PageCursor {
    /// The place of a session that was updated then, in microseconds since the
    /// epoch. Listings go from the latest to the earliest, and by id where the
    /// time is the same.
    pub fn new(updated_at_micros: i64, session_id: impl Into<String>) -> Self {
        Self {
            updated_at_micros,
            session_id: session_id.into(),
        }
    }

    /// When the session was updated, in microseconds since the epoch.
    pub fn updated_at_micros(&self) -> i64 {
        self.updated_at_micros
    }

    /// The session.
    pub fn session_id(&self) -> &str {
        &self.session_id
    }
}

impl fmt::Display for PageCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.updated_at_micros, self.session_id)
    }
}

impl From<PageCursor> for String {
    fn from(cursor: PageCursor) -> Self {
        cursor.to_string()
    }
}

impl TryFrom<String> for PageCursor {
    type Error = InvalidPageCursor;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

/// A text is not a cursor of a listing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a page cursor: pass on the one the page before returned, or none")]
pub struct InvalidPageCursor(String);

impl FromStr for PageCursor {
    type Err = InvalidPageCursor;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.split_once(':')
            .and_then(|(micros, id)| Some(Self::new(micros.parse().ok()?, id)))
            .ok_or_else(|| InvalidPageCursor(text.to_owned()))
    }
}

/// One page of a listing, most recently updated sessions first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionPage {
    /// The sessions.
    pub sessions: Vec<SessionSummary>,
    /// Sessions of the page whose stored row makes no sense.
    pub unreadable: Vec<UnreadableSession>,
    /// Where the next page starts; none on the last page.
    pub next: Option<PageCursor>,
}

/// A session as listings show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSummary {
    /// The session.
    pub session_id: SessionId,
    /// The session that started it.
    pub parent_session_id: Option<SessionId>,
    /// When it started, to the microsecond.
    pub created_at: Timestamp,
    /// When its newest event happened, to the microsecond.
    pub updated_at: Timestamp,
    /// The sequence of its last event.
    pub head: u64,
    /// The directory it works in.
    #[serde(with = "escaped_path")]
    pub working_dir: PathBuf,
    /// The start of its first user text.
    pub title: Option<Arc<str>>,
}

/// A session a listing found and could not read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreadableSession {
    /// Its id as far as it is readable.
    pub session_id: SessionId,
    /// What is wrong with it.
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_survives_its_text() {
        let cursor = PageCursor::new(-5, "ses:1");
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        assert!("".parse::<PageCursor>().is_err());
        assert!("x:ses".parse::<PageCursor>().is_err());
    }

    #[test]
    fn a_page_survives_its_json() {
        let page = SessionPage {
            sessions: vec![SessionSummary {
                session_id: "ses_1".into(),
                parent_session_id: None,
                created_at: Timestamp::UNIX_EPOCH,
                updated_at: Timestamp::UNIX_EPOCH,
                head: 7,
                working_dir: "/work".into(),
                title: Some("Say hello".into()),
            }],
            unreadable: vec![UnreadableSession {
                session_id: "ses_2".into(),
                reason: "its title is a number".into(),
            }],
            next: Some(PageCursor::new(-5, "ses_1")),
        };
        let json = serde_json::to_value(&page).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "sessions": [{
                    "session_id": "ses_1",
                    "parent_session_id": null,
                    "created_at": "1970-01-01T00:00:00Z",
                    "updated_at": "1970-01-01T00:00:00Z",
                    "head": 7,
                    "working_dir": "/work",
                    "title": "Say hello",
                }],
                "unreadable": [{"session_id": "ses_2", "reason": "its title is a number"}],
                "next": "-5:ses_1",
            })
        );
        assert_eq!(serde_json::from_value::<SessionPage>(json).unwrap(), page);
    }

    #[test]
    fn page_limits_are_forced_into_their_range() {
        let clamped = |limit| PageRequest::first(limit).clamped_limit();
        assert_eq!(
            [0, 1, MAX_PAGE_SESSIONS, MAX_PAGE_SESSIONS + 1].map(clamped),
            [1, 1, MAX_PAGE_SESSIONS, MAX_PAGE_SESSIONS]
        );
    }

    #[test]
    fn the_power_policy_raises_durable_appends_only() {
        use Durability::{Buffered, Durable, PowerSafe};
        let levels = [Buffered, Durable, PowerSafe];
        assert_eq!(levels.map(|l| DurabilityPolicy::Process.level(l)), levels);
        assert_eq!(
            levels.map(|l| DurabilityPolicy::Power.level(l)),
            [Buffered, PowerSafe, PowerSafe]
        );
    }
}
