//! What a user said, wherever that was, and the values in it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use halter_exec::Environment;

use super::SettingsError;
use super::dotenv::{parse_dotenv, parse_only};
use super::table::SETTINGS;
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

/// Everything settings are read from.
#[derive(Clone, Default)]
pub struct Sources {
    flags: BTreeMap<&'static str, String>,
    pub(super) environment: BTreeMap<OsString, OsString>,
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

    /// The variables commands start from: those of the environment, those of
    /// the `.env` file that it lacks, and none of the runtime's own.
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

    /// A variable's value, from the environment or else the `.env` file.
    pub(super) fn variable(&self, name: &str) -> Option<(String, Source)> {
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
    pub(super) fn lookup(&self, flag: &str) -> (Option<String>, Source) {
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

    pub(super) fn complaint(&self, flag: &str, problem: impl Into<String>) -> SettingsError {
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

    pub(super) fn text(&self, flag: &str) -> Option<String> {
        self.lookup(flag).0
    }

    pub(super) fn path(&self, flag: &str) -> Option<PathBuf> {
        self.text(flag).map(PathBuf::from)
    }

    pub(super) fn switch(&self, flag: &str) -> Result<bool, SettingsError> {
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

    pub(super) fn number<Number: FromStr>(&self, flag: &str) -> Result<Number, SettingsError> {
        let text = self.text(flag).unwrap_or_default();
        text.trim()
            .parse()
            .map_err(|_| self.complaint(flag, "must be a whole number that is not negative"))
    }

    pub(super) fn seconds(&self, flag: &str) -> Result<Duration, SettingsError> {
        let text = self.text(flag).unwrap_or_default();
        text.trim()
            .parse::<f64>()
            .ok()
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
            .filter(|duration| *duration <= MAX_TIMEOUT)
            .ok_or_else(|| self.complaint(flag, "must be a number of seconds, at most one year"))
    }

    pub(super) fn list(&self, flag: &str) -> Vec<String> {
        let text = self.text(flag).unwrap_or_default();
        text.split(',')
            .map(str::trim)
            .filter(|item| !item.is_empty())
            .map(str::to_ascii_lowercase)
            .collect()
    }

    /// A number, or `None` for the zero that means no limit.
    pub(super) fn limit(&self, flag: &str) -> Result<Option<u64>, SettingsError> {
        Ok(Some(self.number(flag)?).filter(|&limit| limit != 0))
    }

    /// A time, or `None` for the zero that means no limit.
    pub(super) fn span(&self, flag: &str) -> Result<Option<Duration>, SettingsError> {
        Ok(Some(self.seconds(flag)?).filter(|span| !span.is_zero()))
    }
}

/// The text of a file that is no larger than such a file may be.
pub(super) fn read_bounded(path: &Path) -> std::io::Result<String> {
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
impl Sources {
    /// As if they had been gathered.
    pub(super) fn of(
        flags: &[(&'static str, &str)],
        variables: &[(&str, &str)],
        file: &str,
    ) -> Self {
        Self {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_get_the_environment_and_the_file_and_nothing_of_ours() {
        let sources = Sources::of(
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
