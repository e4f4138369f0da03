//! Files of `NAME=value` lines.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use halter_exec::Environment;

use super::{SettingsError, read_bounded};
use crate::session::{OWN, without_own};

/// The file that is read if nobody names one.
const USUAL: &str = ".env";

/// The variables of such a file. They are never put into the environment of
/// this program.
#[derive(Clone, Default)]
pub struct EnvFile {
    path: PathBuf,
    variables: BTreeMap<String, String>,
    /// Whether somebody named it: then it may have settings of the runtime.
    is_named: bool,
}

impl EnvFile {
    /// Reads the file that was named, or `.env` in the current directory if
    /// there is one.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read(named: Option<&Path>) -> Result<Self, SettingsError> {
        let path = named.unwrap_or(Path::new(USUAL));
        let failed = |problem: String| SettingsError::EnvFile {
            path: path.to_owned(),
            problem,
        };
        let text = match read_bounded(path) {
            Ok(text) => text,
            Err(error) if named.is_none() && error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            Err(error) => return Err(failed(error.to_string())),
        };
        let lines = dotenvy::from_read_iter(text.as_bytes());
        let variables = lines.collect::<Result<_, _>>();
        Ok(Self {
            path: path.to_owned(),
            variables: variables.map_err(|error| failed(problem(&error, &text)))?,
            is_named: named.is_some(),
        })
    }

    /// A setting of the runtime in a file that was named.
    #[must_use]
    pub fn setting(&self, variable: &str) -> Option<&str> {
        let value = self.variables.get(variable)?;
        (self.is_named && !value.is_empty()).then_some(value)
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Settings of the runtime that do not count, since nobody named the file:
    /// whoever can write to a directory must not choose what listens where.
    #[must_use]
    pub fn ignored(&self) -> Vec<&str> {
        let names = self.variables.keys().map(String::as_str);
        names
            .filter(|name| !self.is_named && name.starts_with(OWN))
            .collect()
    }
}

/// The variables that commands start from: those of the environment, those of
/// the file that it lacks, and none of the runtime's own.
#[must_use]
pub fn child_environment(file: &EnvFile) -> Environment {
    let mut environment: Environment = file
        .variables
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    environment.extend(std::env::vars_os());
    without_own(&environment)
}

/// Where a line is that cannot be read, and not what it says.
fn problem(error: &dotenvy::Error, text: &str) -> String {
    match error {
        dotenvy::Error::LineParse(line, _) => {
            let at = text.lines().position(|found| line.starts_with(found));
            let number = at.map_or(0, |at| at + 1);
            format!("line {number} is not NAME=value")
        }
        dotenvy::Error::Io(error) => error.to_string(),
        _ => "it has a line that is not NAME=value".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, named: bool) -> Result<EnvFile, SettingsError> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, text).unwrap();
        let mut file = EnvFile::read(Some(&path))?;
        file.is_named = named;
        Ok(file)
    }

    #[test]
    fn settings_count_only_in_a_file_that_was_named() {
        let text = "A=1\nTRL_HTTP_ADDR=0.0.0.0:1\nexport TRL_AUTH_TOKEN='x'\n";
        let found = read(text, false).unwrap();
        assert_eq!(found.setting("TRL_HTTP_ADDR"), None);
        assert_eq!(found.ignored(), ["TRL_AUTH_TOKEN", "TRL_HTTP_ADDR"]);
        let named = read(text, true).unwrap();
        assert_eq!(named.setting("TRL_HTTP_ADDR"), Some("0.0.0.0:1"));
        assert_eq!(named.ignored(), Vec::<&str>::new());
        for file in [found, named] {
            let environment = child_environment(&file);
            assert_eq!(environment.get("A").unwrap(), "1");
            assert_eq!(environment.get("TRL_HTTP_ADDR"), None);
        }
    }

    #[test]
    fn a_wrong_line_is_named_and_not_shown() {
        for text in ["A=1\ns3cret words", "A=1\nB='s3cret", "A=1\nB=\"s3cret\\"] {
            let error = read(text, true).err().unwrap().to_string();
            assert!(error.contains("line 2"), "{error}");
            assert!(!error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn a_named_file_must_be_there() {
        let error = EnvFile::read(Some(Path::new("/no/such/file")))
            .err()
            .unwrap();
        assert_eq!(error.code(), "bad_env_file");
    }
}
