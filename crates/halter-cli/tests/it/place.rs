//! A home and a working directory that no other test sees.

use serde_json::Value;
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long anything may take before a test gives up.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct Place {
    root: TempDir,
}

/// How a run of the binary ended.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Place {
    pub fn new() -> Self {
        let place = Self {
            root: tempfile::tempdir().unwrap(),
        };
        std::fs::create_dir(place.home()).unwrap();
        std::fs::create_dir(place.work()).unwrap();
        place
    }

    pub fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    pub fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    pub fn database(&self) -> PathBuf {
        self.home().join(".local/share/halter/sessions.db")
    }

    pub fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.work().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    /// The binary in the working directory, with nothing of this process's
    /// environment but the path.
    pub fn command<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_halter"));
        command
            .args(arguments)
            .current_dir(self.work())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.home())
            .env("TMPDIR", self.root.path())
            .env("TZ", "UTC")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub fn halter<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Ran {
        finish(self.command(arguments).spawn().unwrap())
    }

    pub fn halter_with_stdin<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
        input: &str,
    ) -> Ran {
        let mut command = self.command(arguments);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // A program that refuses its input may close it early.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        finish(child)
    }

    /// Runs a task and returns the id of its session.
    pub fn session(&self, task: &str) -> String {
        let ran = self.halter(["run", "--streaming-json", task]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let first = ran.lines().remove(0);
        first["session_id"].as_str().unwrap().to_owned()
    }

    pub fn root(&self) -> &Path {
        self.root.path()
    }
}

impl Ran {
    /// Standard output as one JSON value.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}\n{}", self.stdout, self.stderr))
    }

    /// Standard output as a JSON value per line.
    pub fn lines(&self) -> Vec<Value> {
        let parse = |line| serde_json::from_str(line).unwrap();
        self.stdout.lines().map(parse).collect()
    }

    #[track_caller]
    pub fn expect(&self, code: i32) -> &Self {
        assert_eq!(
            self.code,
            Some(code),
            "stdout: {}\nstderr: {}",
            self.stdout,
            self.stderr
        );
        self
    }
}

/// Waits for a child and collects what it wrote.
pub fn finish(child: Child) -> Ran {
    let output = child.wait_with_output().unwrap();
    ran(output)
}

fn ran(output: Output) -> Ran {
    Ran {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Tries until it works or patience ends.
pub fn eventually<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = attempt() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The living processes whose command line contains a text.
pub fn processes_with(text: &str) -> Vec<i32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.starts_with(text) {
            found.push(pid);
        }
    }
    found
}

/// Says that a test does not run here: not through a macro, whose output a
/// passing test would swallow.
pub fn skipped(needs: &str) {
    use std::io::Write as _;
    let mut errors = std::io::stderr();
    writeln!(errors, "skipped: needs {needs}").unwrap();
}
