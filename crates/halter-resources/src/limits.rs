//! The bounds of loading. Each is enforced where it is named and tested at its
//! edge.

use std::time::Duration;

/// Bytes of one `SKILL.md`, agent, command or output style. A longer one is skipped with a warning.
pub const MAX_SKILL_BYTES: u64 = 256 * 1024;

/// Characters of a skill's name, as in the public format. A skill with a longer
/// one is skipped with a warning.
pub const MAX_NAME_CHARS: usize = 64;

/// Characters of a skill's description, as in the public format. A longer one
/// is cut with a warning.
pub const MAX_DESCRIPTION_CHARS: usize = 1024;

/// Characters of a skill's description together with its `when_to_use`, as in
/// the public format. What is longer is cut.
pub const MAX_LISTED_CHARS: usize = 1536;

/// Skills of one root. The rest are left out with a warning.
pub const MAX_SKILLS: usize = 512;

/// Skills in directories below that of a session, which join when files there
/// are used. The rest are left out with a warning.
pub const MAX_NESTED_SKILLS: usize = 32;

/// Agents, commands or output styles of one folder. The rest are left out with
/// a warning.
pub const MAX_DEFINITIONS: usize = 512;

/// Directories below a skill root that are searched. Deeper ones are left out
/// with a warning.
pub const MAX_DEPTH: usize = 8;

/// Directory entries looked at under one root. The search ends there with a
/// warning.
pub const MAX_ENTRIES: usize = 20_000;

/// Servers that one plugin may bring. The rest are left out with a warning.
pub const MAX_PLUGIN_SERVERS: usize = 64;

/// Files that are looked at to tell whether the content of a folder is trusted.
/// A folder with more of them cannot be.
pub const MAX_TRUSTED_FILES: usize = 5_000;

/// Bytes that are read to tell whether the content of a folder is trusted. A
/// folder with more of them cannot be.
pub const MAX_TRUSTED_BYTES: u64 = 64 * 1024 * 1024;

/// Bytes of a plugin manifest, hooks file or list of servers. A plugin with a longer one is skipped with a
/// warning.
pub const MAX_MANIFEST_BYTES: u64 = 256 * 1024;

/// Bytes of a plugin's name, and of its version. A plugin with a longer one is
/// skipped with a warning.
pub const MAX_PLUGIN_LABEL_BYTES: usize = 64;

/// Plugins of one root. The rest are left out with a warning.
pub const MAX_PLUGINS: usize = 256;

/// Bytes of one instruction file, or of one file it imports. A longer one is cut
/// with a warning.
pub const MAX_INSTRUCTION_BYTES: u64 = 64 * 1024;

/// Bytes of all instruction files that are loaded at one time. What does not fit
/// is left out with a warning.
pub const MAX_INSTRUCTIONS_BYTES: usize = 128 * 1024;

/// Files that lead from an instruction file to one it imports, as in the public
/// format. What is imported beyond that is left out with a warning.
pub const MAX_IMPORT_HOPS: usize = 4;

/// Warnings kept of one compilation, besides one for each plugin. The last one
/// says how many more there were.
pub const MAX_WARNINGS: usize = 256;

/// How long a change of what is installed waits for another process that
/// changes it.
pub const PLUGIN_LOCK_WAIT: Duration = Duration::from_secs(5);
