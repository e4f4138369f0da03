//! Every bound of this crate, by name and unit.

/// Characters of a title; longer first messages are cut.
pub const MAX_TITLE_CHARS: usize = 80;

/// Bytes a string of an event may have before it is stored as a blob.
pub const MAX_INLINE_STRING_BYTES: usize = 8 * 1024;

/// Bytes of one stored event line, blobs not counted.
pub const MAX_EVENT_BYTES: usize = 16 * 1024 * 1024;

/// Bytes of one blob.
pub const MAX_BLOB_BYTES: usize = 64 * 1024 * 1024;

/// Events of one append.
pub const MAX_BATCH_EVENTS: usize = 10_000;

/// Bytes of a session id: short enough to be a file name.
pub const MAX_SESSION_ID_BYTES: usize = 200;

/// Bytes of a checkpoint; a larger state is folded from its events instead.
pub const MAX_CHECKPOINT_BYTES: usize = 256 * 1024 * 1024;

/// Events before the first checkpoint of a session: fewer are folded faster
/// than a checkpoint is read.
pub const MIN_CHECKPOINT_EVENTS: u64 = 256;

/// Events one read returns at most.
pub const MAX_READ_EVENTS: usize = 1_000;

/// Bytes of event lines after which a read returns what it has; one event is
/// always returned, however large.
pub const MAX_READ_BYTES: usize = 8 * 1024 * 1024;

/// Sessions one page of a listing holds at most.
pub const MAX_PAGE_SESSIONS: usize = 1_000;

/// Requests that wait for the SQLite writer; further callers wait for a place.
#[cfg(feature = "sqlite")]
pub const SQLITE_QUEUE_REQUESTS: usize = 256;

/// Requests the SQLite writer commits together.
#[cfg(feature = "sqlite")]
pub const SQLITE_GROUP_REQUESTS: usize = 64;

/// Milliseconds SQLite waits for another process that holds the file.
#[cfg(feature = "sqlite")]
pub const SQLITE_BUSY_MILLIS: u64 = 5_000;

/// Lines that wait for the trace disk; further lines are dropped and counted.
pub const TRACE_QUEUE_LINES: usize = 4_096;

/// Bytes that wait for the trace disk; further lines are dropped and counted.
/// The two events of the largest tool result fit.
pub const TRACE_QUEUE_BYTES: usize = 64 * 1024 * 1024;

/// Trace files kept open; the one used longest ago is closed first.
pub const TRACE_OPEN_FILES: usize = 64;
