//! Descriptors as most hosts have them: 1,024, more if somebody asks.

use std::fs;

use rustix::process::Signal;
use serde_json::json;
use terminal_runtime::limits::{MAX_KEPT_EXECS, SPARE_DESCRIPTORS};

use crate::plain::Plain;
use crate::restart::restarted_with;
use crate::runtime::{Plan, Runtime};
use crate::support::holders;

/// Named commands are kept after their end.
fn run_named(client: &mut Plain, session: &str, name: &str) -> serde_json::Value {
    let params = json!({"session_id": session, "argv": ["echo", name], "exec_id": name});
    client.call("exec.run", params)
}

#[test]
fn a_low_soft_limit_is_raised_and_commands_are_given_the_one_there_was() {
    let runtime = Runtime::with(&Plan {
        before: Some("ulimit -Sn 256"),
        ..Plan::default()
    });
    let mut client = Plain::socket(&runtime.socket());
    let session = client.session();
    for fresh in [true, false] {
        let params =
            json!({"session_id": session, "command": "ulimit -Sn; ulimit -Hn", "fresh": fresh});
        let limits = client.ok("exec.run", params)["stdout"].clone();
        let limits = limits.as_str().unwrap().to_owned();
        assert!(
            limits.starts_with("256\n") && limits != "256\n256\n",
            "{limits}"
        );
    }
    for number in 0..300 {
        let name = format!("n{number}");
        let reply = run_named(&mut client, &session, &name);
        assert_eq!(reply["data"]["stdout"], format!("{name}\n"), "{reply}");
    }
}

/// The descriptors of a process.
fn open_descriptors(pid: i32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

/// Those of a runtime and of the holder of its only session, as soon as they
/// are no more than these.
fn wait_for_descriptors(runtime: &Runtime, most: [usize; 2]) {
    let holder = holders(&runtime.state())[0];
    let mut found = [0; 2];
    let at_rest = || {
        found = [open_descriptors(runtime.pid()), open_descriptors(holder)];
        found.iter().zip(most).all(|(found, most)| *found <= most)
    };
    crate::runtime::until(&format!("no more than {most:?} open"), at_rest);
}

/// A command with its output on either stream, in a file, or from a terminal,
/// in the session's shell or without one; where to find its name in that.
fn various(number: usize) -> (serde_json::Value, &'static str, u64) {
    let terminal = json!({"cols": 80, "rows": 24});
    match number % 40 {
        1 => (json!({"command": "echo $EXEC >&2"}), "stderr", 0),
        2 => (
            json!({"command": "head -c 300000 /dev/zero; echo $EXEC"}),
            "stdout",
            300_000,
        ),
        3 => (
            json!({"command": "echo $EXEC", "pty": terminal}),
            "stdout",
            0,
        ),
        4 => (
            json!({"command": "cat", "stdin": format!("n{number}")}),
            "stdout",
            0,
        ),
        _ => (json!({"argv": ["echo", format!("n{number}")]}), "stdout", 0),
    }
}

#[test]
fn thousands_of_ended_commands_take_no_descriptors() {
    let plan = Plan {
        before: Some("ulimit -n 1024"),
        variables: &[("TRL_SESSION_MAX_COMMANDS", "0")],
        ..Plan::default()
    };
    let mut runtime = Runtime::with(&plan);
    let mut client = Plain::socket(&runtime.socket());
    let session = client.session();
    let run = |client: &mut Plain, number: usize| {
        let (mut params, ..) = various(number);
        let name = format!("n{number}");
        params["session_id"] = json!(session);
        params["env"] = json!({"EXEC": name});
        params["exec_id"] = json!(name);
        let reply = client.call("exec.run", params);
        assert_eq!(reply["data"]["exit_code"], 0, "{reply}");
    };
    for number in 0..40 {
        run(&mut client, number);
    }
    // Of what is made ahead, more or less may be there.
    let holder = holders(&runtime.state())[0];
    let few = [runtime.pid(), holder].map(|pid| open_descriptors(pid) + 6);
    // Fewer where everything is slow.
    let many = std::env::var("TRL_ENDED_COMMANDS").map_or(2000, |many| many.parse().unwrap());
    for number in 40..many {
        run(&mut client, number);
    }
    wait_for_descriptors(&runtime, few);
    let check = |client: &mut Plain, number: usize| {
        let name = format!("n{number}");
        let (_, stream, offset) = various(number);
        let read = json!({"exec_id": name, "offset": offset, "stream": stream});
        let read = client.ok("exec.read", read);
        assert_eq!(read["data"].as_str().unwrap().trim_end(), name, "{read}");
    };
    for number in many - 100..many {
        check(&mut client, number);
    }
    runtime.signal(Signal::KILL);
    runtime.wait();
    let runtime = restarted_with(runtime, &plan);
    let mut client = Plain::socket(&runtime.socket());
    for number in many - 100..many {
        check(&mut client, number);
    }
    wait_for_descriptors(&runtime, few);
}

/// Those that ended last are what a client may still ask for.
#[test]
fn the_oldest_ended_commands_are_forgotten_first_also_after_a_restart() {
    let mut runtime = Runtime::start();
    let mut client = Plain::socket(&runtime.socket());
    let session = client.session();
    let (before, all) = (MAX_KEPT_EXECS - 20, MAX_KEPT_EXECS + 20);
    for number in 0..before {
        run_named(&mut client, &session, &format!("n{number}"));
    }
    runtime.signal(Signal::KILL);
    runtime.wait();
    let runtime = restarted_with(runtime, &Plan::default());
    let mut client = Plain::socket(&runtime.socket());
    for number in before..all {
        run_named(&mut client, &session, &format!("n{number}"));
    }
    for number in 20..all {
        let name = format!("n{number}");
        let read = json!({"exec_id": name, "offset": 0});
        assert_eq!(client.ok("exec.read", read)["data"], format!("{name}\n"));
    }
    let read = client.call("exec.read", json!({"exec_id": "n0", "offset": 0}));
    assert_eq!(read["error"]["code"], "EXEC_NOT_FOUND", "{read}");
}

#[test]
fn new_work_is_refused_clearly_before_descriptors_run_out() {
    let runtime = Runtime::with(&Plan {
        flags: &["--max-sessions", "1000"],
        before: Some("ulimit -n 400"),
        ..Plan::default()
    });
    let mut client = Plain::socket(&runtime.socket());
    let first = client.session();
    assert_eq!(client.run(&first, "echo fine")["stdout"], "fine\n");
    // Connections take descriptors, of this program and of the runtime.
    let mut others = Vec::new();
    let refused = loop {
        assert!(others.len() < 400, "never refused");
        let mut other = Plain::socket(&runtime.socket());
        let reply = other.call("session.create", json!({}));
        others.push(other);
        if reply["ok"] == false {
            break reply;
        }
    };
    assert_eq!(refused["error"]["code"], "RESOURCE_PRESSURE", "{refused}");
    assert!((others.len() as u64) < 400 - SPARE_DESCRIPTORS);
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("400 descriptors") && message.contains("ulimit -n"),
        "{message}"
    );
    let reply = client.call(
        "exec.run",
        json!({"session_id": first, "command": "echo fine"}),
    );
    assert_eq!(reply["error"]["code"], "RESOURCE_PRESSURE", "{reply}");
    drop(others);
    crate::runtime::until("room for another command", || {
        let reply = client.call(
            "exec.run",
            json!({"session_id": first, "command": "echo fine"}),
        );
        reply["data"]["stdout"] == "fine\n"
    });
}
