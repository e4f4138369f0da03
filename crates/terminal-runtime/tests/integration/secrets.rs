//! Secrets go to the commands they are for, and nowhere else.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::process::{Resource, getrlimit};
use serde_json::json;

use crate::plain::{Plain, bearer, post, request};
use crate::runtime::{PROGRAM, Plan, Runtime, TOKEN};
use crate::support::holders;

const IN_SESSION: &str = "planted-in-the-session";
const IN_COMMAND: &str = "planted-in-the-command";
const IN_FILE: &str = "planted-in-the-file";
const IN_RUNTIME: &str = "planted-in-the-runtime";

fn check(place: &str, text: &str) {
    for secret in [IN_SESSION, IN_COMMAND, IN_FILE, IN_RUNTIME, TOKEN] {
        assert!(!text.contains(secret), "{place} shows a secret: {text}");
    }
}

/// Whether this was built for the system's own mechanisms, or for any Unix.
const ON_LINUX: bool = cfg!(all(target_os = "linux", not(halter_portable)));

fn check_files(directory: &Path) {
    for entry in fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() && !ON_LINUX && path.ends_with("shared") {
            // The state of shells passes through files there.
            assert_eq!(entry.metadata().unwrap().mode() & 0o777, 0o700);
        } else if kind.is_dir() {
            check_files(&path);
        } else if kind.is_file() && path.file_name().unwrap() != ".env" {
            check(
                &path.display().to_string(),
                &String::from_utf8_lossy(&fs::read(&path).unwrap()),
            );
        }
    }
}

#[test]
fn planted_secrets_appear_in_no_log_reply_error_or_file() {
    for format in ["text", "json"] {
        let directory = tempfile::tempdir().unwrap();
        fs::write(
            directory.path().join(".env"),
            format!("FILE_KEY={IN_FILE}\n"),
        )
        .unwrap();
        let runtime = Runtime::within(
            directory,
            &Plan {
                flags: &["--log-level", "trace", "--log-format", format],
                variables: &[("RUNTIME_KEY", IN_RUNTIME)],
                ..Plan::default()
            },
        );
        let mut client = Plain::socket(&runtime.socket());
        let create = json!({"shell": "/bin/bash", "env": {"SESSION_KEY": IN_SESSION}, "name": "n"});
        let session = client.ok("session.create", create)["session_id"].clone();
        let mut replies = Vec::new();
        let mut say = |client: &mut Plain, method: &str, mut params: serde_json::Value| {
            params["session_id"] = session.clone();
            params["env"] = json!({"COMMAND_KEY": IN_COMMAND});
            replies.push(client.call(method, params).to_string());
        };
        // They are there for the commands themselves.
        let seen = "test -n \"$SESSION_KEY$COMMAND_KEY$FILE_KEY$RUNTIME_KEY\" && echo ${#SESSION_KEY} ${#COMMAND_KEY} ${#FILE_KEY} ${#RUNTIME_KEY}";
        say(&mut client, "exec.run", json!({"command": seen}));
        say(
            &mut client,
            "exec.run",
            json!({"command": seen, "fresh": true}),
        );
        say(
            &mut client,
            "exec.run",
            json!({"argv": ["no-such-program"]}),
        );
        say(&mut client, "exec.run", json!({"command": 7}));
        say(
            &mut client,
            "exec.run",
            json!({"command": "sleep 9", "timeout_s": 0.1, "exec_id": "named"}),
        );
        for method in [
            "session.info",
            "session.list",
            "exec.list",
            "runtime.describe",
            "system.stats",
        ] {
            say(&mut client, method, json!({}));
        }
        assert!(replies[0].contains("22 22 19 22"), "{}", replies[0]);
        let wrong = format!(
            "{{\"id\":\"1\",\"method\":\"exec.run\",\"params\":{{\"env\":\"{IN_COMMAND}\"}}}}"
        );
        client.send(&wrong);
        replies.push(client.receive().unwrap().to_string());
        client.send(&format!(
            "{{\"id\":\"1\",\"method\":{{\"x\":\"{IN_COMMAND}\"}}}}"
        ));
        replies.push(client.receive().unwrap().to_string());
        let ping = request("1", "system.ping", &json!({}));
        for header in [
            bearer(),
            format!("{}x", bearer()),
            format!("Authorization: Basic {TOKEN}"),
        ] {
            let response = post(runtime.http(), &[&header], ping.as_bytes());
            replies.push(response.head + &response.body);
        }
        for reply in &replies {
            check("a reply", reply);
        }
        let log = runtime.log();
        check("the log", &log);
        assert!(log.contains("session created"), "{log}");
        if format == "json" {
            for line in log.lines() {
                let entry: serde_json::Value = serde_json::from_str(line).unwrap();
                assert!(
                    entry["level"].is_string() && entry["timestamp"].is_string(),
                    "{line}"
                );
            }
        }
        check_files(runtime.directory.path());
        let command_line = fs::read(format!("/proc/{}/cmdline", runtime.pid())).unwrap();
        check("the command line", &String::from_utf8_lossy(&command_line));
        // A command can read what the runtime was started with, as this user
        // can, unless it has a PID namespace.
        let shown = fs::read(format!("/proc/{}/environ", runtime.pid())).unwrap();
        let shown = String::from_utf8_lossy(&shown);
        assert!(shown.contains("HOME="), "{shown}");
        assert!(
            !shown.contains(TOKEN),
            "the environment shows the token: {shown}"
        );
    }
}

#[test]
fn a_start_that_fails_shows_no_secret() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join(".env"), format!("KEY='{IN_FILE}\n")).unwrap();
    let output = std::process::Command::new(PROGRAM)
        .current_dir(directory.path())
        .env("TRL_AUTH_TOKEN", TOKEN)
        .output()
        .unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains(".env") && said.contains("line 1"), "{said}");
    check("the error", &said);
}

#[cfg_attr(
    not(target_os = "linux"),
    ignore = "needs /proc to see the limits of a process"
)]
#[test]
fn nothing_leaves_a_core_dump_unless_it_wants_to() {
    if getrlimit(Resource::Core).maximum == Some(0) {
        println!("skipped: needs the right to leave core dumps");
        return;
    }
    let runtime = Runtime::with(&Plan {
        before: Some("ulimit -c $(ulimit -Hc)"),
        ..Plan::default()
    });
    let mut client = Plain::socket(&runtime.socket());
    let session = client.session();
    let limit_of = |pid: i32| {
        let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
        let line = limits
            .lines()
            .find(|line| line.starts_with("Max core file"));
        let mut words = line.unwrap().split_whitespace().skip(4);
        words.next().unwrap().to_owned()
    };
    client.run(&session, "true");
    for pid in [runtime.pid(), holders(&runtime.state())[0]] {
        assert_eq!(limit_of(pid), "0");
    }
    for more in [json!({}), json!({"fresh": true})] {
        let mut params = more;
        params["session_id"] = json!(session);
        params["command"] = json!("ulimit -c; ulimit -c $(ulimit -Hc) && [ $(ulimit -c) != 0 ]");
        let result = client.ok("exec.run", params);
        assert_eq!(
            (&result["stdout"], &result["exit_code"]),
            (&json!("0\n"), &json!(0))
        );
    }
}
