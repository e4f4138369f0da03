//! `halter mcp serve`, driven as hosts drive it.
//!
//! `HALTER_MCP_VENV` names a Python environment with the packages of
//! `tests/mcp/requirements.txt`, as `.ci/run` makes one.

use crate::mcp_late::step;
use crate::place::{PATIENCE, Place};
use crate::scenarios::stage::{ANTHROPIC, Stage};
use halter_mock::Scenario;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

/// A host in raw messages.
struct Host {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Host {
    fn new(place: &Place, arguments: &[&str]) -> Self {
        Self::with_model(place, arguments, Some("offline"))
    }

    fn with_model(place: &Place, arguments: &[&str], model: Option<&str>) -> Self {
        let mut command = place.command(["mcp", "serve"].iter().chain(arguments));
        command.envs(model.map(|model| ("HALTER_MODEL", model)));
        command.stdin(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut host = Self {
            stdin: child.stdin.take(),
            stdout: BufReader::new(child.stdout.take().unwrap()),
            child,
        };
        let info = json!({"name": "test", "version": "1"});
        let params =
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info});
        host.send(0, "initialize", params);
        let answer = host.next();
        assert_eq!(answer["result"]["serverInfo"]["name"], "halter", "{answer}");
        host
    }

    fn send(&mut self, id: u64, method: &str, params: Value) {
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        writeln!(self.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    /// Everything on standard output is the protocol.
    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?}"));
        assert_eq!(message["jsonrpc"], "2.0");
        message
    }

    /// The answer to a request, whatever is told before it.
    fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.next();
            if message["id"] == id {
                return message;
            }
        }
    }

    fn call(&mut self, id: u64, name: &str, arguments: Value) -> Value {
        self.send(
            id,
            "tools/call",
            json!({"name": name, "arguments": arguments}),
        );
        let answer = self.next();
        assert_eq!(answer["id"], id, "{answer}");
        answer["result"].clone()
    }

    /// Closes its end and waits for the program.
    fn leave(mut self) -> Option<i32> {
        drop(self.stdin.take());
        self.child.wait().unwrap().code()
    }
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("{result}"))
}

#[test]
fn a_task_is_done_and_its_session_goes_on() {
    let place = Place::new();
    place.write("notes.txt", "hello");
    let mut host = Host::new(&place, &[]);
    let done = host.call(1, "run_task", json!({"task": "Summarize this repository"}));
    assert_eq!(done["isError"], false, "{done}");
    assert!(text(&done).contains("offline model"), "{done}");
    let id = done["structuredContent"]["session_id"].clone();
    let more = host.call(
        2,
        "run_task",
        json!({"task": "Read notes.txt", "session_id": id}),
    );
    assert!(text(&more).contains("hello"), "{more}");
    assert_eq!(more["structuredContent"]["session_id"], id);
    let listed = host.call(3, "list_sessions", json!({}));
    assert_eq!(listed["structuredContent"]["sessions"][0]["session_id"], id);
    let wrong = host.call(
        4,
        "run_task",
        json!({"task": "x", "session_id": "ses_none"}),
    );
    assert!(text(&wrong).starts_with("session_not_found: "), "{wrong}");
    let wrong = host.call(5, "run_task", json!({"task": "  "}));
    assert!(text(&wrong).starts_with("invalid_arguments: "), "{wrong}");
    let wrong = host.call(
        6,
        "run_task",
        json!({"task": "x", "model": "nobody/nothing"}),
    );
    assert_eq!(wrong["isError"], true, "{wrong}");
    // The tools of the harness are for hosts that were let to them.
    let wrong = host.call(7, "read", json!({"path": "notes.txt"}));
    assert_eq!(wrong, Value::Null);
    assert_eq!(host.leave(), Some(0));
    let shown = place.halter(["sessions", "show", id.as_str().unwrap()]);
    assert_eq!(shown.code, Some(0), "{}", shown.stderr);
}

#[test]
fn own_tools_are_called_under_the_policy() {
    let place = Place::new();
    place.write("notes.txt", "hello");
    place.write("sub/empty", "");
    let mut host = Host::new(&place, &["--tools"]);
    let read = host.call(1, "read", json!({"path": "notes.txt"}));
    assert!(text(&read).contains("hello"), "{read}");
    // What one call does to the shell is there for the next.
    host.call(2, "shell", json!({"command": "cd sub"}));
    let shell = host.call(3, "shell", json!({"command": "pwd"}));
    let sub = std::fs::canonicalize(place.work().join("sub")).unwrap();
    assert!(
        text(&shell).contains(&format!("{}\\n", sub.display())),
        "{shell}"
    );
    // This host cannot ask anybody.
    let refused = host.call(
        4,
        "write",
        json!({"path": "/etc/halter-test", "content": "x"}),
    );
    assert_eq!(refused["isError"], true, "{refused}");
    assert!(text(&refused).starts_with("policy_denied: "), "{refused}");
    let wrong = host.call(5, "read", json!({"paths": 1}));
    assert_eq!(wrong["isError"], true, "{wrong}");
    assert_eq!(host.leave(), Some(0));
}

#[test]
fn deferred_tools_and_those_of_servers_are_listed_and_called_at_once() {
    let place = crate::mcp::with_fixture("waits_for_gate");
    let gate = place.root().join("gate");
    let config = place.root().join("gate.toml");
    let settings = format!(
        "version = 1\n[tools]\ndeferred = [\"glob\"]\n[mcp.servers.x.env]\n\
         MCP_FIXTURE = \"waits_for_gate\"\nMCP_FIXTURE_GATE = {gate:?}\n"
    );
    std::fs::write(&config, settings).unwrap();
    place.write("notes.txt", "hello");
    let config = config.to_str().unwrap();
    let arguments = ["--tools", "--allow", "mcp__x", "--config", config];
    let mut host = Host::new(&place, &arguments);
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    writeln!(host.stdin.as_mut().unwrap(), "{initialized}").unwrap();
    let names = |listed: &Value| -> Vec<String> {
        let tools = listed["result"]["tools"].as_array().unwrap().iter();
        tools
            .map(|it| it["name"].as_str().unwrap().to_owned())
            .collect()
    };
    host.send(1, "tools/list", json!({}));
    let listed = host.answer(1);
    assert!(names(&listed).contains(&"glob".to_owned()), "{listed}");
    assert!(!names(&listed).contains(&"mcp__x__echo".to_owned()));
    // A tool that models load first is there for hosts at once.
    let found = json!({"name": "glob", "arguments": {"pattern": "*.txt"}});
    host.send(2, "tools/call", found);
    let found = host.answer(2);
    assert_eq!(found["result"]["isError"], false, "{found}");
    assert!(text(&found["result"]).contains("notes.txt"), "{found}");
    // A server joins: hosts hear of it, and call its tools.
    std::fs::write(&gate, "").unwrap();
    let mut id = 3;
    loop {
        let changed = host.next();
        assert_eq!(changed["method"], "notifications/tools/list_changed");
        host.send(id, "tools/list", json!({}));
        let listed = host.answer(id);
        id += 1;
        if names(&listed).contains(&"mcp__x__echo".to_owned()) {
            break;
        }
    }
    let call = json!({"name": "mcp__x__echo", "arguments": {"text": "from afar"}});
    host.send(id, "tools/call", call);
    let called = host.answer(id);
    assert_eq!(text(&called["result"]), "from afar", "{called}");
    assert_eq!(host.leave(), Some(0));
}

#[test]
fn a_task_that_its_host_cancels_ends_with_all_it_started() {
    let steps = vec![step("shell", json!({"command": "sleep 3913"}))];
    let scenario = Scenario::new("Runs a command without end.", steps);
    let stage = Stage::with_scenario(&ANTHROPIC[0], "endless", scenario);
    stage.configure("[permissions]\nallow = [\"Bash\"]\n");
    let config = stage.place.root().join("service.toml");
    let arguments = ["--config", config.to_str().unwrap()];
    let mut host = Host::with_model(&stage.place, &arguments, None);
    let task = json!({"name": "run_task", "arguments": {"task": "please mock:endless"}});
    host.send(1, "tools/call", task);
    let running = || processes_in(&stage.place.work());
    crate::place::eventually("the command", || (running().len() == 1).then_some(()));
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    writeln!(host.stdin.as_mut().unwrap(), "{cancel}").unwrap();
    crate::place::eventually("the end of the command", || {
        running().is_empty().then_some(())
    });
    // The session is there, and its turn is over.
    host.send(
        2,
        "tools/call",
        json!({"name": "list_sessions", "arguments": {}}),
    );
    let listed = host.answer(2);
    let sessions = listed["result"]["structuredContent"]["sessions"].clone();
    assert_eq!(sessions.as_array().map(Vec::len), Some(1), "{listed}");
    assert_eq!(host.leave(), Some(0));
    stage.close();
}

#[test]
fn what_runs_for_a_host_ends_when_it_goes_or_cancels() {
    let place = Place::new();
    let started = |name: &str| {
        let mark = place.work().join(name);
        let began = Instant::now();
        while !mark.exists() {
            assert!(began.elapsed() < PATIENCE, "{name}");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    };
    let command = |name: &str| json!({"command": format!("touch {name} && sleep 3913")});
    let shell = |name: &str| json!({"name": "shell", "arguments": command(name)});
    let mut host = Host::new(&place, &["--tools", "--allow", "Bash"]);
    host.send(1, "tools/call", shell("first"));
    started("first");
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    writeln!(host.stdin.as_mut().unwrap(), "{cancel}").unwrap();
    // The next call waits for the end of the one before.
    let echo = host.call(2, "shell", json!({"command": "echo on"}));
    assert!(text(&echo).contains("on"), "{echo}");
    assert_eq!(processes_in(&place.work()), Vec::<String>::new());
    host.send(3, "tools/call", shell("second"));
    started("second");
    assert_eq!(host.leave(), Some(0));
    assert_eq!(processes_in(&place.work()), Vec::<String>::new());
}

/// The `sleep` commands whose directory is this one.
fn processes_in(directory: &Path) -> Vec<String> {
    let directory = std::fs::canonicalize(directory).unwrap();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let process = entry.path();
        let inside = std::fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd == directory);
        let line = std::fs::read(process.join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if inside && line.starts_with("sleep 3913") {
            found.push(line);
        }
    }
    found
}

#[test]
fn one_session_works_on_one_task() {
    let place = Place::new();
    let mut host = Host::new(&place, &[]);
    let first = host.call(1, "run_task", json!({"task": "Summarize this repository"}));
    let id = &first["structuredContent"]["session_id"];
    for request in 2..4 {
        let arguments = json!({"task": "Summarize this repository", "session_id": id});
        let params = json!({"name": "run_task", "arguments": arguments});
        host.send(request, "tools/call", params);
    }
    let answers = [host.next(), host.next()];
    let refused = answers.iter().filter(|it| it["result"]["isError"] == true);
    for refused in refused {
        assert!(
            text(&refused["result"]).starts_with("session_busy: "),
            "{refused}"
        );
    }
    assert!(
        answers.iter().any(|it| it["result"]["isError"] == false),
        "{answers:?}"
    );
    assert_eq!(host.leave(), Some(0));
}

#[test]
fn a_signal_ends_the_server() {
    let place = Place::new();
    let host = Host::new(&place, &[]);
    let id = host.child.id().to_string();
    let killed = Command::new("kill").args(["-TERM", &id]).status().unwrap();
    assert!(killed.success());
    let mut child = host.child;
    assert_eq!(child.wait().unwrap().code(), Some(143));
}

/// The interpreter of the environment that is named.
fn python() -> Option<PathBuf> {
    let Some(venv) = std::env::var_os("HALTER_MCP_VENV") else {
        // Not through a macro, whose output a passing test would swallow.
        let mut errors = std::io::stderr();
        writeln!(errors, "skipped: needs HALTER_MCP_VENV, which .ci/run sets").unwrap();
        return None;
    };
    Some(Path::new(&venv).join("bin/python"))
}

#[test]
fn the_official_python_client_drives_it_over_stdio() {
    let Some(python) = python() else { return };
    let place = Place::new();
    place.write("notes.txt", "hello");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp/host.py");
    for mode in ["legacy", "auto", "2026-07-28"] {
        let ran = Command::new(&python)
            .arg(&script)
            .args([mode, env!("CARGO_BIN_EXE_halter")])
            .current_dir(place.work())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", place.home())
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{mode}: {errors}");
    }
}

/// A server over HTTP.
struct HttpServer {
    child: Child,
    url: String,
    token: String,
}

impl HttpServer {
    fn new(place: &Place, arguments: &[&str]) -> Self {
        let serve = ["mcp", "serve", "--http", "127.0.0.1:0", "--json"];
        let mut command = place.command(serve.iter().chain(arguments));
        let mut child = command.env("HALTER_MODEL", "offline").spawn().unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        let told: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?}"));
        let token = std::fs::read_to_string(told["token_file"].as_str().unwrap()).unwrap();
        Self {
            child,
            url: told["url"].as_str().unwrap().to_owned(),
            token: token.trim().to_owned(),
        }
    }

    fn stop(mut self) -> Option<i32> {
        let id = self.child.id().to_string();
        let killed = Command::new("kill").args(["-TERM", &id]).status().unwrap();
        assert!(killed.success());
        self.child.wait().unwrap().code()
    }
}

#[test]
fn the_official_python_client_drives_it_over_http() {
    let Some(python) = python() else { return };
    let place = Place::new();
    place.write("notes.txt", "hello");
    let server = HttpServer::new(&place, &["--tools"]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp/host.py");
    for mode in ["legacy", "auto", "2026-07-28"] {
        let ran = Command::new(&python)
            .arg(&script)
            .args([mode, &server.url, &server.token])
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{mode}: {errors}");
    }
    assert_eq!(server.stop(), Some(143));
    assert_eq!(processes_in(&place.work()), Vec::<String>::new());
}

#[test]
fn an_address_that_others_reach_needs_a_name() {
    let place = Place::new();
    let refused = place.halter(["mcp", "serve", "--http", "0.0.0.0:0"]);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("--allowed-host"),
        "{}",
        refused.stderr
    );
}
