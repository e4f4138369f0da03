//! What the tests share.

use std::time::{Duration, Instant};

use halter_exec::{Command, Environment};

pub const PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";

pub fn environment() -> Environment {
    Environment::new().with("PATH", PATH)
}

/// A shell one-liner as a one-shot command.
pub fn sh(text: &str) -> Command {
    Command::new("bash", "/")
        .args(["--noprofile", "--norc", "-c", text])
        .environment(environment())
}

/// Whether the condition comes true before a generous deadline.
pub fn eventually(mut condition: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + Duration::from_secs(20);
    while Instant::now() < until {
        if condition() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    false
}

/// Whether a process with this number runs (a zombie does not).
pub fn alive(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .ok()
        .and_then(|text| text.rsplit_once(") ").map(|(_, rest)| rest.to_owned()))
        .is_some_and(|rest| !rest.starts_with(['Z', 'X']))
}
