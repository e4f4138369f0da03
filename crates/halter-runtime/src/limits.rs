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

/// How long hooks that run beside a turn are waited for when their session
/// ends. Then they are cancelled.
pub const BESIDE_GRACE: Duration = Duration::from_secs(5);

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

/// The part of a model's window at which a context is compacted, in percent,
/// where nothing else is configured.
pub const COMPACTION_PERCENT: u64 = 80;

/// Room that is left for an answer where no output limit is known, in tokens;
/// a quarter of a small window.
pub const CONTEXT_HEADROOM_TOKENS: u64 = 16_384;

/// The shortest output that becomes a reference, in tokens.
pub const SHRINKABLE_OUTPUT_TOKENS: u64 = 200;

/// The start of an output that its reference shows, in bytes.
pub const REFERENCE_EXCERPT_BYTES: usize = 160;

/// The most of a user's message that stays when what surrounds it is cut, in
/// bytes.
pub const RETAINED_USER_BYTES: usize = 8 * 1024;

/// The least that a summary must stand for to be written, in tokens.
pub const LEAST_SUMMARISED_TOKENS: u64 = 300;

/// The longest summary, in bytes.
pub const SUMMARY_BYTES: usize = 24 * 1024;

/// The most that a model may write as a summary, in tokens, reasoning included.
pub const SUMMARY_OUTPUT_TOKENS: u64 = 8_192;

/// How long a summary may take before a list stands in for it.
pub const SUMMARY_DEADLINE: Duration = Duration::from_secs(180);

/// The most that a model may write at once for a running call, in tokens.
pub const CALL_MODEL_OUTPUT_TOKENS: u32 = 8_192;

/// How long a model may take to answer for a running call.
pub const CALL_MODEL_DEADLINE: Duration = Duration::from_secs(180);

/// Files that a model is reminded of after a summary.
pub const REMEMBERED_FILES: usize = 20;

/// Open tasks, and done ones, that a model is reminded of after a summary.
pub const REMEMBERED_TASKS: usize = 50;

/// Outputs that a model can look up after a summary without searching.
pub const REMEMBERED_OUTPUTS: usize = 40;

/// How long the list of running processes may take before it is left out.
pub const PROCESS_LIST_DEADLINE: Duration = Duration::from_secs(2);

/// The shortest output that is among them, in bytes.
pub const REMEMBERED_OUTPUT_BYTES: usize = 800;

/// Running processes that a model is reminded of after a summary.
pub const REMEMBERED_PROCESSES: usize = 20;

/// The shortest answer that a model is asked for when a budget runs out, in
/// tokens.
pub const LEAST_OUTPUT_TOKENS: u64 = 1_024;

/// What an answer may have, in tokens, where nobody knows the model's limit and
/// a budget has to reserve something for it.
pub const ASSUMED_OUTPUT_TOKENS: u64 = 32_768;

/// The part of a limit at which it is said that it comes near, in percent.
pub const BUDGET_WARNING_PERCENT: u64 = 80;

/// Tokens in a prompt cache below which a miss is not worth a word.
pub const CACHE_PROMISE_TOKENS: u64 = 1_024;

/// How long services keep a prompt that nobody asks with again, about.
pub const PROMPT_CACHE_LIFE: Duration = Duration::from_secs(300);

/// Bytes of rare tools' specs up to which they are sent with every request: to
/// defer less saves nothing.
pub const AUTO_DEFERRED_BYTES: usize = 4 * 1024;

/// Bytes of the line that tells of a tool that joined late.
pub const LATE_SUMMARY_BYTES: usize = 160;

/// Subagents that one turn may start.
pub const SUBAGENTS_PER_TURN: usize = 64;

/// Model calls of one turn of a subagent where nothing else is said.
pub const SUBAGENT_MODEL_CALLS: u32 = 200;

/// The longest report of a subagent, in bytes.
pub const SUBAGENT_REPORT_BYTES: usize = 32 * 1024;

/// The most of a subagent's task that its status shows, in bytes.
pub const SUBAGENT_TASK_BYTES: usize = 500;

/// Subagents that have reported and stay as they are, in case they are given
/// more to do. Others are taken up from the store again.
pub const KEPT_SUBAGENTS: usize = 16;

/// How long the report of a subagent that is closed may take.
pub const SUBAGENT_CLOSE_WAIT: Duration = Duration::from_secs(5);

/// How long a report waits before it is offered to a busy session again.
pub const BUSY_RETRY: Duration = Duration::from_millis(10);

/// Events of subagents that one turn forwards where nothing else is configured.
pub const FORWARDED_EVENTS: u64 = 100_000;

/// How long git may take for the worktree of a subagent.
pub const WORKTREE_DEADLINE: Duration = Duration::from_secs(120);

/// Names of settings that a repository with worktrees of subagents may have: in
/// one with more, git could run what is not turned off.
pub const WORKTREE_SETTINGS_BYTES: usize = 1024 * 1024;

/// The largest snapshot of resources that logs keep, as JSON. Of a larger one
/// they keep the name, and no later process can say what has changed.
pub const KEPT_SNAPSHOT_BYTES: usize = 16 * 1024 * 1024;

/// Commands that the text of a skill or a command runs; more are left to the
/// model.
pub const TEXT_COMMANDS: usize = 16;

/// Bytes of each stream of such a command that join the text.
pub const TEXT_COMMAND_OUTPUT_BYTES: usize = 16 * 1024;

/// Files that the text of a command brings by `@path`; more stay as written.
pub const TEXT_FILES: usize = 16;

/// Bytes of such a file; a longer one is for the model to read in parts.
pub const TEXT_FILE_BYTES: u64 = 64 * 1024;
