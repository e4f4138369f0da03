//! A path as far as a command line tells it before it runs.

use std::path::Path;

/// What is known of a path. NUL, which no word can hold, sets apart what the
/// shell replaces: `\0~` stands for the home directory, `\0@` for that of
/// somebody else, `\0*`, `\0?` and `\0[` for the signs of a pattern.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct KnownPath {
    text: String,
    /// Something unknown follows.
    open: bool,
    /// What is known again behind the last of what is not.
    end: String,
}

/// A path as the shell would spell it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Spelling {
    /// Exactly this.
    Exact(String),
    /// Every file that the pattern matches; its signs follow a NUL.
    Pattern(String),
    /// It starts and ends like this.
    Partly(String, String),
    /// It lies in a home directory that is not known here.
    UnknownHome,
}

impl KnownPath {
    pub(super) fn unknown() -> Self {
        Self {
            open: true,
            ..Self::default()
        }
    }

    /// The home directory.
    pub(super) fn home() -> Self {
        let mut path = Self::default();
        path.push_sign('~');
        path
    }

    pub(super) fn push(&mut self, text: &str) {
        match self.open {
            true => self.end.push_str(text),
            false => self.text.push_str(text),
        }
    }

    /// Something follows of which nothing is known.
    fn push_unknown(&mut self) {
        self.open = true;
        self.end.clear();
    }

    pub(super) fn push_sign(&mut self, sign: char) {
        match self.open {
            true => self.push_unknown(),
            false => self.text.extend(['\0', sign]),
        }
    }

    /// `~`, `~+` or `~name`.
    pub(super) fn push_tilde(&mut self, tilde: &str) {
        match tilde {
            "~" => self.push_sign('~'),
            "~+" => self.push("."),
            "~-" => self.push_unknown(),
            _ => self.push_sign('@'),
        }
    }

    /// A variable of which only the name is known.
    pub(super) fn push_variable(&mut self, name: Option<&str>) {
        let starts = self.text.is_empty() || self.text.ends_with('=');
        match name {
            Some("HOME") => self.push_sign('~'),
            Some("PWD") if starts => self.push("."),
            _ => self.push_unknown(),
        }
    }

    /// The rest of it, for a value attached to an option.
    pub(super) fn after(&self, bytes: usize) -> Self {
        Self {
            text: self.text.get(bytes..).unwrap_or_default().to_owned(),
            open: self.open || self.text.get(bytes..).is_none(),
            end: self.end.clone(),
        }
    }

    /// Seen from a directory, where it is relative.
    pub(super) fn within(&self, directory: &Self) -> Self {
        if self.text.starts_with('/') || self.is_home() {
            return self.clone();
        }
        if directory.open {
            return Self::unknown();
        }
        Self {
            text: format!("{}/{}", directory.text, self.text),
            ..self.clone()
        }
    }

    fn is_home(&self) -> bool {
        self.text.starts_with("\0~") || self.text.starts_with("\0@")
    }

    /// A known path without a pattern.
    pub(super) fn directory(&self) -> Option<String> {
        let rest = self.text.strip_prefix("\0~").unwrap_or(&self.text);
        (!self.open && !rest.contains('\0')).then(|| self.text.clone())
    }

    pub(crate) fn spelling(&self, home: Option<&Path>) -> Spelling {
        let Some(text) = with_home(&self.text, home) else {
            return Spelling::UnknownHome;
        };
        match text.split_once('\0') {
            None if self.open => Spelling::Partly(text, self.end.clone()),
            None => Spelling::Exact(text),
            Some((start, _)) if self.open => Spelling::Partly(start.to_owned(), self.end.clone()),
            Some(_) => Spelling::Pattern(text),
        }
    }
}

/// The text with the home directory written out; `None` if it is not known.
pub(crate) fn with_home(text: &str, home: Option<&Path>) -> Option<String> {
    match (text.contains("\0~"), home) {
        _ if text.contains("\0@") => None,
        (false, _) => Some(text.to_owned()),
        (true, None) => None,
        (true, Some(home)) => Some(text.replace("\0~", &home.to_string_lossy())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(text: &str) -> KnownPath {
        let mut path = KnownPath::default();
        path.push(text);
        path
    }

    fn spelled(path: &KnownPath) -> Spelling {
        path.spelling(Some(Path::new("/home/u")))
    }

    #[test]
    fn a_home_directory_is_written_out_where_it_is_known() {
        let mut path = KnownPath::default();
        path.push_tilde("~");
        path.push("/x");
        assert_eq!(spelled(&path), Spelling::Exact("/home/u/x".to_owned()));
        assert_eq!(path.spelling(None), Spelling::UnknownHome);
        let mut path = KnownPath::default();
        path.push_tilde("~root");
        assert_eq!(spelled(&path), Spelling::UnknownHome);
    }

    #[test]
    fn what_follows_something_unknown_is_not_known() {
        let mut path = exact("a/");
        path.push_variable(Some("x"));
        path.push("/b");
        let partly = |start: &str, end: &str| Spelling::Partly(start.to_owned(), end.to_owned());
        assert_eq!(spelled(&path), partly("a/", "/b"));
        path.push_sign('*');
        assert_eq!(spelled(&path), partly("a/", ""));
        let mut path = exact("--file=");
        path.push_variable(Some("PWD"));
        path.push("/b");
        assert_eq!(spelled(&path.after(7)), Spelling::Exact("./b".to_owned()));
    }

    #[test]
    fn a_relative_path_starts_in_its_directory() {
        let sub = exact("sub");
        assert_eq!(exact("x").within(&sub), exact("sub/x"));
        assert_eq!(exact("/x").within(&sub), exact("/x"));
        let lost = exact("x").within(&KnownPath::unknown());
        assert_eq!(
            spelled(&lost),
            Spelling::Partly(String::new(), String::new())
        );
    }
}
