//! A terminal runtime in processes of its own, and a connection to it.

use crate::cost::{find_by_argument, memory_kib_of, tree_cpu};
use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a runtime may take to start or to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// Builds the program as it is shipped, and says where it is.
pub fn program() -> anyhow::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--quiet", "--profile", "dist", "--package"])
        .arg("terminal-runtime")
        .status()
        .context("cargo")?;
    anyhow::ensure!(built.success(), "terminal-runtime does not build");
    let own = std::env::current_exe()?;
    let target = own.ancestors().nth(3).context("where this was built")?;
    Ok(target.join("dist/terminal-runtime"))
}

/// A runtime that ends when this is dropped.
pub struct Runtime {
    child: Child,
    directory: tempfile::TempDir,
}

impl Runtime {
    /// Starts a program that is a runtime, with nothing but these variables
    /// and what a runtime needs. It can be reached when this returns.
    pub fn start(command: &mut Command, settings: &[(&str, &str)]) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let at = directory.path();
        let child = command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("TRL_SOCKET_PATH", at.join("socket"))
            .env("TRL_STATE_DIR", at.join("state"))
            .env("TRL_DISCOVERY_DIR", "none")
            .env("TRL_LOG_LEVEL", "off")
            .env("TRL_SESSION_MAX_COMMANDS", "0")
            .env("TRL_DEFAULT_TIMEOUT_S", "0")
            .envs(settings.iter().copied())
            .current_dir(at)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()?;
        let runtime = Self { child, directory };
        runtime.connect()?;
        Ok(runtime)
    }

    /// Where it listens.
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    /// A connection to it, as soon as it takes one.
    pub fn connect(&self) -> anyhow::Result<Line> {
        let until = Instant::now() + PATIENCE;
        loop {
            match Line::connect(&self.socket()) {
                Ok(line) => return Ok(line),
                Err(error) if Instant::now() > until => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_micros(200)),
            }
        }
    }

    fn roots(&self) -> Vec<u32> {
        let state = self.directory.path().join("state");
        let mut roots = find_by_argument(&state.display().to_string());
        roots.push(self.child.id());
        roots
    }

    /// CPU time of the daemon, its holder, and everything they have run.
    pub fn cpu(&self) -> Duration {
        tree_cpu(&self.roots())
    }

    /// A line of `/proc/<pid>/status` of the daemon and its holder together.
    pub fn memory_kib(&self, field: &str) -> anyhow::Result<u64> {
        let each = self.roots().into_iter();
        each.map(|pid| memory_kib_of(pid, field)).sum()
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let until = Instant::now() + PATIENCE;
        while let Ok(None) = self.child.try_wait() {
            if Instant::now() > until {
                let _ = self.child.kill();
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// One connection that waits for each answer.
pub struct Line {
    reader: BufReader<UnixStream>,
    answer: String,
}

impl Line {
    /// Connects.
    pub fn connect(socket: &Path) -> anyhow::Result<Self> {
        Ok(Self {
            reader: BufReader::new(UnixStream::connect(socket)?),
            answer: String::new(),
        })
    }

    /// Sends one line and returns the next one that comes.
    pub fn ask(&mut self, line: &str) -> anyhow::Result<&str> {
        self.say(line)?;
        self.answer.clear();
        anyhow::ensure!(
            self.reader.read_line(&mut self.answer)? > 0,
            "the runtime hung up"
        );
        Ok(&self.answer)
    }

    /// Sends one line.
    pub fn say(&mut self, line: &str) -> anyhow::Result<()> {
        self.reader.get_mut().write_all(line.as_bytes())?;
        Ok(())
    }

    /// Calls a method and returns its data.
    pub fn call(&mut self, method: &str, params: Value) -> anyhow::Result<Value> {
        let answer = self.ask(&request(method, params))?;
        let mut answer: Value = serde_json::from_str(answer)?;
        let data = answer.get_mut("data").map(Value::take);
        data.with_context(|| format!("{method}: {answer}"))
    }

    /// Opens a session with Bash.
    pub fn session(&mut self) -> anyhow::Result<String> {
        self.open(json!({"shell": "/bin/bash", "working_dir": "/tmp"}))
    }

    /// Opens a session with the shell it has if nobody asks for one.
    pub fn default_session(&mut self) -> anyhow::Result<String> {
        self.open(json!({"working_dir": "/tmp"}))
    }

    fn open(&mut self, params: Value) -> anyhow::Result<String> {
        let created = self.call("session.create", params)?;
        let id = created.get("session_id").and_then(Value::as_str);
        Ok(id.context("session_id")?.to_owned())
    }

    /// The bytes of the connection as they come.
    pub fn into_bytes(self) -> BufReader<UnixStream> {
        self.reader
    }
}

/// A request as a line.
pub fn request(method: &str, params: Value) -> String {
    let mut line = json!({"id": "1", "method": method, "params": params}).to_string();
    line.push('\n');
    line
}
