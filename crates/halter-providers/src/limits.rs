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

/// How long the offline model lets a project's tests run, in milliseconds.
pub const OFFLINE_TEST_MILLIS: u64 = 600_000;

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

/// Time without traffic after which a TCP connection is probed, in seconds.
pub const TCP_KEEPALIVE_SECS: u64 = 30;

/// Characters of a service's error text that an error shows.
pub const ERROR_EXCERPT_CHARS: usize = 500;

/// Bytes of a call's id that OpenAI Responses takes; longer ids of other
/// services are replaced by short ones.
pub const RESPONSES_CALL_ID_BYTES: usize = 64;

/// Bytes of event data that one answer may have; a longer one is an error.
pub const ANSWER_BYTES: usize = 64 * 1024 * 1024;

/// Tool calls that one answer may make; more are an error.
pub const ANSWER_TOOL_CALLS: usize = 1_024;

/// Bytes of a tool's name that servers of the Chat Completions wire take.
pub const CHAT_TOOL_NAME_BYTES: usize = 64;

/// Bytes of a call's id that servers of the Chat Completions wire take; longer
/// ids of other services are replaced by short ones.
pub const CHAT_CALL_ID_BYTES: usize = 40;

/// Bytes of a call's id that goes to Gemini; longer ids of other services are
/// replaced by short ones.
pub const GEMINI_CALL_ID_BYTES: usize = 128;

/// Bytes of a tool's name that OpenAI Responses and Gemini take.
pub const WIRE_TOOL_NAME_BYTES: usize = 64;

/// Models that a catalog keeps facts of besides its table; the oldest are
/// dropped first.
pub const CATALOG_MODELS: usize = 4_096;

/// Events without content that a retry holds back; an answer that has more of
/// them counts as shown. Also the warnings it remembers, to say each once.
pub const RETRY_HELD_EVENTS: usize = 64;

/// Models whose rates are watched at a time; the one first asked is forgotten
/// first.
pub const RATE_LIMITED_MODELS: usize = 1_024;

/// Time that a request is held back because of what a server's headers say,
/// in seconds. After it the server is asked again, whatever it said.
pub const RATE_HOLD_SECS: u64 = 60;

/// Waits for a rate shorter than this are not announced as a warning, which
/// stays in the session's log, in milliseconds.
pub const RATE_ANNOUNCED_WAIT_MILLIS: u64 = 1_000;

/// Waits for a rate shorter than this are nothing to show, in milliseconds.
pub const RATE_SHOWN_WAIT_MILLIS: u64 = 250;

/// Items that one response of OpenAI Responses may have; more are an error.
pub const RESPONSES_OUTPUT_ITEMS: usize = 4_096;

/// Characters of a text that a cassette shows around a difference.
pub const DIFFERENCE_CHARS: usize = 80;

/// How long a look for a server on this computer may take, in milliseconds.
pub const LOCAL_PROBE_MILLIS: u64 = 200;

/// Tokens from which a conversation with a model of unknown window counts as
/// too long when the server answers twice with nothing.
pub const EMPTY_ANSWER_TOKENS: u64 = 1_500;

/// Models of a local server whose windows are asked for, of those that its list
/// leaves open.
pub const WINDOW_PROBES: usize = 32;

/// How long a local server is asked for the window of a model, in
/// milliseconds.
pub const WINDOW_PROBE_MILLIS: u64 = 2_000;
