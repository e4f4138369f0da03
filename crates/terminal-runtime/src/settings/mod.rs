//! What a user may choose: one table of settings, each with its flag, its
//! variable and its default.
//!
//! A flag wins over the environment, the environment over the `.env` file,
//! that over the default.

mod dotenv;
mod error;
mod read;
mod sources;
mod table;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

pub use dotenv::{DotenvError, parse_dotenv};
pub use error::SettingsError;
pub use sources::{Source, Sources};
pub use table::{DEFAULT_SOCKET, Kind, SETTINGS, Setting};

use crate::exec::Limits;

/// A bearer token. Never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// A token; `None` if it is empty.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty()).then(|| Self(text.to_owned()))
    }

    /// The token itself, for a header or a comparison.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Token(..)")
    }
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// Everything a user chose, checked.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The Unix socket, if there is one.
    pub socket: Option<PathBuf>,
    /// The address of the HTTP transport, if there is one.
    pub http: Option<SocketAddr>,
    /// Whether standard input and output are a connection.
    pub stdin: bool,
    /// The token of the HTTP transport.
    pub auth_token: Option<Token>,
    /// Whether HTTP may be bound to an address others can reach.
    pub insecure_non_loopback: bool,
    /// Host names HTTP requests may carry besides the bound address.
    pub allowed_hosts: Vec<String>,
    /// Origins HTTP requests may carry.
    pub allowed_origins: Vec<String>,
    /// Sessions at a time.
    pub max_sessions: usize,
    /// How long a command may run unless it says otherwise; `None` for as
    /// long as it likes.
    pub default_timeout: Option<Duration>,
    /// Bytes of each stream in the reply of `exec.run`.
    pub max_output_bytes: usize,
    /// Bytes of each stream that are kept.
    pub spool_quota_bytes: u64,
    /// After which time an idle session is destroyed; `None` for never.
    pub max_idle: Option<Duration>,
    /// At which age a session is destroyed once it is idle; `None` for never.
    pub session_ttl: Option<Duration>,
    /// Commands of one session; `None` for any number.
    pub session_max_commands: Option<u64>,
    /// From how many open descriptors on the runtime warns; `None` for never.
    pub fd_warning_threshold: Option<u64>,
    /// From how much memory on the runtime sheds sessions; `None` for never.
    pub memory_pressure_bytes: Option<u64>,
    /// What the commands of a session may use.
    pub limits: Limits,
    /// Whether the runtime may run as root.
    pub allow_root: bool,
    /// Where the runtime keeps what survives its crash; chosen by the
    /// transports without one.
    pub state_dir: Option<PathBuf>,
    /// Where running runtimes are written down; `None` for nowhere.
    pub discovery_dir: Option<PathBuf>,
    /// How long a command gets between TERM and KILL.
    pub grace: Duration,
    /// How long running commands get when the runtime is told to end.
    pub drain: Duration,
    /// How long a client may take to send one request.
    pub request_deadline: Duration,
    /// The `docker`-compatible program.
    pub docker_program: PathBuf,
    /// The image every session runs in, if any.
    pub docker_image: Option<String>,
    /// What is logged.
    pub log_level: tracing::level_filters::LevelFilter,
    /// How log lines look.
    pub log_format: LogFormat,
}
