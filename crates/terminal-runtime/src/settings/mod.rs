//! What a user may choose: each setting with its flag, its variable and its
//! default.
//!
//! A flag wins over the environment, the environment over a file that was
//! named with `--env-file`, that over the default.

mod env_file;
mod error;
mod values;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgAction, Args, FromArgMatches as _, ValueEnum, builder::BoolishValueParser};
use tracing::level_filters::LevelFilter;

pub use env_file::{EnvFile, child_environment};
pub use error::SettingsError;

use self::values::{address, count, lower_case, mebibytes, read_bounded, seconds, span};
use crate::exec::Limits;
use crate::transport::TlsFiles;

/// Where the socket is without any setting.
pub const DEFAULT_SOCKET: &str = "/tmp/trl.sock";

/// The variable with the token of HTTP. It has no flag: anybody can read
/// command lines.
pub const TOKEN_VARIABLE: &str = "TRL_AUTH_TOKEN";

const REACH: &str = "How it is reached";
const SESSIONS: &str = "Sessions and commands";
const CHILDREN: &str = "What commands may use";
const PROCESS: &str = "The runtime itself";

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// A number; `None`, written 0, for no limit.
pub type Count = Option<u64>;

/// A time; `None`, written 0, for no limit.
pub type Span = Option<Duration>;

/// Everything a user chose.
#[derive(Debug, Clone, Args)]
pub struct Settings {
    /// Listen on this Unix socket (/tmp/trl.sock if no other transport is chosen)
    #[arg(
        long,
        visible_alias = "socket-path",
        env = "TRL_SOCKET_PATH",
        value_name = "PATH"
    )]
    #[arg(global = true, help_heading = REACH)]
    pub socket: Option<PathBuf>,
    /// Listen for HTTP on this address, such as 127.0.0.1:9100; needs a token,
    /// which is in the variable TRL_AUTH_TOKEN
    #[arg(long, env = "TRL_HTTP_ADDR", value_name = "ADDR", value_parser = address)]
    #[arg(global = true, help_heading = REACH)]
    pub http: Option<SocketAddr>,
    /// Take requests from standard input, answer on standard output, end with the input
    #[arg(long, env = "TRL_STDIN", value_name = "0|1", value_parser = BoolishValueParser::new())]
    #[arg(action = ArgAction::Set, num_args = 0..=1, require_equals = true)]
    #[arg(default_value = "0", default_missing_value = "1", help_heading = REACH)]
    pub stdin: bool,
    /// Read the bearer token of HTTP from this file instead of TRL_AUTH_TOKEN
    #[arg(long, env = "TRL_AUTH_TOKEN_FILE", value_name = "PATH")]
    #[arg(global = true, help_heading = REACH)]
    pub auth_token_file: Option<PathBuf>,
    /// The token of HTTP.
    #[arg(skip)]
    pub auth_token: Option<Token>,
    /// Encrypt HTTP with the certificate in this file (PEM)
    #[arg(long, env = "TRL_TLS_CERT", value_name = "PATH", requires = "tls_key")]
    #[arg(help_heading = REACH)]
    pub tls_cert: Option<PathBuf>,
    /// The key of that certificate (PEM)
    #[arg(long, env = "TRL_TLS_KEY", value_name = "PATH", requires = "tls_cert")]
    #[arg(help_heading = REACH)]
    pub tls_key: Option<PathBuf>,
    /// Allow an HTTP address that other machines can reach, without encryption
    #[arg(long, env = "TRL_INSECURE_NON_LOOPBACK", value_name = "0|1")]
    #[arg(value_parser = BoolishValueParser::new())]
    #[arg(action = ArgAction::Set, num_args = 0..=1, require_equals = true)]
    #[arg(default_value = "0", default_missing_value = "1", help_heading = REACH)]
    pub insecure_non_loopback: bool,
    /// Further values of the Host header that are accepted, separated by commas
    #[arg(long, env = "TRL_ALLOWED_HOSTS", value_name = "NAMES", value_parser = lower_case)]
    #[arg(value_delimiter = ',', help_heading = REACH)]
    pub allowed_hosts: Vec<String>,
    /// Values of the Origin header that are accepted, separated by commas
    #[arg(long, env = "TRL_ALLOWED_ORIGINS", value_name = "ORIGINS", value_parser = lower_case)]
    #[arg(value_delimiter = ',', help_heading = REACH)]
    pub allowed_origins: Vec<String>,
    /// Where running runtimes are written down for clients to find; `none` for nowhere
    #[arg(long, env = "TRL_DISCOVERY_DIR", value_name = "PATH")]
    #[arg(global = true, help_heading = REACH)]
    pub discovery_dir: Option<PathBuf>,

    /// Sessions at a time
    #[arg(long, env = "TRL_MAX_SESSIONS", value_name = "N", default_value = "64")]
    #[arg(help_heading = SESSIONS)]
    pub max_sessions: usize,
    /// Commands of one session without a lease; 0 for any number
    #[arg(
        long,
        env = "TRL_SESSION_MAX_COMMANDS",
        value_name = "N",
        default_value = "1000"
    )]
    #[arg(value_parser = count, help_heading = SESSIONS)]
    pub session_max_commands: Count,
    /// How long a command may run unless it says otherwise; 0 for any time
    #[arg(
        long = "default-timeout-s",
        env = "TRL_DEFAULT_TIMEOUT_S",
        value_name = "SECONDS"
    )]
    #[arg(default_value = "60", value_parser = span, help_heading = SESSIONS)]
    pub default_timeout: Span,
    /// How long a command gets to end before it is killed
    #[arg(long = "grace-sec", env = "TRL_GRACE_SEC", value_name = "SECONDS")]
    #[arg(default_value = "5", value_parser = seconds, help_heading = SESSIONS)]
    pub grace: Duration,
    /// Destroy a session without a lease that was idle this long; 0 for never
    #[arg(
        long = "max-idle-sec",
        env = "TRL_MAX_IDLE_SEC",
        value_name = "SECONDS"
    )]
    #[arg(default_value = "3600", value_parser = span, help_heading = SESSIONS)]
    pub max_idle: Span,
    /// Destroy a session without a lease of this age once it is idle; 0 for never
    #[arg(
        long = "session-ttl-sec",
        env = "TRL_SESSION_TTL_SEC",
        value_name = "SECONDS"
    )]
    #[arg(default_value = "86400", value_parser = span, help_heading = SESSIONS)]
    pub session_ttl: Span,
    /// Bytes of each stream in the reply of exec.run
    #[arg(
        long,
        env = "TRL_MAX_OUTPUT_BYTES",
        value_name = "BYTES",
        default_value = "4194304"
    )]
    #[arg(help_heading = SESSIONS)]
    pub max_output_bytes: usize,
    /// Bytes of each stream that are kept on disk; what is beyond becomes a gap
    #[arg(long, env = "TRL_SPOOL_QUOTA_BYTES", value_name = "BYTES")]
    #[arg(default_value = "17179869184", help_heading = SESSIONS)]
    pub spool_quota_bytes: u64,

    /// Memory of a session's processes together; 0 for any
    #[arg(
        long,
        env = "TRL_CHILD_MEMORY_BYTES",
        value_name = "BYTES",
        default_value = "0"
    )]
    #[arg(value_parser = count, help_heading = CHILDREN)]
    pub child_memory_bytes: Count,
    /// Processes of a session; 0 for any number
    #[arg(long, env = "TRL_CHILD_NPROC", value_name = "N", default_value = "0")]
    #[arg(value_parser = count, help_heading = CHILDREN)]
    pub child_nproc: Count,
    /// CPU time of one process, in seconds; 0 for any
    #[arg(
        long,
        env = "TRL_CHILD_CPU_SEC",
        value_name = "SECONDS",
        default_value = "0"
    )]
    #[arg(value_parser = count, help_heading = CHILDREN)]
    pub child_cpu_sec: Count,
    /// Whether each session gets process numbers of its own where this program may
    /// make PID namespaces, as root may: its commands see and signal no others
    #[arg(long, env = "TRL_PID_NAMESPACE", value_name = "0|1")]
    #[arg(value_parser = BoolishValueParser::new())]
    #[arg(action = ArgAction::Set, num_args = 0..=1, require_equals = true)]
    #[arg(default_value = "1", default_missing_value = "1", help_heading = CHILDREN)]
    pub pid_namespace: bool,
    /// Run every session in a container of this image
    #[arg(long, env = "TRL_DOCKER_IMAGE", value_name = "IMAGE", help_heading = CHILDREN)]
    pub docker_image: Option<String>,
    /// The docker-compatible program that makes containers
    #[arg(
        long,
        env = "TRL_DOCKER_PROGRAM",
        value_name = "PATH",
        default_value = "docker"
    )]
    #[arg(help_heading = CHILDREN)]
    pub docker_program: PathBuf,

    /// Read settings and variables for commands from this file; those of the environment
    /// win. Without it `.env` is read if it is there, for variables only
    #[arg(long, env = "TRL_ENV_FILE", value_name = "PATH", help_heading = PROCESS)]
    pub env_file: Option<PathBuf>,
    /// Whether to run as root, with a warning
    #[arg(long, env = "TRL_ALLOW_ROOT", value_name = "0|1")]
    #[arg(value_parser = BoolishValueParser::new())]
    #[arg(action = ArgAction::Set, num_args = 0..=1, require_equals = true)]
    #[arg(default_value = "1", default_missing_value = "1", help_heading = PROCESS)]
    pub allow_root: bool,
    /// Where to keep what survives a crash; a restart needs the same one
    #[arg(long, env = "TRL_STATE_DIR", value_name = "PATH", help_heading = PROCESS)]
    pub state_dir: Option<PathBuf>,
    /// How long running commands get after SIGTERM; a second one ends them now
    #[arg(long = "drain-sec", env = "TRL_DRAIN_SEC", value_name = "SECONDS")]
    #[arg(default_value = "5", value_parser = seconds, help_heading = PROCESS)]
    pub drain: Duration,
    /// How long a client may take to send one request
    #[arg(
        long = "request-deadline-sec",
        env = "TRL_REQUEST_DEADLINE_SEC",
        value_name = "SECONDS"
    )]
    #[arg(default_value = "30", value_parser = seconds, help_heading = PROCESS)]
    pub request_deadline: Duration,
    /// Shed idle sessions from this memory of the runtime on; 0 for never
    #[arg(
        long = "memory-pressure-mb",
        env = "TRL_MEMORY_PRESSURE_MB",
        value_name = "MIB"
    )]
    #[arg(default_value = "500", value_parser = mebibytes, help_heading = PROCESS)]
    pub memory_pressure_bytes: Count,
    /// Warn from this many open descriptors on; 0 for never
    #[arg(
        long,
        env = "TRL_FD_WARNING_THRESHOLD",
        value_name = "N",
        default_value = "5000"
    )]
    #[arg(value_parser = count, help_heading = PROCESS)]
    pub fd_warning_threshold: Count,
    /// What is logged: off, error, warn, info, debug or trace
    #[arg(
        long,
        env = "TRL_LOG_LEVEL",
        value_name = "LEVEL",
        default_value = "info"
    )]
    #[arg(help_heading = PROCESS)]
    pub log_level: LevelFilter,
    /// How log lines look
    #[arg(
        long,
        env = "TRL_LOG_FORMAT",
        value_name = "FORMAT",
        default_value = "text"
    )]
    #[arg(help_heading = PROCESS)]
    pub log_format: LogFormat,
}

impl Settings {
    /// The settings of these flags, such as `["--max-sessions=8"]`, and of this
    /// program's environment.
    ///
    /// # Errors
    /// If a value is not what its setting takes.
    pub fn from_flags<Flag: Into<String>>(
        flags: impl IntoIterator<Item = Flag>,
    ) -> Result<Self, clap::Error> {
        let command = Self::augment_args(clap::Command::new("terminal-runtime"));
        let command = ignoring_empty_variables(command).no_binary_name(true);
        let flags = flags.into_iter().map(Into::into);
        Self::from_arg_matches(&command.try_get_matches_from(flags)?)
    }

    /// Reads the token if a file has it, and chooses the transport if nobody
    /// did.
    ///
    /// # Errors
    /// If HTTP would be open to others, or the token cannot be read.
    pub fn completed(mut self) -> Result<Self, SettingsError> {
        self.auth_token = self.token()?;
        match self.http {
            Some(_) if self.auth_token.is_none() => return Err(SettingsError::NoToken),
            Some(address)
                if !address.ip().is_loopback()
                    && !self.insecure_non_loopback
                    && self.tls().is_none() =>
            {
                return Err(SettingsError::NotLoopback { address });
            }
            None if self.socket.is_none() && !self.stdin => {
                self.socket = Some(PathBuf::from(DEFAULT_SOCKET));
            }
            _ => {}
        }
        Ok(self)
    }

    /// Where certificate and key are, if HTTP is encrypted.
    #[must_use]
    pub fn tls(&self) -> Option<TlsFiles> {
        Some(TlsFiles {
            certificate: self.tls_cert.clone()?,
            key: self.tls_key.clone()?,
        })
    }

    /// The token, from its file if there is one.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn token(&self) -> Result<Option<Token>, SettingsError> {
        let Some(path) = &self.auth_token_file else {
            return Ok(self.auth_token.clone());
        };
        let failed = |problem: String| SettingsError::TokenFile {
            path: path.clone(),
            problem,
        };
        let text = read_bounded(path).map_err(|error| failed(error.to_string()))?;
        match Token::new(&text) {
            Some(token) => Ok(Some(token)),
            None => Err(failed("it is empty".to_owned())),
        }
    }

    /// Where running runtimes are written down; `None` for nowhere.
    #[must_use]
    pub fn discovery_place(&self) -> Option<PathBuf> {
        match &self.discovery_dir {
            Some(path) if path == Path::new("none") => None,
            Some(path) => Some(path.clone()),
            None => Some(crate::discovery::default_dir()),
        }
    }

    /// What the commands of a session may use that asks for nothing else.
    #[must_use]
    pub fn limits(&self) -> Limits {
        Limits {
            memory_bytes: self.child_memory_bytes,
            processes: self.child_nproc,
            cpu_seconds: self.child_cpu_sec,
        }
    }
}

/// Has a variable without a value count as none, as people mean it.
#[must_use]
pub fn ignoring_empty_variables(command: clap::Command) -> clap::Command {
    command.mut_args(|arg| match arg.get_env() {
        Some(name) if std::env::var_os(name).is_some_and(|value| value.is_empty()) => {
            // A variable cannot be taken from an argument, only replaced.
            arg.env("TRL_").hide_env(true)
        }
        _ => arg,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(flags: &[&str]) -> Settings {
        Settings::from_flags(flags.iter().copied()).unwrap()
    }

    fn http(flags: &[&str], token: Option<&str>) -> Result<Settings, SettingsError> {
        let mut settings = settings(flags);
        settings.auth_token = token.and_then(Token::new);
        settings.completed()
    }

    #[test]
    fn the_defaults_are_the_documented_ones() {
        let settings = settings(&[]).completed().unwrap();
        assert_eq!(settings.socket, Some(PathBuf::from("/tmp/trl.sock")));
        assert_eq!((settings.http, settings.stdin), (None, false));
        assert_eq!(settings.max_sessions, 64);
        assert_eq!(settings.default_timeout, Some(Duration::from_secs(60)));
        assert_eq!(settings.max_output_bytes, 4 * 1024 * 1024);
        assert_eq!(settings.max_idle, Some(Duration::from_secs(3600)));
        assert_eq!(settings.session_ttl, Some(Duration::from_secs(86400)));
        assert_eq!(settings.session_max_commands, Some(1000));
        assert_eq!(settings.fd_warning_threshold, Some(5000));
        assert_eq!(settings.memory_pressure_bytes, Some(500 * 1024 * 1024));
        assert_eq!(settings.limits(), Limits::default());
        assert_eq!(settings.grace, Duration::from_secs(5));
        assert!(settings.allow_root && settings.pid_namespace);
    }

    #[test]
    fn zero_means_no_limit_and_a_switch_alone_means_yes() {
        let settings = settings(&[
            "--child-nproc=0",
            "--default-timeout-s=0",
            "--stdin",
            "--allow-root=no",
            "--allowed-hosts=A, b",
        ]);
        assert_eq!(
            (settings.child_nproc, settings.default_timeout),
            (None, None)
        );
        assert!(settings.stdin && !settings.allow_root);
        assert_eq!(settings.allowed_hosts, ["a", "b"]);
    }

    #[test]
    fn a_value_that_cannot_be_used_is_refused_by_the_name_of_its_setting() {
        for flag in [
            "--http=nowhere",
            "--max-sessions=-1",
            "--grace-sec=soon",
            "--drain-sec=1e99",
            "--child-nproc=?",
            "--log-level=loud",
        ] {
            let error = Settings::from_flags([flag]).unwrap_err().to_string();
            let name = flag.split('=').next().unwrap();
            assert!(error.contains(name), "{error}");
        }
    }

    #[test]
    fn http_is_refused_without_a_token_or_in_the_open() {
        let local = "--http=localhost:9100";
        assert_eq!(http(&[local], Some(" ")).unwrap_err().code(), "no_token");
        let settings = http(&[local], Some("t0ken")).unwrap();
        assert_eq!(settings.socket, None);
        assert!(!format!("{settings:?}").contains("t0ken"));
        let open = "--http=0.0.0.0:9100";
        let error = http(&[open], Some("t0ken")).unwrap_err();
        assert_eq!(error.code(), "not_loopback");
        assert!(http(&[open, "--insecure-non-loopback"], Some("t0ken")).is_ok());
    }

    #[test]
    fn a_file_with_the_token_wins_and_is_named_if_it_is_useless() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        let name = path.to_str().unwrap();
        std::fs::write(&path, "from-the-file\n").unwrap();
        let given = |file: &str| {
            let file = format!("--auth-token-file={file}");
            http(&["--http=127.0.0.1:9100", &file], Some("another"))
        };
        let token = given(name).unwrap().auth_token.unwrap();
        assert_eq!(token.expose(), "from-the-file");
        std::fs::write(&path, " \n").unwrap();
        for useless in [name, "/no/such/file", directory.path().to_str().unwrap()] {
            let error = given(useless).unwrap_err();
            assert_eq!(error.code(), "bad_token_file");
            assert!(error.to_string().contains(useless), "{error}");
        }
    }
}
