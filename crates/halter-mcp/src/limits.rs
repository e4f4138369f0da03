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
