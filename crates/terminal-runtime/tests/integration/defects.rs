//! The nine defects of the ancestor, each as a test that it is not here.

use serde_json::json;

use crate::plain::{Plain, request};
use crate::runtime::{Plan, Runtime, processes_with, unique_sleep, until};

const MIB: u64 = 1024 * 1024;

#[test]
fn defect_1_output_cut_within_a_character_does_not_end_the_runtime() {
    for limit in ["1", "2", "3", "4"] {
        let runtime = Runtime::with(&Plan {
            flags: &["--max-output-bytes", limit],
            ..Plan::default()
        });
        let mut client = Plain::socket(&runtime.socket());
        let session = client.session();
        let result = client.run(
            &session,
            "printf '\\360\\237\\246\\200\\360\\237\\246\\200'",
        );
        assert_eq!(result["truncated"], true);
        assert_eq!(
            result["stdout"],
            if limit == "4" { "\u{1f980}" } else { "" }
        );
        assert_eq!(client.run(&session, "printf 1")["exit_code"], 0);
    }
}

#[test]
fn defect_2_a_second_instance_leaves_the_first_alone() {
    let mut runtime = Runtime::start();
    let mut client = Plain::socket(&runtime.socket());
    let session = client.session();
    let second = crate::runtime::command(runtime.directory.path())
        .arg("--socket")
        .arg(runtime.socket())
        .env("TRL_STATE_DIR", runtime.path("state2"))
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(1));
    let said = String::from_utf8(second.stderr).unwrap();
    assert!(
        said.contains("listens on") && said.contains("already"),
        "{said}"
    );
    assert_eq!(runtime.child.try_wait().unwrap(), None);
    assert_eq!(client.run(&session, "echo alive")["stdout"], "alive\n");
}

#[test]
fn defect_3_a_background_process_does_not_hold_up_the_answer() {
    let runtime = Runtime::start();
    let mut client = Plain::socket(&runtime.socket());
    let session = client.session();
    let sleep = unique_sleep();
    let begun = std::time::Instant::now();
    let result = client.run(&session, &format!("sleep {sleep} & echo hi"));
    assert_eq!(
        (&result["stdout"], &result["timed_out"]),
        (&json!("hi\n"), &json!(false))
    );
    assert!(begun.elapsed().as_secs() < 50, "{:?}", begun.elapsed());
    client.ok("session.destroy", json!({"session_id": session}));
    until("the end of the background process", || {
        processes_with(&sleep).is_empty()
    });
}

#[test]
fn defect_4_a_timeout_ends_processes_that_left_their_group() {
    let runtime = Runtime::start();
    let mut client = Plain::socket(&runtime.socket());
    let session = client.session();
    let (apart, here) = (unique_sleep(), unique_sleep());
    let command = format!("setsid sleep {apart} & sleep {here}");
    let params = json!({"session_id": session, "command": command, "timeout_s": 0.5});
    assert_eq!(client.ok("exec.run", params)["timed_out"], true);
    until("the end of both", || {
        processes_with(&apart).is_empty() && processes_with(&here).is_empty()
    });
}

#[test]
fn defect_5_a_session_destroyed_by_force_leaves_no_process() {
    let runtime = Runtime::start();
    let mut client = Plain::socket(&runtime.socket());
    let session = client.session();
    let sleep = unique_sleep();
    let params = json!({"session_id": session, "command": format!("setsid sleep {sleep} & sleep {sleep}"), "timeout_s": 0});
    client.send(&request("run", "exec.run", &params));
    until("the start of both", || {
        processes_with(&format!("sleep\0{sleep}")).len() >= 2
    });
    let mut other = Plain::socket(&runtime.socket());
    let destroyed = other.ok(
        "session.destroy",
        json!({"session_id": session, "force": true}),
    );
    assert_eq!(destroyed["state"], "terminated");
    // Not a moment later: the answer says that it has happened.
    assert_eq!(processes_with(&sleep), Vec::<i32>::new());
    assert_eq!(client.receive().unwrap()["id"], "run");
}

#[test]
fn defect_6_a_client_that_leaves_takes_its_command_along() {
    let runtime = Runtime::start();
    for method in ["exec.run", "exec.stream"] {
        let mut client = Plain::socket(&runtime.socket());
        let session = client.session();
        let sleep = unique_sleep();
        let params =
            json!({"session_id": session, "command": format!("sleep {sleep}"), "timeout_s": 0});
        client.send(&request("run", method, &params));
        until("the start of the sleep", || {
            !processes_with(&sleep).is_empty()
        });
        drop(client);
        until("the end of the sleep", || processes_with(&sleep).is_empty());
        let mut other = Plain::socket(&runtime.socket());
        until("the session to be idle", || {
            other.ok("session.info", json!({"session_id": session}))["state"] == "idle"
        });
    }
}

#[test]
fn defect_7_no_list_shows_the_value_of_a_variable() {
    let runtime = Runtime::start();
    let mut client = Plain::socket(&runtime.socket());
    let create = json!({"env": {"API_KEY": "s3cret-value"}});
    let session = client.ok("session.create", create)["session_id"].clone();
    for (method, params) in [
        ("session.list", json!({})),
        ("session.info", json!({"session_id": session})),
    ] {
        let reply = client.ok(method, params).to_string();
        assert!(
            reply.contains("API_KEY") && !reply.contains("s3cret-value"),
            "{reply}"
        );
    }
}

#[test]
fn defect_8_a_gigabyte_of_output_costs_no_memory() {
    let runtime = Runtime::start();
    let mut client = Plain::socket(&runtime.socket());
    let session = client.session();
    client.run(&session, "true");
    let before = runtime.resident_bytes();
    let command = "head -c 1000000000 /dev/zero";
    let params =
        json!({"session_id": session, "command": command, "exec_id": "big", "timeout_s": 0});
    client.send(&request("run", "exec.run", &params));
    let mut highest = 0;
    let mut other = Plain::socket(&runtime.socket());
    until("the end of the command", || {
        highest = highest.max(runtime.resident_bytes());
        other.ok("exec.list", json!({}))["execs"][0]["state"] == "ended"
    });
    let result = client.receive().unwrap()["data"].clone();
    assert_eq!(
        (&result["exit_code"], &result["truncated"]),
        (&json!(0), &json!(true))
    );
    assert!(highest < before + 8 * MIB, "{before} grew to {highest}");
}

#[test]
fn defect_9_a_line_without_an_end_is_not_kept() {
    use std::io::Write as _;
    let runtime = Runtime::start();
    let mut other = Plain::socket(&runtime.socket());
    let before = runtime.resident_bytes();
    let mut stream = std::os::unix::net::UnixStream::connect(runtime.socket()).unwrap();
    let piece = vec![b'x'; 1024 * 1024];
    for _ in 0..200 {
        stream.write_all(&piece).unwrap();
    }
    other.ok("system.ping", json!({}));
    assert!(runtime.resident_bytes() < before + 8 * MIB);
}
