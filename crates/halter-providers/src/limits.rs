//! Every bound of this crate, named, with its unit.

/// Requests that a [`FakeProvider`](crate::FakeProvider) keeps for
/// [`requests`](crate::FakeProvider::requests); the oldest are let go first.
pub const RECORDED_REQUESTS: usize = 4_096;

/// Steps with tool calls that the offline model takes for one user message
/// before it answers with what it has.
pub const OFFLINE_STEPS: usize = 4;

/// Files that the offline model reads side by side in one step.
pub const OFFLINE_PARALLEL_READS: usize = 3;

/// Characters of a user message that the offline model reads.
pub const OFFLINE_REQUEST_CHARS: usize = 4_000;

/// Lines of a file or of a command's output that the offline model shows.
pub const OFFLINE_SHOWN_LINES: usize = 40;

/// Paths or matches that the offline model lists.
pub const OFFLINE_SHOWN_ITEMS: usize = 30;

/// Characters of one line that the offline model shows.
pub const OFFLINE_LINE_CHARS: usize = 200;

/// Characters that the offline model puts into one delta, about.
pub const OFFLINE_DELTA_CHARS: usize = 48;

/// Paths that the offline model asks a glob for.
pub const OFFLINE_GLOB_RESULTS: usize = 1_000;

/// Matches that the offline model asks a search for.
pub const OFFLINE_SEARCH_MATCHES: usize = 100;

/// Bytes of one server-sent event, its field names included.
pub const SSE_EVENT_BYTES: usize = 16 * 1024 * 1024;

/// Bytes of a response that is one JSON document instead of a stream.
pub const DOCUMENT_BYTES: usize = 32 * 1024 * 1024;

/// Bytes read of the body of a response that is not a success.
pub const ERROR_BODY_BYTES: usize = 64 * 1024;

/// Time to read the body of a response that is not a success, in seconds.
pub const ERROR_BODY_SECS: u64 = 10;

/// Characters of a server's own words that an error repeats.
pub const ERROR_MESSAGE_CHARS: usize = 2_000;

/// Time that a finished answer waits for its connection to become free for
/// the next request, in milliseconds. After it the connection is closed.
pub const DRAIN_MILLIS: u64 = 100;

/// Conversations whose encoded messages a provider keeps between requests;
/// the one used longest ago is let go first.
pub const KEPT_CONVERSATIONS: usize = 64;

/// Bytes of encoded messages that a provider keeps between requests. The
/// newest conversation is kept even if it alone is larger.
pub const KEPT_CONVERSATION_BYTES: usize = 256 * 1024 * 1024;

/// Idle connections kept open to one host.
pub const IDLE_CONNECTIONS: usize = 8;

/// Time an idle connection is kept open, in seconds.
pub const IDLE_CONNECTION_SECS: u64 = 90;

/// Time between two probes of an idle TCP connection, in seconds.
pub const TCP_KEEPALIVE_SECS: u64 = 30;
