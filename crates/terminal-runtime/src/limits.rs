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
