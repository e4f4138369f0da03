//! A runtime as a process of its own, and the means to watch it.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use terminal_runtime::discovery::discover;
use terminal_runtime::protocol::DescribedTransport;

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_terminal-runtime");
pub const TOKEN: &str = "t0ken-of-the-tests";

/// Long enough for a machine that has other things to do.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Waits until something holds.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    while !holds() {
        assert!(
            Instant::now() < deadline,
            "{what} did not happen in {TEST_TIMEOUT:?}"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The processes that have this text in their command line.
pub fn processes_with(marker: &str) -> Vec<i32> {
    let pid_of = |entry: &fs::DirEntry| entry.file_name().to_str()?.parse::<i32>().ok();
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let own = i32::try_from(std::process::id()).unwrap();
    entries
        .filter_map(|entry| {
            let pid = pid_of(&entry).filter(|&pid| pid != own)?;
            let line = fs::read(entry.path().join("cmdline")).ok()?;
            String::from_utf8_lossy(&line)
                .contains(marker)
                .then_some(pid)
        })
        .collect()
}

/// A number of seconds no other test sleeps for.
pub fn unique_sleep() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("999.{}{number:04}", std::process::id())
}

/// The command that starts a runtime in a directory, without starting it.
pub fn command(directory: &Path) -> Command {
    prepared(Command::new(PROGRAM), directory)
}

fn prepared(mut command: Command, directory: &Path) -> Command {
    command
        .current_dir(directory)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", directory)
        .env("TRL_DISCOVERY_DIR", directory.join("found"))
        .env("TRL_STATE_DIR", directory.join("state"))
        .env("TRL_AUTH_TOKEN", TOKEN);
    command
}

/// What a runtime is started with.
#[derive(Default)]
pub struct Plan<'plan> {
    pub flags: &'plan [&'plan str],
    pub variables: &'plan [(&'plan str, &'plan str)],
    pub stdin: bool,
    /// What the shell does that starts it.
    pub before: Option<&'plan str>,
}

/// A running runtime. Dropping it ends it and everything it started.
pub struct Runtime {
    pub child: Child,
    pub directory: tempfile::TempDir,
}

impl Runtime {
    /// A runtime on a socket and on HTTP.
    pub fn start() -> Self {
        Self::with(&Plan::default())
    }

    /// Its state directory.
    pub fn state(&self) -> PathBuf {
        self.path("state")
    }

    pub fn with(plan: &Plan<'_>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self::within(directory, plan)
    }

    /// A runtime in a directory of the test's.
    pub fn within(directory: tempfile::TempDir, plan: &Plan<'_>) -> Self {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(directory.path().join("log"))
            .unwrap();
        let mut command = match plan.before {
            None => command(directory.path()),
            Some(before) => {
                let mut shell = Command::new("sh");
                let script = format!("{before}; exec \"$0\" \"$@\"");
                shell.args(["-c", &script, PROGRAM]);
                prepared(shell, directory.path())
            }
        };
        if plan.stdin {
            command
                .arg("--stdin")
                .stdin(Stdio::piped())
                .stdout(Stdio::piped());
        } else {
            let socket = directory.path().join("trl.sock");
            command
                .arg("--socket")
                .arg(socket)
                .args(["--http", "127.0.0.1:0"]);
            command.stdin(Stdio::null()).stdout(Stdio::null());
        }
        let child = command
            .args(plan.flags)
            .envs(plan.variables.iter().copied())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut runtime = Self { child, directory };
        if !plan.stdin {
            runtime.wait_until_found();
        }
        runtime
    }

    fn wait_until_found(&mut self) {
        until("the start of the runtime", || {
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("the runtime ended with {status}: {}", self.log());
            }
            let name = format!("found/{}.json", self.child.id());
            self.path(&name).exists()
        });
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn socket(&self) -> PathBuf {
        self.path("trl.sock")
    }

    pub fn http(&self) -> SocketAddr {
        let found = discover(&self.path("found")).unwrap();
        let address = found[0]
            .transports
            .iter()
            .find_map(|transport| match transport {
                DescribedTransport::Http { address } => Some(address.parse().unwrap()),
                _ => None,
            });
        address.unwrap()
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap()
    }

    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.pid()).unwrap(), signal).unwrap();
    }

    /// How it ended.
    pub fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        until("the end of the runtime", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }

    /// Its resident memory in bytes.
    pub fn resident_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("VmRSS:"))
            .unwrap();
        let kibibytes: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kibibytes * 1024
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            for signal in [Signal::TERM, Signal::TERM] {
                let _ = kill_process(Pid::from_raw(self.pid()).unwrap(), signal);
            }
            let deadline = Instant::now() + TEST_TIMEOUT;
            while matches!(self.child.try_wait(), Ok(None)) {
                if Instant::now() > deadline {
                    let _ = self.child.kill();
                    let _ = self.child.wait();
                    break;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}
