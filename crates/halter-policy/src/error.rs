//! Why something was refused, to what, and what to change.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// What a caller wants to do with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Access {
    /// Read a file or list a directory.
    Read,
    /// Create or replace a file.
    Write,
}

impl Access {
    const fn verb(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }

    /// The setting that names the roots for it.
    pub(crate) const fn setting(self) -> &'static str {
        match self {
            Self::Read => "policy.allowed_read_roots",
            Self::Write => "policy.allowed_write_roots",
        }
    }
}

/// Which limit of subagents is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SubagentLimitKind {
    /// How deep they nest.
    Depth,
    /// How many run at once.
    Concurrent,
}

impl SubagentLimitKind {
    const fn message(self) -> &'static str {
        match self {
            Self::Depth => {
                "no subagent can be started here: they nest no deeper; do the work yourself, or \
                 raise policy.max_subagent_depth"
            }
            Self::Concurrent => {
                "no subagent can be started now: so many run already; wait for one, or raise \
                 policy.max_concurrent_subagents"
            }
        }
    }
}

/// A refusal, or a failure on the way to a decision; both deny.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The path, as spelled, lies outside every root that allows the access.
    #[error(
        "cannot {} '{}': it is outside the allowed directories ({}); add its directory to {}",
        access.verb(), path.display(), list(roots), access.setting()
    )]
    NotInRoot {
        /// The path as resolved against the session's directory.
        path: PathBuf,
        /// What was wanted.
        access: Access,
        /// The roots that allow it.
        roots: Vec<PathBuf>,
    },
    /// A pattern of `policy.sensitive_path_patterns` matches the path.
    #[error(
        "cannot {} '{}': it matches the sensitive pattern '{pattern}'; \
         if it is not a secret, change policy.sensitive_path_patterns",
        access.verb(), path.display()
    )]
    SensitivePathDenied {
        /// The path that matched: as spelled, or where its links lead.
        path: PathBuf,
        /// What was wanted.
        access: Access,
        /// The pattern that matched.
        pattern: String,
    },
    /// The path belongs to the harness itself.
    #[error(
        "cannot {} '{}': it holds the harness's own state or credentials, which no tool may touch",
        access.verb(), path.display()
    )]
    ProtectedPath {
        /// The path that matched.
        path: PathBuf,
        /// What was wanted.
        access: Access,
    },
    /// Hooks run the file, or are written in it.
    #[error(
        "cannot write '{}': hooks run it, or are written in it, and they run beyond what this \
         session may do; whoever trusts it changes it, not a tool",
        path.display()
    )]
    ReadOnlyPath {
        /// The path that matched.
        path: PathBuf,
    },
    /// A symbolic link on the way leads out of the roots.
    #[error(
        "cannot {} '{}': a symbolic link leads to '{}', outside the allowed directories; \
         add that directory to {} or name the file itself",
        access.verb(), path.display(), target.display(), access.setting()
    )]
    SymlinkEscape {
        /// The path as spelled.
        path: PathBuf,
        /// Where the link leads.
        target: PathBuf,
        /// What was wanted.
        access: Access,
    },
    /// A `..` in the spelled path leaves the roots.
    #[error(
        "cannot use '{}': '..' leaves the allowed directories; \
         spell the path from the session's directory or as an absolute path inside a root",
        path.display()
    )]
    ParentTraversal {
        /// The path as spelled.
        path: PathBuf,
        /// What was wanted.
        access: Access,
    },
    /// The spelled path cannot name a file.
    #[error("cannot use the path '{}': {reason}", path.display())]
    InvalidPath {
        /// The path as spelled.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A directory the session cannot do without is missing or is no directory.
    #[error("cannot start a session in '{}': {reason}; create it or choose another directory", path.display())]
    NonexistentRoot {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A rule denies the path.
    #[error("cannot {} '{}': {rule} forbids it", access.verb(), path.display())]
    RuleDenied {
        /// The path that matched: as spelled, or where its links lead.
        path: PathBuf,
        /// What was wanted.
        access: Access,
        /// The rule, with who wrote it.
        rule: String,
    },
    /// A rule cannot be used.
    #[error("{rule} cannot be used: {reason}")]
    InvalidRule {
        /// The rule, with who wrote it.
        rule: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A sensitive pattern is not a glob.
    #[error("policy.sensitive_path_patterns: '{pattern}' is not a pattern: {reason}")]
    InvalidPattern {
        /// The pattern as configured.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
    /// There is no such file or directory.
    #[error("'{}' does not exist", path.display())]
    NotFound {
        /// The path as spelled.
        path: PathBuf,
    },
    /// A file was wanted and a directory is there.
    #[error("'{}' is a directory, not a file", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// A directory was wanted and something else is there.
    #[error("'{}' is not a directory", path.display())]
    NotADirectory {
        /// The path, or the part of it that is no directory.
        path: PathBuf,
    },
    /// A device, FIFO, socket, or a file of `/proc`.
    #[error("cannot {} '{}': it is {kind}; only regular files are opened", access.verb(), path.display())]
    SpecialFile {
        /// The path.
        path: PathBuf,
        /// What is there.
        kind: &'static str,
        /// What was wanted.
        access: Access,
    },
    /// The file is larger than what may be read at once.
    #[error(
        "'{}' has {bytes} bytes or more, over the limit of {max}; \
         read a part of it with another tool or raise policy.max_read_bytes",
        path.display()
    )]
    ReadTooLarge {
        /// The file.
        path: PathBuf,
        /// Its size as far as known.
        bytes: u64,
        /// The limit.
        max: u64,
    },
    /// The file is not what the caller last saw.
    #[error("'{}' has changed since it was read; read it again, then repeat the change", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// The file was to be created, but is there already.
    #[error("'{}' exists already; read it first, or choose another name", path.display())]
    AlreadyExists {
        /// The file.
        path: PathBuf,
    },
    /// A directory holds more than is deleted at once.
    #[error(
        "too much to delete at once (counted as far as '{}'); delete its directories one by one, \
         or with a program",
        path.display()
    )]
    TreeTooLarge {
        /// The first name too many.
        path: PathBuf,
    },
    /// `policy.shell.enabled` is off.
    #[error("the shell is turned off; set policy.shell.enabled = true to allow it")]
    ShellDisabled,
    /// The shell judge refused a command.
    #[error("shell command refused at `{fragment}`: {reason}")]
    ShellCommandRejected {
        /// The rule; stable, for programs to match on.
        rule: &'static str,
        /// What is wrong, and what to do instead.
        reason: String,
        /// The part of the command the rule applies to.
        fragment: String,
    },
    /// The host may not be reached.
    #[error("cannot reach '{host}': {reason}")]
    HostDenied {
        /// The host asked for, with its port where that is known.
        host: String,
        /// The rule; stable, for programs to match on.
        rule: &'static str,
        /// What is wrong, and what to set.
        reason: String,
        /// The setting that would have to change.
        remedy: Option<&'static str>,
    },
    /// An entry of a list of hosts names no host.
    #[error("{setting}: '{entry}' cannot be used: {reason}")]
    InvalidHost {
        /// The setting.
        setting: &'static str,
        /// The entry as configured.
        entry: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The process was not started by the session.
    #[error(
        "process {pid} was not started by this session, so it is not looked at or signalled; \
         list those that were with the process tool"
    )]
    ProcessOutsideTree {
        /// The process asked for.
        pid: i32,
    },
    /// A limit of subagents is reached.
    #[error("{} (limit: {limit})", kind.message())]
    SubagentLimit {
        /// Which.
        kind: SubagentLimitKind,
        /// The depth of the session, or how many run.
        current: u32,
        /// The limit.
        limit: u32,
    },
    /// The process or the system has no descriptor left. Nothing is wrong with
    /// the path, and every other operation would fail as well.
    #[error(
        "cannot {operation} '{}': too many files are open ({source}); \
         run fewer sessions at once or raise the limit (ulimit -n)",
        path.display()
    )]
    OutOfDescriptors {
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The place where the session's files are refused, or cannot be reached.
    #[error("{message}")]
    Elsewhere {
        /// The code of the refusal there; stable.
        code: &'static str,
        /// Whether a rule refused.
        denies: bool,
        /// What happened, to what, and what to do next.
        message: String,
    },
    /// The operating system refused.
    #[error("cannot {operation} '{}': {source}{}", path.display(), remedy(source))]
    Io {
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl PolicyError {
    /// A stable name of the kind of error.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotInRoot { .. } => "not_in_root",
            Self::SensitivePathDenied { .. } => "sensitive_path",
            Self::ProtectedPath { .. } => "protected_path",
            Self::ReadOnlyPath { .. } => "read_only_path",
            Self::SymlinkEscape { .. } => "symlink_escape",
            Self::ParentTraversal { .. } => "parent_traversal",
            Self::InvalidPath { .. } => "invalid_path",
            Self::NonexistentRoot { .. } => "nonexistent_root",
            Self::RuleDenied { .. } => "deny_rule",
            Self::InvalidRule { .. } => "invalid_rule",
            Self::InvalidPattern { .. } => "invalid_pattern",
            Self::NotFound { .. } => "not_found",
            Self::NotAFile { .. } => "not_a_file",
            Self::NotADirectory { .. } => "not_a_directory",
            Self::SpecialFile { .. } => "special_file",
            Self::ReadTooLarge { .. } => "read_too_large",
            Self::Changed { .. } => "changed",
            Self::AlreadyExists { .. } => "already_exists",
            Self::TreeTooLarge { .. } => "tree_too_large",
            Self::ShellDisabled => "shell_disabled",
            Self::ShellCommandRejected { .. } => "shell_command_rejected",
            Self::HostDenied { .. } => "host_denied",
            Self::InvalidHost { .. } => "invalid_host",
            Self::ProcessOutsideTree { .. } => "process_outside_tree",
            Self::SubagentLimit { .. } => "subagent_limit",
            Self::OutOfDescriptors { .. } => "out_of_descriptors",
            Self::Elsewhere { code, .. } => code,
            Self::Io { .. } => "io",
        }
    }

    /// The rule that refused: more exact than the [code](Self::code) for shell
    /// commands and hosts.
    #[must_use]
    pub const fn rule(&self) -> &'static str {
        match self {
            Self::ShellCommandRejected { rule, .. } | Self::HostDenied { rule, .. } => rule,
            other => other.code(),
        }
    }

    /// Whether a rule of the policy refused, as opposed to a file that is
    /// missing, has changed, or that the system would not let us use.
    #[must_use]
    pub const fn is_denial(&self) -> bool {
        match self {
            Self::NotInRoot { .. }
            | Self::SensitivePathDenied { .. }
            | Self::ProtectedPath { .. }
            | Self::ReadOnlyPath { .. }
            | Self::SymlinkEscape { .. }
            | Self::ParentTraversal { .. }
            | Self::SpecialFile { .. }
            | Self::ShellDisabled
            | Self::ShellCommandRejected { .. }
            | Self::HostDenied { .. }
            | Self::RuleDenied { .. }
            | Self::SubagentLimit { .. }
            | Self::ProcessOutsideTree { .. } => true,
            Self::Elsewhere { denies, .. } => *denies,
            Self::InvalidPath { .. }
            | Self::TreeTooLarge { .. }
            | Self::InvalidHost { .. }
            | Self::InvalidRule { .. }
            | Self::NonexistentRoot { .. }
            | Self::InvalidPattern { .. }
            | Self::NotFound { .. }
            | Self::NotAFile { .. }
            | Self::NotADirectory { .. }
            | Self::ReadTooLarge { .. }
            | Self::Changed { .. }
            | Self::AlreadyExists { .. }
            | Self::OutOfDescriptors { .. }
            | Self::Io { .. } => false,
        }
    }

    pub(crate) fn io(operation: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        let (path, source) = (path.to_path_buf(), source.into());
        if is_out_of_descriptors(&source) {
            return Self::OutOfDescriptors {
                operation,
                path,
                source,
            };
        }
        Self::Io {
            operation,
            path,
            source,
        }
    }
}

/// Whether the system refused because the process, or the system as a whole,
/// has no descriptor left.
#[must_use]
pub fn is_out_of_descriptors(error: &io::Error) -> bool {
    let exhausted = [Errno::MFILE, Errno::NFILE].map(|errno| Some(errno.raw_os_error()));
    exhausted.contains(&error.raw_os_error())
}

/// What to do about a refusal of the system, where that is clear.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; nothing has changed: free some space, then try again"
        }
        io::ErrorKind::ReadOnlyFilesystem => "; write it somewhere else",
        io::ErrorKind::PermissionDenied => "; change its permissions or use another path",
        _ => "",
    }
}

fn list(roots: &[PathBuf]) -> String {
    if roots.is_empty() {
        return "there are none".to_owned();
    }
    let shown: Vec<_> = roots
        .iter()
        .map(|root| root.display().to_string())
        .collect();
    shown.join(", ")
}
