//! The bounds of hooks. Each is enforced where it is named and tested at its
//! edge.

use std::time::Duration;

/// How long a hook may run unless it says otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// The longest timeout a hook may ask for; registration refuses a longer one.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// How many hooks one registry holds; registration refuses more.
pub const MAX_HOOKS: usize = 1024;

/// Bytes of one text a hook answers with (a reason, a message, a context).
/// Longer text is cut, and says so.
pub const MAX_TEXT_BYTES: usize = 32 * 1024;

/// How many system messages, and how many contexts, one answer may carry.
/// The rest are dropped, and the run says so.
pub const MAX_TEXTS_PER_ANSWER: usize = 16;

/// Bytes of JSON of one rewritten input or output. A hook that answers with
/// more has failed.
pub const MAX_REWRITE_BYTES: usize = 4 * 1024 * 1024;

/// Bytes of a hook file, or of the JSON that stands for one. A larger one is
/// refused.
pub const MAX_FILE_BYTES: usize = 1024 * 1024;

/// Handlers of one hook file; the rest are left out with a warning.
pub const MAX_FILE_HANDLERS: usize = 256;

/// Steps back that a matcher may take over one value. One that takes more
/// counts as matching: a guard runs rather than not.
pub const MATCHER_BACKTRACKS: usize = 100_000;

/// Bytes of each output stream of a command, and of the answer of a server. A
/// handler that says more has failed and is ended.
pub const MAX_OUTPUT_BYTES: usize = 1024 * 1024;

/// How long the processes of a handler that is ended get before they are
/// killed.
pub const COMMAND_GRACE: Duration = Duration::from_millis(500);

/// How long a handler is waited for beyond its timeout, for its processes to
/// end. It is dropped then, and they are killed.
pub const TIMEOUT_SLACK: Duration = Duration::from_secs(5);

/// Handlers of files that run at one time for one event of a session.
pub const SIDE_BY_SIDE: usize = 64;

/// How many times an agent handler may ask its model.
pub const AGENT_TURNS: u32 = 50;
