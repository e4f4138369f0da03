//! The log of a session and the stores it lives in.
//!
//! A session is an append-only sequence of events. This crate commits them,
//! reads them back, and keeps the state that follows from them; it never asks
//! what an event means beyond the fold of `halter-protocol`, and never runs a
//! turn.
//!
//! | module | holds |
//! |---|---|
//! | [`log`] | [`SessionLog`], one writer's view of one session, and its [`LogWriter`] |
//! | [`store`] | [`SessionStore`], what a backend has to do |
//! | [`memory`] | sessions that live as long as the process |
//! | `sqlite` | sessions in one SQLite file (feature `sqlite`) |
//! | [`records`] | what goes into a store and comes out of it |
//! | [`codec`] | the stored form of events, and reading them back |
//! | [`blueprint`] | the stored form of a blueprint |
//! | [`checkpoint`] | the stored form of a state |
//! | [`trace`] | a session as a text file, live or exported |
//! | [`blob`] | content stored once, under its hash |
//! | `conformance` | the suite every store has to pass (feature `conformance`) |
//! | [`error`] | what can go wrong, and what to do then |
//! | [`limits`] | every bound, by name and unit |

pub mod blob;
pub mod blueprint;
pub mod checkpoint;
pub mod codec;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod error;
pub mod limits;
pub mod log;
pub mod memory;
pub mod records;
#[cfg(feature = "sqlite")]
pub mod sqlite;
pub mod store;
pub mod trace;

pub use blob::{Blob, BlobHash};
pub use blueprint::{decode_blueprint, encode_blueprint};
pub use codec::read_events;
pub use error::{SessionCommitConflict, StoreError};
pub use halter_protocol::fold;
pub use log::{LogWriter, SessionLog, StoredState};
pub use memory::InMemorySessionStore;
pub use records::{
    AppendBatch, Checkpoint, Durability, DurabilityPolicy, EventRecord, OpenedSession, PageCursor,
    PageRequest, SessionPage, SessionRecord, SessionSummary, UnreadableSession, WriterToken,
};
#[cfg(feature = "sqlite")]
pub use sqlite::{SqliteOptions, SqliteSessionStore};
pub use store::{SessionStore, Standing, check_append, check_checkpoint, check_create};
pub use trace::{TraceError, TraceRecorder, TraceStart, TraceWriter, export_session_trace};

/// Another name of [`OpenedSession`].
pub type StoredSession = OpenedSession;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
