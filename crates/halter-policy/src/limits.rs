//! The bounds of this crate, each with its unit.

/// Longest path a caller may spell, in bytes (Linux's `PATH_MAX`).
pub const MAX_PATH_BYTES: usize = 4096;

/// Symbolic links followed while one path is resolved (Linux's own bound).
pub const MAX_LINKS_FOLLOWED: usize = 40;

/// Directories held open at once while one path with links in it is resolved.
/// A path without links is resolved in one step and has no such bound.
pub const MAX_OPEN_DIRECTORIES: usize = 256;

/// Attempts to look at one directory entry that another process keeps
/// replacing, before the operation is refused.
pub const MAX_LOOK_ATTEMPTS: usize = 16;

/// Attempts to find a free name for a temporary file.
pub const MAX_TEMP_NAME_ATTEMPTS: usize = 64;

/// Names of one directory that are compared with a file that has several.
pub const MAX_SECRET_NAMES: usize = 512;

/// Longest shell command the judge reads, in bytes.
pub const MAX_COMMAND_BYTES: usize = 32 * 1024;

/// Expansions (`$(`, `${`, backquotes and the like) in one shell command,
/// counted without regard to quotes. The tokenizer recurses on nested ones.
pub const MAX_COMMAND_EXPANSIONS: usize = 64;

/// Words of a shell command that could open a compound command (`if`, `{`,
/// `while` …), counted without regard to position. The parser recurses on
/// nested ones.
pub const MAX_COMMAND_KEYWORDS: usize = 64;

/// Opening parentheses and `case`s in a shell command that our own reader
/// could not read. The parser's time doubles with each one that is never
/// closed.
pub const MAX_COMMAND_BRANCHES: usize = 12;

/// Opening parentheses and `case`s in a shell command that our own reader has
/// found to be closed.
pub const MAX_CLOSED_BRANCHES: usize = 64;

/// Constructs inside one another in one shell command: groups, loops,
/// substitutions, braces. Both readers recurse on them.
pub const MAX_COMMAND_NESTING: usize = 24;

/// Words and operators of one shell command. What they cost the parsers is
/// more than what their bytes do.
pub const MAX_COMMAND_WORDS: usize = 2048;

/// Words that the braces of one shell word may become before the judge takes
/// them for any number of any words.
pub const MAX_BRACE_WORDS: usize = 128;

/// Files that one command line may name, counted for each directory it may run
/// in: each is looked up.
pub const MAX_NAMED_FILES: usize = 1024;

/// Names of files that are looked at for the patterns of one command line.
pub const MAX_PATTERN_NAMES: usize = 8192;

/// Directories inside one another that `**` is followed into.
pub const MAX_PATTERN_DEPTH: usize = 24;

/// Links that one pattern may match: where each leads is looked up.
pub const MAX_PATTERN_LINKS: usize = 256;

/// Programs that run one another in one command (`env nice timeout 5 …`).
pub const MAX_WRAPPED_PROGRAMS: usize = 8;

/// Longest name of a host, in bytes, with the dot it may end in.
pub const MAX_HOST_BYTES: usize = 254;

/// Longest part of the name of a host between two dots, in bytes.
pub const MAX_LABEL_BYTES: usize = 63;

/// Bytes of an offending shell fragment quoted in an error.
pub const MAX_FRAGMENT_BYTES: usize = 200;

/// Programs of one call that a person is asked to let join a list which was
/// set; a line with more is refused.
pub const MAX_JOINED_PROGRAMS: usize = 8;

/// Repositories below one root whose settings are protected when a sandbox is
/// made, and those that commands of a session make.
pub const SANDBOX_REPOSITORIES: usize = 256;

/// Entries below one root that are searched for sensitive files and
/// repositories when a sandbox is made.
pub const SANDBOX_WALK_ENTRIES: usize = 20_000;

/// The same where a sandbox is required: no command runs in a workspace with
/// more.
pub const SANDBOX_REQUIRED_WALK_ENTRIES: usize = 200_000;

/// Entries below the home directory that are searched for sensitive files and
/// sockets then, besides those below roots: the first command waits for it.
pub const SANDBOX_HOME_ENTRIES: usize = 4_000;

/// Directories below a root, or the home directory, that this search descends.
pub const SANDBOX_WALK_DEPTH: usize = 24;

/// Submodules and linked work trees of one repository whose settings are
/// protected one by one; the directories that hold more are protected whole.
pub const SANDBOX_GIT_DIRECTORIES: usize = 256;

/// Entries below a directory that are held against rules which ask, when a call
/// would change all of it. A directory with more is asked about.
pub const ASK_WALK_ENTRIES: usize = 20_000;

/// Directories within each other that are deleted at once: each is held open.
pub const MAX_DELETE_DEPTH: usize = 100;

/// How deep subagents nest where nothing else is configured.
pub const SUBAGENT_DEPTH: u32 = 3;

/// How many subagents of one session, and theirs, run at once where nothing
/// else is configured.
pub const CONCURRENT_SUBAGENTS: u32 = 8;

/// Bytes of a file elsewhere that are fetched at once.
pub const FILE_PIECE_BYTES: usize = 512 * 1024;
