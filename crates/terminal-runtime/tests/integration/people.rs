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
use crate::runtime::{Plan, Runtime, command, processes_with, unique_sleep, until};

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

/// What a client in this directory says; nothing but its directory tells it
/// which runtime is meant.
fn found(runtime: &Runtime, words: &[&str]) -> (Option<i32>, String, String) {
    let mut command = command(runtime.directory.path());
    command.env_remove("TRL_AUTH_TOKEN");
    said(&command.args(words).output().unwrap())
}

#[test]
fn a_client_reads_no_env_file() {
    let runtime = Runtime::start();
    let file = runtime.path(".env");
    let stranger = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    stranger.set_nonblocking(true).unwrap();
    let address = stranger.local_addr().unwrap();
    let redirecting = format!(
        "TRL_HTTP_ADDR={address}\nTRL_AUTH_TOKEN_FILE={}\n",
        file.display()
    );
    let hello = (Some(0), "hello\n".to_owned(), String::new());
    for text in [
        &redirecting,
        "TRL_SOCKET_PATH=/nowhere\n",
        "no variable\nSECRET='open\n",
    ] {
        std::fs::write(&file, text).unwrap();
        assert_eq!(found(&runtime, &["exec", "echo hello"]), hello, "{text}");
        for words in [&["list"][..], &["ping"], &["ps"], &["describe"]] {
            let (code, _, error) = found(&runtime, words);
            assert_eq!((code, error.as_str()), (Some(0), ""), "{words:?}");
        }
    }
    assert!(stranger.accept().is_err(), "somebody came");
    // The daemon says what it does not understand.
    let (code, _, error) = found(&runtime, &["--stdin"]);
    assert_eq!(code, Some(2), "{error}");
    assert!(
        error.contains(".env") && !error.contains("SECRET"),
        "{error}"
    );
}

#[test]
fn a_daemon_takes_settings_only_from_a_file_that_was_named() {
    let directory = tempfile::tempdir().unwrap();
    let text = "TRL_HTTP_ADDR=0.0.0.0:0\nTRL_INSECURE_NON_LOOPBACK=1\nTRL_AUTH_TOKEN=x\n\
                TRL_DOCKER_PROGRAM=/evil\nTRL_MAX_SESSIONS=3\nFOR_COMMANDS=yes\n";
    std::fs::write(directory.path().join(".env"), text).unwrap();
    let described = |client: &mut Plain| {
        let described = client.ok("runtime.describe", json!({}));
        let sessions = described["limits"]["max_sessions"].clone();
        let addresses = described["transports"].as_array().unwrap().iter();
        let addresses = addresses.filter_map(|one| one["address"].as_str().map(str::to_owned));
        (sessions, addresses.collect::<Vec<_>>())
    };
    let runtime = Runtime::within(directory, &Plan::default());
    let mut client = Plain::socket(&runtime.socket());
    let (sessions, addresses) = described(&mut client);
    assert_eq!(sessions, 64);
    assert!(
        addresses.iter().all(|one| one.starts_with("127.0.0.1:")),
        "{addresses:?}"
    );
    let session = client.session();
    assert_eq!(
        client.run(&session, "echo $FOR_COMMANDS")["stdout"],
        "yes\n"
    );
    assert!(
        runtime.log().contains("TRL_DOCKER_PROGRAM"),
        "{}",
        runtime.log()
    );

    // A flag wins over the environment, and that over the file.
    let directory = tempfile::tempdir().unwrap();
    let text = "TRL_MAX_SESSIONS=3\nTRL_SESSION_MAX_COMMANDS=3\nTRL_MAX_IDLE_SEC=3\n";
    std::fs::write(directory.path().join("chosen"), text).unwrap();
    let runtime = Runtime::within(
        directory,
        &Plan {
            flags: &["--env-file", "chosen", "--max-sessions", "1"],
            variables: &[
                ("TRL_SESSION_MAX_COMMANDS", "2"),
                ("TRL_SESSION_TTL_SEC", ""),
            ],
            ..Plan::default()
        },
    );
    let mut client = Plain::socket(&runtime.socket());
    let limits = client.ok("runtime.describe", json!({}))["limits"].clone();
    assert_eq!(
        [
            &limits["max_sessions"],
            &limits["session_max_commands"],
            &limits["max_idle_s"]
        ],
        [&json!(1), &json!(2), &json!(3)]
    );
    assert_eq!(limits["session_ttl_s"], 86400, "an empty variable is none");
}

#[test]
fn a_client_tells_nothing_to_a_stranger() {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::process::CommandExt as _;
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: needs to be root");
    }
    let directory = tempfile::tempdir().unwrap();
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(directory.path(), open).unwrap();
    let socket = directory.path().join("trl.sock");
    let mut stranger = command(directory.path());
    let mut stranger = stranger
        .arg("--socket")
        .arg(&socket)
        .env("TRL_DISCOVERY_DIR", "none")
        .stderr(Stdio::null())
        .uid(65534)
        .gid(65534)
        .spawn()
        .unwrap();
    until("the socket", || socket.exists());
    let mut client = command(directory.path());
    let output = client
        .arg("--socket")
        .arg(&socket)
        .args(["exec", "echo secret"])
        .output();
    let (code, shown, error) = said(&output.unwrap());
    assert_eq!((code, shown.as_str()), (Some(125), ""), "{error}");
    assert!(
        error.contains("65534") && error.contains("nothing was sent"),
        "{error}"
    );
    let pid = Pid::from_child(&stranger);
    kill_process(pid, Signal::TERM).unwrap();
    stranger.wait().unwrap();
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
