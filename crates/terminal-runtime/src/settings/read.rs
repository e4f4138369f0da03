//! From what a user said to settings that are sound.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tracing::level_filters::LevelFilter;

use super::sources::read_bounded;
use super::table::DEFAULT_SOCKET;
use super::{LogFormat, Settings, SettingsError, Sources, Token};
use crate::exec::Limits;

impl Sources {
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
        match http {
            Some(_) if auth_token.is_none() => return Err(SettingsError::NoToken),
            Some(address) if !address.ip().is_loopback() && !insecure_non_loopback => {
                return Err(SettingsError::NotLoopback { address });
            }
            _ => {}
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::table::SETTINGS;
    use super::*;

    #[test]
    fn the_defaults_are_the_documented_ones() {
        let settings = Sources::of(&[], &[], "").settings().unwrap();
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
        assert_eq!(settings.limits, Limits::default());
        assert_eq!(settings.grace, Duration::from_secs(5));
        assert!(settings.allow_root);
    }

    #[test]
    fn a_flag_wins_over_the_environment_and_that_over_the_file() {
        let file = "TRL_MAX_SESSIONS=1\nTRL_SESSION_MAX_COMMANDS=1\nTRL_CHILD_NPROC=1";
        let variables = [("TRL_MAX_SESSIONS", "2"), ("TRL_SESSION_MAX_COMMANDS", "2")];
        let settings = Sources::of(&[("max-sessions", "3")], &variables, file)
            .settings()
            .unwrap();
        assert_eq!(settings.max_sessions, 3);
        assert_eq!(settings.session_max_commands, Some(2));
        assert_eq!(settings.limits.processes, Some(1));
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
            let error = Sources::of(&[(setting.flag, "?")], &[], "")
                .settings()
                .unwrap_err();
            assert!(
                error
                    .to_string()
                    .starts_with(&format!("--{} ", setting.flag)),
                "{error}"
            );
            let error = Sources::of(&[], &[(setting.variable, "?")], "")
                .settings()
                .unwrap_err();
            assert!(error.to_string().starts_with(setting.variable), "{error}");
            assert!(error.to_string().contains("the environment"), "{error}");
        }
        let given = Sources::of(
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
        let settings = Sources::of(
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
        let error = Sources::of(&http, &[("TRL_AUTH_TOKEN", " ")], "")
            .settings()
            .unwrap_err();
        assert_eq!(error.code(), "no_token");
        let token = [("TRL_AUTH_TOKEN", "t0ken")];
        let settings = Sources::of(&http, &token, "").settings().unwrap();
        assert_eq!(settings.socket, None);
        assert!(!format!("{settings:?}").contains("t0ken"));
        let open = Sources::of(&[("http", "0.0.0.0:9100")], &token, "");
        assert_eq!(open.settings().unwrap_err().code(), "not_loopback");
        let open = [("http", "0.0.0.0:9100"), ("insecure-non-loopback", "1")];
        assert!(Sources::of(&open, &token, "").settings().is_ok());
    }

    #[test]
    fn the_token_may_come_from_the_env_file() {
        let http = [("http", "127.0.0.1:9100")];
        let settings = Sources::of(&http, &[], "TRL_AUTH_TOKEN=abc")
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
            Sources::of(&flags, &[("TRL_AUTH_TOKEN", "from-the-environment")], "").settings()
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
}
