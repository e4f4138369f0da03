//! Every bound of this wire, named, with its unit.

/// Cache marks that one request may carry.
pub const CACHE_MARKS: usize = 4;

/// Blocks that the service looks back from a cache mark for an earlier one,
/// the marked block included.
pub const CACHE_LOOKBACK_BLOCKS: usize = 20;

/// Characters of a tool's name that the service takes.
pub const TOOL_NAME_CHARS: usize = 64;

/// Tokens of the smallest reasoning budget that the service takes.
pub const MIN_THINKING_BUDGET_TOKENS: u32 = 1_024;

/// Bytes of event data that one answer may have; a longer one is an error.
pub const ANSWER_BYTES: usize = 64 * 1024 * 1024;

/// Characters of a server's own words that an error repeats.
pub const ERROR_MESSAGE_CHARS: usize = 2_000;
