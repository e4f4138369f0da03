//! `halter mock`: the scripted service as a command.

use crate::place::{Place, finish};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::Child;

const MINE: &str = "[scenarios.mine]\ndescription = \"Greets.\"\n\
                    steps = [{ parts = [{ type = \"text\", text = \"Hello from a file.\" }] }]\n";

/// Starts the service and returns the first line it prints.
fn started(place: &Place, arguments: &[&str]) -> (Child, String) {
    let arguments = ["mock", "serve"].iter().chain(arguments);
    let mut child = place.command(arguments).spawn().unwrap();
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    (child, line.trim_end().to_owned())
}

fn stop(child: Child, signal: Signal) {
    let pid = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
    finish(child).expect(0);
}

fn ask(place: &Place, base_url: &str, task: &str) -> String {
    let config = format!(
        "version = 1\n[models.default]\nprovider = \"anthropic\"\nmodel = \"claude-sonnet-4-5\"\n\
         [providers.anthropic]\nbase_url = \"{base_url}/anthropic\"\napi_key = \"any\"\n"
    );
    place.write("anthropic.toml", &config);
    let ran = place.halter(["--config", "anthropic.toml", "run", "--text", task]);
    ran.expect(0).stdout.trim_end().to_owned()
}

#[test]
fn a_served_scenario_answers_until_a_signal_stops_it() {
    let place = Place::new();
    for signal in [Signal::INT, Signal::TERM] {
        let (child, base_url) = started(&place, &[]);
        let answer = ask(&place, &base_url, "mock:streaming_text");
        assert_eq!(answer, "Mock streaming says hello.");
        stop(child, signal);
    }
}

#[test]
fn scripts_and_the_default_come_from_the_command_line() {
    let place = Place::new();
    place.write("mine.toml", MINE);
    let arguments = ["--scenarios", "mine.toml", "--default", "mine", "--json"];
    let (child, line) = started(&place, &arguments);
    let told: Value = serde_json::from_str(&line).unwrap();
    let answer = ask(&place, told["base_url"].as_str().unwrap(), "hello");
    assert_eq!(answer, "Hello from a file.");
    stop(child, Signal::INT);
}

#[test]
fn unknown_fields_are_taken_where_the_command_line_says_so() {
    let place = Place::new();
    let body = r#"{"model":"m","novelty":1,"messages":[{"role":"user","content":"hi"}]}"#;
    for (arguments, status) in [(&[][..], "400"), (&["--lenient"][..], "200")] {
        let (child, base_url) = started(&place, arguments);
        let mut stream = TcpStream::connect(base_url.trim_start_matches("http://")).unwrap();
        write!(
            stream,
            "POST /v1/chat/completions HTTP/1.1\r\nHost: mock\r\nConnection: close\r\n\
             Authorization: Bearer any\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        assert_eq!(line.split(' ').nth(1), Some(status), "{arguments:?}");
        stop(child, Signal::INT);
    }
}

#[test]
fn what_cannot_be_served_is_refused() {
    let place = Place::new();
    place.write("broken.toml", "scenarios = 7\n");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    for (arguments, exit, code) in [
        (["--address", "0.0.0.0:0"], 2, "mock_not_loopback"),
        (["--address", taken.as_str()], 1, "mock_bind"),
        (["--scenarios", "broken.toml"], 2, "mock_script"),
        (["--scenarios", "none.toml"], 2, "mock_read"),
        (["--default", "nobody"], 2, "mock_unknown_scenario"),
    ] {
        let all = ["mock", "serve", "--json"].iter().chain(&arguments);
        let ran = place.halter(all);
        assert_eq!(ran.expect(exit).json()["error"]["code"], code);
    }
    place
        .halter(["mock", "serve", "--address", "nowhere"])
        .expect(2);
}

#[test]
fn the_built_in_scenarios_are_listed() {
    let place = Place::new();
    let text = place.halter(["mock", "scenarios"]);
    assert!(text.expect(0).stdout.contains("streaming_text  "));
    let listed = place.halter(["mock", "scenarios", "--json"]);
    let listed = listed.expect(0).json();
    let listed = listed.as_array().unwrap();
    assert_eq!(listed.len(), text.stdout.lines().count());
    let one = listed.iter().find(|entry| entry["name"] == "overloaded");
    assert_eq!(one.unwrap()["description"], "529, always.");
}
