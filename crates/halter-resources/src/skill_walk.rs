//! Searching a root for skills.

use crate::files::{canonical_root, exists, is_showable, read_text, sorted_entries};
use crate::limits::{MAX_DEPTH, MAX_ENTRIES, MAX_SKILL_BYTES, MAX_SKILLS};
use crate::skill::{LoadedSkill, LoadedSkills, SKILL_FILE};
use crate::warning::{ResourceWarning, WarningList};
use halter_protocol::{ResourceKind, ResourceOrigin};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// Directories that hold other people's files by the thousand.
pub(crate) const NOT_SEARCHED: [&str; 2] = [".git", "node_modules"];

pub(crate) fn walk(root: &Path, origin: &ResourceOrigin) -> LoadedSkills {
    let mut warnings = WarningList::default();
    let root = match canonical_root(root) {
        Ok(canonical) => canonical,
        Err(reason) => {
            warnings.push(ResourceWarning::RootUnusable {
                root: root.to_owned(),
                reason,
            });
            return LoadedSkills {
                skills: Vec::new(),
                warnings: warnings.into_vec(),
            };
        }
    };
    let mut walk = SkillWalk {
        root: &root,
        origin,
        skills: Vec::new(),
        warnings,
        entries_left: MAX_ENTRIES,
        over: false,
    };
    if exists(&root.join(SKILL_FILE)) {
        walk.warnings.push(ResourceWarning::RootUnusable {
            root: root.clone(),
            reason: format!(
                "it holds a {SKILL_FILE} itself, and a root is never a skill; \
                 give the directory above it as the root"
            ),
        });
    }
    walk.search(&root, 1);
    LoadedSkills {
        skills: walk.skills,
        warnings: walk.warnings.into_vec(),
    }
}

/// Searches folders of a plugin. Each is a skill itself, or holds skills.
/// `root` is canonical and bounds all of them.
pub(crate) fn walk_folders(
    root: &Path,
    origin: &ResourceOrigin,
    folders: &[PathBuf],
) -> LoadedSkills {
    let mut walk = SkillWalk {
        root,
        origin,
        skills: Vec::new(),
        warnings: WarningList::default(),
        entries_left: MAX_ENTRIES,
        over: false,
    };
    for folder in folders {
        match fs::canonicalize(folder) {
            Ok(inside) if inside.starts_with(root) => {
                if exists(&inside.join(SKILL_FILE)) {
                    walk.skill(&inside);
                } else if inside.is_dir() {
                    walk.search(&inside, 1);
                } else {
                    walk.skipped(&inside, "it is not a directory of skills");
                }
            }
            Ok(_) => walk.skipped(folder, "it leads out of the plugin"),
            Err(_) => walk.skipped(folder, "it does not exist"),
        }
    }
    LoadedSkills {
        skills: walk.skills,
        warnings: walk.warnings.into_vec(),
    }
}

struct SkillWalk<'a> {
    root: &'a Path,
    origin: &'a ResourceOrigin,
    skills: Vec<LoadedSkill>,
    warnings: WarningList,
    entries_left: usize,
    over: bool,
}

impl SkillWalk<'_> {
    /// Searches a directory that is not a skill. `depth` is that of its
    /// entries.
    fn search(&mut self, dir: &Path, depth: usize) {
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
            let path = entry.path();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => self.directory(&path, depth),
                Ok(kind) if kind.is_symlink() => self.link(&path),
                _ => {}
            }
        }
        if more && !self.over {
            self.end(dir, format!("more than {MAX_ENTRIES} files and directories under this root; the rest is not searched"));
        }
    }

    fn directory(&mut self, path: &Path, depth: usize) {
        if NOT_SEARCHED
            .iter()
            .any(|name| path.file_name() == Some(OsStr::new(name)))
        {
            return;
        }
        if !is_showable(path) {
            self.warnings.push(ResourceWarning::PathNotText {
                path: path.to_owned(),
            });
        } else if exists(&path.join(SKILL_FILE)) {
            self.skill(path);
        } else if depth < MAX_DEPTH {
            self.search(path, depth + 1);
        } else {
            self.warnings.push(ResourceWarning::LimitReached {
                path: path.to_owned(),
                reason: format!("more than {MAX_DEPTH} directories deep; not searched"),
            });
        }
    }

    fn skill(&mut self, dir: &Path) {
        let path = dir.join(SKILL_FILE);
        if self.skills.len() == MAX_SKILLS {
            let reason =
                format!("more than {MAX_SKILLS} skills under this root; the rest is left out");
            self.end(&path, reason);
            return;
        }
        let relative: PathBuf = path.strip_prefix(self.root).unwrap_or(&path).to_owned();
        let text = read_text(self.root, &path, MAX_SKILL_BYTES);
        match LoadedSkill::of_text(self.root, relative, self.origin, text) {
            Ok((skill, warnings)) => {
                self.skills.push(skill);
                self.warnings.extend(warnings);
            }
            Err(skipped) => self.warnings.push(skipped),
        }
    }

    fn skipped(&mut self, path: &Path, reason: &str) {
        self.warnings.push(ResourceWarning::Skipped {
            kind: ResourceKind::Skill,
            path: path.to_owned(),
            line: None,
            reason: reason.to_owned(),
        });
    }

    /// A link to a directory of this root is left alone: what it leads to is
    /// found where it is.
    fn link(&mut self, path: &Path) {
        let leads_away = match fs::canonicalize(path) {
            Ok(target) => target.is_dir() && !target.starts_with(self.root),
            Err(_) => true,
        };
        if leads_away {
            self.warnings.push(ResourceWarning::LinkNotFollowed {
                path: path.to_owned(),
            });
        }
    }

    fn end(&mut self, path: &Path, reason: String) {
        self.over = true;
        self.warnings.push(ResourceWarning::LimitReached {
            path: path.to_owned(),
            reason,
        });
    }
}
