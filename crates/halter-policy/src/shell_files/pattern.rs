//! The files that a pattern of a command line matches now.

use std::cell::Cell;
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

use crate::door::FileDoor;
use crate::error::PolicyError;
use crate::limits::{MAX_PATH_BYTES, MAX_PATTERN_DEPTH};

/// A file that a pattern matches.
pub(super) struct MatchedFile {
    pub(super) path: PathBuf,
    /// What it was listed as, if it was.
    kind: Option<&'static str>,
}

impl MatchedFile {
    /// It was listed and is no link: its name is all there is to judge.
    pub(super) fn is_plain(&self) -> bool {
        self.kind.is_some_and(|kind| kind != "link")
    }

    fn may_be_directory(&self) -> bool {
        !matches!(self.kind, Some("file" | "other"))
    }
}

/// Why the files of a pattern are not known.
pub(super) enum NoMatches {
    /// A directory that is looked into is closed.
    Closed(PolicyError),
    /// There are too many.
    TooMany,
}

/// Looks for matches, at a bounded number of names.
pub(super) struct Matching<'a> {
    pub(super) door: &'a FileDoor,
    /// Names that may still be looked at.
    pub(super) names_left: &'a Cell<usize>,
}

impl Matching<'_> {
    /// What the pattern matches, seen from a directory. Case is ignored, as
    /// the shell can be told to.
    pub(super) fn files(&self, base: &Path, pattern: &str) -> Result<Vec<MatchedFile>, NoMatches> {
        // No path is that long, and only signs make a pattern longer.
        if pattern.len() > 2 * MAX_PATH_BYTES {
            return Err(NoMatches::TooMany);
        }
        let start = match pattern.starts_with('/') {
            true => PathBuf::from("/"),
            false => base.to_path_buf(),
        };
        let mut found = vec![MatchedFile {
            path: start,
            kind: None,
        }];
        for component in pattern.split('/').filter(|part| !part.is_empty()) {
            found.retain(MatchedFile::may_be_directory);
            found = match component {
                "\0*\0*" => self.below(found)?,
                part if part.contains('\0') => self.matching(&found, &NamePattern::read(part))?,
                name => found
                    .into_iter()
                    .map(|it| MatchedFile {
                        path: it.path.join(name),
                        kind: None,
                    })
                    .collect(),
            };
        }
        Ok(found)
    }

    fn matching(
        &self,
        directories: &[MatchedFile],
        pattern: &NamePattern,
    ) -> Result<Vec<MatchedFile>, NoMatches> {
        let mut found = Vec::new();
        for directory in directories {
            found.extend(
                self.names(&directory.path)?
                    .into_iter()
                    .filter(|(name, _)| pattern.matches(name))
                    .map(|(name, kind)| MatchedFile {
                        path: directory.path.join(name),
                        kind: Some(kind),
                    }),
            );
        }
        Ok(found)
    }

    /// The directories themselves and everything below them.
    fn below(&self, directories: Vec<MatchedFile>) -> Result<Vec<MatchedFile>, NoMatches> {
        let mut found = directories;
        let mut next: Vec<PathBuf> = found.iter().map(|it| it.path.clone()).collect();
        for _ in 0..MAX_PATTERN_DEPTH {
            let mut deeper = Vec::new();
            for directory in next {
                for (name, kind) in self.names(&directory)? {
                    if name.to_string_lossy().starts_with('.') {
                        continue;
                    }
                    let path = directory.join(name);
                    if kind == "directory" {
                        deeper.push(path.clone());
                    }
                    let kind = Some(kind);
                    found.push(MatchedFile { path, kind });
                }
            }
            if deeper.is_empty() {
                return Ok(found);
            }
            next = deeper;
        }
        Err(NoMatches::TooMany)
    }

    /// The names in a directory, each with its kind; none if there is no such
    /// directory.
    fn names(&self, path: &Path) -> Result<Vec<(std::ffi::OsString, &'static str)>, NoMatches> {
        let path = match path.as_os_str().is_empty() {
            true => Path::new("."),
            false => path,
        };
        let most = self.names_left.get();
        let listed = self
            .door
            .open_dir(path)
            .and_then(|it| it.first_entries(most));
        let listing = match listed {
            Ok(listing) => listing,
            Err(error) if error.is_denial() => return Err(NoMatches::Closed(error)),
            Err(_) => return Ok(Vec::new()),
        };
        self.names_left
            .set(most.saturating_sub(listing.entries.len()));
        match listing.truncated {
            true => Err(NoMatches::TooMany),
            false => Ok(listing
                .entries
                .into_iter()
                .map(|entry| (entry.name, entry.kind))
                .collect()),
        }
    }
}

/// Bytes of a component that is compiled; a longer one matches any name.
const MAX_COMPONENT_BYTES: usize = 512;

/// One component of a pattern.
struct NamePattern {
    /// Absent: it matches any name.
    glob: Option<GlobMatcher>,
    /// A leading dot is matched only by a dot.
    starts_with_dot: bool,
}

impl NamePattern {
    fn read(component: &str) -> Self {
        let built = GlobBuilder::new(&written(component))
            .literal_separator(true)
            .backslash_escape(true)
            .case_insensitive(true)
            .build();
        // What is longer than two names is not worth its compilation.
        let built = built
            .ok()
            .filter(|_| component.len() <= MAX_COMPONENT_BYTES);
        Self {
            glob: built.map(|glob| glob.compile_matcher()),
            starts_with_dot: component.starts_with('.'),
        }
    }

    fn matches(&self, name: &std::ffi::OsStr) -> bool {
        let hidden = name.to_string_lossy().starts_with('.');
        let fits = self.glob.as_ref().is_none_or(|glob| glob.is_match(name));
        fits && (!hidden || self.starts_with_dot)
    }
}

/// The component as a glob. A bracket that this does not understand stands for
/// anything.
fn written(component: &str) -> String {
    let mut glob = String::new();
    let mut rest = component;
    while let Some(next) = rest.chars().next() {
        let signs = rest.strip_prefix('\0');
        match signs.and_then(|after| after.chars().next()) {
            Some('[') => {
                let after = rest.get(2..).unwrap_or_default();
                let (class, after) = bracket(after);
                glob.push_str(&class.map_or("*".to_owned(), |class| format!("[{class}]")));
                rest = after;
                continue;
            }
            Some(sign) => {
                glob.push(sign);
                rest = rest.get(1 + sign.len_utf8()..).unwrap_or_default();
                continue;
            }
            None if "*?[]{}!\\".contains(next) => glob.extend(['\\', next]),
            None => glob.push(next),
        }
        rest = rest.get(next.len_utf8()..).unwrap_or_default();
    }
    glob
}

/// What stands in a bracket, if it is plain, and what follows it.
fn bracket(text: &str) -> (Option<&str>, &str) {
    let inside = text.strip_prefix(['!', '^']).unwrap_or(text);
    // A `]` at the start stands for itself.
    let from = text.len() - inside.len() + usize::from(inside.starts_with(']'));
    let end = text.get(from..).and_then(|rest| rest.find(']'));
    let Some(end) = end.map(|end| from + end) else {
        return (None, "");
    };
    let (class, after) = text.split_at(end);
    let after = after.get(1..).unwrap_or_default();
    match class.contains(['[', '\0', '\\']) {
        // It may end later than it seems, so that anything may follow.
        true => (None, ""),
        false => (Some(class), after),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn a_component_matches_as_in_the_shell() {
        for (pattern, name, expected) in [
            ("\0*", "a", true),
            ("\0*", ".env", false),
            (".\0*", ".env", true),
            (".e\0?v", ".env", true),
            (".E\0*", ".env", true),
            ("a{b}\0*", "a{b}c", true),
            ("a\\\0*", "a\\b", true),
            ("\0[ab]c", "bc", true),
            ("\0[!a]c", "bc", true),
            ("\0[!a]c", "ac", false),
            ("\0[]a]c", "]c", true),
            ("\0[[:alpha:]]x", "zx", true),
            (".\0[e-e]nv", ".env", true),
            ("*\0*", "ab", false),
        ] {
            let matches = NamePattern::read(pattern).matches(OsStr::new(name));
            assert_eq!(matches, expected, "{pattern:?} {name}");
        }
    }
}
