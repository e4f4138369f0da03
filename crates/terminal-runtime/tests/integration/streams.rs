//! Output as it comes, again from any offset, and commands that outlive
//! their client.

use std::io::{BufRead, BufReader, Read, Write};
use std::time::Duration;

use serde_json::{Value, json};
use terminal_runtime::protocol::frame::{Frame, HEADER_BYTES};

use crate::gate::Gate;
use crate::plain::{Plain, bearer, post_bytes, request, tcp};
use crate::runtime::{Plan, Runtime, processes_with, unique_sleep, until};

/// The events of a stream, up to its exit.
fn events(client: &mut Plain, stream: &Value) -> Vec<Value> {
    let mut events = Vec::new();
    loop {
        let line = client.receive().unwrap();
        assert_eq!(&line["stream_id"], stream, "{line}");
        let is_exit = line["type"] == "exit";
        events.push(line);
        if is_exit {
            return events;
        }
    }
}

fn text(events: &[Value], stream: &str) -> String {
    let of = events.iter().filter(|event| event["type"] == stream);
    of.map(|event| event["data"].as_str().unwrap()).collect()
}

#[test]
fn output_comes_while_the_command_runs_and_ends_with_its_exit() {
    let runtime = Runtime::start();
    let mut client = Plain::socket(&runtime.socket());
    let session = client.session();
    let gate = Gate::at(runtime.path("gate"));
    let command = format!("echo early; {gate}; echo late >&2; exit 4");
    let started = client.ok(
        "exec.stream",
        json!({"session_id": session, "command": command}),
    );
    let first = client.receive().unwrap();
    assert_eq!(
        first,
        json!({"stream_id": started["stream_id"], "type": "stdout", "data": "early\n", "offset": 0})
    );
    gate.open();
    let rest = events(&mut client, &started["stream_id"]);
    assert_eq!(text(&rest, "stderr"), "late\n");
    let exit = rest.last().unwrap();
    assert_eq!(
        (&exit["exit_code"], &exit["timed_out"]),
        (&json!(4), &json!(false))
    );
    assert_eq!(client.run(&session, "echo next")["stdout"], "next\n");
}

#[test]
fn a_stream_over_http_comes_in_pieces() {
    let runtime = Runtime::start();
    let address = runtime.http();
    let session = Plain::Http { address }.session();
    let gate = Gate::at(runtime.path("gate"));
    let command = format!("echo early; {gate}; echo late");
    let line = request(
        "1",
        "exec.stream",
        &json!({"session_id": session, "command": command}),
    );
    let mut stream = tcp(address);
    stream
        .write_all(&post_bytes(
            &address.to_string(),
            &[&bearer()],
            line.as_bytes(),
        ))
        .unwrap();
    let mut lines = BufReader::new(stream).lines();
    let mut next = |prefix: &str| loop {
        let line = lines.next().unwrap().unwrap();
        if line.starts_with(prefix) {
            return serde_json::from_str::<Value>(&line).unwrap();
        }
    };
    assert_eq!(next("{\"id\"")["ok"], true);
    assert_eq!(next("{\"stream_id\"")["data"], "early\n");
    gate.open();
    assert_eq!(next("{\"stream_id\"")["data"], "late\n");
    assert_eq!(next("{\"stream_id\"")["type"], "exit");
}

#[test]
fn the_same_output_can_be_had_again_from_any_offset() {
    let runtime = Runtime::start();
    let mut client = Plain::socket(&runtime.socket());
    let session = client.session();
    let command = "for n in 1 2 3 4 5; do echo line $n; done; echo problem >&2";
    let params = json!({"session_id": session, "command": command, "exec_id": "mine"});
    let result = client.ok("exec.run", params.clone());
    assert_eq!(result["exec_id"], "mine");
    // Asked again, it is not run again.
    assert_eq!(client.ok("exec.run", params), result);
    assert_eq!(
        client.ok("session.info", json!({"session_id": session}))["command_count"],
        1
    );
    let read = client.ok(
        "exec.read",
        json!({"exec_id": "mine", "offset": 7, "max": 7}),
    );
    assert_eq!(
        read,
        json!({"data": "line 2\n", "offset": 7, "next_offset": 14, "eof": false})
    );
    let read = client.ok("exec.read", json!({"exec_id": "mine", "offset": 28}));
    assert_eq!(
        read,
        json!({"data": "line 5\n", "offset": 28, "next_offset": 35, "eof": true})
    );
    let read = client.ok(
        "exec.read",
        json!({"exec_id": "mine", "stream": "stderr", "offset": 0}),
    );
    assert_eq!(read["data"], "problem\n");
    let attached = client.ok("exec.attach", json!({"exec_id": "mine", "offset": 14}));
    let again = events(&mut client, &attached["stream_id"]);
    assert_eq!(text(&again, "stdout"), "line 3\nline 4\nline 5\n");
    assert_eq!(again[0]["offset"].as_u64().unwrap() % 7, 0);
    let waited = client.ok("exec.wait", json!({"exec_id": "mine", "timeout_s": 60}));
    assert_eq!(
        (&waited["state"], &waited["result"]),
        (&json!("ended"), &result)
    );
    let other = json!({"session_id": session, "command": "echo other", "exec_id": "mine"});
    assert_eq!(client.refused("exec.run", other), "INVALID_PARAMS");
}

#[test]
fn reading_waits_for_what_is_yet_to_come() {
    let runtime = Runtime::start();
    let mut client = Plain::socket(&runtime.socket());
    let session = client.session();
    let gate = Gate::at(runtime.path("gate"));
    let command = format!("{gate}; echo come");
    let params = json!({"session_id": session, "command": command, "exec_id": "later"});
    client.send(&request("run", "exec.run", &params));
    let mut other = Plain::socket(&runtime.socket());
    until("the command to be known", || {
        other.call("exec.wait", json!({"exec_id": "later", "timeout_s": 0}))["data"]["state"]
            == "running"
    });
    let nothing = other.ok("exec.read", json!({"exec_id": "later", "wait_ms": 20}));
    assert_eq!(
        nothing,
        json!({"data": "", "offset": 0, "next_offset": 0, "eof": false})
    );
    other.send(&request(
        "read",
        "exec.read",
        &json!({"exec_id": "later", "wait_ms": 60_000}),
    ));
    gate.open();
    assert_eq!(other.receive().unwrap()["data"]["data"], "come\n");
    assert_eq!(client.receive().unwrap()["data"]["stdout"], "come\n");
}

#[test]
fn bytes_that_are_no_text_come_through_exactly() {
    use base64::Engine as _;
    let decode = |data: &Value| {
        base64::engine::general_purpose::STANDARD
            .decode(data.as_str().unwrap())
            .unwrap()
    };
    let runtime = Runtime::start();
    let mut client = Plain::socket(&runtime.socket());
    let session = client.session();
    let command = "printf 'a\\377\\000b'; printf 'gr\\303\\274n' >&2";
    let params = json!({"session_id": session, "command": command, "exec_id": "raw"});
    let result = client.ok("exec.run", params);
    assert_eq!(result["stdout_encoding"], "base64");
    assert_eq!(decode(&result["stdout"]), b"a\xff\0b");
    assert_eq!(
        (&result["stderr"], result.get("stderr_encoding")),
        (&json!("grün"), None)
    );
    let read = client.ok("exec.read", json!({"exec_id": "raw"}));
    assert_eq!(
        (decode(&read["data"]), &read["encoding"]),
        (b"a\xff\0b".to_vec(), &json!("base64"))
    );
    // A character is never cut in two by where a piece ends.
    let read = client.ok(
        "exec.read",
        json!({"exec_id": "raw", "stream": "stderr", "max": 3}),
    );
    assert_eq!(
        (&read["data"], &read["next_offset"]),
        (&json!("gr"), &json!(2))
    );
    let attached = client.ok("exec.attach", json!({"exec_id": "raw"}));
    let again = events(&mut client, &attached["stream_id"]);
    assert_eq!(
        again[0]["encoding"]
            .as_str()
            .or(again[1]["encoding"].as_str()),
        Some("base64")
    );
}

#[test]
fn output_beyond_the_limit_is_cut_at_a_character_and_the_rest_can_be_read() {
    let runtime = Runtime::with(&Plan {
        flags: &["--max-output-bytes", "1000"],
        ..Plan::default()
    });
    let mut client = Plain::socket(&runtime.socket());
    let session = client.session();
    let result = client.run(
        &session,
        "printf 'x'; for n in $(seq 1000); do printf '\\303\\274'; done",
    );
    assert_eq!(result["truncated"], true);
    let kept = result["stdout"].as_str().unwrap();
    assert_eq!(kept.len(), 999);
    assert!(kept.ends_with('ü'));
    let rest = json!({"exec_id": result["exec_id"], "offset": 999});
    assert_eq!(
        client.ok("exec.read", rest)["data"].as_str().unwrap().len(),
        2001 - 999
    );
}

#[test]
fn frames_carry_output_where_they_were_agreed_upon() {
    let runtime = Runtime::start();
    let mut client = Plain::socket(&runtime.socket());
    let session = client.session();
    let hello = client.ok("hello", json!({"frames": true}));
    assert_eq!(hello["frames"], true);
    let params = json!({"session_id": session, "command": "printf 'a\\377b'; echo err >&2", "exec_id": "framed"});
    let started = client.ok("exec.stream", params);
    let number = u64::from_str_radix(&started["stream_id"].as_str().unwrap()[2..], 16).unwrap();
    let Plain::Socket { reader, .. } = &mut client else {
        unreachable!()
    };
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    loop {
        if reader.fill_buf().unwrap()[0] != 0 {
            break;
        }
        let mut bytes = vec![0; HEADER_BYTES];
        reader.read_exact(&mut bytes).unwrap();
        let header = terminal_runtime::protocol::frame::FrameHeader::decode(&bytes)
            .unwrap()
            .unwrap();
        bytes.resize(HEADER_BYTES + header.length, 0);
        reader.read_exact(&mut bytes[HEADER_BYTES..]).unwrap();
        let frame = Frame::decode(&bytes).unwrap().unwrap();
        assert_eq!(frame.header.stream_number, number);
        let into = match frame.header.stream {
            terminal_runtime::exec::Stream::Stdout => &mut stdout,
            terminal_runtime::exec::Stream::Stderr => &mut stderr,
        };
        assert_eq!(frame.header.offset, into.len() as u64);
        into.extend_from_slice(frame.payload);
    }
    assert_eq!(
        (stdout.as_slice(), stderr.as_slice()),
        (&b"a\xffb"[..], &b"err\n"[..])
    );
    assert_eq!(client.receive().unwrap()["type"], "exit");
    // Over HTTP there are none.
    let hello = Plain::Http {
        address: runtime.http(),
    }
    .ok("hello", json!({"frames": true}));
    assert_eq!(hello["frames"], false);
}

#[test]
fn cancel_ends_the_command_and_keeps_the_shell() {
    let runtime = Runtime::start();
    let mut client = Plain::socket(&runtime.socket());
    let session = client.session();
    client.run(&session, "export KEPT=yes");
    let sleep = unique_sleep();
    let params = json!({"session_id": session, "command": format!("echo on; sleep {sleep}"), "timeout_s": 0});
    client.send(&request("run", "exec.run", &params));
    let mut other = Plain::socket(&runtime.socket());
    until("the start of the sleep", || {
        !processes_with(&sleep).is_empty()
    });
    let cancelled = other.ok("exec.cancel", json!({"session_id": session}));
    assert_eq!(cancelled["cancelled"], true);
    let result = client.receive().unwrap()["data"].clone();
    assert_eq!(
        (&result["cancelled"], &result["stdout"]),
        (&json!(true), &json!("on\n"))
    );
    assert_eq!(client.run(&session, "echo $KEPT")["stdout"], "yes\n");
    assert_eq!(
        other.ok("exec.cancel", json!({"session_id": session})),
        json!({"cancelled": false})
    );
    until("the end of the sleep", || processes_with(&sleep).is_empty());
}

#[test]
fn a_queued_command_can_be_cancelled_before_it_starts() {
    let runtime = Runtime::start();
    let mut client = Plain::socket(&runtime.socket());
    let session = client.session();
    let sleep = unique_sleep();
    let params = json!({"session_id": session, "command": format!("sleep {sleep}"), "timeout_s": 0, "exec_id": "first"});
    client.send(&request("first", "exec.run", &params));
    until("the start of the sleep", || {
        !processes_with(&sleep).is_empty()
    });
    let params =
        json!({"session_id": session, "command": "echo never", "queue": true, "exec_id": "second"});
    client.send(&request("second", "exec.run", &params));
    let mut other = Plain::socket(&runtime.socket());
    until("its place in the queue", || {
        other.call("exec.wait", json!({"exec_id": "second", "timeout_s": 0}))["data"]["state"]
            == "queued"
    });
    other.ok("exec.cancel", json!({"exec_id": "second"}));
    let reply = client.receive().unwrap();
    assert_eq!(
        (&reply["id"], &reply["error"]["reason"]),
        (&json!("second"), &json!("cancelled"))
    );
    other.ok("exec.cancel", json!({"exec_id": "first"}));
    assert_eq!(client.receive().unwrap()["id"], "first");
}

#[test]
fn a_command_with_a_name_outlives_its_client() {
    let runtime = Runtime::start();
    let mut client = Plain::socket(&runtime.socket());
    let session = client.session();
    let gate = Gate::at(runtime.path("gate"));
    let command = format!("echo one; {gate}; echo two");
    let params = json!({"session_id": session, "command": command, "exec_id": "kept"});
    let started = client.ok("exec.stream", params);
    assert_eq!(client.receive().unwrap()["stream_id"], started["stream_id"]);
    drop(client);
    let mut back = Plain::socket(&runtime.socket());
    let listed = back.ok("exec.list", json!({}));
    assert_eq!(
        (&listed["execs"][0]["exec_id"], &listed["execs"][0]["state"]),
        (&json!("kept"), &json!("running"))
    );
    let attached = back.ok("exec.attach", json!({"exec_id": "kept", "offset": 4}));
    gate.open();
    let rest = events(&mut back, &attached["stream_id"]);
    assert_eq!(text(&rest, "stdout"), "two\n");
    assert_eq!(rest.last().unwrap()["exit_code"], 0);
    // The same for whoever waited for the result.
    gate.close();
    let mut client = Plain::socket(&runtime.socket());
    let params = json!({"session_id": session, "command": command, "exec_id": "waited"});
    client.send(&request("1", "exec.run", &params));
    until("the start of the command", || {
        let read = back.call("exec.read", json!({"exec_id": "waited"}));
        read["data"]["data"] == "one\n"
    });
    drop(client);
    // Long enough for a runtime that would end it to have done so.
    let still = back.ok("exec.wait", json!({"exec_id": "waited", "timeout_s": 0.3}));
    assert_eq!(still["state"], "running");
    gate.open();
    let result = &back.ok("exec.wait", json!({"exec_id": "waited"}))["result"];
    assert_eq!(
        (&result["stdout"], &result["cancelled"]),
        (&json!("one\ntwo\n"), &json!(false))
    );
}

#[test]
fn a_client_that_closes_its_sending_half_gets_every_answer() {
    let runtime = Runtime::start();
    let mut client = Plain::socket(&runtime.socket());
    let (first, second) = (client.session(), client.session());
    for (id, session) in [("a", first), ("b", second)] {
        let params = json!({"session_id": session, "command": format!("sleep 0.2; echo {id}")});
        client.send(&request(id, "exec.run", &params));
    }
    client.finish_sending();
    let mut answers: Vec<String> = (0..2)
        .map(|_| {
            client.receive().unwrap()["data"]["stdout"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    answers.sort();
    assert_eq!(answers, ["a\n", "b\n"]);
    assert_eq!(client.receive(), None);
}

#[test]
fn an_http_client_that_closes_its_connection_takes_its_command_along() {
    let runtime = Runtime::start();
    let address = runtime.http();
    for method in ["exec.run", "exec.stream"] {
        let session = Plain::Http { address }.session();
        let sleep = unique_sleep();
        let params =
            json!({"session_id": session, "command": format!("sleep {sleep}"), "timeout_s": 0});
        let line = request("1", method, &params);
        let mut stream = tcp(address);
        let bytes = post_bytes(&address.to_string(), &[&bearer()], line.as_bytes());
        stream.write_all(&bytes).unwrap();
        until("the start of the sleep", || {
            !processes_with(&sleep).is_empty()
        });
        drop(stream);
        until("the end of the sleep", || processes_with(&sleep).is_empty());
    }
}

#[test]
fn an_http_client_that_leaves_before_its_answer_takes_its_command_along() {
    let runtime = Runtime::start();
    let address = runtime.http();
    let sleep = unique_sleep();
    for method in ["exec.stream", "exec.run"] {
        for delay_ms in 0..10 {
            let session = Plain::Http { address }.session();
            let params =
                json!({"session_id": session, "command": format!("sleep {sleep}"), "timeout_s": 0});
            let line = request("1", method, &params);
            let mut stream = tcp(address);
            // Closing it is a reset, which nobody can take for a half.
            rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
            let bytes = post_bytes(&address.to_string(), &[&bearer()], line.as_bytes());
            stream.write_all(&bytes).unwrap();
            // At any moment from before the request is read to after the start.
            std::thread::sleep(Duration::from_millis(delay_ms));
        }
    }
    let mut client = Plain::socket(&runtime.socket());
    until("the end of every command", || {
        let listed = client.ok("exec.list", json!({}));
        let stats = client.ok("system.stats", json!({}));
        listed["execs"] == json!([]) && stats["running_commands"] == 0
    });
    until("the end of every sleep", || {
        processes_with(&sleep).is_empty()
    });
}
