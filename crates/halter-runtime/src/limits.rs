//! Every bound of this crate, with its unit.

use std::time::Duration;

/// Turns that may wait behind the live one.
pub const QUEUED_TURNS: usize = 64;

/// Messages that may wait to join the live turn.
pub const QUEUED_STEERS: usize = 64;

/// Tool calls of one answer that run at the same time.
pub const PARALLEL_TOOL_CALLS: usize = 16;

/// Tool calls one answer may hold; more are answered with an error.
pub const TOOL_CALLS_PER_ANSWER: usize = 128;

/// Equal calls with equal results before the model is warned.
pub const REPEATS_BEFORE_WARNING: usize = 3;

/// Calls the repetition guard looks back over.
pub const REPEAT_WINDOW_CALLS: usize = 12;

/// Empty answers in a row that are asked again before the turn fails.
pub const EMPTY_ANSWER_RETRIES: u32 = 1;

/// Times a model is asked to correct a structured answer before the turn fails.
pub const STRUCTURED_OUTPUT_REPAIRS: u32 = 2;

/// Times a model may pause in one turn and be asked to go on.
pub const PAUSED_ANSWER_RESUMES: u32 = 16;

/// Times Stop hooks may make one turn go on.
pub const STOP_HOOK_CONTINUATIONS: u32 = 8;

/// How long a tool that is not long-running may take.
pub const TOOL_DEADLINE: Duration = Duration::from_secs(120);

/// How long a cancelled tool has to stop before it is given up.
pub const CANCEL_GRACE: Duration = Duration::from_secs(2);

/// How long all sessions together may take to end once a runtime shuts down
/// and the turns had their time. What has not ended then is given up.
pub const END_DEADLINE: Duration = Duration::from_secs(30);

/// Events kept for subscribers that are not waiting for the next one.
pub const HUB_EVENTS: usize = 1024;

/// Commands that may wait for a session's owner.
pub const SESSION_INBOX: usize = 256;

/// Events of the model's stream that may wait for a session's owner; the stream
/// waits for a place.
pub const MODEL_QUEUE_EVENTS: usize = 64;

/// Appends that may wait for the one under way before the session stops
/// listening to the model.
pub const WAITING_APPENDS: usize = 64;

/// The most of a change that a request for approval shows, in bytes.
pub const APPROVAL_DIFF_BYTES: usize = 64 * 1024;

/// Events a subscriber fetches from the store at a time.
pub const CATCH_UP_PAGE: usize = 256;

/// The longest piece of tool output in one event, in bytes.
pub const TOOL_OUTPUT_CHUNK_BYTES: usize = 16 * 1024;
