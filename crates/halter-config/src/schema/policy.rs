//! `[policy]`: what tools may read, write, run and reach.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::path_text;
use crate::limits::MAX_TIMEOUT_SECS;

/// What tools may read and write, and how far subagents may go. Roots start at the session's
/// directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PolicyConfig {
    /// Directories that may be written, besides the session's own temporary directory.
    #[serde(serialize_with = "path_text::many")]
    pub allowed_write_roots: Vec<PathBuf>,
    /// Directories that may be read, besides the write roots; empty: the built-in ones.
    #[serde(serialize_with = "path_text::many")]
    pub allowed_read_roots: Vec<PathBuf>,
    /// Patterns of files that no tool may touch; absent: the built-in ones; empty: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sensitive_path_patterns: Option<Vec<String>>,
    /// The most a tool reads of one file, in bytes.
    #[schemars(range(min = 1))]
    pub max_read_bytes: u64,
    /// How deep subagents may nest; 0: none.
    pub max_subagent_depth: u32,
    /// How many subagents may run at once.
    #[schemars(range(min = 1))]
    pub max_concurrent_subagents: u32,
    /// Whether the kernel holds commands to this policy.
    pub sandbox: SandboxChoice,
    /// What the shell may run.
    pub shell: ShellPolicyConfig,
    /// What tools and the commands they run may reach.
    pub network: NetworkPolicyConfig,
    /// A layer set `allowed_write_roots`, be it to what it is by default.
    #[serde(skip)]
    pub write_roots_are_set: bool,
    /// A layer set `allowed_read_roots`.
    #[serde(skip)]
    pub read_roots_are_set: bool,
}

impl PolicyConfig {
    /// Whether the write roots are the built-in ones and nobody has set them. Such roots are no
    /// wall: a person may be asked about files beyond them.
    pub fn write_roots_are_default(&self) -> bool {
        !self.write_roots_are_set && self.allowed_write_roots == Self::default().allowed_write_roots
    }

    /// The same for reading.
    pub fn read_roots_are_default(&self) -> bool {
        !self.read_roots_are_set && self.allowed_read_roots.is_empty()
    }
}

impl Default for PolicyConfig {
    fn default() -> Self {
        Self {
            allowed_write_roots: vec![PathBuf::from(".")],
            allowed_read_roots: Vec::new(),
            sensitive_path_patterns: None,
            max_read_bytes: 1_048_576,
            max_subagent_depth: 3,
            max_concurrent_subagents: 8,
            sandbox: SandboxChoice::default(),
            shell: ShellPolicyConfig::default(),
            network: NetworkPolicyConfig::default(),
            write_roots_are_set: false,
            read_roots_are_set: false,
        }
    }
}

/// Whether the kernel holds commands to the policy: they write only to the write roots, `/tmp` and
/// the caches of their tools, read no sensitive file, execute only programs of a list that is set,
/// and reach the network only if it is on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SandboxChoice {
    /// No: they run with the user's rights.
    Off,
    /// As far as this machine can; a result says what is missing.
    #[default]
    Prefer,
    /// Wholly, or they do not run.
    Require,
}

/// What the shell may run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ShellPolicyConfig {
    /// Whether there is a shell at all.
    pub enabled: bool,
    /// Programs that may run, by exact name; `"*"`: every program; empty: none. A list that is set
    /// is a ceiling. While nobody sets one, programs that only read are allowed as well, and a
    /// person may be asked about others.
    pub allow: Vec<String>,
    /// The most time one command may get, in seconds.
    #[schemars(range(min = 1, max = MAX_TIMEOUT_SECS))]
    pub timeout_secs: u64,
    /// Which of the user's variables commands see.
    pub env: ShellEnvConfig,
    /// A layer set `allow`, be it to what it is by default. See
    /// [`allow_is_default`](Self::allow_is_default).
    #[serde(skip)]
    pub allow_is_set: bool,
}

impl ShellPolicyConfig {
    /// Whether the list of programs is the built-in one and nobody has set it. Such a list is no
    /// ceiling: a person may be asked about other programs.
    pub fn allow_is_default(&self) -> bool {
        !self.allow_is_set && self.allow == Self::default().allow
    }
}

impl Default for ShellPolicyConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            allow: ["git", "cargo", "rg", "ls", "find", "true", "cd"]
                .map(str::to_owned)
                .to_vec(),
            timeout_secs: 600,
            env: ShellEnvConfig::default(),
            allow_is_set: false,
        }
    }
}

/// Changes to the rules by which commands see the user's variables: all but those that look like
/// a credential or decide what a shell or loader starts. A name may end in `*`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ShellEnvConfig {
    /// Names that commands see in spite of the rules.
    pub add: Vec<String>,
    /// Names that commands do not see.
    pub remove: Vec<String>,
}

/// What tools and the commands they run may reach. The model services are not meant by it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NetworkPolicyConfig {
    /// Whether tools and commands may use the network at all.
    pub enabled: bool,
    /// Hosts that may be reached: `"example.com"`, `"*.example.com"` (names below it),
    /// `"example.com:443"`, `"10.1.2.3"`, `"10.1.2.0/24"`; `"*"`: every name and public address;
    /// empty: none. Addresses of private networks have to be named, also where a name leads to
    /// one.
    pub allowed_hosts: Vec<String>,
    /// Services on this machine that may be reached. Also spelled `allowed_loopback_services`.
    #[serde(alias = "allowed_loopback_services")]
    pub allowed_loopback: Vec<LoopbackAllow>,
    /// A layer set one of these, be it to what it is by default.
    #[serde(skip)]
    pub is_set: bool,
}

impl NetworkPolicyConfig {
    /// Whether nobody has set anything about the network. It is off then, and a person may be
    /// asked about a call that would reach a host.
    pub fn is_default(&self) -> bool {
        !self.is_set && *self == Self::default()
    }
}

/// A service on this machine that may be reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoopbackAllow {
    /// `localhost` or a loopback address.
    pub host: String,
    /// The port; absent: every port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub port: Option<u16>,
}

impl Default for LoopbackAllow {
    fn default() -> Self {
        Self {
            host: "localhost".to_owned(),
            port: None,
        }
    }
}
