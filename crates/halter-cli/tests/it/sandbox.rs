//! `halter sandbox`, and what other commands say about it.

use crate::place::Place;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;

fn works(place: &Place) -> bool {
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
        println!("skipped: needs name spaces: {}", rungs[0]["reason"]);
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
    let status = place
        .halter(["sandbox", "status", "--json"])
        .expect(0)
        .json();
    assert_eq!(status["requested"], "off");
    assert!(status["active"].is_null());
    let config = place.home().join(".config/halter");
    fs::create_dir_all(&config).unwrap();
    let setting = "version = 1\n[policy]\nsandbox = \"require\"\n";
    fs::write(config.join("halter.toml"), setting).unwrap();
    let status = place
        .halter(["sandbox", "status", "--json"])
        .expect(0)
        .json();
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

/// A server on the loopback interface outside, which greets everybody.
fn greeter() -> u16 {
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
                      print(r.urlopen(sys.argv[1], timeout=20).read().decode())";
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
    let direct = format!("import socket; socket.create_connection((\"127.0.0.1\", {port}), 5)");
    let around = place.halter(["sandbox", "--", "python3", "-c", &direct]);
    assert!(around.expect(1).stderr.contains("Connection refused"));
}
