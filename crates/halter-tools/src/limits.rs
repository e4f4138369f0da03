//! Every bound of this crate, named, with its unit.

use std::time::Duration;

/// Bytes of text in the result of any tool; the rest is left out with a note.
/// Built-in tools stay far below.
pub const TOOL_RESULT_BYTES: usize = 4 * 1024 * 1024;

/// Lines that `read` returns when no `limit` is given, and at most.
pub const READ_LINES: usize = 500;

/// Bytes of one line that `read` and `grep` return; the rest is left out with
/// a note.
pub const LINE_BYTES: usize = 2_000;

/// Bytes at the start of a file that are looked at to tell text from binary.
pub const BINARY_SNIFF_BYTES: usize = 8_192;

/// Paths that `glob` returns when no `max_results` is given.
pub const GLOB_DEFAULT_RESULTS: usize = 200;

/// Paths that `glob` returns at most.
pub const GLOB_MAX_RESULTS: usize = 1_000;

/// Directory entries that one `glob` or `grep` visits before it stops and says
/// so.
pub const WALK_ENTRIES: usize = 500_000;

/// Characters of a pattern that `glob` and `grep` accept.
pub const PATTERN_CHARS: usize = 1_000;

/// Matches that `grep` returns when no `max_matches` is given.
pub const GREP_DEFAULT_MATCHES: usize = 100;

/// Matches that `grep` returns at most.
pub const GREP_MAX_MATCHES: usize = 1_000;

/// Lines of context before or after a match that `grep` returns at most.
pub const GREP_CONTEXT_LINES: usize = 20;

/// Bytes of lines and context that one `grep` returns at most.
pub const GREP_RESULT_BYTES: usize = 256 * 1024;

/// Bytes that a compiled `grep` pattern may take.
pub const GREP_PATTERN_MEMORY_BYTES: usize = 10 * 1024 * 1024;

/// Bytes of a file that `grep` holds in memory at once: the longest line, and
/// for `multiline` the largest file, that it searches.
pub const GREP_HEAP_BYTES: usize = 16 * 1024 * 1024;

/// Bytes that `write` and `edit` put in a file at most.
pub const WRITE_BYTES: usize = 16 * 1024 * 1024;

/// Bytes of a file that `edit` accepts.
pub const EDIT_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// Files that one call changes at most.
pub const CHANGED_FILES: usize = 200;

/// Bytes of text, before and after, that a call which changes several files
/// holds at once.
pub const CHANGED_TOTAL_BYTES: usize = 64 * 1024 * 1024;

/// Bytes of a patch that `apply_patch` accepts.
pub const PATCH_BYTES: usize = 4 * 1024 * 1024;

/// Lines that are compared to find where the hunks of one file go, and to find
/// what an edit nearly quotes: enough for any file, but not for lines that all
/// look alike.
pub const LINE_COMPARISONS: usize = 100_000_000;

/// Edits of one `multi_edit`.
pub const MULTI_EDITS: usize = 100;

/// Names that one `delete` of a directory takes at most.
pub const DELETE_ENTRIES: usize = 10_000;

/// Names that `list` returns when no `max_results` is given.
pub const LIST_DEFAULT_ENTRIES: usize = 200;

/// Names that `list` returns at most.
pub const LIST_MAX_ENTRIES: usize = 2_000;

/// Line numbers that a refused `edit` lists.
pub const EDIT_LISTED_LINES: usize = 20;

/// Bytes of each output stream that a `shell` result holds: half from the
/// start, half from the end.
pub const SHELL_RESULT_BYTES: usize = 32 * 1024;

/// Bytes of one output stream of a command that are kept on disk for later
/// reading.
pub const SHELL_KEPT_FILE_BYTES: u64 = 256 * 1024 * 1024;

/// Files of kept output that a session has at most; the oldest is removed.
pub const SHELL_KEPT_FILES: usize = 32;

/// Characters of a command line that `shell` accepts.
pub const SHELL_COMMAND_CHARS: usize = 32 * 1024;

/// Seconds that a `shell` command may run when no `timeout_ms` is given and the
/// policy allows that much.
pub const SHELL_DEFAULT_TIMEOUT_SECS: u64 = 120;

/// Variables that one `shell` call may set.
pub const SHELL_ENV_VARS: usize = 64;

/// Directories below those that commands may change in which a repository that
/// a command makes is noticed. To look at so many takes some milliseconds.
pub const WATCHED_DIRECTORIES: usize = 2_000;

/// How deep these lie.
pub const WATCHED_DEPTH: usize = 6;

/// Files within one protected directory that are looked at after a command,
/// whether or not the kernel protects them.
pub const PROTECTED_ENTRIES: usize = 1_000;

/// Bytes of an answer that tells where a browser elsewhere is.
pub const BROWSER_ENDPOINT_BYTES: usize = 64 * 1024;

/// Seconds that `profile` samples at most.
pub const PROFILE_SECS: u64 = 300;

/// Seconds that it samples if nothing is said.
pub const PROFILE_DEFAULT_SECS: u64 = 30;

/// Samples in a second that it takes at most: more would disturb what is
/// measured.
pub const PROFILE_HERTZ: u32 = 999;

/// Samples in a second that it takes if nothing is said; not in step with
/// what runs a hundred times a second.
pub const PROFILE_DEFAULT_HERTZ: u32 = 99;

/// Samples in a second where only `/proc` is there to look at.
pub const PROFILE_PROC_HERTZ: u32 = 49;

/// Different stacks that are told apart.
pub const PROFILE_STACKS: usize = 20_000;

/// Functions of one stack, from the outermost.
pub const PROFILE_DEPTH: usize = 128;

/// Characters of the name of a function.
pub const PROFILE_NAME_CHARS: usize = 200;

/// Functions in a result.
pub const PROFILE_FUNCTIONS: usize = 20;

/// Bytes of a sampled command's output in a result: the last ones.
pub const PROFILE_OUTPUT_BYTES: usize = 4 * 1024;

/// How long `perf` may take to begin.
pub const PROFILE_ATTACH_TIME: Duration = Duration::from_secs(10);

/// How long `perf` may take to list what it saw.
pub const PROFILE_READ_TIME: Duration = Duration::from_secs(60);

/// Variables with literal values that commands of a session have set, and that
/// may go along when a command leaves the sandbox; the oldest is forgotten.
pub const WRITTEN_VARIABLES: usize = 256;

/// Bytes of the value of such a variable.
pub const WRITTEN_VALUE_BYTES: usize = 8 * 1024;

/// Names of variables that a result lists as left behind.
pub const LISTED_VARIABLES: usize = 8;

/// Patterns or rewrites of one `ast_grep`.
pub const AST_PATTERNS: usize = 16;

/// Matches that `ast_grep` lists when no `limit` is given.
pub const AST_DEFAULT_MATCHES: usize = 50;

/// Matches that `ast_grep` lists at most.
pub const AST_MAX_MATCHES: usize = 500;

/// Bytes of the matches that one `ast_grep` lists at most.
pub const AST_RESULT_BYTES: usize = 256 * 1024;

/// Changes that one `ast_grep` makes at most.
pub const AST_REPLACEMENTS: usize = 5_000;

/// Bytes of a file that `ast_grep` parses.
pub const AST_FILE_BYTES: u64 = 1024 * 1024;

/// Levels of a syntax tree that `ast_grep` goes down.
pub const AST_DEPTH: usize = 5_000;

/// Files with syntax errors that one `ast_grep` lists at most.
pub const AST_LISTED_FILES: usize = 20;

/// How long one `ast_grep` searches.
pub const AST_TIME: Duration = Duration::from_secs(60);

/// Bytes of a file that `image` opens.
pub const IMAGE_FILE_BYTES: u64 = 32 * 1024 * 1024;

/// Pixels of an image that `image` decodes, and of one that it makes.
pub const IMAGE_PIXELS: u64 = 50_000_000;

/// Bytes that a decoded image may take.
pub const IMAGE_DECODED_BYTES: u64 = 4 * IMAGE_PIXELS;

/// Pixels of each side that `image` crops and scales to.
pub const IMAGE_RESULT_SIDE_PIXELS: u32 = 8_000;

/// Background jobs of a session that run at once.
pub const JOBS_RUNNING: usize = 16;

/// Background jobs of a session whose output is kept; of those that have
/// ended, the oldest goes.
pub const JOBS_KEPT: usize = 32;

/// Bytes of the output of a background job that are kept in memory: half from
/// the start, half from the end.
pub const JOB_KEPT_BYTES: usize = 2 * 1024 * 1024;

/// Bytes of the output of a background job that one result holds.
pub const JOB_RESULT_BYTES: usize = 32 * 1024;

/// How long `process` waits at most for news of a background job.
pub const JOB_POLL_WAIT: Duration = Duration::from_secs(30);

/// How long a background job prints nothing before its news are shown.
pub const JOB_SETTLE_TIME: Duration = Duration::from_millis(200);

/// Terminals of a session that are open at once.
pub const PTY_TERMINALS: usize = 8;

/// Columns of a terminal.
pub const PTY_COLUMNS: u16 = 500;

/// Rows of a terminal.
pub const PTY_ROWS: u16 = 200;

/// Keys that one call presses.
pub const PTY_KEYS: usize = 256;

/// Bytes of the output of a program in a terminal that are kept: half from the
/// start, half from the end.
pub const PTY_RAW_BYTES: usize = 1024 * 1024;

/// Bytes of output as it came that one result holds.
pub const PTY_READ_BYTES: usize = 32 * 1024;

/// Texts in reverse video that are listed beside a screen.
pub const PTY_HIGHLIGHTED: usize = 10;

/// Characters of the title of a terminal.
pub const PTY_TITLE_CHARS: usize = 200;

/// Milliseconds that a call waits for a screen when no `timeout_ms` is given.
pub const PTY_DEFAULT_WAIT_MS: u64 = 5_000;

/// Milliseconds that a call waits for a screen at most.
pub const PTY_MAX_WAIT_MS: u64 = 60_000;

/// How long a program may take to react to what was typed before its screen
/// counts as at rest.
pub const PTY_FIRST_OUTPUT_TIME: Duration = Duration::from_secs(1);

/// How long nothing is printed on a screen at rest.
pub const PTY_SETTLE_TIME: Duration = Duration::from_millis(200);

/// Processes that `process` lists at most.
pub const PROCESS_LISTED: usize = 1_000;

/// Characters of a task's subject.
pub const TASK_SUBJECT_CHARS: usize = 500;

/// Characters of a task's description.
pub const TASK_DESCRIPTION_CHARS: usize = 4_000;

/// Problems that one refusal of arguments lists.
pub const LISTED_PROBLEMS: usize = 8;

/// Problems that are counted for it.
pub const COUNTED_PROBLEMS: usize = 1_000;

/// Steps of a comparison of a value with a schema: one for each keyword that a
/// part of the value is looked at by.
pub const CHECK_STEPS: usize = 1_000_000;

/// How deep such a comparison may nest: in the value, in the schema and by
/// references together. Each level takes stack.
pub const CHECK_DEPTH: usize = 256;

/// Patterns that a schema may have.
pub const SCHEMA_PATTERNS: usize = 200;

/// Bytes that one of them may take.
pub const SCHEMA_PATTERN_MEMORY_BYTES: usize = 1024 * 1024;

/// How often one of them may try again at one text.
pub const SCHEMA_PATTERN_BACKTRACKS: usize = 10_000;

/// Characters of a refused value that a refusal repeats.
pub const SHOWN_VALUE_CHARS: usize = 80;

/// How long a change is compared with what is there, for a person to read,
/// before the comparison gets coarser.
pub const DIFF_TIME: Duration = Duration::from_millis(200);

/// How long the addresses of one host are looked up.
pub const RESOLVE_TIME: Duration = Duration::from_secs(10);

/// Addresses of one host that are tried.
pub const CONNECT_ADDRESSES: usize = 16;

/// How long one address may take to answer.
pub const CONNECT_TIME: Duration = Duration::from_secs(20);

/// Connections of commands that one proxy serves at once; others wait.
pub const PROXY_CONNECTIONS: usize = 128;

/// Bytes of the head of one request to a proxy.
pub const PROXY_HEAD_BYTES: usize = 64 * 1024;

/// How long a client of a proxy may take to say what it wants.
pub const PROXY_HEAD_TIME: Duration = Duration::from_secs(15);

/// How long nothing may move on a connection through a proxy.
pub const PROXY_IDLE_TIME: Duration = Duration::from_secs(300);

/// Bytes that a proxy copies at once, for each direction of a connection.
pub const PROXY_COPY_BYTES: usize = 128 * 1024;

/// Refusals that a proxy keeps for the result of a command; the oldest go.
pub const PROXY_REFUSALS: usize = 32;

/// Hosts that one call asks a person about while it runs; others are refused.
pub const HOST_QUESTIONS: usize = 8;

/// Characters of an address that a tool for the web takes.
pub const WEB_ADDRESS_CHARS: usize = 4_000;

/// Bytes of the head of an answer.
pub const WEB_HEAD_BYTES: usize = 128 * 1024;

/// Bytes of an answer that are read, after decompression: the largest document
/// that model services take.
pub const WEB_BODY_BYTES: usize = halter_protocol::limits::DOCUMENT_BYTES;

/// Bytes of an answer that are read as text.
pub const WEB_TEXT_BYTES: usize = 2 * 1024 * 1024;

/// Bytes of text that one `web_fetch` returns.
pub const WEB_RESULT_BYTES: usize = 32 * 1024;

/// Bytes that an error repeats of what a server said.
pub const WEB_ERROR_BYTES: usize = 1_000;

/// Redirects that `web_fetch` follows.
pub const WEB_REDIRECTS: usize = 10;

/// Seconds that a `web_fetch` may take when no `timeout_secs` is given.
pub const WEB_FETCH_SECS: u64 = 30;

/// Seconds that a `web_fetch` may take at most.
pub const WEB_FETCH_MAX_SECS: u64 = 300;

/// Levels of a page that is converted; one with more comes as plain text.
pub const WEB_PAGE_DEPTH: usize = 256;

/// Nodes of a page that is converted; one with more comes as plain text.
pub const WEB_PAGE_NODES: usize = 100_000;

/// Characters of a query that `web_search` takes.
pub const WEB_SEARCH_QUERY_CHARS: usize = 400;

/// Pages that `web_search` returns when no `max_results` is given.
pub const WEB_SEARCH_DEFAULT_RESULTS: usize = 10;

/// Pages that `web_search` returns at most.
pub const WEB_SEARCH_RESULTS: usize = 20;

/// Characters of a title or a snippet that `web_search` returns.
pub const WEB_SEARCH_SNIPPET_CHARS: usize = 500;

/// Bytes of an answer of a search service.
pub const WEB_SEARCH_BYTES: usize = 4 * 1024 * 1024;

/// Seconds that a search may take.
pub const WEB_SEARCH_SECS: u64 = 30;

/// Bytes of one message from a browser; a screenshot is the largest.
#[cfg(feature = "browser-tools")]
pub const BROWSER_MESSAGE_BYTES: usize = 64 * 1024 * 1024;

/// Bytes that are kept of what a browser says when it fails.
#[cfg(feature = "browser-tools")]
pub const BROWSER_STDERR_BYTES: usize = 16 * 1024;

/// Seconds that a browser may take to start.
#[cfg(feature = "browser-tools")]
pub const BROWSER_START_SECS: u64 = 90;

/// Seconds that a call of `browser` may take when no `timeout_secs` is given.
#[cfg(feature = "browser-tools")]
pub const BROWSER_CALL_SECS: u64 = 30;

/// Seconds that a call of `browser` may take at most.
#[cfg(feature = "browser-tools")]
pub const BROWSER_CALL_MAX_SECS: u64 = 300;

/// Seconds beyond those of a call after which a browser that does not answer is
/// ended.
#[cfg(feature = "browser-tools")]
pub const BROWSER_GRACE_SECS: u64 = 10;

/// Bytes of a snapshot of a page.
#[cfg(feature = "browser-tools")]
pub const BROWSER_SNAPSHOT_BYTES: usize = 32 * 1024;

/// Frames of a page that a snapshot looks into.
#[cfg(feature = "browser-tools")]
pub const BROWSER_FRAMES: usize = 50;

/// Levels of a page that a snapshot shows.
#[cfg(feature = "browser-tools")]
pub const BROWSER_TREE_DEPTH: usize = 100;

/// Bytes of the value of an expression.
#[cfg(feature = "browser-tools")]
pub const BROWSER_VALUE_BYTES: usize = 32 * 1024;

/// Tabs that are open at once; more are closed at once.
#[cfg(feature = "browser-tools")]
pub const BROWSER_TABS: usize = 20;

/// Hosts that pages asked for, of which a browser knows it; past that it begins
/// anew.
#[cfg(feature = "browser-tools")]
pub const BROWSER_HOSTS: usize = 1_000;

/// Lines of consoles that are kept; the oldest go.
#[cfg(feature = "browser-tools")]
pub const BROWSER_CONSOLE_LINES: usize = 200;

/// Characters of a line of a console, and of the text of a dialog.
#[cfg(feature = "browser-tools")]
pub const BROWSER_CONSOLE_CHARS: usize = 1_000;

/// How long `tool_search` waits for a source of tools that is still starting and
/// does not say how long that may take.
pub const LATE_TOOLS_WAIT: Duration = Duration::from_secs(10);

/// Bytes of what is wrong with a source of tools that sessions repeat.
pub const LATE_PROBLEM_BYTES: usize = 4 * 1024;

/// Tools that one call of `tool_search` loads.
pub const TOOL_SEARCH_RESULTS: usize = 20;

/// Characters of a task for a subagent.
pub const SUBAGENT_TASK_CHARS: u32 = 100_000;

/// Subagents that one call waits for.
pub const SUBAGENT_TARGETS: u32 = 64;

/// The longest that a call waits for subagents where it says how long, in
/// milliseconds.
pub const SUBAGENT_WAIT_MS: u64 = 3_600_000;

/// Characters of the line that tells a model of a type of subagent.
pub const SUBAGENT_TYPE_LINE_CHARS: usize = 200;

/// Questions that a call asks at once.
pub const QUESTIONS: usize = 8;

/// Characters of a question.
pub const QUESTION_CHARS: usize = 2_000;

/// Options of a question.
pub const QUESTION_OPTIONS: usize = 12;

/// Characters of an option.
pub const OPTION_CHARS: usize = 500;

/// Characters of the id of an option.
pub const OPTION_ID_CHARS: usize = 64;
