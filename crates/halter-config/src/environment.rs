//! The process environment, captured once as a value.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

/// Environment variables and the current directory as they were at one moment. Everything that
/// depends on the environment takes this value, so that tests and servers can make their own.
///
/// `Debug` shows the names only: values may be keys.
///
/// ```
/// use halter_config::Environment;
///
/// let environment = Environment::from_iter([("HOME", "/home/ada")]);
/// assert_eq!(
///     environment.user_config_path().unwrap(),
///     std::path::Path::new("/home/ada/.config/halter/halter.toml"),
/// );
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment {
    variables: BTreeMap<OsString, OsString>,
    current_dir: Option<PathBuf>,
    reserved: Vec<String>,
}

impl Environment {
    /// The environment of this process. For faces, and for [`load_path`](crate::load_path).
    pub fn capture() -> Self {
        Self {
            variables: std::env::vars_os().collect(),
            current_dir: std::env::current_dir().ok(),
            reserved: Vec::new(),
        }
    }

    /// An environment without variables.
    pub fn empty() -> Self {
        Self::default()
    }

    /// The same, with the directory at which relative paths in variables start.
    pub fn with_current_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.current_dir = Some(directory.into());
        self
    }

    /// The same, with further `HALTER_*` variables that belong to a face and are not to be
    /// reported as unknown.
    pub fn reserving<'a>(mut self, variables: impl IntoIterator<Item = &'a str>) -> Self {
        self.reserved
            .extend(variables.into_iter().map(str::to_owned));
        self
    }

    /// The value of a variable.
    pub fn get(&self, variable: &str) -> Option<&OsStr> {
        self.variables
            .get(OsStr::new(variable))
            .map(OsString::as_os_str)
    }

    /// The value of a variable, if it is text.
    pub fn text(&self, variable: &str) -> Option<&str> {
        self.get(variable).and_then(OsStr::to_str)
    }

    /// The directory at which relative paths in variables start.
    pub fn current_dir(&self) -> Option<&Path> {
        self.current_dir.as_deref()
    }

    /// The user's home directory: `$HOME`, if it is absolute.
    pub fn home(&self) -> Option<&Path> {
        self.directory("HOME")
    }

    /// The user's configuration file: `$XDG_CONFIG_HOME/halter/halter.toml`, else
    /// `~/.config/halter/halter.toml`.
    pub fn user_config_path(&self) -> Option<PathBuf> {
        Some(
            self.base("XDG_CONFIG_HOME", ".config")?
                .join("halter/halter.toml"),
        )
    }

    /// The user's instruction files, which hold in every project: `AGENTS.md` beside
    /// the configuration file, and `~/.claude/CLAUDE.md`, which other harnesses read, too.
    pub fn user_instruction_files(&self) -> Vec<PathBuf> {
        let ours = self.user_config_path();
        let ours = ours.map(|file| file.with_file_name("AGENTS.md"));
        let common = self.home().map(|home| home.join(".claude/CLAUDE.md"));
        ours.into_iter().chain(common).collect()
    }

    /// Where Halter keeps what it remembers: `$XDG_STATE_HOME/halter`, else
    /// `~/.local/state/halter`.
    pub fn state_dir(&self) -> Option<PathBuf> {
        Some(self.base("XDG_STATE_HOME", ".local/state")?.join("halter"))
    }

    /// Where Halter keeps its data: `$XDG_DATA_HOME/halter`, else `~/.local/share/halter`.
    pub fn data_dir(&self) -> Option<PathBuf> {
        Some(self.base("XDG_DATA_HOME", ".local/share")?.join("halter"))
    }

    /// The session database that is used when `sessions.sqlite_path` is absent.
    pub fn default_sqlite_path(&self) -> Option<PathBuf> {
        Some(self.data_dir()?.join("sessions.db"))
    }

    /// All variables, for a face that hands some of them on.
    pub fn variables(&self) -> impl Iterator<Item = (OsString, OsString)> {
        self.variables
            .iter()
            .map(|(name, value)| (name.clone(), value.clone()))
    }

    /// Every variable whose name is text and starts with `HALTER_`.
    pub(crate) fn halter_variables(&self) -> impl Iterator<Item = (&str, &OsStr)> {
        self.variables.iter().filter_map(|(name, value)| {
            let name = name.to_str()?;
            name.starts_with("HALTER_")
                .then_some((name, value.as_os_str()))
        })
    }

    pub(crate) fn is_reserved(&self, variable: &str) -> bool {
        self.reserved.iter().any(|name| name == variable)
    }

    /// A variable that names a directory; the XDG rules ignore one that is not absolute.
    fn directory(&self, variable: &str) -> Option<&Path> {
        self.get(variable)
            .map(Path::new)
            .filter(|path| path.is_absolute())
    }

    fn base(&self, variable: &str, below_home: &str) -> Option<PathBuf> {
        self.directory(variable)
            .map(Path::to_path_buf)
            .or_else(|| self.home().map(|home| home.join(below_home)))
    }
}

impl<K: Into<OsString>, V: Into<OsString>> FromIterator<(K, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(variables: I) -> Self {
        Self {
            variables: variables
                .into_iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            current_dir: None,
            reserved: Vec::new(),
        }
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Environment")
            .field("variables", &self.variables.keys().collect::<Vec<_>>())
            .field("current_dir", &self.current_dir)
            .field("reserved", &self.reserved)
            .finish()
    }
}

/// A path with a leading `~/` replaced by the home directory. Nothing else is expanded: `$VAR`,
/// `~user` and a lone `~` stay as they are, and so does everything when there is no home.
///
/// ```
/// use std::path::{Path, PathBuf};
/// use halter_config::expand_path;
///
/// let home = Some(Path::new("/home/ada"));
/// assert_eq!(expand_path(Path::new("~/x"), home), PathBuf::from("/home/ada/x"));
/// assert_eq!(expand_path(Path::new("~bob/x"), home), PathBuf::from("~bob/x"));
/// assert_eq!(expand_path(Path::new("$HOME/x"), home), PathBuf::from("$HOME/x"));
/// ```
pub fn expand_path(path: &Path, home: Option<&Path>) -> PathBuf {
    match (starts_at_home(path), home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => path.to_path_buf(),
    }
}

/// What follows a leading `~/`.
pub(crate) fn starts_at_home(path: &Path) -> Option<&Path> {
    let bytes = path.as_os_str().as_encoded_bytes();
    bytes
        .starts_with(b"~/")
        .then(|| path.strip_prefix("~").ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_leading_tilde_slash_expands() {
        let home = Some(Path::new("/home/ada"));
        for (written, meant) in [
            ("~/skills", "/home/ada/skills"),
            ("~/", "/home/ada/"),
            ("~", "~"),
            ("~bob/x", "~bob/x"),
            ("$HOME/x", "$HOME/x"),
            ("${HOME}/x", "${HOME}/x"),
            ("a/~/b", "a/~/b"),
            ("./~/b", "./~/b"),
            ("", ""),
        ] {
            assert_eq!(
                expand_path(Path::new(written), home),
                Path::new(meant),
                "{written}"
            );
            assert_eq!(expand_path(Path::new(written), None), Path::new(written));
        }
    }

    #[test]
    fn relative_xdg_directories_are_ignored() {
        let environment = Environment::from_iter([
            ("HOME", "/home/ada"),
            ("XDG_STATE_HOME", "state"),
            ("XDG_DATA_HOME", "/data"),
        ]);
        assert_eq!(
            environment.state_dir(),
            Some(PathBuf::from("/home/ada/.local/state/halter"))
        );
        assert_eq!(
            environment.default_sqlite_path(),
            Some(PathBuf::from("/data/halter/sessions.db"))
        );
        assert_eq!(Environment::empty().user_config_path(), None);
        assert_eq!(
            environment.user_instruction_files(),
            [
                PathBuf::from("/home/ada/.config/halter/AGENTS.md"),
                PathBuf::from("/home/ada/.claude/CLAUDE.md")
            ]
        );
    }

    #[test]
    fn debug_shows_no_values() {
        let environment = Environment::from_iter([("OPENAI_API_KEY", "sk-secret")]);
        let shown = format!("{environment:?}");
        assert!(shown.contains("OPENAI_API_KEY"));
        assert!(!shown.contains("sk-secret"));
    }
}
