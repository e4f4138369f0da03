//! From what a user said to settings that are sound.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use halter_exec::Environment;
use tracing::level_filters::LevelFilter;

use super::dotenv::{parse_dotenv, parse_only};
use super::table::{DEFAULT_SOCKET, SETTINGS};
use super::{LogFormat, Settings, Token};
use crate::exec::Limits;
use crate::limits::{MAX_ENV_FILE_BYTES, MAX_TIMEOUT};
use crate::session::OWN;

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// A flag.
    Flag,
    /// A variable of the environment.
    Environment,
    /// A line of the `.env` file.
    EnvFile(PathBuf),
    /// Nobody chose it.
    Default,
}

/// Why the settings cannot be used. Never shows a value of the environment
/// that could be a secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// A value is not what its setting takes.
    #[error("{name} (from {source_name}) {problem}")]
    BadValue {
        /// The flag or variable.
        name: String,
        /// Where it came from.
        source_name: String,
        /// What it should be.
        problem: String,
    },
    /// The `.env` file cannot be read.
    #[error(
        "the file `{path}` with variables cannot be used: {problem}; correct it or choose another with --env-file"
    )]
    EnvFile {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The file with the token cannot be read.
    #[error("the token file `{path}` cannot be used: {problem}")]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// HTTP without a token.
    #[error(
        "HTTP needs a token: set TRL_AUTH_TOKEN or --auth-token-file to a long random text, \
             such as the output of `head -c 32 /dev/urandom | base64`"
    )]
    NoToken,
    /// HTTP on an address others can reach.
    #[error(
        "{address} can be reached from other machines and HTTP is not encrypted: \
             use 127.0.0.1, or --insecure-non-loopback if the network is trusted"
    )]
    NotLoopback {
        /// The address.
        address: SocketAddr,
    },
}

impl SettingsError {
    /// The stable name of this error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::BadValue { .. } => "bad_setting",
            Self::EnvFile { .. } => "bad_env_file",
            Self::TokenFile { .. } => "bad_token_file",
            Self::NoToken => "no_token",
            Self::NotLoopback { .. } => "not_loopback",
        }
    }
}

/// Everything settings are read from.
#[derive(Clone, Default)]
pub struct Sources {
    flags: BTreeMap<&'static str, String>,
    environment: BTreeMap<OsString, OsString>,
    env_file: Option<PathBuf>,
    file: BTreeMap<String, String>,
}

impl Sources {
    /// Takes the flags that were given, by name, and an environment; reads
    /// the `.env` file they name, or `.env` in `directory` if there is one.
    ///
    /// # Errors
    /// If that file cannot be read.
    pub fn gather(
        flags: BTreeMap<&'static str, String>,
        environment: BTreeMap<OsString, OsString>,
        directory: &Path,
    ) -> Result<Self, SettingsError> {
        let mut sources = Self {
            flags,
            environment,
            ..Self::default()
        };
        if let Some((path, text)) = sources.read_env_file(directory)? {
            sources.file = parse_dotenv(&text).map_err(|error| SettingsError::EnvFile {
                path: path.clone(),
                problem: error.to_string(),
            })?;
            sources.env_file = Some(path);
        }
        Ok(sources)
    }

    /// As [`gather`](Self::gather), for whoever only wants to find a runtime:
    /// of the `.env` file it takes what is the runtime's own. If something of
    /// that cannot be read and could matter, that comes with it.
    ///
    /// # Errors
    /// If a file that a flag names cannot be read.
    pub fn gather_for_client(
        flags: BTreeMap<&'static str, String>,
        environment: BTreeMap<OsString, OsString>,
        directory: &Path,
    ) -> Result<(Self, Option<SettingsError>), SettingsError> {
        let mut sources = Self {
            flags,
            environment,
            ..Self::default()
        };
        let is_found = sources.chosen_socket().is_some();
        let mut complaint = match sources.read_env_file(directory) {
            Ok(None) => None,
            Ok(Some((path, text))) => {
                let (file, problem) = parse_only(OWN, &text);
                sources.file = file;
                sources.env_file = Some(path.clone());
                problem.map(|problem| SettingsError::EnvFile {
                    path,
                    problem: problem.to_string(),
                })
            }
            Err(error) if sources.flags.contains_key("env-file") => return Err(error),
            Err(error) => Some(error),
        };
        if is_found {
            complaint = None;
        }
        Ok((sources, complaint))
    }

    /// The `.env` file that was chosen, or the usual one if there is one.
    fn read_env_file(&self, directory: &Path) -> Result<Option<(PathBuf, String)>, SettingsError> {
        let (value, source) = self.lookup("env-file");
        let path = directory.join(value.unwrap_or_default());
        match read_bounded(&path) {
            Ok(text) => Ok(Some((path, text))),
            Err(error)
                if source == Source::Default && error.kind() == std::io::ErrorKind::NotFound =>
            {
                Ok(None)
            }
            Err(error) => Err(SettingsError::EnvFile {
                path,
                problem: error.to_string(),
            }),
        }
    }

    /// The variables commands start from: those of the environment, then
    /// those of the `.env` file, and none of the runtime's own.
    #[must_use]
    pub fn child_environment(&self) -> Environment {
        let mut environment: Environment = self
            .file
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        environment.extend(self.environment.clone());
        crate::session::without_own(&environment)
    }

    fn variable(&self, name: &str) -> Option<(String, Source)> {
        if let Some(value) = self.environment.get(std::ffi::OsStr::new(name)) {
            return Some((value.to_string_lossy().into_owned(), Source::Environment));
        }
        let path = self.env_file.clone().unwrap_or_default();
        self.file
            .get(name)
            .map(|value| (value.clone(), Source::EnvFile(path)))
    }

    /// The value of a setting and where it came from. An empty variable
    /// counts as absent.
    fn lookup(&self, flag: &str) -> (Option<String>, Source) {
        let Some(setting) = SETTINGS.iter().find(|setting| setting.flag == flag) else {
            return (None, Source::Default);
        };
        if let Some(value) = self.flags.get(flag) {
            return (Some(value.clone()), Source::Flag);
        }
        match self.variable(setting.variable) {
            Some((value, source)) if !value.is_empty() => (Some(value), source),
            _ => {
                let default = setting.default;
                (
                    (!default.is_empty()).then(|| default.to_owned()),
                    Source::Default,
                )
            }
        }
    }

    fn complaint(&self, flag: &str, problem: impl Into<String>) -> SettingsError {
        let (_, source) = self.lookup(flag);
        let setting = SETTINGS.iter().find(|setting| setting.flag == flag);
        let variable = setting.map_or(flag, |setting| setting.variable);
        let (name, source_name) = match source {
            Source::Flag | Source::Default => (format!("--{flag}"), "the command line".to_owned()),
            Source::Environment => (variable.to_owned(), "the environment".to_owned()),
            Source::EnvFile(path) => (variable.to_owned(), path.display().to_string()),
        };
        SettingsError::BadValue {
            name,
            source_name,
            problem: problem.into(),
        }
    }

    fn text(&self, flag: &str) -> Option<String> {
        self.lookup(flag).0
    }

    fn path(&self, flag: &str) -> Option<PathBuf> {
        self.text(flag).map(PathBuf::from)
    }

    fn switch(&self, flag: &str) -> Result<bool, SettingsError> {
        match self
            .text(flag)
            .unwrap_or_default()
            .to_ascii_lowercase()
            .as_str()
        {
            "1" | "true" | "yes" | "on" => Ok(true),
            "" | "0" | "false" | "no" | "off" => Ok(false),
            _ => Err(self.complaint(flag, "must be 1 or 0")),
        }
    }

    fn number<Number: FromStr>(&self, flag: &str) -> Result<Number, SettingsError> {
        let text = self.text(flag).unwrap_or_default();
        text.trim()
            .parse()
            .map_err(|_| self.complaint(flag, "must be a whole number that is not negative"))
    }

    fn seconds(&self, flag: &str) -> Result<Duration, SettingsError> {
        let text = self.text(flag).unwrap_or_default();
        text.trim()
            .parse::<f64>()
            .ok()
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
            .filter(|duration| *duration <= MAX_TIMEOUT)
            .ok_or_else(|| self.complaint(flag, "must be a number of seconds, at most one year"))
    }

    fn list(&self, flag: &str) -> Vec<String> {
        let text = self.text(flag).unwrap_or_default();
        text.split(',')
            .map(str::trim)
            .filter(|item| !item.is_empty())
            .map(str::to_ascii_lowercase)
            .collect()
    }

    /// The token, from its variable or its file.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn token(&self) -> Result<Option<Token>, SettingsError> {
        if let Some(path) = self.path("auth-token-file") {
            let text = read_bounded(&path).map_err(|error| SettingsError::TokenFile {
                path: path.clone(),
                problem: error.to_string(),
            })?;
            return match Token::new(&text) {
                Some(token) => Ok(Some(token)),
                None => Err(SettingsError::TokenFile {
                    path,
                    problem: "it is empty".to_owned(),
                }),
            };
        }
        Ok(self
            .variable("TRL_AUTH_TOKEN")
            .and_then(|(value, _)| Token::new(&value)))
    }

    /// The socket that was chosen, without a default.
    #[must_use]
    pub fn chosen_socket(&self) -> Option<PathBuf> {
        self.path("socket")
    }

    /// The HTTP address that was chosen.
    ///
    /// # Errors
    /// If it is no address with a port.
    pub fn chosen_http(&self) -> Result<Option<SocketAddr>, SettingsError> {
        let Some(text) = self.text("http") else {
            return Ok(None);
        };
        let text = text.replace("localhost:", "127.0.0.1:");
        match text.parse() {
            Ok(address) => Ok(Some(address)),
            Err(_) => Err(self.complaint(
                "http",
                "must be an address with a port, such as 127.0.0.1:9100",
            )),
        }
    }

    /// Where running runtimes are written down; `None` for nowhere.
    #[must_use]
    pub fn discovery_dir(&self) -> Option<PathBuf> {
        match self.path("discovery-dir") {
            Some(path) if path == Path::new("none") => None,
            Some(path) => Some(path),
            None => Some(crate::discovery::default_dir(&self.environment)),
        }
    }

    fn limit(&self, flag: &str) -> Result<Option<u64>, SettingsError> {
        Ok(Some(self.number(flag)?).filter(|&limit| limit != 0))
    }

    fn span(&self, flag: &str) -> Result<Option<Duration>, SettingsError> {
        Ok(Some(self.seconds(flag)?).filter(|span| !span.is_zero()))
    }

    fn log_level(&self) -> Result<LevelFilter, SettingsError> {
        let text = self.text("log-level").unwrap_or_default();
        text.parse().map_err(|_| {
            self.complaint(
                "log-level",
                "must be off, error, warn, info, debug or trace",
            )
        })
    }

    fn log_format(&self) -> Result<LogFormat, SettingsError> {
        match self.text("log-format").unwrap_or_default().as_str() {
            "text" => Ok(LogFormat::Text),
            "json" => Ok(LogFormat::Json),
            _ => Err(self.complaint("log-format", "must be text or json")),
        }
    }

    /// The settings of a daemon.
    ///
    /// # Errors
    /// At the first value that cannot be used.
    pub fn settings(&self) -> Result<Settings, SettingsError> {
        let http = self.chosen_http()?;
        let stdin = self.switch("stdin")?;
        let auth_token = self.token()?;
        let insecure_non_loopback = self.switch("insecure-non-loopback")?;
        if let Some(address) = http {
            if auth_token.is_none() {
                return Err(SettingsError::NoToken);
            }
            if !address.ip().is_loopback() && !insecure_non_loopback {
                return Err(SettingsError::NotLoopback { address });
            }
        }
        let socket = match self.chosen_socket() {
            None if http.is_none() && !stdin => Some(PathBuf::from(DEFAULT_SOCKET)),
            chosen => chosen,
        };
        Ok(Settings {
            socket,
            http,
            stdin,
            auth_token,
            insecure_non_loopback,
            allowed_hosts: self.list("allowed-hosts"),
            allowed_origins: self.list("allowed-origins"),
            max_sessions: self.number("max-sessions")?,
            default_timeout: self.span("default-timeout-s")?,
            max_output_bytes: self.number("max-output-bytes")?,
            spool_quota_bytes: self.number("spool-quota-bytes")?,
            max_idle: self.span("max-idle-sec")?,
            session_ttl: self.span("session-ttl-sec")?,
            session_max_commands: self.limit("session-max-commands")?,
            fd_warning_threshold: self.limit("fd-warning-threshold")?,
            memory_pressure_bytes: self
                .limit("memory-pressure-mb")?
                .map(|mebibytes| mebibytes.saturating_mul(1024 * 1024)),
            limits: Limits {
                memory_bytes: self.limit("child-memory-bytes")?,
                processes: self.limit("child-nproc")?,
                cpu_seconds: self.limit("child-cpu-sec")?,
            },
            processes_by_default: matches!(self.lookup("child-nproc").1, Source::Default),
            allow_root: self.switch("allow-root")?,
            state_dir: self.path("state-dir"),
            discovery_dir: self.discovery_dir(),
            grace: self.seconds("grace-sec")?,
            drain: self.seconds("drain-sec")?,
            request_deadline: self.seconds("request-deadline-sec")?,
            docker_program: self.path("docker-program").unwrap_or_default(),
            docker_image: self.text("docker-image"),
            log_level: self.log_level()?,
            log_format: self.log_format()?,
        })
    }
}

fn read_bounded(path: &Path) -> std::io::Result<String> {
    use std::io::Read as _;
    let mut text = String::new();
    let file = std::fs::File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    file.take(MAX_ENV_FILE_BYTES + 1)
        .read_to_string(&mut text)?;
    if text.len() as u64 > MAX_ENV_FILE_BYTES {
        return Err(std::io::Error::other(format!(
            "it has more than {MAX_ENV_FILE_BYTES} bytes"
        )));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(flags: &[(&'static str, &str)], variables: &[(&str, &str)], file: &str) -> Sources {
        Sources {
            flags: flags
                .iter()
                .map(|(flag, value)| (*flag, (*value).to_owned()))
                .collect(),
            environment: variables
                .iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            env_file: Some(PathBuf::from(".env")),
            file: parse_dotenv(file).unwrap(),
        }
    }

    #[test]
    fn the_defaults_are_the_documented_ones() {
        let settings = sources(&[], &[], "").settings().unwrap();
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
        assert_eq!(settings.limits.cpu_seconds, Some(300));
        assert_eq!(settings.limits.memory_bytes, Some(512 * 1024 * 1024));
        assert_eq!(settings.limits.processes, Some(64));
        assert!(settings.processes_by_default);
        assert_eq!(settings.grace, Duration::from_secs(5));
        assert!(settings.allow_root);
    }

    #[test]
    fn a_flag_wins_over_the_environment_and_that_over_the_file() {
        let file = "TRL_MAX_SESSIONS=1\nTRL_SESSION_MAX_COMMANDS=1\nTRL_CHILD_NPROC=1";
        let variables = [("TRL_MAX_SESSIONS", "2"), ("TRL_SESSION_MAX_COMMANDS", "2")];
        let settings = sources(&[("max-sessions", "3")], &variables, file)
            .settings()
            .unwrap();
        assert_eq!(settings.max_sessions, 3);
        assert_eq!(settings.session_max_commands, Some(2));
        assert_eq!(settings.limits.processes, Some(1));
        assert!(!settings.processes_by_default);
    }

    #[test]
    fn every_setting_is_read_from_its_flag_and_its_variable() {
        // A value no setting accepts, where it matters; the others take any text.
        let free = [
            "socket",
            "stdin",
            "auth-token-file",
            "allowed-hosts",
            "allowed-origins",
            "discovery-dir",
            "docker-image",
            "docker-program",
            "env-file",
            "state-dir",
        ];
        for setting in SETTINGS
            .iter()
            .filter(|setting| !free.contains(&setting.flag))
        {
            let error = sources(&[(setting.flag, "?")], &[], "")
                .settings()
                .unwrap_err();
            assert!(
                error
                    .to_string()
                    .starts_with(&format!("--{} ", setting.flag)),
                "{error}"
            );
            let error = sources(&[], &[(setting.variable, "?")], "")
                .settings()
                .unwrap_err();
            assert!(error.to_string().starts_with(setting.variable), "{error}");
            assert!(error.to_string().contains("the environment"), "{error}");
        }
        let given = sources(
            &[],
            &[
                ("TRL_SOCKET_PATH", "/s"),
                ("TRL_STDIN", "1"),
                ("TRL_STATE_DIR", "/d"),
                ("TRL_DISCOVERY_DIR", "/r"),
                ("TRL_DOCKER_IMAGE", "i"),
                ("TRL_DOCKER_PROGRAM", "p"),
                ("TRL_ALLOWED_HOSTS", "A, b"),
                ("TRL_ALLOWED_ORIGINS", "http://c"),
            ],
            "",
        );
        let settings = given.settings().unwrap();
        assert_eq!(settings.socket, Some(PathBuf::from("/s")));
        assert!(settings.stdin);
        assert_eq!(settings.state_dir, Some(PathBuf::from("/d")));
        assert_eq!(settings.discovery_dir, Some(PathBuf::from("/r")));
        assert_eq!(settings.docker_image.as_deref(), Some("i"));
        assert_eq!(settings.docker_program, PathBuf::from("p"));
        assert_eq!(settings.allowed_hosts, ["a", "b"]);
        assert_eq!(settings.allowed_origins, ["http://c"]);
    }

    #[test]
    fn zero_means_no_limit() {
        let settings = sources(
            &[],
            &[("TRL_CHILD_NPROC", "0"), ("TRL_DEFAULT_TIMEOUT_S", "0")],
            "",
        )
        .settings()
        .unwrap();
        assert_eq!(
            (settings.limits.processes, settings.default_timeout),
            (None, None)
        );
    }

    #[test]
    fn http_is_refused_without_a_token_or_in_the_open() {
        let http = [("http", "127.0.0.1:9100")];
        let error = sources(&http, &[("TRL_AUTH_TOKEN", " ")], "")
            .settings()
            .unwrap_err();
        assert_eq!(error.code(), "no_token");
        let token = [("TRL_AUTH_TOKEN", "t0ken")];
        let settings = sources(&http, &token, "").settings().unwrap();
        assert_eq!(settings.socket, None);
        assert!(!format!("{settings:?}").contains("t0ken"));
        let open = sources(&[("http", "0.0.0.0:9100")], &token, "");
        assert_eq!(open.settings().unwrap_err().code(), "not_loopback");
        let open = [("http", "0.0.0.0:9100"), ("insecure-non-loopback", "1")];
        assert!(sources(&open, &token, "").settings().is_ok());
    }

    #[test]
    fn the_token_may_come_from_the_env_file() {
        let http = [("http", "127.0.0.1:9100")];
        let settings = sources(&http, &[], "TRL_AUTH_TOKEN=abc")
            .settings()
            .unwrap();
        assert_eq!(settings.auth_token.unwrap().expose(), "abc");
    }

    #[test]
    fn the_token_may_come_from_a_file_which_wins_and_is_named_if_it_is_useless() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        let name = path.to_str().unwrap();
        std::fs::write(&path, "from-the-file\n").unwrap();
        let given = |file: &str| {
            let flags = [("http", "127.0.0.1:9100"), ("auth-token-file", file)];
            sources(&flags, &[("TRL_AUTH_TOKEN", "from-the-environment")], "").settings()
        };
        let settings = given(name).unwrap();
        assert_eq!(settings.auth_token.unwrap().expose(), "from-the-file");
        std::fs::write(&path, " \n").unwrap();
        for useless in [name, "/no/such/file", directory.path().to_str().unwrap()] {
            let error = given(useless).unwrap_err();
            assert_eq!(error.code(), "bad_token_file");
            assert!(error.to_string().contains(useless), "{error}");
        }
    }

    #[test]
    fn children_get_the_environment_and_the_file_and_nothing_of_ours() {
        let sources = sources(
            &[],
            &[
                ("A", "environment"),
                ("TRL_AUTH_TOKEN", "t"),
                ("TRL_X", "y"),
            ],
            "A=file\nB=file\nTRL_AUTH_TOKEN=u",
        );
        let environment = sources.child_environment();
        let pairs: Vec<_> = environment
            .iter()
            .map(|(name, value)| (name.to_str().unwrap(), value.to_str().unwrap()))
            .collect();
        assert_eq!(pairs, [("A", "environment"), ("B", "file")]);
    }

    #[test]
    fn a_chosen_env_file_must_exist_and_the_usual_one_need_not() {
        let directory = tempfile::tempdir().unwrap();
        let gather = |flags| Sources::gather(flags, BTreeMap::new(), directory.path());
        assert!(gather(BTreeMap::new()).is_ok());
        let chosen = BTreeMap::from([("env-file", "other".to_owned())]);
        assert_eq!(
            gather(chosen.clone()).err().map(|error| error.code()),
            Some("bad_env_file")
        );
        std::fs::write(directory.path().join("other"), "TRL_MAX_SESSIONS=7").unwrap();
        assert_eq!(gather(chosen).unwrap().settings().unwrap().max_sessions, 7);
    }

    #[test]
    fn a_client_takes_of_a_broken_env_file_what_is_the_runtimes_own() {
        let directory = tempfile::tempdir().unwrap();
        let write = |text: &str| std::fs::write(directory.path().join(".env"), text).unwrap();
        let gather = |flags: &[(&'static str, &str)]| {
            let flags = flags.iter().map(|&(name, value)| (name, value.to_owned()));
            Sources::gather_for_client(flags.collect(), BTreeMap::new(), directory.path())
        };
        write("no variable\nTRL_SOCKET_PATH=/s\nSECRET='open\n");
        let (sources, complaint) = gather(&[]).unwrap();
        assert_eq!(sources.chosen_socket(), Some(PathBuf::from("/s")));
        assert!(complaint.is_none(), "{complaint:?}");
        // What may have said where the runtime is, is worth a word.
        write("TRL_SOCKET_PATH='/s\n");
        let (sources, complaint) = gather(&[]).unwrap();
        assert_eq!(sources.chosen_socket(), None);
        assert_eq!(complaint.unwrap().code(), "bad_env_file");
        // Not if that is known.
        let (sources, complaint) = gather(&[("socket", "/t")]).unwrap();
        assert_eq!(sources.chosen_socket(), Some(PathBuf::from("/t")));
        assert!(complaint.is_none(), "{complaint:?}");
        std::fs::write(directory.path().join(".env"), b"\xff").unwrap();
        assert!(gather(&[]).unwrap().1.is_some());
        // A file that was asked for must be there.
        assert!(gather(&[("env-file", "other")]).is_err());
    }

    #[test]
    fn an_env_file_is_read_to_its_limit_and_no_further() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(".env");
        let gather = || Sources::gather(BTreeMap::new(), BTreeMap::new(), directory.path());
        assert_eq!(MAX_ENV_FILE_BYTES, 1024 * 1024);
        std::fs::write(&path, "#".repeat(1024 * 1024)).unwrap();
        assert!(gather().is_ok());
        std::fs::write(&path, "#".repeat(1024 * 1024 + 1)).unwrap();
        assert!(gather().is_err());
    }
}
