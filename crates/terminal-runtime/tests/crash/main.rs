//! `kill -9` of the daemon under load: nothing that runs is lost.
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

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Daemon, Random, Wire, count, until};
use serde_json::{Value, json};

/// How many clients keep the daemon busy.
const WORKERS: u64 = 6;

/// Commands whose result a client has, by name.
type Known = Arc<Mutex<HashSet<String>>>;

/// One command with all that is expected of it.
struct Command {
    id: String,
    params: Value,
    code: i64,
    stdout: String,
    stderr: String,
}

fn numbers(from: u64, to: u64) -> String {
    (from..=to).map(|number| format!("{number}\n")).collect()
}

fn command(random: &mut Random, session: &str, id: String, journal: &Path) -> Command {
    let many = [10, 300, 6000, 30_000][random.below(4) as usize];
    let last = 1 + random.below(many);
    let errors = random.below(40);
    let code = random.below(3) * 7;
    let pause = random.below(60) as f64 / 1000.0;
    let text = format!(
        "echo {id} >>{journal}; seq 1 {last}; sleep {pause}; seq 1 {errors} >&2; (exit {code})",
        journal = journal.display()
    );
    let mut params = json!({"session_id": session, "exec_id": id, "timeout_s": 0});
    match random.below(3) {
        0 => params["argv"] = json!(["/bin/sh", "-c", text]),
        1 => {
            params["command"] = json!(text);
            params["fresh"] = json!(true);
        }
        _ => params["command"] = json!(text),
    }
    Command {
        id,
        params,
        code: code as i64,
        stdout: numbers(1, last),
        stderr: numbers(1, errors),
    }
}

/// Asks for a command until there is an answer, however often the daemon dies
/// meanwhile: the name makes asking again harmless.
fn run(wire: &mut Option<Wire>, socket: &Path, command: &Command) -> u64 {
    let mut asked_again = 0;
    loop {
        let connection = wire.get_or_insert_with(|| Wire::reconnect(socket));
        let Ok(answer) = connection.call("exec.run", &command.params) else {
            *wire = None;
            asked_again += 1;
            continue;
        };
        assert_eq!(answer["ok"], json!(true), "{}: {answer}", command.id);
        let data = &answer["data"];
        assert_eq!(
            data["exit_code"],
            json!(command.code),
            "{}: {answer}",
            command.id
        );
        assert!(data["stdout"] == json!(command.stdout), "{}", command.id);
        assert!(data["stderr"] == json!(command.stderr), "{}", command.id);
        return asked_again;
    }
}

/// Reads the whole stream again: the same bytes, and exactly one end.
fn replay(wire: &mut Option<Wire>, socket: &Path, command: &Command) {
    'again: loop {
        let connection = wire.get_or_insert_with(|| Wire::reconnect(socket));
        let params = json!({"exec_id": command.id, "offset": 0});
        let Ok(answer) = connection.call("exec.attach", &params) else {
            *wire = None;
            continue;
        };
        assert_eq!(answer["ok"], json!(true), "{}: {answer}", command.id);
        let ping = connection.send("system.ping", &json!({}));
        let mut texts: HashMap<String, String> = HashMap::new();
        let mut ends = 0;
        let mut pinged = false;
        while ends == 0 || !pinged {
            let Ok(line) = connection.line() else {
                *wire = None;
                continue 'again;
            };
            if ping.as_ref().is_ok_and(|id| line["id"] == json!(id)) {
                pinged = true;
                continue;
            }
            match line["type"].as_str().unwrap() {
                "exit" => {
                    ends += 1;
                    assert_eq!(line["exit_code"], json!(command.code));
                }
                stream => {
                    let text = texts.entry(stream.to_owned()).or_default();
                    text.push_str(line["data"].as_str().unwrap());
                }
            }
        }
        let text = |stream: &str| texts.get(stream).cloned().unwrap_or_default();
        assert_eq!(ends, 1);
        assert!(text("stdout") == command.stdout, "{}", command.id);
        assert!(text("stderr") == command.stderr, "{}", command.id);
        return;
    }
}

struct Load {
    workers: Vec<std::thread::JoinHandle<u64>>,
    stop: Arc<AtomicBool>,
    known: Known,
    survived: Arc<AtomicU64>,
    journal: PathBuf,
}

fn load(daemon: &Daemon) -> Load {
    let stop = Arc::new(AtomicBool::new(false));
    let known = Known::default();
    let survived = Arc::new(AtomicU64::new(0));
    let journal = daemon.path("journal");
    fs::write(&journal, "").unwrap();
    let mut workers = Vec::new();
    for worker in 0..WORKERS {
        let (socket, journal) = (daemon.socket(), journal.clone());
        let (stop, known) = (Arc::clone(&stop), Arc::clone(&known));
        let survived = Arc::clone(&survived);
        let mut wire = Some(Wire::reconnect(&socket));
        let shell = if worker.is_multiple_of(2) {
            "/bin/bash"
        } else {
            "/bin/sh"
        };
        let params = json!({"shell": shell});
        let created = wire.as_mut().unwrap().data("session.create", &params);
        let session = created["session_id"].as_str().unwrap().to_owned();
        workers.push(std::thread::spawn(move || {
            let mut random = Random::new(worker);
            let mut number = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                let id = format!("w{worker}-{number}");
                let command = command(&mut random, &session, id, &journal);
                let asked_again = run(&mut wire, &socket, &command);
                survived.fetch_add(asked_again, Ordering::Relaxed);
                if asked_again > 0 || number.is_multiple_of(8) {
                    replay(&mut wire, &socket, &command);
                }
                known.lock().unwrap().insert(command.id);
                number += 1;
            }
            number
        }));
    }
    Load {
        workers,
        stop,
        known,
        survived,
        journal,
    }
}

fn journal(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// Every command that has begun and whose result nobody has is listed.
fn check_list(daemon: &Daemon, load: &Load) {
    let mut wire = Wire::reconnect(&daemon.socket());
    let begun = journal(&load.journal);
    let listed = wire.data("exec.list", &json!({})).to_string();
    let known = load.known.lock().unwrap();
    for id in begun {
        assert!(
            known.contains(&id) || listed.contains(&format!("\"{id}\"")),
            "{id} is not adopted: {listed}"
        );
    }
}

fn crash(kills: u64) {
    let daemon = Daemon::start();
    let load = load(&daemon);
    let mut random = Random::new(4711);
    let started = std::time::Instant::now();
    for _ in 0..kills {
        std::thread::sleep(Duration::from_millis(random.below(80)));
        daemon.kill();
        daemon.spawn();
        check_list(&daemon, &load);
    }
    load.stop.store(true, Ordering::Relaxed);
    let commands: u64 = load
        .workers
        .into_iter()
        .map(|worker| worker.join().unwrap())
        .sum();
    let begun = journal(&load.journal);
    let different: HashSet<&String> = begun.iter().collect();
    assert_eq!(different.len(), begun.len(), "a command ran twice");
    assert_eq!(begun.len() as u64, commands, "a command never ran");
    let survived = load.survived.load(Ordering::Relaxed);
    println!(
        "{kills} kills in {:?}: {commands} commands, {survived} of them met a dead daemon",
        started.elapsed()
    );
    assert!(survived > kills / 2, "the daemon was hardly ever at work");
    assert!(!daemon.holders().is_empty());
    daemon.terminate();
    until("the holders are gone", || daemon.holders().is_empty());
}

#[test]
fn nothing_is_lost_when_the_daemon_is_killed_at_random_moments() {
    crash(count("TRL_CRASH_KILLS", 60));
}
