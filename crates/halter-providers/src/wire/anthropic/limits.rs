//! Every bound of this wire, named, with its unit.

/// Cache marks that one request may carry.
pub const CACHE_MARKS: usize = 4;

/// Blocks that the service looks back from a cache mark for an earlier one,
/// the marked block included.
pub const CACHE_LOOKBACK_BLOCKS: usize = 20;

/// Bytes of a tool's name that the service takes.
pub const TOOL_NAME_BYTES: usize = 64;

/// Tokens of the smallest reasoning budget that the service takes.
pub const MIN_THINKING_BUDGET_TOKENS: u32 = 1_024;

/// Bytes of a call's id; longer ids of other services are replaced by short
/// ones.
pub const CALL_ID_BYTES: usize = 256;
