//! `halter sandbox`, and what other commands say about it.

use crate::place::Place;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub fn works(place: &Place) -> bool {
    let status = place
        .halter(["sandbox", "status", "--json"])
        .expect(0)
        .json();
    let rungs = status["rungs"].as_array().unwrap();
    assert_eq!(rungs.len(), 2);
    for rung in rungs {
        // One that is missing says why.
        assert_eq!(
            rung["supported"] == true,
            rung["reason"].is_null(),
            "{rung}"
        );
    }
    let works = rungs[0]["supported"] == true;
    if !works {
        crate::place::skipped(&format!("name spaces: {}", rungs[0]["reason"]));
    }
    works
}

#[test]
fn a_command_runs_in_the_sandbox_and_ends_as_it_does() {
    let place = Place::new();
    if !works(&place) {
        return;
    }
    let script = "echo x > here; echo x > /etc/halter-escaped || echo kept; cat; exit 7";
    let run = place.halter(["sandbox", "--", "sh", "-c", script]);
    assert_eq!(run.expect(7).stdout, "kept\n");
    assert_eq!(
        fs::read_to_string(place.work().join("here")).unwrap(),
        "x\n"
    );
    place.halter(["sandbox", "--", "no-such-program"]).expect(1);
    place.halter(["sandbox"]).expect(2);
}

#[test]
fn what_a_command_starts_must_be_listed() {
    let place = Place::new();
    if !works(&place) {
        return;
    }
    let list = "version = 1\n[policy.shell]\nallow = [\"ls\"]\n";
    let list = place.write("listed.toml", list);
    let config = ["--config".as_ref(), list.as_os_str()];
    let run = |script: &str| {
        let words = ["sandbox", "--", "bash", "-c", script].map(std::ffi::OsStr::new);
        place.halter(config.into_iter().chain(words))
    };
    assert_eq!(run("ls -d /").expect(0).stdout, "/\n");
    let refused = run("touch made; ! [ -e made ]").expect(0).stderr.clone();
    assert!(refused.contains("Permission denied"), "{refused}");
}

#[test]
fn status_and_doctor_say_what_is_asked_and_what_is_active() {
    let place = Place::new();
    if !works(&place) {
        return;
    }
    let status = || {
        let status = place.halter(["sandbox", "status", "--json"]);
        status.expect(0).json()
    };
    let by_default = status();
    assert_eq!(by_default["requested"], "prefer");
    assert_eq!(by_default["active"], "namespaces");
    let later = by_default["limits"][0].as_str().unwrap();
    assert!(later.contains("repositories that commands make"), "{later}");
    let text = place.halter(["sandbox", "status"]).expect(0).stdout.clone();
    assert!(text.contains(later), "{text}");
    let config = place.home().join(".config/halter");
    fs::create_dir_all(&config).unwrap();
    let set = |choice: &str| {
        let setting = format!("version = 1\n[policy]\nsandbox = \"{choice}\"\n");
        fs::write(config.join("halter.toml"), setting).unwrap();
    };
    set("off");
    let off = status();
    assert_eq!(off["requested"], "off");
    assert!(off["active"].is_null());
    set("require");
    let status = status();
    assert_eq!(status["requested"], "require");
    assert_eq!(status["active"], "namespaces");
    let doctor = place.halter(["doctor", "--json"]).expect(0).json();
    assert_eq!(doctor["sandbox"], status);
    let text = place.halter(["doctor"]).expect(0).stdout.clone();
    assert!(
        text.contains("sandbox      namespaces (policy.sandbox"),
        "{text}"
    );
    let call = r#"{"command":"ls"}"#;
    let explained = place.halter(["policy", "explain", "shell", call]);
    assert!(explained.expect(0).stdout.contains("sandbox   namespaces"));
}

#[test]
fn where_commands_run_elsewhere_no_sandbox_of_this_machine_is_shown() {
    let place = Place::new();
    let config = place.home().join(".config/halter");
    fs::create_dir_all(&config).unwrap();
    let setting =
        "version = 1\n[exec]\nbackend = \"terminal-runtime\"\nsocket = \"/no/trl.sock\"\n";
    fs::write(config.join("halter.toml"), setting).unwrap();
    let at = "terminal-runtime at /no/trl.sock";
    let status = place.halter(["sandbox", "status", "--json"]);
    let status = status.expect(0).json();
    assert_eq!(status["requested"], "prefer");
    assert_eq!(status["elsewhere"]["place"], at);
    assert!(status["elsewhere"]["problem"].is_string(), "{status}");
    assert!(status.get("active").is_none() && status.get("rungs").is_none());
    let call = r#"{"command":"ls"}"#;
    for words in [
        &["sandbox", "status"][..],
        &["policy", "explain", "shell", call],
    ] {
        let told = place.halter(words);
        let told = &told.expect(0).stdout;
        assert!(
            told.contains(at) && told.contains("not of this machine"),
            "{told}"
        );
        assert!(!told.contains("namespaces"), "{told}");
    }
}

/// Every name below a directory.
fn names_below(directory: &Path) -> BTreeSet<PathBuf> {
    let mut names = BTreeSet::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(next) = waiting.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                waiting.push(entry.path());
            }
            names.insert(entry.path());
        }
    }
    names
}

#[test]
fn to_look_at_the_status_makes_nothing() {
    let place = Place::new();
    if !works(&place) {
        return;
    }
    let look = || names_below(place.root());
    let before = look();
    for words in [&["sandbox", "status"][..], &["doctor"]] {
        place.halter(words).expect(0);
        assert_eq!(look(), before, "{words:?}");
    }
}

#[test]
fn sensitive_files_and_sockets_of_the_home_directory_are_out_of_reach() {
    let place = Place::new();
    if !works(&place) {
        return;
    }
    let home = place.home();
    for name in ["other/project", ".docker/desktop"] {
        fs::create_dir_all(home.join(name)).unwrap();
    }
    fs::write(home.join("other/project/.env"), "KEY=s3cret").unwrap();
    let deep = place.work().join("a/b/c/d/e/f/g/h");
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join(".env"), "KEY=s3cret").unwrap();
    let socket = home.join(".docker/desktop/docker.sock");
    let _listening = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let script = "import os, socket, sys\nfor path in sys.argv[1:3]:\n  try: print(open(path).read())\n  \
                  except OSError: print('hidden')\ntry: socket.socket(socket.AF_UNIX).connect(sys.argv[3])\n\
                  except OSError: print('apart')";
    let paths = [home.join("other/project/.env"), deep.join(".env"), socket];
    let paths = paths.map(|path| path.to_str().unwrap().to_owned());
    let words = ["sandbox", "--", "python3", "-c", script].map(str::to_owned);
    let run = place.halter(words.iter().chain(&paths));
    assert_eq!(run.expect(0).stdout, "hidden\nhidden\napart\n");
}

/// A server on the loopback interface outside, which greets everybody.
pub fn greeter() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.0 200 OK\r\nContent-Length: 7\r\n\r\ngreeted");
        }
    });
    port
}

#[test]
fn a_command_reaches_what_is_named_and_nothing_while_the_network_is_off() {
    let place = Place::new();
    if !works(&place) {
        return;
    }
    let (port, other) = (greeter(), greeter());
    let fetch = |port: u16| {
        let script = "import sys, urllib.request as r; \
                      print(r.urlopen(sys.argv[1], timeout=300).read().decode())";
        let address = format!("http://localhost:{port}/");
        place.halter(["sandbox", "--", "python3", "-c", script, &address])
    };
    let off = fetch(port).expect(1).stderr.clone();
    assert!(off.contains("Connection refused"), "{off}");
    let config = place.home().join(".config/halter");
    fs::create_dir_all(&config).unwrap();
    let setting = format!(
        "version = 1\n[policy.network]\nenabled = true\n\
         allowed_loopback = [{{ host = \"localhost\", port = {port} }}]\n"
    );
    fs::write(config.join("halter.toml"), setting).unwrap();
    assert_eq!(fetch(port).expect(0).stdout, "greeted\n");
    let refused = fetch(other).expect(1).stderr.clone();
    assert!(refused.contains("403"), "{refused}");
    let direct = format!("import socket; socket.create_connection((\"127.0.0.1\", {port}), 300)");
    let around = place.halter(["sandbox", "--", "python3", "-c", &direct]);
    assert!(around.expect(1).stderr.contains("Connection refused"));
}

/// Attacks that the shell judge refuses, run without it: only programs of the
/// list execute, and what these consist of.
#[test]
fn what_the_judge_refuses_executes_nothing_that_is_not_listed() {
    let place = Place::new();
    let strace = Command::new("strace").arg("-V").output();
    if !works(&place) || strace.is_err() {
        return crate::place::skipped("name spaces and strace");
    }
    let corpus = include_str!("../../../halter-policy/tests/it/corpus/attacks.jsonl");
    let mut attacks: BTreeMap<Vec<String>, Vec<String>> = BTreeMap::new();
    for line in corpus.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let allow: Vec<String> = serde_json::from_value(line["allow"].clone()).unwrap();
        let command = line["command"].as_str().unwrap().to_owned();
        // With every program allowed there is no list.
        if !allow.iter().any(|name| name == "*") {
            attacks.entry(allow).or_default().push(command);
        }
    }
    let count: usize = attacks.values().map(Vec::len).sum();
    assert!(count >= 900, "{count}");
    for (allow, commands) in attacks {
        let executed = executed(&place, &allow, &commands);
        let unlisted: Vec<_> = executed.iter().filter(|it| !belongs(it, &allow)).collect();
        assert!(unlisted.is_empty(), "{unlisted:?} with {allow:?}");
        assert!(executed.iter().any(|it| it.ends_with("/bash")));
    }
}

/// Whether a program is listed, starts the attacks, or is a part of a listed
/// one.
fn belongs(program: &str, allow: &[String]) -> bool {
    let name = program.rsplit('/').next().unwrap_or(program);
    let starts = ["halter", "cat", "bash", "sh", "dash", "timeout"];
    let listed = |wanted: &str| allow.iter().any(|it| it.rsplit('/').next() == Some(wanted));
    let node = ["npm", "npx", "pnpm", "yarn"].into_iter().any(listed);
    starts.contains(&name)
        || listed(name)
        || (program.contains("/git-core/") && listed("git"))
        || (program.contains("/gcc/") && listed("gcc"))
        || (name == "node" && node)
}

/// The programs that execute when these commands are run side by side.
fn executed(place: &Place, allow: &[String], commands: &[String]) -> BTreeSet<String> {
    let allow = serde_json::to_string(allow).unwrap();
    let settings =
        format!("version = 1\n[policy]\nsandbox = \"require\"\n[policy.shell]\nallow = {allow}\n");
    let config = place.home().join("listed.toml");
    fs::write(&config, settings).unwrap();
    let mut script = String::new();
    for (number, command) in commands.iter().enumerate() {
        place.write(&format!("attack{number}"), command);
        script += &format!(
            "timeout -k 1 5 bash --norc --noprofile attack{number} </dev/null >/dev/null 2>&1 &\n"
        );
        if number % 8 == 7 {
            script += "wait\n";
        }
    }
    place.write("attack", &format!("{script}wait\n"));
    let log = place.home().join("executed");
    let status = Command::new("strace")
        .args([
            "-f",
            "-qq",
            "-s",
            "1",
            "-e",
            "trace=execve",
            "-e",
            "signal=none",
            "-o",
        ])
        .arg(&log)
        .arg(env!("CARGO_BIN_EXE_halter"))
        .arg("--config")
        .arg(&config)
        .args([
            "sandbox", "--", "timeout", "-k", "1", "3600", "bash", "attack",
        ])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", place.home())
        .current_dir(place.work())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    assert!(status.unwrap().success(), "{allow}");
    successes(&fs::read_to_string(&log).unwrap())
}

/// The programs of the calls that succeeded, also of those whose end stands in
/// a line of its own.
fn successes(log: &str) -> BTreeSet<String> {
    let mut begun: BTreeMap<&str, &str> = BTreeMap::new();
    let mut done = BTreeSet::new();
    for line in log.lines() {
        let Some((process, call)) = line.split_once(' ') else {
            continue;
        };
        let named = call
            .split_once("execve(\"")
            .and_then(|it| it.1.split_once('"'));
        if let Some((program, _)) = named {
            begun.insert(process, program);
        }
        if call.ends_with(" = 0")
            && let Some(program) = begun.remove(process)
        {
            done.insert(program.to_owned());
        }
    }
    done
}
