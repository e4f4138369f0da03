//! Searching folders for agents, commands and output styles: `.md` files.

use crate::agent::LoadedAgent;
use crate::command::LoadedCommand;
use crate::files::{canonical_root, is_showable, read_text, sorted_entries};
use crate::header::Malformed;
use crate::limits::{MAX_DEFINITIONS, MAX_DEPTH, MAX_ENTRIES, MAX_SKILL_BYTES};
use crate::output_style::LoadedOutputStyle;
use crate::skill_walk::NOT_SEARCHED;
use crate::warning::{ResourceWarning, WarningList};
use halter_protocol::{ResourceKind, ResourceOrigin};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// Files that explain a folder to people.
const NOT_DEFINING: [&str; 2] = ["README.md", "CLAUDE.md"];

/// Something that one `.md` file defines.
pub(crate) trait Definition: Sized {
    const KIND: ResourceKind;

    /// Reads a file at `path`, which is `relative` to its folder.
    fn read(
        path: &Path,
        relative: &Path,
        origin: &ResourceOrigin,
        text: &str,
    ) -> Result<(Self, Vec<ResourceWarning>), Malformed>;
}

impl Definition for LoadedAgent {
    const KIND: ResourceKind = ResourceKind::Agent;

    fn read(
        path: &Path,
        _: &Path,
        origin: &ResourceOrigin,
        text: &str,
    ) -> Result<(Self, Vec<ResourceWarning>), Malformed> {
        Self::parse(path, origin, text)
    }
}

impl Definition for LoadedCommand {
    const KIND: ResourceKind = ResourceKind::Command;

    fn read(
        path: &Path,
        relative: &Path,
        origin: &ResourceOrigin,
        text: &str,
    ) -> Result<(Self, Vec<ResourceWarning>), Malformed> {
        Self::parse(path, relative, origin, text)
    }
}

impl Definition for LoadedOutputStyle {
    const KIND: ResourceKind = ResourceKind::OutputStyle;

    fn read(
        path: &Path,
        _: &Path,
        origin: &ResourceOrigin,
        text: &str,
    ) -> Result<(Self, Vec<ResourceWarning>), Malformed> {
        Ok((Self::parse(path, origin, text)?, Vec::new()))
    }
}

/// What was found, in the order of paths.
#[derive(Debug)]
pub(crate) struct FoundDefinitions<T> {
    pub definitions: Vec<T>,
    pub warnings: Vec<ResourceWarning>,
}

/// Searches a folder that somebody named or that is one of the usual ones.
pub(crate) fn walk<T: Definition>(folder: &Path, origin: &ResourceOrigin) -> FoundDefinitions<T> {
    match canonical_root(folder) {
        Ok(root) => walk_folders(&root, origin, std::slice::from_ref(&root)),
        Err(reason) => FoundDefinitions {
            definitions: Vec::new(),
            warnings: vec![ResourceWarning::RootUnusable {
                root: folder.to_owned(),
                reason,
            }],
        },
    }
}

/// Searches folders and files of a plugin. `root` is canonical and bounds all
/// of them.
pub(crate) fn walk_folders<T: Definition>(
    root: &Path,
    origin: &ResourceOrigin,
    places: &[PathBuf],
) -> FoundDefinitions<T> {
    let mut walk = Walk {
        root,
        origin,
        definitions: Vec::new(),
        warnings: WarningList::default(),
        entries_left: MAX_ENTRIES,
        over: false,
    };
    for place in places {
        match fs::canonicalize(place) {
            Ok(inside) if !inside.starts_with(root) => {
                walk.skipped(place, None, "it leads out of the plugin".to_owned());
            }
            Ok(inside) if inside.is_dir() => walk.search(&inside, &inside, 1),
            Ok(inside) => {
                let folder = inside.parent().unwrap_or(root).to_owned();
                walk.file(&folder, &inside);
            }
            Err(_) => walk.skipped(place, None, "it does not exist".to_owned()),
        }
    }
    FoundDefinitions {
        definitions: walk.definitions,
        warnings: walk.warnings.into_vec(),
    }
}

struct Walk<'a, T> {
    root: &'a Path,
    origin: &'a ResourceOrigin,
    definitions: Vec<T>,
    warnings: WarningList,
    entries_left: usize,
    over: bool,
}

impl<T: Definition> Walk<'_, T> {
    /// Searches a directory below `folder`. `depth` is that of its entries.
    fn search(&mut self, folder: &Path, dir: &Path, depth: usize) {
        let (entries, more) = match sorted_entries(dir, self.entries_left) {
            Ok(found) => found,
            Err(error) => {
                self.warnings.push(ResourceWarning::DirectoryUnreadable {
                    path: dir.to_owned(),
                    reason: error.to_string(),
                });
                return;
            }
        };
        self.entries_left -= entries.len();
        for entry in entries {
            if self.over {
                return;
            }
            let (path, name) = (entry.path(), entry.file_name());
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            if kind.is_dir() {
                if NOT_SEARCHED.iter().any(|it| name == *it) {
                    continue;
                }
                match depth < MAX_DEPTH {
                    true => self.search(folder, &path, depth + 1),
                    false => self.warnings.push(ResourceWarning::LimitReached {
                        path,
                        reason: format!("more than {MAX_DEPTH} directories deep; not searched"),
                    }),
                }
            } else if path.extension() == Some(OsStr::new("md"))
                && !NOT_DEFINING.iter().any(|it| name == *it)
            {
                self.file(folder, &path);
            }
        }
        if more && !self.over {
            let reason = format!("more than {MAX_ENTRIES} entries; the rest is not looked at");
            self.end(dir, reason);
        }
    }

    fn file(&mut self, folder: &Path, path: &Path) {
        if !is_showable(path) {
            let path = path.to_owned();
            return self.warnings.push(ResourceWarning::PathNotText { path });
        }
        if self.definitions.len() == MAX_DEFINITIONS {
            let kind = T::KIND;
            let reason =
                format!("more than {MAX_DEFINITIONS} of a kind ({kind}); the rest is left out");
            return self.end(path, reason);
        }
        let relative = path.strip_prefix(folder).unwrap_or(path);
        let text = match read_text(self.root, path, MAX_SKILL_BYTES) {
            Ok(text) => text,
            Err(unread) => {
                return self.skipped(path, unread.line(), unread.reason(MAX_SKILL_BYTES));
            }
        };
        match T::read(path, relative, self.origin, &text) {
            Ok((definition, warnings)) => {
                self.definitions.push(definition);
                self.warnings.extend(warnings);
            }
            Err(Malformed { line, reason }) => self.skipped(path, line, reason),
        }
    }

    fn skipped(&mut self, path: &Path, line: Option<u64>, reason: String) {
        self.warnings.push(ResourceWarning::Skipped {
            kind: T::KIND,
            path: path.to_owned(),
            line,
            reason,
        });
    }

    fn end(&mut self, path: &Path, reason: String) {
        self.over = true;
        self.warnings.push(ResourceWarning::LimitReached {
            path: path.to_owned(),
            reason,
        });
    }
}
