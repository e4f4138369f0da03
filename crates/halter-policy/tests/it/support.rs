//! A session in a temporary directory.

use std::fs;
use std::path::{Path, PathBuf};

use halter_policy::{
    FileDoor, PolicyError, PolicySettings, Precondition, SessionScope, ShellJudge, StandardPolicy,
    ToolPolicy, Written,
};

/// A directory with `work` (the session's) and `outside` (not in any root).
pub struct Session {
    pub base: tempfile::TempDir,
    pub policy: StandardPolicy,
}

impl Session {
    pub fn new() -> Self {
        Self::with(|_| PolicySettings::default(), |_| {})
    }

    pub fn with(
        settings: impl FnOnce(&Path) -> PolicySettings,
        adjust: impl FnOnce(&mut SessionScope),
    ) -> Self {
        let base = tempfile::tempdir().unwrap();
        let root = base.path().canonicalize().unwrap();
        for name in ["work", "outside"] {
            fs::create_dir(root.join(name)).unwrap();
        }
        fs::write(root.join("outside/secret"), "secret").unwrap();
        let mut scope = SessionScope {
            working_dir: root.join("work"),
            ..SessionScope::default()
        };
        adjust(&mut scope);
        let policy = StandardPolicy::bind(settings(&root), scope).unwrap();
        Self { base, policy }
    }

    /// Another policy in the same place.
    pub fn bind(&self, settings: PolicySettings) -> StandardPolicy {
        let scope = SessionScope {
            working_dir: self.root().join("work"),
            ..SessionScope::default()
        };
        StandardPolicy::bind(settings, scope).unwrap()
    }

    pub fn root(&self) -> PathBuf {
        self.base.path().canonicalize().unwrap()
    }

    pub fn work(&self, path: &str) -> PathBuf {
        self.root().join("work").join(path)
    }

    pub fn outside(&self, path: &str) -> PathBuf {
        self.root().join("outside").join(path)
    }

    pub fn door(&self) -> &FileDoor {
        self.policy.door()
    }

    /// Reads a file, which is the same in each way to open it.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<String, PolicyError> {
        let path = path.as_ref();
        let [read, listed] = self.read_each_way(path);
        match (&read, &listed) {
            (Ok(read), Ok(listed)) => assert_eq!(read, listed, "{}", path.display()),
            (Err(read), Err(listed)) => {
                assert_eq!(read.code(), listed.code(), "{}", path.display());
            }
            _ => panic!("{}: {read:?}, as listed: {listed:?}", path.display()),
        }
        read
    }

    pub fn read_each_way(&self, path: impl AsRef<Path>) -> [Result<String, PolicyError>; 2] {
        let path = path.as_ref();
        let door = self.door();
        [door.open_read(path), door.open_listed(path)].map(|opened| {
            let bytes = opened?.read_bounded(1 << 20)?;
            Ok(String::from_utf8(bytes).unwrap())
        })
    }

    pub fn write(&self, path: impl AsRef<Path>, text: &str) -> Result<Written, PolicyError> {
        let ticket = self.door().prepare_write(path.as_ref())?;
        ticket.commit(text.as_bytes(), Precondition::None)
    }

    /// Every name below the base directory, sorted.
    pub fn tree(&self) -> Vec<String> {
        fn walk(directory: &Path, base: &Path, names: &mut Vec<String>) {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                names.push(path.strip_prefix(base).unwrap().display().to_string());
                if path.is_dir() && !path.is_symlink() {
                    walk(&path, base, names);
                }
            }
        }
        let mut names = Vec::new();
        walk(&self.root(), &self.root(), &mut names);
        names.sort();
        names
    }
}

/// The code of the error of a result that must be one.
pub fn code<T: std::fmt::Debug>(result: Result<T, PolicyError>) -> &'static str {
    result.unwrap_err().code()
}

pub fn judge(allowed: &str) -> ShellJudge {
    ShellJudge::new(
        allowed
            .split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>(),
    )
}

/// Says that a test does not run here: not through a macro, whose output a
/// passing test would swallow.
pub fn skipped(needs: &str) {
    use std::io::Write as _;
    let mut errors = std::io::stderr();
    writeln!(errors, "skipped: needs {needs}").unwrap();
}
