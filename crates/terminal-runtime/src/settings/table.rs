//! The table of settings.

/// What kind of value a setting has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A value must follow the flag.
    Value,
    /// The flag alone means yes.
    Switch,
}

/// One setting.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// Its flag, without the dashes.
    pub flag: &'static str,
    /// Another spelling of the flag.
    pub alias: Option<&'static str>,
    /// Its variable.
    pub variable: &'static str,
    /// The kind of its value.
    pub kind: Kind,
    /// How its value is called in help.
    pub value_name: &'static str,
    /// What it is without being chosen; empty for nothing.
    pub default: &'static str,
    /// Under which heading it stands.
    pub heading: &'static str,
    /// What it does, in a sentence.
    pub help: &'static str,
}

const fn setting(
    flag: &'static str,
    variable: &'static str,
    value_name: &'static str,
    default: &'static str,
    heading: &'static str,
    help: &'static str,
) -> Setting {
    Setting {
        flag,
        alias: None,
        variable,
        kind: Kind::Value,
        value_name,
        default,
        heading,
        help,
    }
}

impl Setting {
    const fn alias(mut self, alias: &'static str) -> Self {
        self.alias = Some(alias);
        self
    }

    const fn switch(mut self) -> Self {
        self.kind = Kind::Switch;
        self
    }
}

const REACH: &str = "How it is reached";
const SESSIONS: &str = "Sessions and commands";
const CHILDREN: &str = "What commands may use";
const PROCESS: &str = "The runtime itself";

/// Where the socket is without any setting.
pub const DEFAULT_SOCKET: &str = "/tmp/trl.sock";

/// All settings.
pub const SETTINGS: &[Setting] = &[
    setting(
        "socket",
        "TRL_SOCKET_PATH",
        "PATH",
        "",
        REACH,
        "Listen on this Unix socket (/tmp/trl.sock if no other transport is chosen)",
    )
    .alias("socket-path"),
    setting(
        "http",
        "TRL_HTTP_ADDR",
        "ADDR",
        "",
        REACH,
        "Listen for HTTP on this address, such as 127.0.0.1:9100; needs a token",
    ),
    setting(
        "stdin",
        "TRL_STDIN",
        "",
        "",
        REACH,
        "Take requests from standard input, answer on standard output, end with the input",
    )
    .switch(),
    setting(
        "auth-token-file",
        "TRL_AUTH_TOKEN_FILE",
        "PATH",
        "",
        REACH,
        "Read the bearer token of HTTP from this file instead of TRL_AUTH_TOKEN",
    ),
    setting(
        "insecure-non-loopback",
        "TRL_INSECURE_NON_LOOPBACK",
        "",
        "",
        REACH,
        "Allow an HTTP address that other machines can reach, without encryption",
    )
    .switch(),
    setting(
        "allowed-hosts",
        "TRL_ALLOWED_HOSTS",
        "NAMES",
        "",
        REACH,
        "Further values of the Host header that are accepted, separated by commas",
    ),
    setting(
        "allowed-origins",
        "TRL_ALLOWED_ORIGINS",
        "ORIGINS",
        "",
        REACH,
        "Values of the Origin header that are accepted, separated by commas",
    ),
    setting(
        "discovery-dir",
        "TRL_DISCOVERY_DIR",
        "PATH",
        "",
        REACH,
        "Where running runtimes are written down for clients to find; `none` for nowhere",
    ),
    setting(
        "max-sessions",
        "TRL_MAX_SESSIONS",
        "N",
        "64",
        SESSIONS,
        "Sessions at a time",
    ),
    setting(
        "session-max-commands",
        "TRL_SESSION_MAX_COMMANDS",
        "N",
        "1000",
        SESSIONS,
        "Commands of one session; 0 for any number",
    ),
    setting(
        "default-timeout-s",
        "TRL_DEFAULT_TIMEOUT_S",
        "SECONDS",
        "60",
        SESSIONS,
        "How long a command may run unless it says otherwise; 0 for any time",
    ),
    setting(
        "grace-sec",
        "TRL_GRACE_SEC",
        "SECONDS",
        "5",
        SESSIONS,
        "How long a command gets to end before it is killed",
    ),
    setting(
        "max-idle-sec",
        "TRL_MAX_IDLE_SEC",
        "SECONDS",
        "3600",
        SESSIONS,
        "Destroy a session that was idle this long; 0 for never",
    ),
    setting(
        "session-ttl-sec",
        "TRL_SESSION_TTL_SEC",
        "SECONDS",
        "86400",
        SESSIONS,
        "Destroy a session of this age once it is idle; 0 for never",
    ),
    setting(
        "max-output-bytes",
        "TRL_MAX_OUTPUT_BYTES",
        "BYTES",
        "4194304",
        SESSIONS,
        "Bytes of each stream in the reply of exec.run",
    ),
    setting(
        "spool-quota-bytes",
        "TRL_SPOOL_QUOTA_BYTES",
        "BYTES",
        "17179869184",
        SESSIONS,
        "Bytes of each stream that are kept on disk; what is beyond becomes a gap",
    ),
    setting(
        "child-memory-bytes",
        "TRL_CHILD_MEMORY_BYTES",
        "BYTES",
        "0",
        CHILDREN,
        "Memory of a session's processes together; 0 for any",
    ),
    setting(
        "child-nproc",
        "TRL_CHILD_NPROC",
        "N",
        "0",
        CHILDREN,
        "Processes of a session; 0 for any number",
    ),
    setting(
        "child-cpu-sec",
        "TRL_CHILD_CPU_SEC",
        "SECONDS",
        "0",
        CHILDREN,
        "CPU time of one process; 0 for any",
    ),
    setting(
        "docker-image",
        "TRL_DOCKER_IMAGE",
        "IMAGE",
        "",
        CHILDREN,
        "Run every session in a container of this image",
    ),
    setting(
        "docker-program",
        "TRL_DOCKER_PROGRAM",
        "PATH",
        "docker",
        CHILDREN,
        "The docker-compatible program that makes containers",
    ),
    setting(
        "env-file",
        "TRL_ENV_FILE",
        "PATH",
        ".env",
        PROCESS,
        "Read variables from this file; those of the environment win",
    ),
    setting(
        "allow-root",
        "TRL_ALLOW_ROOT",
        "0|1",
        "1",
        PROCESS,
        "Whether to run as root, with a warning",
    )
    .switch(),
    setting(
        "state-dir",
        "TRL_STATE_DIR",
        "PATH",
        "",
        PROCESS,
        "Where to keep what survives a crash; a restart needs the same one",
    ),
    setting(
        "drain-sec",
        "TRL_DRAIN_SEC",
        "SECONDS",
        "5",
        PROCESS,
        "How long running commands get after SIGTERM; a second one ends them now",
    ),
    setting(
        "request-deadline-sec",
        "TRL_REQUEST_DEADLINE_SEC",
        "SECONDS",
        "30",
        PROCESS,
        "How long a client may take to send one request",
    ),
    setting(
        "memory-pressure-mb",
        "TRL_MEMORY_PRESSURE_MB",
        "MIB",
        "500",
        PROCESS,
        "Shed idle sessions from this memory of the runtime on; 0 for never",
    ),
    setting(
        "fd-warning-threshold",
        "TRL_FD_WARNING_THRESHOLD",
        "N",
        "5000",
        PROCESS,
        "Warn from this many open descriptors on; 0 for never",
    ),
    setting(
        "log-level",
        "TRL_LOG_LEVEL",
        "LEVEL",
        "info",
        PROCESS,
        "What is logged: off, error, warn, info, debug or trace",
    ),
    setting(
        "log-format",
        "TRL_LOG_FORMAT",
        "FORMAT",
        "text",
        PROCESS,
        "How log lines look: text or json",
    ),
];
