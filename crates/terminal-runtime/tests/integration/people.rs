//! What a person at a terminal sees.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{ChildStdout, Command, Output, Stdio};

use halter_exec::{Terminal, TerminalSize};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::gate::Gate;
use crate::plain::Plain;
use crate::restart::restarted;
use crate::runtime::{Runtime, command, processes_with, unique_sleep, until};

fn client(runtime: &Runtime) -> Command {
    let mut command = command(runtime.directory.path());
    command.arg("--socket").arg(runtime.socket());
    command
}

fn said(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

/// Waits for the first bytes of an output.
fn expect_first(output: &mut ChildStdout, expected: &[u8]) {
    let mut first = vec![0; expected.len()];
    output.read_exact(&mut first).unwrap();
    assert_eq!(first, expected);
}

#[test]
fn a_broken_env_file_stops_the_daemon_and_no_client() {
    let runtime = Runtime::start();
    let file = runtime.path(".env");
    std::fs::write(&file, "this is no variable\nSECRET='open\n").unwrap();
    let found = |words: &[&str]| {
        let mut command = command(runtime.directory.path());
        said(&command.args(words).output().unwrap())
    };
    let hello = (Some(0), "hello\n".to_owned(), String::new());
    assert_eq!(found(&["exec", "echo hello"]), hello);
    for words in [&["list"][..], &["ping"], &["ps"], &["describe"]] {
        let (code, _, error) = found(words);
        assert_eq!((code, error.as_str()), (Some(0), ""), "{words:?}");
    }
    // What could have said which runtime is meant is worth one line.
    std::fs::write(&file, "TRL_SOCKET_PATH='/open\n").unwrap();
    let (code, output, error) = found(&["exec", "echo hello"]);
    assert_eq!((code, output.as_str()), (Some(0), "hello\n"), "{error}");
    assert!(
        error.starts_with("warning: ") && error.contains(".env") && error.contains("line 1"),
        "{error}"
    );
    assert_eq!(error.lines().count(), 1, "{error}");
    let (code, _, error) = found(&["--stdin"]);
    assert_eq!(code, Some(2), "{error}");
}

#[test]
fn exec_shows_output_and_ends_with_the_commands_code() {
    let runtime = Runtime::start();
    let exec = |words: &[&str]| said(&client(&runtime).arg("exec").args(words).output().unwrap());
    assert_eq!(
        exec(&["echo out; echo err >&2; exit 3"]),
        (Some(3), "out\n".to_owned(), "err\n".to_owned())
    );
    assert_eq!(
        exec(&["printf", "%s\n", "a b"]),
        (Some(0), "a b\n".to_owned(), String::new())
    );
    assert_eq!(exec(&["--env", "A=b c", "echo $A"]).1, "b c\n");
    assert_eq!(exec(&["--cwd", "/usr", "pwd"]).1, "/usr\n");
    let here = runtime.directory.path().canonicalize().unwrap();
    assert_eq!(exec(&["pwd -P"]).1, format!("{}\n", here.display()));
    assert_eq!(exec(&["--timeout", "0.2", "sleep 9"]).0, Some(124));
    let (code, _, error) = exec(&["no-such-program", "x"]);
    assert_eq!(code, Some(127), "{error}");
    assert!(
        error.starts_with("error: ") && error.contains("no-such-program"),
        "{error}"
    );
    // Its sessions are gone with it.
    let mut plain = Plain::socket(&runtime.socket());
    assert_eq!(plain.ok("session.list", json!({}))["sessions"], json!([]));
    let session = plain.session();
    plain.run(&session, "cd /usr");
    assert_eq!(exec(&["--session", &session, "pwd"]).1, "/usr\n");
}

#[test]
fn an_interrupt_cancels_the_command() {
    let runtime = Runtime::start();
    let sleep = unique_sleep();
    let mut child = client(&runtime)
        .args(["exec", &format!("echo on; sleep {sleep}")])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    expect_first(child.stdout.as_mut().unwrap(), b"on\n");
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    until("the end of the sleep", || {
        processes_with(&format!("sleep\0{sleep}")).is_empty()
    });
}

#[test]
fn attach_finds_the_command_that_runs_and_shows_it_from_its_beginning() {
    let runtime = Runtime::start();
    let nothing = client(&runtime).arg("attach").output().unwrap();
    assert_eq!(nothing.status.code(), Some(2));
    assert!(said(&nothing).2.contains("no command runs"));
    let mut plain = Plain::socket(&runtime.socket());
    let session = plain.session();
    let gate = Gate::at(runtime.path("gate"));
    let line = format!("echo one; {gate}; echo two; exit 5");
    plain.ok(
        "exec.stream",
        json!({"session_id": session, "command": line, "exec_id": "seen"}),
    );
    let mut child = client(&runtime)
        .arg("attach")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    expect_first(child.stdout.as_mut().unwrap(), b"one\n");
    gate.open();
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), output.stdout.as_slice()),
        (Some(5), &b"two\n"[..])
    );
    let again = client(&runtime).args(["attach", "seen"]).output().unwrap();
    assert_eq!(
        said(&again),
        (Some(5), "one\ntwo\n".to_owned(), String::new())
    );
    let listed = client(&runtime).arg("ps").output().unwrap();
    assert!(said(&listed).1.contains("seen"));
}

#[test]
fn a_runtime_that_is_not_there_is_said_clearly() {
    let directory = tempfile::tempdir().unwrap();
    let ping = |socket: &str| {
        let mut command = command(directory.path());
        said(&command.args(["--socket", socket, "ping"]).output().unwrap())
    };
    let (code, _, error) = ping("missing.sock");
    assert_eq!(code, Some(125));
    assert!(
        error.contains("no runtime at missing.sock: start one"),
        "{error}"
    );
    drop(std::os::unix::net::UnixListener::bind(directory.path().join("stale.sock")).unwrap());
    let (_, _, error) = ping("stale.sock");
    assert!(
        error.contains("has died and left its socket behind"),
        "{error}"
    );
}

#[test]
fn exec_gives_up_on_a_runtime_that_does_not_come_back() {
    let mut runtime = Runtime::start();
    let mut child = client(&runtime)
        .args(["exec", &format!("echo on; sleep {}", unique_sleep())])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    expect_first(child.stdout.as_mut().unwrap(), b"on\n");
    runtime.signal(Signal::KILL);
    runtime.wait();
    until("the end of the client", || {
        child.try_wait().unwrap().is_some()
    });
    let (code, _, error) = said(&child.wait_with_output().unwrap());
    assert_eq!(code, Some(125), "{error}");
    assert!(error.contains("has died and left its socket"), "{error}");
    // What was running is ended by the next one.
    drop(restarted(runtime));
}

#[test]
fn help_is_enough_to_use_it() {
    let directory = tempfile::tempdir().unwrap();
    let help = |arguments: &[&str]| {
        let output = command(directory.path()).args(arguments).output().unwrap();
        assert!(output.status.success());
        said(&output).1
    };
    let text = help(&["--help"]);
    for part in [
        "--socket",
        "--http",
        "--stdin",
        "TRL_AUTH_TOKEN",
        "exec 'make test'",
        "attach",
        "SIGTERM",
        "socat",
    ] {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
    assert!(help(&["exec", "--help"]).contains("Ctrl-C"));
    assert!(help(&["--version"]).contains(env!("CARGO_PKG_VERSION")));
    let wrong = command(directory.path())
        .arg("--no-such-flag")
        .output()
        .unwrap();
    assert_eq!(wrong.status.code(), Some(2));
}

/// A terminal: the side of the person, and the side of programs.
fn terminal() -> (File, OwnedFd) {
    let (person, program) = Terminal::open(TerminalSize::default()).unwrap();
    (OwnedFd::from(person).into(), program)
}

/// What is shown on a terminal until no program has it any more.
fn shown(mut person: File) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = Vec::new();
        let mut buffer = [0; 4096];
        while let Ok(read @ 1..) = person.read(&mut buffer) {
            text.extend_from_slice(&buffer[..read]);
        }
        String::from_utf8(text).unwrap()
    })
}

#[test]
fn on_a_terminal_a_status_line_says_what_goes_on() {
    let runtime = Runtime::start();
    let (person, program) = terminal();
    let output = client(&runtime)
        .args([
            "exec",
            "--exec-id",
            "watched",
            "echo on; sleep 1.3; echo off",
        ])
        .stdout(Stdio::piped())
        .stderr(program)
        .output()
        .unwrap();
    assert_eq!(
        (output.status.code(), output.stdout.as_slice()),
        (Some(0), &b"on\noff\n"[..])
    );
    let seen = shown(person).join().unwrap();
    assert!(seen.contains("[watched runs for 1."), "{seen}");
    assert!(seen.contains("Ctrl-C cancels it]\r\u{1b}[K"), "{seen}");
    assert!(
        seen.ends_with("s]\r\n") && seen.contains("[exit code 0 after 1."),
        "{seen}"
    );
}

#[test]
fn a_command_can_be_given_this_terminal() {
    let runtime = Runtime::start();
    let (mut person, program) = terminal();
    let command = "test -t 0 && test -t 1 && echo tty; read word; echo got $word; exit 7";
    let mut child = client(&runtime)
        .args(["exec", "--tty", command])
        .stdin(program.try_clone().unwrap())
        .stdout(program.try_clone().unwrap())
        .stderr(program)
        .spawn()
        .unwrap();
    person.write_all(b"hello\r").unwrap();
    let seen = shown(person.try_clone().unwrap());
    assert_eq!(child.wait().unwrap().code(), Some(7));
    let seen = seen.join().unwrap();
    assert!(
        seen.contains("tty\r\n") && seen.contains("got hello\r\n"),
        "{seen}"
    );
}

#[test]
fn input_is_passed_on_where_that_is_asked_for() {
    let runtime = Runtime::start();
    let mut child = client(&runtime)
        .args(["exec", "--input", "cat; echo over"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"a\xffb\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), output.stdout.as_slice()),
        (Some(0), &b"a\xffb\nover\n"[..])
    );
}
