//! Cassettes: model traffic recorded to a file, and played from it.
//!
//! They are layers around [`Transport`](crate::http::Transport), below the
//! wires: what is compared on replay is the very body a server would get, so
//! that a replay proves requests equal byte for byte, and what is played back
//! are the very bytes a server sent, so that it runs the decoder, retries and
//! all. Ids and times of a session may differ: where a wire names a cache after
//! the session, that name is left out of the comparison, and so is the day that
//! the harness tells the model; its directory is compared as such. A provider that does not use HTTP cannot be
//! recorded.
//!
//! The file is lines of JSON: a header, which also tells what the harness was
//! set up with, then one exchange per line, in the
//! order the responses ended. Keys are not in it: request headers are not
//! recorded, of the response's only those a wire reads, and everything that
//! is a known secret or looks like a key is replaced in both bodies. A recording
//! is written beside its file and takes its place when it is finished.

mod deck;
mod difference;
mod directory;
mod exchange;
mod player;
mod recorder;
mod scrub;

pub use deck::{Cassette, Deck};
pub use player::{Player, made_with};
pub use recorder::Recorder;
pub use scrub::Scrubber;

/// A cassette that cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CassetteError {
    /// The file cannot be written.
    #[error("the cassette '{path}' cannot be written: {source}; name a writable file")]
    Write {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The file cannot be read.
    #[error("the cassette '{path}' cannot be read: {source}; record it first")]
    Read {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The file is no cassette.
    #[error("line {line} of the cassette '{path}' is damaged: {message}; record it anew")]
    Damaged {
        /// The file.
        path: String,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong with it.
        message: String,
    },
}

impl CassetteError {
    /// The stable reason.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Write { .. } => "cassette_write",
            Self::Read { .. } => "cassette_read",
            Self::Damaged { .. } => "cassette_damaged",
        }
    }
}
