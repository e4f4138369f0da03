//! Every bound this crate keeps, with its unit.

use std::time::Duration;

/// Bytes of a message between daemon and holder that travel in the datagram
/// itself; a longer one travels in a file.
pub const MAX_INLINE_MESSAGE_BYTES: usize = 64 * 1024;

/// Bytes of any message between daemon and holder.
pub const MAX_HOLDER_MESSAGE_BYTES: u64 = 64 * 1024 * 1024;

/// Groups of descriptors that the holder makes for one request.
pub const MAX_UNITS_AHEAD: u64 = 64;

/// How long a holder without a daemon, and with nothing at work, waits for
/// the next one.
pub const HOLDER_LINGER: Duration = Duration::from_secs(600);

/// How long the holder may take to bring down what is left when it ends.
pub const HOLDER_END_WAIT: Duration = Duration::from_secs(10);

/// How long a holder may take to start and to answer.
pub const HOLDER_START_DEADLINE: Duration = Duration::from_secs(10);

/// Groups of processes that a session keeps for its next command.
pub const SPARE_GROUPS: usize = 2;

/// How long the processes of a session that is destroyed may take to die.
pub const TREE_END_WAIT: Duration = Duration::from_secs(10);

/// The size of the pipe of a stream that has shown to be busy.
pub const LARGE_PIPE_BYTES: usize = 1024 * 1024;

/// Ended commands whose results are kept for those who ask again.
pub const KEPT_RESULTS: usize = 256;

/// How long the result of an ended command is kept for those who ask again.
pub const KEPT_RESULT_TIME: Duration = Duration::from_secs(600);

/// Bytes of what a shell has said about its commands that are kept before
/// they are forgotten.
pub const MAX_RECORD_FILE_BYTES: u64 = 64 * 1024;

/// How long a command that is cancelled gets between the first signal and
/// TERM.
pub const CANCEL_GRACE: Duration = Duration::from_millis(500);
