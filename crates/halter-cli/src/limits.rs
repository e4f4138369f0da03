//! Every bound of the command line, with its unit.

use std::time::Duration;

/// How long git may take to fetch a plugin.
pub const GIT_DEADLINE: Duration = Duration::from_secs(300);

/// The longest task that is read from a file or from standard input, in bytes.
pub const MAX_PROMPT_BYTES: u64 = 4 * 1024 * 1024;

/// How long a pipe on standard input may take to its first byte beside a task
/// that is given otherwise.
pub const STDIN_WAIT: Duration = Duration::from_secs(3);

/// The longest text that is attached to a message, in bytes. Images and PDFs
/// have the limits of model services.
pub const MAX_ATTACHED_TEXT_BYTES: usize = 1024 * 1024;

/// The longest schema of an answer that is read from a file, in bytes.
pub const MAX_OUTPUT_SCHEMA_BYTES: u64 = 256 * 1024;

/// How long a turn may go on after SIGTERM or SIGHUP.
pub const DRAIN: Duration = Duration::from_secs(10);

/// How long ending a session may take before the program leaves without it.
pub const SHUTDOWN_WAIT: Duration = Duration::from_secs(10);

/// What a second Ctrl-C leaves for ending child processes.
pub const LEAVE_WAIT: Duration = Duration::from_secs(1);

/// How long threads may take to end after everything else has.
pub const THREADS_WAIT: Duration = Duration::from_millis(300);

/// Two Ctrl-C at an empty prompt within this time leave a chat.
pub const LEAVE_WINDOW: Duration = Duration::from_secs(2);

/// How long nobody types in a chat before hooks hear of it.
pub const IDLE_NOTICE: Duration = Duration::from_secs(60);

/// The longest description of a tool call on one line, in characters.
pub const CALL_SUMMARY_CHARS: usize = 100;

/// The longest text of an answer or result that `sessions show` prints of one
/// message, in characters; `--json` prints all of it.
pub const SHOWN_RESULT_CHARS: usize = 400;

/// Lines a chat remembers.
pub const HISTORY_LINES: usize = 2_000;

/// Sessions on one page of a listing, unless `--limit` says otherwise.
pub const LISTED_SESSIONS: usize = 20;

/// The longest title in a listing, in columns.
pub const TITLE_COLUMNS: usize = 50;

/// The longest message that can be typed while a turn runs, in bytes.
pub const MAX_DRAFT_BYTES: usize = 16 * 1024;

/// Reads of the keyboard that may wait to be looked at.
pub const TYPED_CHUNKS: usize = 64;

/// How much of such a message is shown while it is typed, in characters.
pub const SHOWN_DRAFT_CHARS: usize = 60;

/// How long a line of thinking or tool output may get before it is shown in
/// pieces, in bytes.
pub const MAX_PARTIAL_BYTES: usize = 16 * 1024;

/// The longest line of standard input that answers a request for approval, in
/// bytes.
pub const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// Such lines that may wait to be looked at.
pub const WAITING_ANSWERS: usize = 16;

/// How many changed resources a line names.
pub const SHOWN_CHANGES: usize = 8;

/// How long `mcp login` waits for its user.
pub const LOGIN_WAIT: Duration = Duration::from_secs(600);

/// The longest head of a request of a browser that comes back from a login, in
/// bytes.
pub const LOGIN_HEAD_BYTES: u64 = 16 * 1024;

/// How long such a request may take.
pub const LOGIN_HEAD_WAIT: Duration = Duration::from_secs(5);
