//! A Chromium of the test's own, which speaks its protocol on loopback.

use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long anything may take on a busy machine, in seconds.
pub const PATIENCE: u64 = 120;

/// A Chromium that others reach.
pub struct Elsewhere {
    process: Child,
    pub port: u16,
    /// Where its protocol is spoken.
    pub path: String,
    _profile: tempfile::TempDir,
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Elsewhere {
    /// `None`, said so, where no Chromium is installed.
    pub fn start() -> Option<Self> {
        if !Path::new("/usr/bin/chromium").exists() {
            // Not through a macro, whose output a passing test would swallow.
            let mut errors = std::io::stderr();
            writeln!(errors, "skipped: needs chromium").unwrap();
            return None;
        }
        let profile = tempfile::tempdir().unwrap();
        let process = Command::new("/usr/bin/chromium")
            .args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--no-first-run",
            ])
            .args(["--disable-dev-shm-usage", "--remote-debugging-port=0"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .env("HOME", profile.path())
            // What it leaves there when it is killed goes with the profile.
            .env("TMPDIR", profile.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut started = Self {
            process,
            port: 0,
            path: String::new(),
            _profile: profile,
        };
        let file = started._profile.path().join("DevToolsActivePort");
        let deadline = Instant::now() + Duration::from_secs(PATIENCE);
        let told = loop {
            let told = std::fs::read_to_string(&file).unwrap_or_default();
            if told.lines().count() == 2 {
                break told;
            }
            assert!(Instant::now() < deadline, "it does not start");
            std::thread::sleep(Duration::from_millis(20));
        };
        let (port, path) = told.trim().split_once('\n').unwrap();
        started.port = port.parse().unwrap();
        started.path = path.to_owned();
        Some(started)
    }

    pub fn http(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn socket(&self) -> String {
        format!("ws://127.0.0.1:{}{}", self.port, self.path)
    }
}
