//! Commands that are talked to: input by offset, terminals, signals.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use terminal_runtime::limits::{FRAME_CHUNK_BYTES, MAX_FRAME_BYTES, STREAM_CHUNK_BYTES};

use crate::plain::{Plain, request};
use crate::runtime::{Plan, Runtime, processes_with, unique_sleep, until};

/// What a command has written so far, once that contains a text.
fn output_with(client: &mut Plain, exec_id: &str, text: &str) -> String {
    let mut seen = String::new();
    until("output", || {
        let read = client.ok("exec.read", json!({"exec_id": exec_id}));
        seen = read["data"].as_str().unwrap().to_owned();
        seen.contains(text)
    });
    seen
}

/// Starts a command that its client does not wait for.
fn start(runtime: &Runtime, session: &str, exec_id: &str, more: Value) {
    let mut params = json!({"session_id": session, "exec_id": exec_id, "timeout_s": 0});
    for (name, value) in more.as_object().unwrap() {
        params[name] = value.clone();
    }
    Plain::socket(&runtime.socket()).ok("exec.stream", params);
}

fn ended(client: &mut Plain, exec_id: &str) -> Value {
    let waited = client.ok("exec.wait", json!({"exec_id": exec_id, "timeout_s": 60}));
    assert_eq!(waited["state"], "ended", "{waited}");
    waited["result"].clone()
}

#[test]
fn input_is_accepted_once_by_its_offset_and_ends_when_told() {
    let runtime = Runtime::start();
    for what in [
        json!({"command": "cat; echo over"}),
        json!({"argv": ["cat"]}),
        json!({"command": "cat", "fresh": true}),
    ] {
        let mut client = Plain::socket(&runtime.socket());
        let session = client.session();
        let exec_id = format!("cat-{session}");
        let mut order = what.clone();
        order["open_stdin"] = json!(true);
        start(&runtime, &session, &exec_id, order);
        let write = |data: &str, offset: Option<u64>, eof: bool| json!({"exec_id": exec_id, "data": data, "offset": offset, "eof": eof});
        assert_eq!(
            client.ok("exec.write", write("one\n", Some(0), false))["offset"],
            4
        );
        // Said twice, taken once.
        assert_eq!(
            client.ok("exec.write", write("one\n", Some(0), false))["offset"],
            4
        );
        assert_eq!(
            client.ok("exec.write", write("ne\ntwo\n", Some(1), false))["offset"],
            8
        );
        assert_eq!(
            client.call("exec.write", write("far", Some(99), false))["error"]["reason"],
            "stdin_gap"
        );
        output_with(&mut client, &exec_id, "two\n");
        let raw =
            json!({"exec_id": exec_id, "data": STANDARD.encode(b"\xffx\n"), "encoding": "base64"});
        assert_eq!(client.ok("exec.write", raw)["offset"], 11);
        assert_eq!(client.ok("exec.write", write("", None, true))["offset"], 11);
        let result = ended(&mut client, &exec_id);
        assert_eq!(result["exit_code"], 0, "{result}");
        let bytes = STANDARD.decode(result["stdout"].as_str().unwrap()).unwrap();
        assert!(bytes.starts_with(b"one\ntwo\n\xffx\n"), "{result}");
        assert_eq!(
            client.call("exec.write", write("late", None, false))["error"]["reason"],
            "ended"
        );
    }
}

#[test]
fn input_that_was_not_left_open_is_refused_with_the_way_out() {
    let runtime = Runtime::start();
    let mut client = Plain::socket(&runtime.socket());
    let session = client.session();
    let sleep = unique_sleep();
    start(
        &runtime,
        &session,
        "closed",
        json!({"command": format!("sleep {sleep}")}),
    );
    let reply = client.call("exec.write", json!({"exec_id": "closed", "data": "x"}));
    assert_eq!(
        (&reply["error"]["code"], &reply["error"]["reason"]),
        (&json!("INVALID_PARAMS"), &json!("stdin_closed"))
    );
    client.ok("exec.cancel", json!({"exec_id": "closed"}));
}

#[test]
fn a_terminal_has_a_size_that_can_change() {
    let runtime = Runtime::start();
    let mut client = Plain::socket(&runtime.socket());
    let session = client.session();
    let command = "test -t 0 && test -t 1 && stty size; read line; stty size; echo got $line";
    start(
        &runtime,
        &session,
        "tty",
        json!({"command": command, "pty": {"cols": 100, "rows": 30}}),
    );
    output_with(&mut client, "tty", "30 100");
    client.ok(
        "exec.resize",
        json!({"exec_id": "tty", "cols": 120, "rows": 40}),
    );
    client.ok("exec.write", json!({"exec_id": "tty", "data": "hello\n"}));
    let result = ended(&mut client, "tty");
    let shown = result["stdout"].as_str().unwrap();
    assert!(
        shown.contains("40 120") && shown.contains("got hello"),
        "{shown}"
    );
    assert_eq!(result["exit_code"], 0);
    let pipes = unique_sleep();
    start(
        &runtime,
        &session,
        "pipes",
        json!({"command": format!("sleep {pipes}")}),
    );
    let reply = client.call(
        "exec.resize",
        json!({"exec_id": "pipes", "cols": 1, "rows": 1}),
    );
    assert_eq!(reply["error"]["reason"], "no_terminal");
    client.ok("exec.cancel", json!({"exec_id": "pipes"}));
    let reply = client.call(
        "exec.resize",
        json!({"exec_id": "pipes", "cols": 1, "rows": 1}),
    );
    assert_eq!(reply["error"]["reason"], "not_running");
}

#[test]
fn signals_reach_whom_they_are_meant_for() {
    let runtime = Runtime::start();
    let mut client = Plain::socket(&runtime.socket());
    let session = client.session();
    let script = "trap 'echo caught; exit 9' USR1; echo ready; while :; do sleep 0.01; done";
    start(
        &runtime,
        &session,
        "leader",
        json!({"argv": ["bash", "-c", script]}),
    );
    output_with(&mut client, "leader", "ready");
    client.ok(
        "exec.signal",
        json!({"exec_id": "leader", "signal": "SIGUSR1", "scope": "leader"}),
    );
    let result = ended(&mut client, "leader");
    assert_eq!(
        (&result["stdout"], &result["exit_code"]),
        (&json!("ready\ncaught\n"), &json!(9))
    );
    let (near, far) = (unique_sleep(), unique_sleep());
    let script = format!("setsid sleep {far} & exec sleep {near}");
    start(
        &runtime,
        &session,
        "tree",
        json!({"argv": ["bash", "-c", script]}),
    );
    until("both to run", || {
        processes_with(&format!("sleep\0{near}")).len() == 1
            && processes_with(&format!("sleep\0{far}")).len() == 1
    });
    client.ok(
        "exec.signal",
        json!({"session_id": session, "signal": 9, "scope": "tree"}),
    );
    let result = ended(&mut client, "tree");
    assert_eq!(
        (&result["exit_code"], &result["signal"]),
        (&json!(-1), &json!(9))
    );
    until("both to be gone", || {
        processes_with(&far).is_empty() && processes_with(&near).is_empty()
    });
}

/// Says what it is sent, and goes on.
const STUBBORN: &str = "trap 'echo int' INT; trap 'echo term' TERM; trap 'echo usr1' USR1; \
                        trap 'echo hup' HUP; echo ready; while :; do sleep 0.01; done";

/// A command in a runtime that gives it very long to end, and that has been
/// told to.
fn being_stopped(runtime: &Runtime, what: Value) -> (Plain, String) {
    let mut client = Plain::socket(&runtime.socket());
    let session = client.session();
    start(runtime, &session, &session, what);
    output_with(&mut client, &session, "ready");
    let mut other = Plain::socket(&runtime.socket());
    other.send(&request("end", "exec.cancel", &json!({"exec_id": session})));
    output_with(&mut client, &session, "term");
    (other, session)
}

#[test]
fn a_command_that_is_being_stopped_still_hears_and_can_be_stopped_sooner() {
    let runtime = Runtime::with(&Plan {
        flags: &["--grace-sec", "600"],
        ..Plan::default()
    });
    let ways = || {
        [
            json!({"argv": ["bash", "-c", STUBBORN]}),
            json!({"command": STUBBORN, "fresh": true}),
            json!({"command": format!("bash -c \"{STUBBORN}\"")}),
        ]
    };
    for what in ways() {
        let (mut waiting, exec) = being_stopped(&runtime, what);
        let mut client = Plain::socket(&runtime.socket());
        let signal = json!({"exec_id": exec, "signal": "USR1", "scope": "tree"});
        client.ok("exec.signal", signal);
        output_with(&mut client, &exec, "usr1");
        client.ok("exec.cancel", json!({"exec_id": exec, "signal": "KILL"}));
        assert_eq!(waiting.receive().unwrap()["ok"], true);
        assert_eq!(ended(&mut client, &exec)["cancelled"], true);
    }
    // A session that goes does not wait for it either.
    for what in ways() {
        let (mut waiting, session) = being_stopped(&runtime, what);
        let mut client = Plain::socket(&runtime.socket());
        client.ok(
            "session.destroy",
            json!({"session_id": session, "force": true}),
        );
        assert_eq!(waiting.receive().unwrap()["ok"], true);
    }
}

#[test]
fn the_signal_that_a_command_is_cancelled_with_comes_once() {
    let runtime = Runtime::with(&Plan {
        flags: &["--grace-sec", "600"],
        ..Plan::default()
    });
    let ways = [
        json!({"argv": ["bash", "-c", STUBBORN]}),
        json!({"command": format!("bash -c \"{STUBBORN}\"")}),
    ];
    for what in ways {
        let mut client = Plain::socket(&runtime.socket());
        let session = client.session();
        start(&runtime, &session, &session, what);
        output_with(&mut client, &session, "ready");
        let mut other = Plain::socket(&runtime.socket());
        let cancel = json!({"exec_id": session, "signal": "HUP"});
        other.send(&request("end", "exec.cancel", &cancel));
        output_with(&mut client, &session, "hup");
        let signal = json!({"exec_id": session, "signal": "USR1", "scope": "tree"});
        client.ok("exec.signal", signal);
        // It goes on to be stopped.
        output_with(&mut client, &session, "usr1");
        output_with(&mut client, &session, "term");
        client.ok("exec.cancel", json!({"exec_id": session, "signal": "KILL"}));
        assert_eq!(other.receive().unwrap()["ok"], true);
        let result = ended(&mut client, &session);
        let output = result["stdout"].as_str().unwrap();
        assert_eq!(output.matches("hup").count(), 1, "{output}");
    }
}

#[test]
fn pieces_of_a_stream_are_bounded() {
    let runtime = Runtime::start();
    let mut client = Plain::socket(&runtime.socket());
    let session = client.session();
    let command = "head -c 2000000 /dev/zero | tr '\\0' x";
    client.ok(
        "exec.run",
        json!({"session_id": session, "command": command, "exec_id": "long"}),
    );
    client.ok("exec.attach", json!({"exec_id": "long"}));
    let mut total = 0;
    loop {
        let line = client.receive().unwrap();
        if line["type"] == "exit" {
            break;
        }
        let length = line["data"].as_str().unwrap().len();
        // Up to three bytes of a character may have waited.
        assert!(length <= STREAM_CHUNK_BYTES + 3, "{length}");
        total += length;
    }
    assert_eq!(total, 2_000_000);
    const { assert!(FRAME_CHUNK_BYTES <= MAX_FRAME_BYTES) };
}
