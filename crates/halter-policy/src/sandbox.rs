//! What the kernel should enforce of a session's policy, as data: whoever runs
//! commands turns it into a sandbox.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::door::FileDoor;
use crate::limits::{SANDBOX_REPOSITORIES, SANDBOX_WALK_DEPTH, SANDBOX_WALK_ENTRIES};
use crate::settings::{NetworkSwitch, PolicySettings, ProgramList, SessionScope};

/// Whether commands run in a sandbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SandboxMode {
    /// They run with the user's rights.
    #[default]
    Off,
    /// In the strongest sandbox this machine grants; a result says which.
    Prefer,
    /// In one that holds all that is asked of it, or not at all.
    Require,
}

/// What a sandbox is asked to hold. Paths are absolute and exist, except
/// protected ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SandboxBounds {
    /// Whether there is one.
    pub mode: SandboxMode,
    /// Directories that commands may change.
    pub writable: Vec<PathBuf>,
    /// Files and directories that commands cannot read.
    pub hidden: Vec<PathBuf>,
    /// Files and directories below the writable ones that commands cannot
    /// change or make.
    pub protected: Vec<PathBuf>,
    /// Repositories below the writable directories that are too many to be
    /// protected.
    pub more_repositories: usize,
    /// The only programs that execute, by name or path, if the user set a list.
    pub programs: Option<Vec<String>>,
    /// Whether commands reach any host at all; which, the network policy says.
    pub network: bool,
    /// Whether a person may be asked about each host that commands would reach,
    /// where the place that runs them sees which that is.
    pub asks_network: bool,
}

/// Files below a writable directory that programs of the user act on: git runs
/// what these name, editors and agents start servers and tasks from theirs.
const PROTECTED_IN_GIT: &[&str] = &["hooks", "config"];
const PROTECTED_DIRECTORIES: &[&str] = &[
    ".halter", ".claude", ".codex", ".cursor", ".vscode", ".idea", ".zed",
];
/// Protected where they are; no file of this name is put in place of an absent
/// one, which would be taken for it.
const PROTECTED_FILES: &[&str] = &["halter.toml", ".mcp.json"];

/// Directories that are not searched for sensitive files: large, and made by
/// tools.
const NOT_SEARCHED: &[&str] = &[".git", "node_modules", "target", ".venv"];

/// Whether a directory of this name is searched for sensitive files and
/// repositories.
#[must_use]
pub fn is_searched_by_sandbox(name: &OsStr) -> bool {
    NOT_SEARCHED.iter().all(|it| name != *it)
}

pub(crate) fn bounds(
    settings: &PolicySettings,
    scope: &SessionScope,
    door: &FileDoor,
    home: Option<&Path>,
) -> SandboxBounds {
    if settings.sandbox == SandboxMode::Off {
        return SandboxBounds::default();
    }
    let roots = settings.allowed_write_roots.iter();
    let roots: Vec<PathBuf> = roots
        .filter_map(|root| door.working_dir().join(root).canonicalize().ok())
        .filter(|root| root.is_dir())
        .collect();
    let mut found = FoundBelow::default();
    for root in &roots {
        found.search(root, door);
    }
    let FoundBelow {
        mut hidden,
        repositories,
        more_repositories,
    } = found;
    if let Some(home) = home {
        let mut found = FoundBelow::default();
        let mut left = SANDBOX_WALK_ENTRIES;
        found.search_within(home, door, 0, &mut left);
        hidden.extend(found.hidden);
        let deeper = patterns(settings).filter(|pattern| pattern.components().count() > 1);
        let deeper = deeper.map(|pattern| home.join(pattern));
        hidden.extend(deeper.filter(|path| path.exists() && door.is_closed(path)));
    }
    let own = scope.protected.iter().filter(|path| path.exists());
    hidden.extend(own.cloned());
    let absolute = patterns(settings).filter(|pattern| pattern.is_absolute());
    let absolute = absolute.filter(|path| path.exists() && door.is_closed(path));
    hidden.extend(absolute.map(Path::to_owned));
    hidden.sort();
    hidden.dedup();
    let mut protected: Vec<PathBuf> = roots
        .iter()
        .flat_map(|root| protected_in(root, settings.sandbox))
        .chain(
            repositories
                .iter()
                .flat_map(|it| protected_in_repository(it)),
        )
        .collect();
    // Nothing is lost by hiding what lies in a hidden place.
    protected.retain(|path| !hidden.iter().any(|place| path.starts_with(place)));
    let mut writable = roots;
    writable.extend(
        scope
            .scratch_dir
            .iter()
            .filter(|path| path.exists())
            .cloned(),
    );
    SandboxBounds {
        mode: settings.sandbox,
        writable,
        hidden,
        protected,
        more_repositories,
        programs: match &settings.allowed_shell_commands {
            ProgramList::Default => None,
            ProgramList::Set(names) if names.iter().any(|name| name == "*") => None,
            ProgramList::Set(names) => Some(names.clone()),
        },
        network: settings.network == NetworkSwitch::On,
        asks_network: false,
    }
}

/// Opens more directories to one command. What lies there is hidden and
/// protected as elsewhere, but nothing is put there to keep a place.
pub(crate) fn open(bounds: &mut SandboxBounds, more: &[PathBuf], door: &FileDoor) {
    for root in more.iter().filter_map(|root| root.canonicalize().ok()) {
        let mut found = FoundBelow::default();
        found.search(&root, door);
        bounds.hidden.extend(found.hidden);
        bounds.more_repositories += found.more_repositories;
        let nested = found
            .repositories
            .iter()
            .flat_map(|it| protected_in_repository(it));
        bounds.protected.extend(nested);
        let protected = protected_in(&root, bounds.mode).into_iter();
        bounds
            .protected
            .extend(protected.filter(|path| path.exists() || path.starts_with(root.join(".git"))));
        bounds.writable.push(root);
    }
    bounds.hidden.sort();
    bounds.hidden.dedup();
    let hidden = &bounds.hidden;
    bounds
        .protected
        .retain(|path| !hidden.iter().any(|place| path.starts_with(place)));
}

/// The patterns in force. Those with wildcards name no file.
fn patterns(settings: &PolicySettings) -> impl Iterator<Item = &Path> {
    let given = settings.sensitive_path_patterns.as_ref();
    let builtin = given.is_none().then_some(crate::BUILTIN_SENSITIVE_PATTERNS);
    let given = given.into_iter().flatten().map(String::as_str);
    given
        .chain(builtin.into_iter().flatten().copied())
        .map(Path::new)
}

/// A directory without `.git` may become a repository, unless all that is
/// asked for must hold.
fn protected_in(root: &Path, mode: SandboxMode) -> Vec<PathBuf> {
    let git = root.join(".git");
    let directories = PROTECTED_DIRECTORIES.iter().map(|name| root.join(name));
    let files = PROTECTED_FILES.iter().map(|name| root.join(name));
    let mut protected: Vec<PathBuf> = directories
        .chain(files.filter(|file| file.exists()))
        .collect();
    if git.exists() {
        protected.extend(protected_in_repository(&git));
    } else if mode == SandboxMode::Require {
        protected.extend(PROTECTED_IN_GIT.iter().map(|name| git.join(name)));
    }
    protected
}

/// What is protected of the repository with this `.git`. A file in its place
/// says where it is.
#[must_use]
pub fn protected_in_repository(git: &Path) -> Vec<PathBuf> {
    match git.is_dir() {
        true => PROTECTED_IN_GIT.iter().map(|name| git.join(name)).collect(),
        false => vec![git.to_owned()],
    }
}

/// What is found below a directory that commands may change.
#[derive(Default)]
struct FoundBelow {
    /// Files that no command may read.
    hidden: Vec<PathBuf>,
    /// The `.git` of repositories within, not that of the directory itself.
    repositories: Vec<PathBuf>,
    /// Further ones.
    more_repositories: usize,
}

impl FoundBelow {
    fn search(&mut self, root: &Path, door: &FileDoor) {
        let mut left = SANDBOX_WALK_ENTRIES;
        let (known, own) = (self.repositories.len(), root.join(".git"));
        self.search_within(root, door, SANDBOX_WALK_DEPTH, &mut left);
        self.repositories.retain(|it| *it != own);
        let most = known + SANDBOX_REPOSITORIES;
        self.more_repositories += self.repositories.len().saturating_sub(most);
        self.repositories.truncate(most);
    }

    fn search_within(&mut self, directory: &Path, door: &FileDoor, depth: usize, left: &mut usize) {
        let Ok(entries) = std::fs::read_dir(directory) else {
            return;
        };
        for entry in entries.flatten() {
            let Some(rest) = left.checked_sub(1) else {
                return;
            };
            *left = rest;
            let path = entry.path();
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let searched = is_searched_by_sandbox(&entry.file_name());
            if entry.file_name() == ".git" {
                self.repositories.push(path.clone());
            }
            if door.is_closed(&path) {
                self.hidden.push(path);
            } else if is_directory && searched && depth > 0 {
                self.search_within(&path, door, depth - 1, left);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{StandardPolicy, ToolPolicy};

    fn bounds_in(root: &Path, mode: SandboxMode) -> SandboxBounds {
        let settings = PolicySettings {
            sandbox: mode,
            ..PolicySettings::default()
        };
        let scope = SessionScope {
            working_dir: root.to_owned(),
            ..SessionScope::default()
        };
        StandardPolicy::bind(settings, scope).unwrap().sandbox(None)
    }

    fn hidden_below(root: &Path) -> Vec<PathBuf> {
        let mut hidden = bounds_in(root, SandboxMode::Prefer).hidden;
        hidden.retain(|path| path.starts_with(root));
        hidden
    }

    #[test]
    fn sensitive_files_are_hidden_as_deep_and_as_many_as_the_limits_say() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let mut deep = root.clone();
        for _ in 0..SANDBOX_WALK_DEPTH {
            deep.push("d");
        }
        std::fs::create_dir_all(deep.join("d")).unwrap();
        std::fs::write(deep.join(".env"), "").unwrap();
        std::fs::write(deep.join("d/.env"), "").unwrap();
        assert_eq!(hidden_below(&root), [deep.join(".env")]);
        let many = root.join("many");
        std::fs::create_dir(&many).unwrap();
        let policy = StandardPolicy::bind(
            PolicySettings::default(),
            SessionScope {
                working_dir: root.clone(),
                ..SessionScope::default()
            },
        );
        let policy = policy.unwrap();
        std::fs::write(many.join(".env"), "").unwrap();
        for (mut left, expected) in [(0, 0), (1, 1), (SANDBOX_WALK_ENTRIES, 1)] {
            let mut found = FoundBelow::default();
            found.search_within(&many, policy.door(), 0, &mut left);
            assert_eq!(found.hidden.len(), expected);
        }
    }

    #[test]
    fn repositories_within_are_protected_so_many_and_no_more() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        for number in 0..SANDBOX_REPOSITORIES {
            std::fs::create_dir_all(root.join(format!("r{number}/.git"))).unwrap();
        }
        let protected = || {
            let mut protected = bounds_in(&root, SandboxMode::Prefer).protected;
            protected.retain(|path| path.iter().any(|name| name == ".git"));
            protected
        };
        let found = protected();
        assert_eq!(found.len(), PROTECTED_IN_GIT.len() * SANDBOX_REPOSITORIES);
        assert!(found.contains(&root.join("r7/.git/hooks")));
        assert!(found.contains(&root.join("r7/.git/config")));
        std::fs::create_dir(root.join("one-more")).unwrap();
        std::fs::write(root.join("one-more/.git"), "gitdir: ../r0/.git").unwrap();
        let more = bounds_in(&root, SandboxMode::Prefer).more_repositories;
        assert_eq!(more, 1);
        let found = protected();
        let whole = found.contains(&root.join("one-more/.git"));
        let count = PROTECTED_IN_GIT.len() * SANDBOX_REPOSITORIES - usize::from(whole);
        assert_eq!(found.len(), count);
        std::fs::remove_dir_all(root.join("r0")).unwrap();
        assert!(protected().contains(&root.join("one-more/.git")));
    }

    #[test]
    fn git_and_the_settings_of_editors_are_protected() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let protects = |mode, name: &str| {
            let bounds = bounds_in(&root, mode);
            assert_eq!(bounds.writable, std::slice::from_ref(&root));
            bounds.protected.contains(&root.join(name))
        };
        assert!(protects(SandboxMode::Prefer, ".vscode"));
        assert!(!protects(SandboxMode::Prefer, "halter.toml"));
        // It may become a repository, unless all has to hold.
        assert!(!protects(SandboxMode::Prefer, ".git/hooks"));
        assert!(protects(SandboxMode::Require, ".git/hooks"));
        std::fs::create_dir(root.join(".git")).unwrap();
        std::fs::write(root.join("halter.toml"), "").unwrap();
        assert!(protects(SandboxMode::Prefer, ".git/hooks"));
        assert!(protects(SandboxMode::Prefer, ".git/config"));
        assert!(protects(SandboxMode::Prefer, "halter.toml"));
        assert_eq!(bounds_in(&root, SandboxMode::Off), SandboxBounds::default());
    }
}
