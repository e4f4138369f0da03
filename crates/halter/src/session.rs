//! Session stores, and what they keep.

#[cfg(feature = "sqlite")]
pub use halter_session::SqliteSessionStore;
pub use halter_session::{
    InMemorySessionStore, SessionCommitConflict, SessionStore, StoreError, StoredSession,
    export_session_trace, fold, read_events,
};
