//! Every bound of this crate, named, with its unit.

/// Requests that a [`FakeProvider`](crate::FakeProvider) keeps for
/// [`requests`](crate::FakeProvider::requests); the oldest are let go first.
pub const RECORDED_REQUESTS: usize = 4_096;

/// Steps with tool calls that the offline model takes for one user message
/// before it answers with what it has.
pub const OFFLINE_STEPS: usize = 4;

/// Files that the offline model reads side by side in one step.
pub const OFFLINE_PARALLEL_READS: usize = 3;

/// Characters of a user message that the offline model reads.
pub const OFFLINE_REQUEST_CHARS: usize = 4_000;

/// Lines of a file or of a command's output that the offline model shows.
pub const OFFLINE_SHOWN_LINES: usize = 40;

/// Paths or matches that the offline model lists.
pub const OFFLINE_SHOWN_ITEMS: usize = 30;

/// Characters of one line that the offline model shows.
pub const OFFLINE_LINE_CHARS: usize = 200;

/// Characters that the offline model puts into one delta, about.
pub const OFFLINE_DELTA_CHARS: usize = 48;

/// Paths that the offline model asks a glob for.
pub const OFFLINE_GLOB_RESULTS: usize = 1_000;

/// Matches that the offline model asks a search for.
pub const OFFLINE_SEARCH_MATCHES: usize = 100;
