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
