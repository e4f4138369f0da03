//! Why input was not taken.

use std::io;

use crate::limits::MAX_STDIN_BYTES;

/// Why bytes for a process's standard input were not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// They begin after the end of what was taken.
    #[error("input at offset {found} leaves a gap: send from offset {expected} on")]
    Gap {
        /// The offset of the next byte.
        expected: u64,
        /// The offset given.
        found: u64,
    },
    /// The process has closed its input, or was told that nothing comes.
    #[error("the standard input is closed; nothing more can be sent to this process")]
    Closed,
    /// Too much waits for the process to read it.
    #[error("{MAX_STDIN_BYTES} bytes wait for the process to read them; send more when it has")]
    Full,
    /// The system refused.
    #[error("keeping standard input failed: {0}")]
    Io(#[source] io::Error),
}

impl InputError {
    /// A stable name for this kind of error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Gap { .. } => "input_gap",
            Self::Closed => "input_closed",
            Self::Full => "input_full",
            Self::Io(_) => "io",
        }
    }
}
