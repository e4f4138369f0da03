//! Descriptors as most hosts have them: 1,024, more if somebody asks.

use rustix::process::Signal;
use serde_json::json;
use terminal_runtime::limits::SPARE_DESCRIPTORS;

use crate::plain::Plain;
use crate::restart::restarted_with;
use crate::runtime::{Plan, Runtime};

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

#[test]
fn named_commands_go_on_where_there_are_no_more_descriptors_to_be_had() {
    let runtime = Runtime::with(&Plan {
        before: Some("ulimit -n 1024"),
        ..Plan::default()
    });
    let mut client = Plain::socket(&runtime.socket());
    let session = client.session();
    for number in 0..400 {
        let name = format!("n{number}");
        let reply = run_named(&mut client, &session, &name);
        assert_eq!(reply["data"]["stdout"], format!("{name}\n"), "{reply}");
    }
    // The latest are still there.
    let read = json!({"exec_id": "n399", "offset": 0});
    assert_eq!(client.ok("exec.read", read)["data"], "n399\n");
}

/// Those that ended last are what a client may still ask for.
#[test]
fn the_oldest_ended_commands_are_forgotten_first_also_after_a_restart() {
    let plan = Plan {
        // Room for eighteen of them.
        before: Some("ulimit -n 400"),
        ..Plan::default()
    };
    let mut runtime = Runtime::with(&plan);
    let mut client = Plain::socket(&runtime.socket());
    let session = client.session();
    for number in 0..18 {
        run_named(&mut client, &session, &format!("n{number}"));
    }
    runtime.signal(Signal::KILL);
    runtime.wait();
    let runtime = restarted_with(runtime, &plan);
    let mut client = Plain::socket(&runtime.socket());
    for number in 18..27 {
        run_named(&mut client, &session, &format!("n{number}"));
    }
    for number in 12..27 {
        let name = format!("n{number}");
        let read = json!({"exec_id": name, "offset": 0});
        assert_eq!(client.ok("exec.read", read)["data"], format!("{name}\n"));
    }
    let read = client.call("exec.read", json!({"exec_id": "n0", "offset": 0}));
    assert_eq!(read["error"]["code"], "EXEC_NOT_FOUND", "{read}");
}

#[test]
fn new_work_is_refused_clearly_before_descriptors_run_out() {
    assert_eq!(SPARE_DESCRIPTORS, 64);
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
