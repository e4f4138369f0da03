//! Named limits of this crate. Each one is refused with a typed error when it is passed.

use std::time::Duration;

/// The largest configuration file that is read, in bytes.
pub const MAX_CONFIG_FILE_BYTES: u64 = 1024 * 1024;

/// The largest trust record that is read or written, in bytes.
pub const MAX_TRUST_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// How long a writer of the trust record waits for another writer.
pub const TRUST_LOCK_WAIT: Duration = Duration::from_secs(5);

/// How long a writer of a rule waits for another writer.
pub const CONFIG_LOCK_WAIT: Duration = Duration::from_secs(5);

/// The most permission rules of one effect in one file.
pub const MAX_RULES: usize = 1000;

/// The largest edit distance at which a misspelt name still gets a suggestion, in characters.
pub const MAX_SUGGESTION_DISTANCE: usize = 3;

/// The longest value shown in a description of what trusting a file would change, in characters.
pub const MAX_SHOWN_VALUE_CHARS: usize = 200;

/// The largest whole number a configuration key accepts: TOML has no larger one.
pub const MAX_INTEGER: u64 = i64::MAX as u64;

/// The longest shell deadline and the longest timeout a file may set, in seconds (one week).
pub const MAX_TIMEOUT_SECS: u64 = 7 * 24 * 60 * 60;

/// The most attempts a retry policy may ask for.
pub const MAX_RETRY_ATTEMPTS: u64 = 100;

/// The longest name of a model service, in bytes.
pub const MAX_PROVIDER_NAME_BYTES: usize = 64;

/// The longest deadline of a server of tools, in seconds (one day).
pub const MAX_MCP_TIMEOUT_SECS: f64 = 86_400.0;

/// The most servers of tools that one file in the public format may describe.
pub const MAX_MCP_FILE_SERVERS: usize = 64;

/// The highest price of a million tokens, in US dollars.
pub const MAX_PRICE_DOLLARS: f64 = 1_000_000.0;

/// The largest budget, in US dollars.
pub const MAX_BUDGET_DOLLARS: f64 = 1_000_000_000.0;
