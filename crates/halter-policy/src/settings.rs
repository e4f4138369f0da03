//! What the user has decided, and what the session adds to it.

use std::path::PathBuf;

use crate::door::SessionFiles;
use crate::error::Access;
use crate::limits::{CONCURRENT_SUBAGENTS, SUBAGENT_DEPTH};
use crate::permission::Permissions;
use crate::sandbox::SandboxMode;

/// The policy as a user configures it: data, without any opinion of its own.
///
/// ```
/// use halter_policy::PolicySettings;
///
/// let settings = PolicySettings {
///     allowed_shell_commands: vec!["git".to_owned(), "ls".to_owned()].into(),
///     ..PolicySettings::default()
/// };
/// assert_eq!(settings.max_read_bytes, 1_048_576);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicySettings {
    /// Directories that may be written (and read). Relative ones start at the
    /// session's directory.
    pub allowed_write_roots: Vec<PathBuf>,
    /// Directories that may be read besides the write roots. Empty: the
    /// session's directory.
    pub allowed_read_roots: Vec<PathBuf>,
    /// Roots that nobody has set.
    pub soft_roots: SoftRoots,
    /// Files no tool may touch wherever they are. `None`: the
    /// [built-in list](crate::BUILTIN_SENSITIVE_PATTERNS), and git's own files
    /// [closed to writing](crate::BUILTIN_WRITE_PROTECTED_PATTERNS); a list
    /// replaces both, an empty one turns the check off.
    ///
    /// A pattern is a glob compared without case. It matches a file or a
    /// directory and everything below it; without a leading `/` it matches at
    /// any depth; with a leading `./` it starts at the session's directory; a
    /// leading `!` makes an exception for exactly what it matches.
    pub sensitive_path_patterns: Option<Vec<String>>,
    /// The most a tool may read of one file, in bytes.
    pub max_read_bytes: u64,
    /// Whether there is a shell at all.
    pub shell_enabled: bool,
    /// Programs the shell may run.
    pub allowed_shell_commands: ProgramList,
    /// The most time one shell command may get, in seconds.
    pub shell_timeout_secs: u64,
    /// Whether tools and commands may reach anything at all.
    pub network: NetworkSwitch,
    /// Hosts that may be reached, if the network is on. The
    /// [`network`](crate::network) module says what an entry covers; an empty
    /// list covers nothing.
    pub allowed_hosts: Vec<String>,
    /// Services of this machine that may be reached, if the network is on:
    /// `localhost` or a loopback address, and a port; absent: every port.
    pub allowed_loopback: Vec<(String, Option<u16>)>,
    /// Lists that no person widens.
    pub fixed_lists: FixedLists,
    /// How deep subagents may nest; 0: none.
    pub max_subagent_depth: u32,
    /// How many subagents of one session, and theirs, may run at once.
    pub max_concurrent_subagents: u32,
    /// Whether commands run in a sandbox.
    pub sandbox: SandboxMode,
    /// What is asked and what never happens, inside of all this.
    pub permissions: Permissions,
}

impl Default for PolicySettings {
    fn default() -> Self {
        Self {
            allowed_write_roots: vec![PathBuf::from(".")],
            allowed_read_roots: Vec::new(),
            soft_roots: SoftRoots::default(),
            sensitive_path_patterns: None,
            max_read_bytes: 1_048_576,
            shell_enabled: true,
            allowed_shell_commands: ProgramList::Default,
            shell_timeout_secs: 600,
            network: NetworkSwitch::Unset,
            allowed_hosts: Vec::new(),
            allowed_loopback: Vec::new(),
            fixed_lists: FixedLists::default(),
            max_subagent_depth: SUBAGENT_DEPTH,
            max_concurrent_subagents: CONCURRENT_SUBAGENTS,
            sandbox: SandboxMode::default(),
            permissions: Permissions::default(),
        }
    }
}

/// Roots that nobody has set, so that they are no wall: beyond them the
/// permission tree decides, and asks. Roots that a user set are one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SoftRoots {
    /// Those for reading.
    pub read: bool,
    /// Those for writing.
    pub write: bool,
}

impl SoftRoots {
    pub(crate) const fn include(self, access: Access) -> bool {
        match access {
            Access::Read => self.read,
            Access::Write => self.write,
        }
    }
}

/// Lists that were set and that nobody widens, also not a person who is asked:
/// those of a session that has less than its harness.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FixedLists {
    /// That of programs.
    pub programs: bool,
    /// That of hosts.
    pub hosts: bool,
}

/// Whether tools and commands may use the network, and who said so.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NetworkSwitch {
    /// Nobody has set anything about it: nothing is reached unless a rule
    /// allows it or a person who is asked about a call says yes.
    #[default]
    Unset,
    /// The user turned it off: nothing is reached.
    Off,
    /// The user turned it on: what the lists name may be reached, and nothing
    /// else.
    On,
}

/// Programs the shell may run, and who said so.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ProgramList {
    /// The [built-in list](crate::shell::default_programs). A program outside
    /// it is asked about.
    #[default]
    Default,
    /// The user's list, by exact name or absolute path. `"*"`: any program; an
    /// empty list: none. A program outside it is denied.
    Set(Vec<String>),
}

impl ProgramList {
    /// The programs that run without a question.
    #[must_use]
    pub fn names(&self) -> &[String] {
        match self {
            Self::Default => crate::shell::default_programs(),
            Self::Set(names) => names,
        }
    }
}

impl From<Vec<String>> for ProgramList {
    fn from(names: Vec<String>) -> Self {
        Self::Set(names)
    }
}

/// What one session adds to the settings: where it stands, and which
/// directories the harness itself opens or closes for it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionScope {
    /// The session's directory, absolute. Relative roots and relative paths
    /// start here.
    pub working_dir: PathBuf,
    /// A private temporary directory that the session may read and write.
    pub scratch_dir: Option<PathBuf>,
    /// Directories the session may read but not write, such as skill roots.
    pub extra_read_roots: Vec<PathBuf>,
    /// Directories that one call may write besides the session's own roots.
    pub extra_write_roots: Vec<PathBuf>,
    /// The roots of the settings are all there are: an empty list of read
    /// roots means none, not the session's directory.
    pub only_given_roots: bool,
    /// Every `..` of the paths to come was judged: it may pass through
    /// directories beyond the roots on its way into one.
    pub parents_judged: bool,
    /// Files and directories that are neither read nor written even inside a
    /// root, such as the harness's own credentials and state.
    pub protected: Vec<PathBuf>,
    /// Files that may be read and not changed even inside a root, such as
    /// programs that hooks run: those are not held to what the session may do.
    pub read_only: Vec<PathBuf>,
    /// Where the session's files are, if not on this machine.
    pub files: Option<SessionFiles>,
}
