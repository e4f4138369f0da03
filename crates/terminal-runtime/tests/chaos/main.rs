//! Thousands of unruly commands: each has one end, the right one, and nothing
//! of them is left.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs
)]

#[path = "../common/mod.rs"]
mod common;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use common::{Address, Daemon, Random, TEST_TIMEOUT, Wire, count, until};
use serde_json::{Value, json};

/// How many sessions are at it at a time.
const WORKERS: u64 = 8;

/// One of so many speaks HTTP.
const HTTP_SHARE: u64 = 4;

/// What a command does, and how it ends if it is left alone.
struct Kind {
    text: &'static str,
    /// The code it exits with, or the signal that ends it.
    code: Option<i64>,
    signal: Option<i64>,
    stdout: Option<usize>,
    /// Whether it can be given to the persistent shell.
    shell: bool,
}

const fn kind(text: &'static str, code: i64, stdout: usize) -> Kind {
    Kind {
        text,
        code: Some(code),
        signal: None,
        stdout: Some(stdout),
        shell: true,
    }
}

const KINDS: &[Kind] = &[
    kind("true", 0, 0),
    kind("echo x; (exit 7)", 7, 2),
    kind("setsid sleep 0.05 & echo x", 0, 2),
    kind(
        "(setsid sh -c 'sleep 0.02; echo late' >/dev/null 2>&1 &); echo y",
        0,
        2,
    ),
    kind(
        "(setsid sh -c '(setsid sleep 0.1 &); sleep 0.1' &) >/dev/null 2>&1",
        0,
        0,
    ),
    kind("seq 1 30000", 0, 168_894),
    kind("seq 1 100 | sort -rn | head -1", 0, 4),
    kind("sh -c 'true & true & exec sleep 0.01'", 0, 0),
    kind("for i in 1 2 3 4 5; do sleep 0.01 & done; wait", 0, 0),
    kind("exit 3", 3, 0),
    kind("sh -c 'kill -9 $$'; echo $?", 0, 4),
    kind("(exec 0<&- 1>&- 2>&-; sleep 0.01); echo z", 0, 2),
    Kind {
        shell: false,
        ..kind("exec 0<&- 1>&- 2>&-; exit 4", 4, 0)
    },
    Kind {
        text: "kill -9 $$",
        code: None,
        signal: Some(9),
        stdout: Some(0),
        shell: true,
    },
    Kind {
        text: "echo x; kill -TERM $$; sleep 10",
        code: None,
        signal: Some(15),
        stdout: Some(2),
        shell: false,
    },
];

/// Commands that end only when somebody ends them.
const ENDLESS: &[&str] = &[
    "sleep 300",
    "setsid sleep 300 & (setsid sleep 300 &); sleep 300",
    "while :; do :; done",
    "sh -c 'setsid sh -c \"sleep 300\" & sleep 300'",
    "sleep 300 | cat",
];

struct Worker {
    random: Random,
    daemon: Wire,
    /// For what is said while the other waits.
    second: Wire,
    address: Address,
    session: String,
    name: u64,
    commands: u64,
}

impl Worker {
    fn start(daemon: &Daemon, name: u64) -> Self {
        let address = match name % HTTP_SHARE {
            1 => Address::Http(daemon.http()),
            _ => Address::Socket(daemon.socket()),
        };
        let mut first = Wire::open(&address);
        let shell = if name.is_multiple_of(2) {
            "/bin/bash"
        } else {
            "/bin/sh"
        };
        let created = first.data("session.create", &json!({"shell": shell}));
        Self {
            random: Random::new(1000 + name),
            daemon: first,
            second: Wire::open(&address),
            address,
            session: created["session_id"].as_str().unwrap().to_owned(),
            name,
            commands: 0,
        }
    }

    fn params(&mut self, text: &str, in_shell: bool) -> Value {
        let mut params = json!({"session_id": self.session, "queue": true, "timeout_s": 0});
        match self.random.below(3) {
            0 if in_shell => params["command"] = json!(text),
            1 => params["argv"] = json!(["/bin/bash", "-c", text]),
            _ => {
                params["command"] = json!(text);
                params["fresh"] = json!(true);
            }
        }
        params
    }

    fn pause(&mut self) {
        std::thread::sleep(Duration::from_micros(self.random.below(6000)));
    }

    fn act(&mut self) {
        self.commands += 1;
        match self.random.below(20) {
            0..14 => self.leave_alone(),
            14..16 => self.cancel(),
            16..18 => self.hang_up(),
            _ => self.time_out(),
        }
    }

    fn leave_alone(&mut self) {
        let kind = &KINDS[self.random.below(KINDS.len() as u64) as usize];
        let params = self.params(kind.text, kind.shell);
        let (end, output) = if self.random.below(2) == 0 {
            let data = self.daemon.data("exec.run", &params);
            let output = data["stdout"].as_str().unwrap().len();
            (data, output)
        } else {
            self.stream(&params)
        };
        let what = format!("{params}: {end}");
        // A shell that died of a signal reports what a shell reports.
        let signal = end["signal"].as_i64();
        let code = end["exit_code"].as_i64();
        match kind.signal {
            None => assert_eq!((code, signal), (kind.code, None), "{what}"),
            Some(expected) => assert_eq!(signal, Some(expected), "{what}"),
        }
        if let Some(stdout) = kind.stdout {
            assert_eq!(output, stdout, "{what}");
        }
    }

    /// Streams a command; its end, and how much it wrote. There is exactly one
    /// end.
    fn stream(&mut self, params: &Value) -> (Value, usize) {
        let started = self.daemon.data("exec.stream", params);
        let stream = &started["stream_id"];
        let mut output = 0;
        let end = loop {
            let line = self.daemon.line().unwrap();
            assert_eq!(&line["stream_id"], stream, "{line}");
            match line["type"].as_str().unwrap() {
                "exit" => break line,
                "stdout" => output += line["data"].as_str().unwrap().len(),
                _ => {}
            }
        };
        // Whatever came after the end would come before this answer.
        self.daemon.data("system.ping", &json!({}));
        (end, output)
    }

    fn endless(&mut self) -> &'static str {
        ENDLESS[self.random.below(ENDLESS.len() as u64) as usize]
    }

    fn cancel(&mut self) {
        let text = self.endless();
        let mut params = self.params(text, true);
        let id = format!("c{}-{}", self.name, self.commands);
        params["exec_id"] = json!(id);
        let asked = self.daemon.send("exec.run", &params).unwrap();
        self.pause();
        let mut cancel = json!({"exec_id": id});
        if self.random.below(2) == 0 {
            cancel["signal"] = json!("KILL");
        }
        let deadline = Instant::now() + TEST_TIMEOUT;
        // Until it is known by its name there is nothing to cancel.
        loop {
            let answer = self.second.call("exec.cancel", &cancel).unwrap();
            if answer["ok"] == json!(true) {
                break;
            }
            assert!(Instant::now() < deadline, "{answer}");
            std::thread::sleep(Duration::from_millis(1));
        }
        let answer = self.daemon.line().unwrap();
        assert_eq!(answer["id"], json!(asked));
        // Cancelled before it started is an error, later a result.
        if answer["ok"] == json!(true) {
            assert_eq!(answer["data"]["cancelled"], json!(true), "{answer}");
        }
    }

    /// A client without a name for its command goes away.
    fn hang_up(&mut self) {
        let text = self.endless();
        let params = self.params(text, true);
        let mut wire = Wire::open(&self.address);
        let method = ["exec.run", "exec.stream"][self.random.below(2) as usize];
        wire.send(method, &params).unwrap();
        self.pause();
        // Who merely closes looks, over HTTP, for a second or two like one
        // that has said all it wants to say.
        if self.random.below(8) == 0 {
            drop(wire);
        } else {
            wire.abort();
        }
    }

    fn time_out(&mut self) {
        let text = self.endless();
        let mut params = self.params(text, true);
        params["timeout_s"] = json!(0.001 + self.random.below(20) as f64 / 1000.0);
        let data = self.daemon.data("exec.run", &params);
        assert_eq!(data["timed_out"], json!(true), "{params}: {data}");
    }

    fn end(mut self) -> String {
        let params = json!({"session_id": self.session, "force": true});
        self.daemon.data("session.destroy", &params);
        self.session
    }
}

fn open_descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

fn children(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap()
}

/// Directories below the control groups that carry the name of a session.
fn groups(directory: &Path, depth: usize, sessions: &[String], found: &mut Vec<String>) {
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    for entry in entries.flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let name = entry.file_name().to_string_lossy().into_owned();
        if sessions.iter().any(|session| name.ends_with(session)) {
            found.push(name);
        } else if depth > 0 {
            groups(&entry.path(), depth - 1, sessions, found);
        }
    }
}

/// Runs so many commands and returns the sessions they ran in.
fn round(daemon: &Daemon, commands: u64) -> Vec<String> {
    let workers: Vec<_> = (0..WORKERS)
        .map(|name| {
            let mut worker = Worker::start(daemon, name);
            std::thread::spawn(move || {
                for _ in 0..commands / WORKERS {
                    worker.act();
                }
                worker.end()
            })
        })
        .collect();
    workers
        .into_iter()
        .map(|worker| worker.join().unwrap())
        .collect()
}

#[test]
fn unruly_commands_end_once_and_leave_nothing() {
    chaos(count("TRL_CHAOS_COMMANDS", 1600));
}

fn chaos(commands: u64) {
    let daemon = Daemon::start();
    let at_rest = || {
        until("no process and no zombie is left", || {
            daemon.holders().is_empty() && children(daemon.pid()).is_empty()
        });
        open_descriptors(daemon.pid())
    };
    let mut sessions = round(&daemon, WORKERS * 4);
    let before = at_rest();
    let started = Instant::now();
    sessions.extend(round(&daemon, commands));
    println!("{commands} commands in {:?}", started.elapsed());
    until("no descriptor is left", || at_rest() <= before);
    until("no spool is left", || {
        fs::read_dir(daemon.path("state").join("spool")).is_ok_and(|files| files.count() == 0)
    });
    let mut left = Vec::new();
    groups(Path::new("/sys/fs/cgroup"), 4, &sessions, &mut left);
    assert!(left.is_empty(), "{left:?}");
    daemon.terminate();
}
