//! Requests that are wrong, too large, too deep, too slow or not allowed:
//! bounded cost, the right code, no effect on others.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use terminal_runtime::limits::{
    HTTP_FIRST_BYTE_WAIT, MAX_CONNECTIONS, MAX_ENDING_IN_FLIGHT, MAX_IN_FLIGHT,
    MAX_IN_FLIGHT_BYTES, MAX_REQUEST_BYTES,
};

use crate::plain::{Plain, bearer, post, post_bytes, read_response, request, tcp};
use crate::runtime::{Plan, Runtime, TEST_TIMEOUT, processes_with, unique_sleep, until};

const MIB: u64 = 1024 * 1024;

fn refusal(client: &mut Plain, line: &str) -> (Value, String) {
    client.send(line);
    let reply = client.receive().unwrap();
    assert_eq!(reply["ok"], false, "{reply}");
    assert_eq!(reply["error"]["code"], "INVALID_PARAMS", "{reply}");
    (
        reply["id"].clone(),
        reply["error"]["message"].as_str().unwrap().to_owned(),
    )
}

#[test]
fn what_is_no_request_is_answered_and_the_connection_lives() {
    let runtime = Runtime::start();
    let mut client = Plain::socket(&runtime.socket());
    for (line, id) in [
        ("hello", "unknown"),
        ("{\"id\":\"7\",\"method\":", "7"),
        ("{\"id\":\"8\"}", "8"),
        ("[]", "unknown"),
        ("{\"method\":\"system.ping\"}", "unknown"),
        (
            "{\"id\":\"9\",\"method\":\"system.ping\",\"params\":[]}",
            "9",
        ),
        ("{\"id\":\"10\",\"method\":\"nothing.at_all\"}", "10"),
        ("\u{0}\u{1}\u{2}", "unknown"),
    ] {
        assert_eq!(refusal(&mut client, line).0, id, "{line}");
    }
    let deep = format!(
        "{{\"id\":\"deep\",\"method\":\"system.ping\",\"params\":{}",
        "[".repeat(100_000)
    );
    let (id, message) = refusal(&mut client, &deep);
    assert_eq!(id, "deep");
    assert!(message.contains("nested deeper"), "{message}");
    assert_eq!(
        client.ok("system.ping", json!({}))["version"],
        env!("CARGO_PKG_VERSION")
    );
}

#[test]
fn bytes_that_are_no_text_are_refused() {
    let runtime = Runtime::start();
    let mut stream = UnixStream::connect(runtime.socket()).unwrap();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    stream.write_all(b"\xff\xfe\x00garbage\n").unwrap();
    let mut buffer = [0; 4096];
    let read = stream.read(&mut buffer).unwrap();
    let reply: Value = serde_json::from_slice(&buffer[..read]).unwrap();
    assert_eq!(reply["error"]["code"], "INVALID_PARAMS");
}

#[test]
fn a_request_that_is_too_long_is_refused_by_name_and_skipped() {
    let runtime = Runtime::start();
    let mut client = Plain::socket(&runtime.socket());
    let long = format!(
        "{{\"id\":\"long\",\"method\":\"system.ping\",\"params\":{{\"x\":\"{}\"}}}}",
        "x".repeat(MAX_REQUEST_BYTES)
    );
    let (id, message) = refusal(&mut client, &long);
    assert_eq!(id, "long");
    assert!(message.contains("more than 1048576 bytes"), "{message}");
    client.ok("system.ping", json!({}));
}

#[test]
fn a_line_of_200_mb_costs_next_to_nothing() {
    let runtime = Runtime::start();
    let mut other = Plain::socket(&runtime.socket());
    other.ok("system.ping", json!({}));
    let before = runtime.resident_bytes();
    let mut stream = UnixStream::connect(runtime.socket()).unwrap();
    let piece = vec![b'x'; 1024 * 1024];
    let mut highest = 0;
    for sent in 0..200 {
        stream.write_all(&piece).unwrap();
        if sent % 20 == 0 {
            highest = highest.max(runtime.resident_bytes());
            other.ok("system.ping", json!({}));
        }
    }
    assert!(highest < before + 8 * MIB, "{before} grew to {highest}");
    stream.write_all(b"\n").unwrap();
    stream
        .write_all(request("1", "system.ping", &json!({})).as_bytes())
        .unwrap();
    stream.write_all(b"\n").unwrap();
    let mut client = Plain::Socket {
        reader: std::io::BufReader::new(stream.try_clone().unwrap()),
        stream,
    };
    let refused = client.receive().unwrap();
    assert_eq!(refused["error"]["code"], "INVALID_PARAMS");
    assert_eq!(client.receive().unwrap()["ok"], true);
}

#[test]
fn a_request_that_comes_too_slowly_ends_its_connection_and_no_other() {
    let runtime = Runtime::with(&Plan {
        flags: &["--request-deadline-sec", "0.5"],
        ..Plan::default()
    });
    let mut other = Plain::socket(&runtime.socket());
    let mut slow = Plain::socket(&runtime.socket());
    if let Plain::Socket { stream, .. } = &mut slow {
        stream.write_all(b"{\"id\":").unwrap();
    }
    let begun = Instant::now();
    let reply = slow.receive().unwrap();
    assert_eq!(reply["error"]["code"], "INVALID_PARAMS", "{reply}");
    assert_eq!(slow.receive(), None);
    assert!(begun.elapsed() < TEST_TIMEOUT);
    other.ok("system.ping", json!({}));
    // The same over HTTP: a head that does not end, a body that does not end.
    let address = runtime.http();
    let mut head = tcp(address);
    head.write_all(b"POST / HTTP/1.1\r\nHost: x\r\n").unwrap();
    let mut rest = Vec::new();
    let _ = head.read_to_end(&mut rest);
    let mut body = tcp(address);
    let whole = post_bytes(&address.to_string(), &[&bearer()], b"{\"id\":\"1\"}");
    body.write_all(&whole[..whole.len() - 3]).unwrap();
    assert_eq!(read_response(body).status, 408);
}

#[test]
fn a_truncated_request_is_answered_even_after_the_sending_half_is_closed() {
    let runtime = Runtime::start();
    let mut client = Plain::socket(&runtime.socket());
    if let Plain::Socket { stream, .. } = &mut client {
        stream
            .write_all(b"{\"id\":\"cut\",\"method\":\"system.ping\",\"par")
            .unwrap();
    }
    client.finish_sending();
    let reply = client.receive().unwrap();
    assert_eq!((&reply["id"], &reply["ok"]), (&json!("cut"), &json!(false)));
    assert_eq!(client.receive(), None);
}

#[test]
fn a_connection_waits_for_so_many_commands_and_no_more() {
    let runtime = Runtime::with(&Plan {
        flags: &["--max-sessions", "300"],
        ..Plan::default()
    });
    let mut client = Plain::socket(&runtime.socket());
    let session = client.session();
    let command = format!("sleep {}", unique_sleep());
    let params =
        json!({"session_id": session, "command": command, "exec_id": "held", "timeout_s": 0});
    client.ok("exec.stream", params);
    for _ in 0..MAX_IN_FLIGHT {
        client.send(&request("wait", "exec.wait", &json!({"exec_id": "held"})));
    }
    let refused = loop {
        let reply = client.receive().unwrap();
        if reply["ok"] == false {
            break reply;
        }
    };
    assert_eq!(refused["error"]["code"], "RESOURCE_PRESSURE", "{refused}");
    // What need not wait is still answered.
    assert_eq!(
        client.ok("system.ping", json!({}))["version"],
        env!("CARGO_PKG_VERSION")
    );
    // What ends the work has room of its own.
    client.send(&request("end", "exec.cancel", &json!({"exec_id": "held"})));
    let cancelled = reply_to(&mut client, "end");
    assert_eq!(cancelled["data"]["cancelled"], true, "{cancelled}");
}

/// The reply to this request, whatever comes before it.
fn reply_to(client: &mut Plain, id: &str) -> Value {
    loop {
        let reply = client.receive().unwrap();
        if reply["id"] == id {
            return reply;
        }
    }
}

#[test]
fn so_many_requests_that_end_something_wait_and_no_more() {
    let runtime = Runtime::with(&Plan {
        flags: &["--grace-sec", "600"],
        ..Plan::default()
    });
    let mut client = Plain::socket(&runtime.socket());
    let session = client.session();
    let sleep = unique_sleep();
    let params = json!({
        "session_id": session, "exec_id": "stubborn", "fresh": true, "timeout_s": 0,
        "command": format!("trap '' INT TERM; echo ready; while :; do sleep {sleep}; done"),
    });
    client.ok("exec.stream", params);
    until("the command is stubborn", || {
        let read = json!({"exec_id": "stubborn", "offset": 0});
        Plain::socket(&runtime.socket()).ok("exec.read", read)["data"] == "ready\n"
    });
    for number in 0..=MAX_ENDING_IN_FLIGHT {
        let id = format!("end {number}");
        client.send(&request(
            &id,
            "exec.cancel",
            &json!({"exec_id": "stubborn"}),
        ));
    }
    let refused = reply_to(&mut client, &format!("end {MAX_ENDING_IN_FLIGHT}"));
    assert_eq!(refused["error"]["code"], "RESOURCE_PRESSURE", "{refused}");
    for pid in processes_with(&sleep) {
        // The first may have taken the second with it.
        let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
    }
    let mut answered = 0;
    while answered < MAX_ENDING_IN_FLIGHT {
        let reply = client.receive().unwrap();
        if reply["id"]
            .as_str()
            .is_some_and(|id| id.starts_with("end "))
        {
            assert_eq!(reply["ok"], true, "{reply}");
            answered += 1;
        }
    }
}

#[test]
fn so_much_input_waits_and_no_more() {
    let runtime = Runtime::start();
    let mut client = Plain::socket(&runtime.socket());
    let session = client.session();
    let order = |name: &str| {
        json!({
            "session_id": session, "exec_id": name, "queue": true, "open_stdin": true,
            "timeout_s": 0, "argv": ["sleep", unique_sleep()],
        })
    };
    client.ok("exec.stream", order("first"));
    client.ok("exec.stream", order("second"));
    // What is not started takes nothing.
    let room = MAX_IN_FLIGHT_BYTES / MAX_REQUEST_BYTES;
    let data = "x".repeat(MAX_REQUEST_BYTES - 1024);
    for number in 0..=room {
        let write = json!({"exec_id": "second", "data": data, "offset": number * data.len()});
        client.send(&request(&format!("write {number}"), "exec.write", &write));
    }
    let refused = client.receive().unwrap();
    assert_eq!(refused["id"], format!("write {room}"), "{refused}");
    assert_eq!(refused["error"]["code"], "RESOURCE_PRESSURE", "{refused}");
    // A small request has room, and so has what makes room.
    let wait = json!({"exec_id": "second", "timeout_s": 0});
    assert_eq!(client.ok("exec.wait", wait)["state"], "queued");
    client.send(&request(
        "end",
        "exec.cancel",
        &json!({"exec_id": "second"}),
    ));
    assert_eq!(reply_to(&mut client, "end")["data"]["cancelled"], true);
    client.send(&request("end", "exec.cancel", &json!({"exec_id": "first"})));
    assert_eq!(reply_to(&mut client, "end")["data"]["cancelled"], true);
}

#[test]
fn there_are_so_many_connections_and_no_more() {
    let descriptors = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    if descriptors.is_some_and(|limit| limit < 2 * MAX_CONNECTIONS as u64) {
        println!("skipped: needs {} descriptors", 2 * MAX_CONNECTIONS);
        return;
    }
    let runtime = Runtime::start();
    let first = Plain::socket(&runtime.socket());
    let mut all: Vec<UnixStream> = Vec::new();
    let refused = loop {
        assert!(all.len() <= MAX_CONNECTIONS, "{} connections", all.len());
        let stream = UnixStream::connect(runtime.socket()).unwrap();
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        all.push(stream);
        // Only the one beyond the limit is spoken to unasked.
        if all.len() == MAX_CONNECTIONS {
            let mut text = String::new();
            all.last_mut().unwrap().read_to_string(&mut text).unwrap();
            break text;
        }
    };
    assert!(refused.contains("RESOURCE_PRESSURE"), "{refused}");
    drop(all);
    drop(first);
    until("room for another connection", || {
        let mut stream = UnixStream::connect(runtime.socket()).unwrap();
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        let line = format!("{}\n", request("1", "system.ping", &json!({})));
        let mut buffer = [0; 256];
        stream.write_all(line.as_bytes()).is_ok()
            && stream
                .read(&mut buffer)
                .is_ok_and(|read| buffer[..read].starts_with(b"{\"id\":\"1\""))
    });
}

#[test]
fn silent_http_connections_keep_nobody_out() {
    let runtime = Runtime::start();
    let address = runtime.http();
    // As many as this program may open, up to more than there is room for.
    let descriptors = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let many = descriptors.map_or(1100, |limit| limit.saturating_sub(100).min(1100));
    let silent: Vec<_> = (0..many).map(|_| tcp(address)).collect();
    let mut socket = Plain::socket(&runtime.socket());
    let session = socket.session();
    assert_eq!(socket.run(&session, "echo fine")["stdout"], "fine\n");
    let ping = request("1", "system.ping", &json!({}));
    let response = post(address, &[&bearer()], ping.as_bytes());
    assert_eq!(response.status, 200, "{response:?}");
    // Whoever shows the token late, but in time, is heard as well.
    let mut late = tcp(address);
    let head = post_bytes(&address.to_string(), &[&bearer()], ping.as_bytes());
    late.write_all(&head[..10]).unwrap();
    late.write_all(&head[10..]).unwrap();
    assert_eq!(read_response(late).status, 200);
    drop(silent);
}

#[test]
fn a_silent_http_connection_is_closed() {
    let runtime = Runtime::start();
    let mut silent = tcp(runtime.http());
    let begun = Instant::now();
    assert_eq!(silent.read(&mut [0; 16]).unwrap(), 0);
    assert!(begun.elapsed() >= HTTP_FIRST_BYTE_WAIT / 2);
}

#[test]
fn http_lets_in_only_whom_it_should() {
    let runtime = Runtime::start();
    let address = runtime.http();
    let ping = request("1", "system.ping", &json!({}));
    let good = post(address, &[&bearer()], ping.as_bytes());
    assert_eq!(
        (good.status, good.body.contains("\"ok\":true")),
        (200, true)
    );
    for (headers, status) in [
        (vec![], 401),
        (vec!["Authorization: Bearer wrong".to_owned()], 401),
        (vec![format!("{}x", bearer())], 401),
        (vec!["Authorization: Basic abc".to_owned()], 401),
        (
            vec![bearer(), "Origin: https://evil.example".to_owned()],
            403,
        ),
        (vec![bearer(), format!("Origin: http://{address}")], 403),
    ] {
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        let response = post(address, &headers, ping.as_bytes());
        assert_eq!(response.status, status, "{headers:?}");
        assert!(response.body.contains("AUTH_FAILED"), "{}", response.body);
        assert!(!response.head.to_lowercase().contains("access-control"));
    }
    let mut stream = tcp(address);
    stream
        .write_all(&post_bytes("evil.example", &[&bearer()], ping.as_bytes()))
        .unwrap();
    assert_eq!(read_response(stream).status, 403);
    // What is said twice may be checked in one place and meant in the other.
    let own_host = format!("Host: {address}");
    for twice in [bearer(), own_host, "Origin: null".to_owned()] {
        let headers = [bearer(), twice.clone(), twice];
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        let response = post(address, &headers, ping.as_bytes());
        assert_eq!(response.status, 400, "{headers:?}");
        assert!(response.body.contains("AUTH_FAILED"), "{}", response.body);
    }
    let localhost = format!("localhost:{}", address.port());
    let mut stream = tcp(address);
    stream
        .write_all(&post_bytes(&localhost, &[&bearer()], ping.as_bytes()))
        .unwrap();
    assert_eq!(read_response(stream).status, 200);
}

#[test]
fn http_refuses_what_is_no_request_at_a_bounded_cost() {
    let runtime = Runtime::start();
    let address = runtime.http();
    let before = runtime.resident_bytes();
    let raw = |bytes: &[u8]| {
        let mut stream = tcp(address);
        let _ = stream.write_all(bytes);
        read_response(stream).status
    };
    let head = format!(
        "Host: {address}\r\n{}\r\nConnection: close\r\n\r\n",
        bearer()
    );
    assert_eq!(raw(format!("GET / HTTP/1.1\r\n{head}").as_bytes()), 405);
    assert_eq!(
        raw(format!("POST /other HTTP/1.1\r\nContent-Length: 0\r\n{head}").as_bytes()),
        404
    );
    assert_eq!(raw(b"nonsense\r\n\r\n"), 400);
    let long = vec![b'x'; MAX_REQUEST_BYTES + 1];
    assert_eq!(
        raw(&post_bytes(&address.to_string(), &[&bearer()], &long)),
        413
    );
    let bad = post(address, &[&bearer()], b"{\"id\":\"1\",");
    assert_eq!(bad.status, 400);
    assert!(
        bad.body.contains("\"id\":\"1\"") && bad.body.contains("INVALID_PARAMS"),
        "{}",
        bad.body
    );
    assert!(runtime.resident_bytes() < before + 16 * MIB);
}

#[test]
fn http_is_not_started_without_a_token_or_in_the_open() {
    let directory = tempfile::tempdir().unwrap();
    let start = |address: &str, token: &str| {
        let mut command = crate::runtime::command(directory.path());
        command
            .env("TRL_AUTH_TOKEN", token)
            .args(["--http", address]);
        let output = command.output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let said = start("127.0.0.1:0", "");
    assert!(said.contains("TRL_AUTH_TOKEN"), "{said}");
    let said = start("0.0.0.0:0", "s3cret-token");
    assert!(
        said.contains("--insecure-non-loopback") && !said.contains("s3cret-token"),
        "{said}"
    );
}
