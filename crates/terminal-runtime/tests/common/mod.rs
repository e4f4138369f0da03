//! A daemon as a process, and the bare wire to it: no code is shared with the
//! client library, so that a mistake there cannot agree with itself.
#![allow(dead_code, reason = "each program uses a part of it")]

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Long enough for a machine that has other things to do.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Numbers that are the same in every run.
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below this one.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// A number from the environment, or the default.
pub fn count(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |value| value.parse().unwrap())
}

/// A daemon in a directory of its own.
pub struct Daemon {
    directory: tempfile::TempDir,
    child: Mutex<Option<Child>>,
}

impl Daemon {
    pub fn start() -> Self {
        let daemon = Self {
            directory: tempfile::tempdir().unwrap(),
            child: Mutex::new(None),
        };
        daemon.spawn();
        daemon
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn socket(&self) -> PathBuf {
        self.path("trl.sock")
    }

    /// Starts the daemon and waits until it answers.
    pub fn spawn(&self) {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.path("log"))
            .unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_terminal-runtime"))
            .arg("--socket")
            .arg(self.socket())
            .current_dir(self.directory.path())
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("TRL_DISCOVERY_DIR", self.path("found"))
            .env("TRL_STATE_DIR", self.path("state"))
            .env("TRL_SESSION_MAX_COMMANDS", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        *self.child.lock().unwrap() = Some(child);
        until("the daemon answers", || {
            Wire::connect(&self.socket())
                .and_then(|mut wire| wire.call("system.ping", &json!({})))
                .is_ok()
        });
    }

    /// Ends it as nothing can prevent.
    pub fn kill(&self) {
        let mut child = self.child.lock().unwrap().take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Ends it as a service manager would; nothing may be left.
    pub fn terminate(&self) {
        let mut child = self.child.lock().unwrap().take().unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let status = child.wait().unwrap();
        assert!(status.success(), "{status}: {}", self.log());
        assert!(!self.socket().exists());
        assert!(!self.path("state").exists(), "the state directory stays");
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    pub fn pid(&self) -> u32 {
        self.child.lock().unwrap().as_ref().unwrap().id()
    }

    /// The holder's process number: its command line names our socket.
    pub fn holder(&self) -> u32 {
        let socket = self.path("state").join("holder.sock");
        let socket = socket.to_str().unwrap().to_owned();
        let entries = fs::read_dir("/proc").unwrap().flatten();
        entries
            .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
            .find(|pid| {
                fs::read_to_string(format!("/proc/{pid}/cmdline"))
                    .is_ok_and(|line| line.contains("\0holder\0") && line.contains(&socket))
            })
            .expect("there is a holder")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let tail = log.len().saturating_sub(4000);
            eprintln!("the daemon's log ends with: {}", &log[tail..]);
        }
        if let Some(mut child) = self.child.lock().unwrap().take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        // The holder ends by itself when its socket's name is gone.
    }
}

/// Waits until something holds.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// One connection.
pub struct Wire {
    reader: BufReader<UnixStream>,
    writer: UnixStream,
    last_id: u64,
}

impl Wire {
    pub fn connect(path: &Path) -> io::Result<Self> {
        let writer = UnixStream::connect(path)?;
        writer.set_read_timeout(Some(PATIENCE))?;
        Ok(Self {
            reader: BufReader::new(writer.try_clone()?),
            writer,
            last_id: 0,
        })
    }

    /// Connects as soon as somebody listens.
    pub fn reconnect(path: &Path) -> Self {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match Self::connect(path) {
                Ok(wire) => return wire,
                Err(error) => assert!(Instant::now() < deadline, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Sends a request and returns its id.
    pub fn send(&mut self, method: &str, params: &Value) -> io::Result<String> {
        self.last_id += 1;
        let id = self.last_id.to_string();
        let request = json!({"id": id, "method": method, "params": params});
        self.writer.write_all(format!("{request}\n").as_bytes())?;
        Ok(id)
    }

    /// The next line.
    pub fn line(&mut self) -> io::Result<Value> {
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        serde_json::from_str(&line).map_err(|_| io::ErrorKind::UnexpectedEof.into())
    }

    /// Sends a request and waits for its answer, which is the next line.
    pub fn call(&mut self, method: &str, params: &Value) -> io::Result<Value> {
        let id = self.send(method, params)?;
        let answer = self.line()?;
        assert_eq!(answer["id"], json!(id), "{answer}");
        Ok(answer)
    }

    /// The data of an answer that must be fine.
    pub fn data(&mut self, method: &str, params: &Value) -> Value {
        let answer = self.call(method, params);
        let mut answer = answer.unwrap_or_else(|error| panic!("{method} {params}: {error}"));
        assert_eq!(answer["ok"], json!(true), "{method} {params}: {answer}");
        answer["data"].take()
    }
}
