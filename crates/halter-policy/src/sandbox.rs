//! What the kernel should enforce of a session's policy, as data: whoever runs
//! commands turns it into a sandbox.

mod git;
mod search;

use std::path::{Path, PathBuf};

use crate::door::{FileDoor, FileRules};
use crate::error::PolicyError;
use crate::limits::SANDBOX_REPOSITORIES;
use crate::settings::{NetworkSwitch, PolicySettings, ProgramList, SessionScope};

pub use git::protected_in_repository;
use search::FoundBelow;
pub use search::{is_searched_by_sandbox, searched_entries};

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
    /// Files that are not there and that commands should not make, but can.
    /// They are protected from when one has.
    pub watched: Vec<PathBuf>,
    /// Sockets of other programs below the home directory, which commands
    /// cannot connect to.
    pub sockets: Vec<PathBuf>,
    /// Directories that are too large to be searched as a whole for sensitive
    /// files.
    pub partly_searched: Vec<PathBuf>,
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
    /// Where the session's files are not this machine's: by what the place that
    /// has them finds what is hidden and protected, which is not listed here.
    pub elsewhere: Option<Box<ElsewhereBounds>>,
}

/// What tells another machine what a sandbox of its own is to hide and protect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ElsewhereBounds {
    /// Roots and closed files.
    pub rules: FileRules,
    /// How many rules deny files that no command may read, which cannot be told
    /// there.
    pub deny_rules: usize,
}

impl SandboxBounds {
    /// What a sandbox on this machine is to hold under rules that came from
    /// another. Blocking: roots are searched.
    ///
    /// # Errors
    /// The directory or a root of the rules cannot be used, or a pattern is
    /// malformed.
    pub fn for_rules(
        rules: &FileRules,
        mode: SandboxMode,
        home: Option<&Path>,
    ) -> Result<Self, PolicyError> {
        let (mut settings, scope) = rules.as_settings();
        settings.sandbox = mode;
        let door = FileDoor::bind(&settings, &scope)?;
        Ok(bounds(&settings, &scope, &door, home))
    }
}

/// Directories below a writable one from which editors and agents start servers
/// and tasks, or take hooks and instructions. An empty one in place of an absent
/// one says nothing to them, and git does not list it. What asks for consent to
/// its new content before it runs, as `.envrc` does, is not among them.
const PROTECTED_DIRECTORIES: &[&str] = &[
    ".halter",
    ".agents",
    ".amazonq",
    ".claude",
    ".clinerules",
    ".codex",
    ".continue",
    ".cursor",
    ".devcontainer",
    ".factory",
    ".fleet",
    ".gemini",
    ".idea",
    ".junie",
    ".kiro",
    ".opencode",
    ".qwen",
    ".roo",
    ".trae",
    ".vscode",
    ".windsurf",
    ".zed",
];
/// Directories of that kind within one that has other things in it, too. Where
/// that is absent, they are treated as files are: nothing keeps its place.
const PROTECTED_WITHIN: &[&str] = &[".github/copilot", ".github/hooks"];
/// Protected where they are. In place of an absent one something is put only
/// where all that is asked for must hold: an empty directory, which git does not
/// list and Halter takes for nothing, whereas a file would be read, and added to
/// repositories. Other programs that look for such a file find one that they
/// cannot read.
const PROTECTED_FILES: &[&str] = &[
    "halter.toml",
    ".mcp.json",
    ".aider.conf.yml",
    ".crush.json",
    ".devcontainer.json",
    "crush.json",
    "opencode.json",
    "opencode.jsonc",
];

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
        found.search(root, door, settings.sandbox);
    }
    let (repositories, more_repositories) = found.repositories();
    if let Some(home) = home {
        found.search_home(home, &roots, door);
        let deeper = patterns(settings).filter(|pattern| pattern.components().count() > 1);
        let deeper = deeper.map(|pattern| home.join(pattern));
        let deeper = deeper.filter(|path| path.exists() && door.is_closed(path));
        found.hidden.extend(deeper);
    }
    let FoundBelow {
        mut hidden,
        sockets,
        partly_searched,
        ..
    } = found;
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
        .chain(repositories.iter().flat_map(|it| protected_around(it)))
        .collect();
    for root in &roots {
        keep_read_only(&mut protected, scope, root);
    }
    // Nothing is lost by hiding what lies in a hidden place.
    protected.retain(|path| !hidden.iter().any(|place| path.starts_with(place)));
    let watched = match settings.sandbox {
        SandboxMode::Require => Vec::new(),
        _ => roots.iter().flat_map(|root| absent_in(root)).collect(),
    };
    let mut writable = roots;
    for root in writable.clone() {
        if let Some(shared) = git::shared_directory(&root)
            && !writable.iter().any(|root| shared.starts_with(root))
        {
            protected.extend(protected_in_repository(&shared));
            writable.push(shared);
        }
    }
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
        watched,
        sockets,
        partly_searched,
        more_repositories,
        programs: listed_programs(settings),
        network: settings.network == NetworkSwitch::On,
        asks_network: false,
        elsewhere: None,
    }
}

/// The only programs that execute, if the user set a list.
pub(crate) fn listed_programs(settings: &PolicySettings) -> Option<Vec<String>> {
    match &settings.allowed_shell_commands {
        ProgramList::Set(names) if names.iter().all(|name| name != "*") => Some(names.clone()),
        _ => None,
    }
}

/// Opens more directories to one command. What lies there is hidden and
/// protected as elsewhere, but nothing is put there to keep a place.
pub(crate) fn open(bounds: &mut SandboxBounds, scope: &SessionScope, door: &FileDoor) {
    let more = scope.extra_write_roots.iter();
    for root in more.filter_map(|root| root.canonicalize().ok()) {
        let mut found = FoundBelow::default();
        found.search(&root, door, bounds.mode);
        let (repositories, more) = found.repositories();
        bounds.hidden.extend(found.hidden);
        bounds.partly_searched.extend(found.partly_searched);
        bounds.more_repositories += more;
        bounds.watched.extend(absent_in(&root));
        let nested = repositories.iter().flat_map(|it| protected_around(it));
        bounds.protected.extend(nested);
        let protected = protected_in(&root, bounds.mode).into_iter();
        bounds
            .protected
            .extend(protected.filter(|path| path.exists() || path.starts_with(root.join(".git"))));
        keep_read_only(&mut bounds.protected, scope, &root);
        bounds.writable.push(root);
    }
    bounds.hidden.sort();
    bounds.hidden.dedup();
    let hidden = &bounds.hidden;
    bounds
        .protected
        .retain(|path| !hidden.iter().any(|place| path.starts_with(place)));
}

/// What is protected of a repository within a writable directory.
fn protected_around(git: &Path) -> Vec<PathBuf> {
    let mut protected = protected_in_repository(git);
    protected.extend(settings_beside(git));
    protected
}

/// Protects what a session may not change below a writable directory, as far as
/// it is not protected with a directory that it lies in.
fn keep_read_only(protected: &mut Vec<PathBuf>, scope: &SessionScope, root: &Path) {
    let read_only = scope.read_only.iter();
    for path in read_only.filter_map(|path| path.canonicalize().ok()) {
        let is_open = path.starts_with(root) && path != root;
        if is_open && !protected.iter().any(|place| path.starts_with(place)) {
            protected.push(path);
        }
    }
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

/// Settings that are not there and whose place nothing keeps, unless all that is
/// asked for must hold.
fn absent_in(root: &Path) -> impl Iterator<Item = PathBuf> {
    let files = PROTECTED_FILES.iter().map(|name| root.join(name));
    let files = files.filter(|file| !file.exists());
    let within = PROTECTED_WITHIN.iter().map(|name| root.join(name));
    files.chain(within.filter(|path| !has_place(path)))
}

/// Whether something can be put there without its directory being made.
fn has_place(path: &Path) -> bool {
    path.parent().is_some_and(Path::is_dir)
}

/// What is there of the settings of editors and agents in the work tree of a
/// repository.
fn settings_beside(git: &Path) -> impl Iterator<Item = PathBuf> {
    let work_tree = git.parent().into_iter();
    let paths = work_tree.flat_map(|work_tree| settings_names().map(|name| work_tree.join(name)));
    paths.filter(|path| path.exists())
}

fn settings_names() -> impl Iterator<Item = &'static str> {
    let names = [PROTECTED_DIRECTORIES, PROTECTED_WITHIN, PROTECTED_FILES];
    names.into_iter().flatten().copied()
}

/// Names the settings by which git, editors and agents run programs that a path
/// is among, or that lie in the directory which is opened to change it.
pub(crate) fn settings_at(path: &Path) -> Option<String> {
    let names = || settings_names().chain(std::iter::once(".git"));
    let mut around = path.ancestors();
    if let Some(around) = around.find(|part| names().any(|name| part.ends_with(name))) {
        let around = around.display();
        return Some(format!(
            "other programs run code by the settings in '{around}'"
        ));
    }
    let directory = match path.is_dir() {
        true => path,
        false => path.parent()?,
    };
    let found: Vec<&str> = names()
        .filter(|name| directory.join(name).exists())
        .collect();
    (!found.is_empty()).then(|| {
        format!(
            "'{}' has settings by which other programs run code: {}",
            directory.display(),
            found.join(", ")
        )
    })
}

/// A directory without `.git` may become a repository, and get files of
/// settings, unless all that is asked for must hold.
fn protected_in(root: &Path, mode: SandboxMode) -> Vec<PathBuf> {
    let git = root.join(".git");
    let required = mode == SandboxMode::Require;
    let directories = PROTECTED_DIRECTORIES.iter().map(|name| root.join(name));
    let within = PROTECTED_WITHIN.iter().map(|name| root.join(name));
    let files = PROTECTED_FILES.iter().map(|name| root.join(name));
    let mut protected: Vec<PathBuf> = directories
        .chain(within.filter(|path| required || has_place(path)))
        .chain(files.filter(|file| required || file.exists()))
        .collect();
    if git.exists() {
        protected.extend(protected_in_repository(&git));
    } else if required {
        protected.extend(git::protected_names(&git));
    }
    protected
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{StandardPolicy, ToolPolicy};

    /// What is protected of one repository.
    const IN_GIT: usize = 4;

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
        assert_eq!(found.len(), IN_GIT * SANDBOX_REPOSITORIES);
        assert!(found.contains(&root.join("r7/.git/hooks")));
        assert!(found.contains(&root.join("r7/.git/config")));
        std::fs::create_dir(root.join("one-more")).unwrap();
        std::fs::write(root.join("one-more/.git"), "gitdir: ../r0/.git").unwrap();
        let more = bounds_in(&root, SandboxMode::Prefer).more_repositories;
        assert_eq!(more, 1);
        let found = protected();
        let whole = found.contains(&root.join("one-more/.git"));
        let count = IN_GIT * SANDBOX_REPOSITORIES - usize::from(whole) * (IN_GIT - 1);
        assert_eq!(found.len(), count);
        std::fs::remove_dir_all(root.join("r0")).unwrap();
        assert!(protected().contains(&root.join("one-more/.git")));
    }

    #[test]
    fn the_settings_of_a_repository_within_are_protected_if_they_are_there() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        for name in [".git/hooks", ".vscode", ".github/hooks"] {
            std::fs::create_dir_all(root.join("sub").join(name)).unwrap();
        }
        std::fs::write(root.join("sub/.mcp.json"), "").unwrap();
        let protected = bounds_in(&root, SandboxMode::Prefer).protected;
        for (name, is) in [
            ("sub/.git/hooks", true),
            ("sub/.git/config", true),
            ("sub/.vscode", true),
            ("sub/.github/hooks", true),
            ("sub/.mcp.json", true),
            ("sub/.idea", false),
            ("sub/halter.toml", false),
        ] {
            assert_eq!(protected.contains(&root.join(name)), is, "{name}");
        }
    }

    #[test]
    fn settings_of_other_programs_are_named_where_a_directory_is_opened() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        for name in [".git/hooks", ".vscode", "plain"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        let named = |path: &str| settings_at(&root.join(path));
        let inside = format!(
            "'{}' has settings by which other programs run code: .vscode, .git",
            root.display()
        );
        assert_eq!(settings_at(&root), Some(inside.clone()));
        assert_eq!(named("new.txt"), Some(inside));
        for (path, around) in [(".vscode/tasks.json", ".vscode"), (".git/hooks/x", ".git")] {
            let said = named(path).unwrap();
            let expected = format!("by the settings in '{}'", root.join(around).display());
            assert!(said.ends_with(&expected), "{said}");
        }
        assert_eq!(named("plain/new.txt"), None);
    }

    #[test]
    fn what_is_read_only_is_protected_where_commands_could_write() {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().canonicalize().unwrap();
        let root = base.join("work");
        for path in [
            "work/tools/guard.sh",
            "work/.claude/own.sh",
            "else/where.sh",
        ] {
            std::fs::create_dir_all(base.join(path).parent().unwrap()).unwrap();
            std::fs::write(base.join(path), "").unwrap();
        }
        let scope = SessionScope {
            working_dir: root.clone(),
            extra_write_roots: vec![base.join("else")],
            read_only: vec![
                root.join("tools/guard.sh"),
                root.join(".claude/own.sh"),
                root.join("missing.sh"),
                base.join("else/where.sh"),
            ],
            ..SessionScope::default()
        };
        let settings = PolicySettings {
            sandbox: SandboxMode::Prefer,
            ..PolicySettings::default()
        };
        let policy = StandardPolicy::bind(settings, scope.clone()).unwrap();
        let mut bounds = policy.sandbox(None);
        let protected =
            |bounds: &SandboxBounds, path: &str| bounds.protected.contains(&base.join(path));
        assert!(protected(&bounds, "work/tools/guard.sh"));
        // The directory is protected as a whole.
        assert!(protected(&bounds, "work/.claude"));
        for path in ["work/.claude/own.sh", "work/missing.sh", "else/where.sh"] {
            assert!(!protected(&bounds, path), "{path}");
        }
        open(&mut bounds, &scope, policy.door());
        assert!(protected(&bounds, "else/where.sh"));
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
        for name in PROTECTED_DIRECTORIES {
            assert!(protects(SandboxMode::Prefer, name), "{name}");
        }
        // Halter itself loads skills from here, and other agents run hooks.
        for name in [".agents", ".kiro", ".opencode", ".zed"] {
            assert!(protects(SandboxMode::Prefer, name), "{name}");
        }
        assert!(!protects(SandboxMode::Prefer, "halter.toml"));
        // Nothing keeps commands from making workflows.
        let absent = PROTECTED_FILES.iter().chain(PROTECTED_WITHIN);
        let files: Vec<PathBuf> = absent.map(|name| root.join(name)).collect();
        assert_eq!(bounds_in(&root, SandboxMode::Prefer).watched, files);
        std::fs::create_dir(root.join(".github")).unwrap();
        assert!(protects(SandboxMode::Prefer, ".github/hooks"));
        assert!(!protects(SandboxMode::Prefer, ".github"));
        let required = bounds_in(&root, SandboxMode::Require);
        assert!(files.iter().all(|file| required.protected.contains(file)));
        assert!(required.watched.is_empty());
        // It may become a repository, unless all has to hold.
        assert!(!protects(SandboxMode::Prefer, ".git/hooks"));
        assert!(protects(SandboxMode::Require, ".git/hooks"));
        std::fs::create_dir(root.join(".git")).unwrap();
        std::fs::write(root.join("halter.toml"), "").unwrap();
        assert!(protects(SandboxMode::Prefer, ".git/hooks"));
        assert!(protects(SandboxMode::Prefer, ".git/config"));
        assert!(protects(SandboxMode::Prefer, ".git/commondir"));
        assert!(protects(SandboxMode::Prefer, "halter.toml"));
        assert_eq!(bounds_in(&root, SandboxMode::Off), SandboxBounds::default());
    }
}
