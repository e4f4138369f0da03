//! The bounds of the service. Each is enforced where it is named and tested at
//! its edge.

use std::time::Duration;

/// Bytes of a request body, unless the options say otherwise. A larger one is
/// answered with the wire's own "too large".
pub const MAX_BODY_BYTES: usize = 32 * 1024 * 1024;

/// Captured requests that are kept. Older ones are dropped and counted.
pub const MAX_CAPTURED_REQUESTS: usize = 10_000;

/// Bytes of captured bodies that are kept. Older requests are dropped first,
/// and counted; the newest is always kept.
pub const MAX_CAPTURED_BYTES: usize = 256 * 1024 * 1024;

/// Scenarios in one library.
pub const MAX_SCENARIOS: usize = 1_000;

/// Characters of a scenario's name.
pub const MAX_NAME_CHARS: usize = 64;

/// Steps of one scenario.
pub const MAX_STEPS: usize = 1_000;

/// Parts of one step.
pub const MAX_PARTS: usize = 256;

/// Bytes of one filler part: how long a line a scenario may send.
pub const MAX_FILLER_BYTES: usize = 64 * 1024 * 1024;

/// The longest delay a scenario may ask for, in milliseconds.
pub const MAX_DELAY_MS: u64 = 10 * 60 * 1_000;

/// Distinct requests whose attempts are counted for `fail_first`. Beyond it the
/// counts start anew.
pub const MAX_COUNTED_REQUESTS: usize = 10_000;

/// Responses that are kept for requests that go on from one. The oldest goes
/// first.
pub const MAX_STORED_RESPONSES: usize = 1_000;

/// Named gates one service remembers. Opening more of them is refused.
pub const MAX_GATES: usize = 1_000;

/// Cache marks the Anthropic wire and explicit breakpoints the Responses wire
/// accept in one request.
pub const MAX_CACHE_MARKS: usize = 4;

/// Characters of base64 of an image that the Anthropic wire accepts.
pub const MAX_IMAGE_CHARS: usize = 5 * 1024 * 1024;

/// Messages the Anthropic wire accepts in one request.
pub const MAX_MESSAGES: usize = 100_000;

/// How long a stop waits for answers under way before it cuts them.
pub const STOP_GRACE: Duration = Duration::from_secs(2);

/// How long a client may take to send its request's headers.
pub const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// Connections served at a time, unless the options say otherwise. Further
/// ones wait to be accepted.
pub const MAX_CONNECTIONS: usize = 1_024;
