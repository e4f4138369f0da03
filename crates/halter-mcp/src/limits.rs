//! The bounds of servers and of what they send. Each is enforced where it is
//! named and tested at its edge.

use std::time::Duration;

/// Bytes of the name of a server: it is part of the name of each of its tools.
pub const SERVER_NAME_BYTES: usize = 48;

/// Bytes of the name of a tool, as models call it: no model service takes
/// longer ones.
pub const TOOL_NAME_BYTES: usize = 64;

// --- serving ----------------------------------------------------------------

/// Bytes of one message of a host.
pub const MESSAGE_BYTES: usize = 4 * 1024 * 1024;

/// Messages to a host that may wait to be written.
pub const OUTGOING_MESSAGES: usize = 64;

/// How long the last messages to a host may take to leave.
pub const STREAM_CLOSE_WAIT: Duration = Duration::from_secs(2);

/// Tasks and calls that run for hosts at one time.
pub const TASKS_AT_ONCE: usize = 16;

/// Messages about progress that may wait for a host; later ones are dropped.
pub const PROGRESS_MESSAGES: usize = 64;

/// Characters of one message about progress.
pub const PROGRESS_CHARS: usize = 400;

/// A host that wants progress hears something this often.
pub const PROGRESS_BEAT: Duration = Duration::from_secs(15);

/// Bytes of a question to a person. A call that needs a longer one is denied.
pub const QUESTION_BYTES: usize = 64 * 1024;

/// How long a host may take to answer a question.
pub const QUESTION_WAIT: Duration = Duration::from_secs(600);

/// The same for a host that answers by calling again: then the task is
/// cancelled.
pub const PARKED_WAIT: Duration = Duration::from_secs(600);

/// How long work may take to end after it was cancelled.
pub const WORK_END_WAIT: Duration = Duration::from_secs(15);

/// HTTP connections at one time.
pub const HTTP_CONNECTIONS: usize = 64;

/// Hosts with an HTTP session of the protocol at one time.
pub const HTTP_SESSIONS: usize = 64;

/// How long the head of an HTTP request may take.
pub const HTTP_HEAD_WAIT: Duration = Duration::from_secs(10);

/// A host whose HTTP session was silent for so long has gone.
pub const HTTP_IDLE: Duration = Duration::from_secs(3600);

/// How long a host that lost its connection has to come back to its session.
pub const HOST_RETURN_WAIT: Duration = Duration::from_secs(30);

// --- using servers ------------------------------------------------------------

/// Bytes of one message of a server. One that sends more is disconnected.
pub const SERVER_MESSAGE_BYTES: usize = 32 * 1024 * 1024;

/// Lines in a row that are no messages. A server that prints more to its
/// standard output is disconnected.
pub const STRAY_LINES: usize = 1000;

/// Messages that a server may send in [`FLOOD_WINDOW`]; one that sends more is
/// disconnected.
pub const FLOOD_MESSAGES: u32 = 20_000;

/// The time that messages are counted in.
pub const FLOOD_WINDOW: Duration = Duration::from_secs(1);

/// Bytes of what a server wrote to standard error that are kept, to be told
/// when it fails.
pub const LAST_WORDS_BYTES: usize = 4 * 1024;

/// How long a server has to end by itself once its input has ended, and again
/// once it was told to.
pub const STOP_GRACE: Duration = Duration::from_secs(2);

/// The pause before a server is started again; it doubles each time.
pub const RESTART_DELAY: Duration = Duration::from_millis(500);

/// The longest pause before a server is started again.
pub const RESTART_DELAY_MAX: Duration = Duration::from_secs(30);

/// How often a server is started again that fails each time.
pub const RESTARTS: u32 = 5;

/// A server that was usable for so long has not failed in a row.
pub const RESTART_STABLE: Duration = Duration::from_secs(60);

/// How long a server has to start and say what it has, unless its settings say
/// otherwise.
pub const START_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a harness waits for its servers before its first session. Tools of
/// those that take longer join later.
pub const SETTLE_GRACE: Duration = Duration::from_secs(1);

/// How long a call may take without a sign of progress, unless the settings of
/// its server say otherwise.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// The longest a call may take, whatever progress is made.
pub const CALL_TIMEOUT_MAX: Duration = Duration::from_secs(60 * 60);

/// Tools that one server may have; it has none of the others.
pub const TOOLS_PER_SERVER: usize = 1000;

/// Pages of one list that a server is asked for.
pub const LIST_PAGES: usize = 200;

/// Bytes of the description of a tool that models are shown.
pub const DESCRIPTION_BYTES: usize = 4 * 1024;

/// Bytes of the schema of a tool. A tool with a larger one is left out.
pub const SCHEMA_BYTES: usize = 64 * 1024;

/// How deep the schema of a tool may be nested. A tool with a deeper one is
/// left out.
pub const SCHEMA_DEPTH: usize = 32;

/// Bytes of text in one result that a model is shown; the rest is cut.
pub const RESULT_TEXT_BYTES: usize = 256 * 1024;

/// Rounds in which one call may ask for input.
pub const INPUT_ROUNDS: usize = 10;

/// Bytes of one message of progress that is shown.
pub const PROGRESS_BYTES: usize = 1024;

/// Bytes of a server's own text, such as an error, that is repeated.
pub const QUOTED_BYTES: usize = 2 * 1024;
