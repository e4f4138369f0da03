//! The seed's integration tests, over every transport.

use std::collections::BTreeSet;

use rustix::process::Signal;
use serde_json::json;

use crate::gate::Gate;
use crate::plain::{Plain, over_every_transport, request};
use crate::runtime::{Plan, Runtime, processes_with, unique_sleep, until};

#[test]
fn a_session_is_created_used_and_destroyed() {
    over_every_transport(|client, _| {
        let ping = client.ok("system.ping", json!({}));
        assert_eq!(ping["version"], env!("CARGO_PKG_VERSION"));
        assert!(ping["uptime_s"].is_u64());
        let created = client.ok(
            "session.create",
            json!({"shell": "/bin/bash", "name": "mine"}),
        );
        let session = created["session_id"].as_str().unwrap().to_owned();
        assert!(
            session.starts_with("s-") && session.len() == 10,
            "{session}"
        );
        assert_eq!(created["state"], "idle");
        let result = client.run(&session, "echo hello; echo oops >&2; exit 3");
        assert_eq!(result["stdout"], "hello\n");
        assert_eq!(result["stderr"], "oops\n");
        assert_eq!(result["exit_code"], 3);
        assert_eq!(result["timed_out"], false);
        assert!(result["duration_ms"].is_u64());
        let info = client.ok("session.info", json!({"session_id": session}));
        assert_eq!(
            (&info["name"], &info["command_count"]),
            (&json!("mine"), &json!(1))
        );
        let listed = client.ok("session.list", json!({}));
        assert_eq!(listed["sessions"][0]["session_id"], session.as_str());
        let destroyed = client.ok("session.destroy", json!({"session_id": session}));
        assert_eq!(destroyed["state"], "terminated");
        let listed = client.ok("session.list", json!({}));
        assert_eq!(listed["sessions"], json!([]));
        assert_eq!(
            client.ok("system.stats", json!({}))["total_commands_run"],
            1
        );
    });
}

#[test]
fn a_command_that_takes_too_long_is_killed_and_its_output_kept() {
    over_every_transport(|client, _| {
        let session = client.session();
        let sleep = unique_sleep();
        let command = format!("echo before; sleep {sleep}; echo after");
        let params = json!({"session_id": session, "command": command, "timeout_s": 2});
        let result = client.ok("exec.run", params);
        assert_eq!(result["timed_out"], true, "{result}");
        assert_eq!(result["stdout"], "before\n");
        assert_ne!(result["exit_code"], 0);
        until("the end of the sleep", || processes_with(&sleep).is_empty());
        assert_eq!(client.run(&session, "echo alive")["stdout"], "alive\n");
    });
}

#[test]
fn a_sessions_state_survives_from_command_to_command() {
    over_every_transport(|client, _| {
        let session = client.session();
        client.run(
            &session,
            "cd /usr; export SEEN=yes; shout() { echo \"$1!\"; }",
        );
        let result = client.run(&session, "pwd; echo $SEEN; shout hey");
        assert_eq!(result["stdout"], "/usr\nyes\nhey!\n");
        let fresh = json!({"session_id": session, "command": "echo [$SEEN]", "fresh": true});
        assert_eq!(client.ok("exec.run", fresh)["stdout"], "[]\n");
        let argv = json!({"session_id": session, "argv": ["echo", "$SEEN", "a b"]});
        assert_eq!(client.ok("exec.run", argv)["stdout"], "$SEEN a b\n");
        let exit = client.run(&session, "export LATE=1; exit 9");
        assert_eq!(exit["exit_code"], 9);
        assert_eq!(client.run(&session, "echo $LATE")["stdout"], "1\n");
    });
}

#[test]
fn input_reaches_the_command() {
    over_every_transport(|client, _| {
        let session = client.session();
        let params = json!({"session_id": session, "command": "cat; echo .", "stdin": "one\ntwo"});
        assert_eq!(client.ok("exec.run", params)["stdout"], "one\ntwo.\n");
        let result = client.run(&session, "cat; echo empty");
        assert_eq!(result["stdout"], "empty\n");
    });
}

#[test]
fn many_sessions_work_at_the_same_time() {
    let runtime = Runtime::start();
    let mut all = Plain::socket(&runtime.socket());
    let sessions: BTreeSet<String> = (0..12).map(|_| all.session()).collect();
    assert_eq!(sessions.len(), 12);
    let gate = Gate::at(runtime.path("go"));
    // All of them wait for one file: they end only if they run together.
    let command = format!("{gate}; pwd");
    for session in &sessions {
        let params = json!({"session_id": session, "command": command});
        all.send(&request(session, "exec.run", &params));
    }
    until("the start of all commands", || {
        let mut other = Plain::socket(&runtime.socket());
        other.ok("system.stats", json!({}))["running_commands"] == 12
    });
    gate.open();
    let mut answered = BTreeSet::new();
    for _ in &sessions {
        let reply = all.receive().unwrap();
        assert_eq!(reply["data"]["stdout"], "/tmp\n", "{reply}");
        answered.insert(reply["id"].as_str().unwrap().to_owned());
    }
    assert_eq!(answered, sessions);
}

#[test]
fn mistakes_get_the_right_code() {
    over_every_transport(|client, _| {
        let session = client.session();
        for (method, params, code) in [
            (
                "session.info",
                json!({"session_id": "s-00000000"}),
                "SESSION_NOT_FOUND",
            ),
            (
                "session.info",
                json!({"session_id": "../../etc"}),
                "SESSION_NOT_FOUND",
            ),
            ("session.info", json!({}), "INVALID_PARAMS"),
            (
                "session.destroy",
                json!({"session_id": "s-00000000"}),
                "SESSION_NOT_FOUND",
            ),
            (
                "exec.run",
                json!({"session_id": "s-00000000", "command": "true"}),
                "SESSION_NOT_FOUND",
            ),
            ("exec.run", json!({"session_id": session}), "INVALID_PARAMS"),
            (
                "exec.run",
                json!({"session_id": session, "command": "a", "argv": ["b"]}),
                "INVALID_PARAMS",
            ),
            (
                "exec.run",
                json!({"session_id": session, "argv": []}),
                "INVALID_PARAMS",
            ),
            (
                "exec.run",
                json!({"session_id": session, "command": "a", "timeout_s": -1}),
                "INVALID_PARAMS",
            ),
            (
                "exec.run",
                json!({"session_id": session, "command": "a", "exec_id": "../x"}),
                "INVALID_PARAMS",
            ),
            (
                "exec.run",
                json!({"session_id": session, "argv": ["no-such-program-at-all"]}),
                "COMMAND_FAILED",
            ),
            ("exec.read", json!({"exec_id": "nobody"}), "EXEC_NOT_FOUND"),
            ("exec.cancel", json!({}), "INVALID_PARAMS"),
            (
                "exec.signal",
                json!({"exec_id": "x", "signal": "SIGNOTHING"}),
                "INVALID_PARAMS",
            ),
            ("exec.fly", json!({}), "INVALID_PARAMS"),
            (
                "session.create",
                json!({"working_dir": "relative"}),
                "INVALID_PARAMS",
            ),
            (
                "session.create",
                json!({"env": {"A=B": "x"}}),
                "INVALID_PARAMS",
            ),
        ] {
            assert_eq!(
                client.refused(method, params.clone()),
                code,
                "{method} {params}"
            );
        }
        assert_eq!(client.run(&session, "echo fine")["stdout"], "fine\n");
    });
}

#[test]
fn missing_shells_programs_and_directories_are_named() {
    let runtime = Runtime::start();
    let mut client = Plain::socket(&runtime.socket());
    let mut failure = |create: serde_json::Value, run: serde_json::Value| {
        let created = client.ok("session.create", create);
        let mut params = run;
        params["session_id"] = created["session_id"].clone();
        let reply = client.call("exec.run", params);
        assert_eq!(reply["error"]["code"], "COMMAND_FAILED", "{reply}");
        let text = |key: &str| reply["error"][key].as_str().unwrap().to_owned();
        (text("reason"), text("message"))
    };
    for run in [
        json!({"command": "true"}),
        json!({"command": "true", "fresh": true}),
    ] {
        let (reason, message) = failure(json!({"shell": "/no/such/zsh"}), run);
        assert_eq!(reason, "program_not_found");
        assert!(message.contains("/no/such/zsh"), "{message}");
    }
    let (reason, message) = failure(json!({}), json!({"argv": ["no-such-program"]}));
    assert_eq!(reason, "program_not_found");
    assert!(message.contains("no-such-program"), "{message}");
    let gone = runtime.path("gone");
    std::fs::create_dir(&gone).unwrap();
    let create = json!({"working_dir": gone});
    std::fs::remove_dir(&gone).unwrap();
    for run in [json!({"command": "true"}), json!({"argv": ["true"]})] {
        let (reason, message) = failure(create.clone(), run);
        assert_eq!(reason, "working_directory_gone");
        assert!(message.contains("gone"), "{message}");
    }
}

#[test]
fn a_busy_session_says_so_unless_the_command_may_wait() {
    let runtime = Runtime::start();
    let mut client = Plain::socket(&runtime.socket());
    let session = client.session();
    let gate = Gate::at(runtime.path("gate"));
    let wait = format!("{gate}; echo first");
    client.send(&request(
        "first",
        "exec.run",
        &json!({"session_id": session, "command": wait}),
    ));
    let mut other = Plain::socket(&runtime.socket());
    until("the start of the first command", || {
        other.ok("session.info", json!({"session_id": session}))["state"] == "running"
    });
    let info = other.ok("session.info", json!({"session_id": session}));
    assert_eq!(info["running"]["command"], wait.as_str());
    let second = json!({"session_id": session, "command": "echo no"});
    assert_eq!(other.refused("exec.run", second), "SESSION_BUSY");
    assert_eq!(
        other.refused("session.destroy", json!({"session_id": session})),
        "SESSION_BUSY"
    );
    for name in ["second", "third", "fourth"] {
        let params =
            json!({"session_id": session, "command": format!("echo {name}"), "queue": true});
        client.send(&request(name, "exec.run", &params));
        // The next one is sent only when this one has its place.
        until("its place in the queue", || {
            let listed = other.ok("exec.list", json!({}));
            let queued = listed["execs"].as_array().unwrap().iter();
            queued
                .filter(|exec| exec["command"] == format!("echo {name}"))
                .count()
                == 1
        });
    }
    gate.open();
    for name in ["first", "second", "third", "fourth"] {
        let reply = client.receive().unwrap();
        assert_eq!(reply["id"], name);
        assert_eq!(reply["data"]["stdout"], format!("{name}\n"), "{reply}");
    }
}

#[test]
fn limits_of_sessions_and_commands_are_kept() {
    let runtime = Runtime::with(&Plan {
        flags: &["--max-sessions", "2", "--session-max-commands", "2"],
        ..Plan::default()
    });
    let mut client = Plain::socket(&runtime.socket());
    let session = client.session();
    client.session();
    assert_eq!(
        client.refused("session.create", json!({})),
        "MAX_SESSIONS_REACHED"
    );
    client.run(&session, "true");
    client.run(&session, "true");
    let third = json!({"session_id": session, "command": "true"});
    assert_eq!(client.refused("exec.run", third), "SESSION_LIMIT_EXCEEDED");
    client.ok("session.destroy", json!({"session_id": session}));
    client.session();
}

#[test]
fn a_runtime_short_of_memory_sheds_idle_sessions_and_then_says_so() {
    let runtime = Runtime::with(&Plan {
        flags: &["--memory-pressure-mb", "1"],
        ..Plan::default()
    });
    let mut client = Plain::socket(&runtime.socket());
    // Nothing to shed: the very first session is refused.
    assert_eq!(
        client.refused("session.create", json!({})),
        "RESOURCE_PRESSURE"
    );
}

#[test]
fn idle_and_old_sessions_are_destroyed() {
    for flag in ["--max-idle-sec", "--session-ttl-sec"] {
        let runtime = Runtime::with(&Plan {
            flags: &[flag, "0.3"],
            ..Plan::default()
        });
        let mut client = Plain::socket(&runtime.socket());
        let session = client.session();
        until("the end of the session", || {
            client.call("session.info", json!({"session_id": session}))["ok"] == false
        });
        assert!(
            runtime.log().contains("session expired"),
            "{}",
            runtime.log()
        );
    }
}

#[test]
fn variables_come_from_runtime_session_and_command() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(
        directory.path().join(".env"),
        "FROM_FILE=file\nBOTH=file\nTRL_SECRET=x\n",
    )
    .unwrap();
    let runtime = Runtime::within(
        directory,
        &Plan {
            variables: &[
                ("BOTH", "runtime"),
                ("A", "runtime"),
                ("B", "runtime"),
                ("C", "runtime"),
            ],
            ..Plan::default()
        },
    );
    let mut client = Plain::socket(&runtime.socket());
    let create = json!({"env": {"B": "session", "C": "session", "TRL_MINE": "y"}});
    let session = client.ok("session.create", create)["session_id"].clone();
    let command = "echo $FROM_FILE $BOTH $A $B $C; env | grep ^TRL_ || echo none";
    for more in [
        json!({"command": command}),
        json!({"command": command, "fresh": true}),
        json!({"argv": ["sh", "-c", command]}),
    ] {
        let mut params = more;
        params["session_id"] = session.clone();
        params["env"] = json!({"C": "command", "TRL_OWN": "z"});
        let result = client.ok("exec.run", params);
        assert_eq!(
            result["stdout"],
            "file runtime runtime session command\nnone\n"
        );
    }
    let result = client.run(session.as_str().unwrap(), "echo $C");
    assert_eq!(result["stdout"], "session\n");
}

#[test]
fn a_graceful_end_gives_commands_their_time_and_leaves_nothing() {
    let mut runtime = Runtime::with(&Plan {
        flags: &["--drain-sec", "30"],
        ..Plan::default()
    });
    let mut client = Plain::socket(&runtime.socket());
    let session = client.session();
    let gate = Gate::at(runtime.path("gate"));
    let command = format!("{gate}; echo done");
    client.send(&request(
        "last",
        "exec.run",
        &json!({"session_id": session, "command": command}),
    ));
    let mut other = Plain::socket(&runtime.socket());
    until("the start of the command", || {
        other.ok("system.stats", json!({}))["running_commands"] == 1
    });
    runtime.signal(Signal::TERM);
    until("the refusal of new sessions", || {
        other.call("session.create", json!({}))["error"]["code"] == "SHUTTING_DOWN"
    });
    gate.open();
    let reply = client.receive().unwrap();
    assert_eq!(reply["data"]["stdout"], "done\n");
    assert_eq!(client.receive(), None);
    assert!(runtime.wait().success(), "{}", runtime.log());
    for name in ["trl.sock", "trl.sock.lock", "state"] {
        assert!(!runtime.path(name).exists(), "{name} is left");
    }
    assert_eq!(std::fs::read_dir(runtime.path("found")).unwrap().count(), 0);
}

#[test]
fn what_does_not_end_in_time_is_ended_and_its_client_told() {
    over_every_transport(|client, runtime| {
        let session = client.session();
        let sleep = unique_sleep();
        if let Plain::Http { address } = client {
            let address = *address;
            let line = request(
                "1",
                "exec.run",
                &json!({"session_id": session, "command": format!("sleep {sleep}"), "timeout_s": 0}),
            );
            let waiting = std::thread::spawn(move || {
                crate::plain::post(address, &[&crate::plain::bearer()], line.as_bytes())
            });
            until("the start of the sleep", || {
                !processes_with(&sleep).is_empty()
            });
            end_twice(runtime);
            let response = waiting.join().unwrap();
            assert!(
                response.body.contains("\"cancelled\":true"),
                "{}",
                response.body
            );
        } else {
            let params =
                json!({"session_id": session, "command": format!("sleep {sleep}"), "timeout_s": 0});
            client.send(&request("1", "exec.run", &params));
            until("the start of the sleep", || {
                !processes_with(&sleep).is_empty()
            });
            end_twice(runtime);
            let reply = client.receive().unwrap();
            assert_eq!(reply["data"]["cancelled"], true, "{reply}");
        }
        assert!(runtime.wait().success(), "{}", runtime.log());
        until("the end of the sleep", || processes_with(&sleep).is_empty());
    });
}

fn end_twice(runtime: &Runtime) {
    runtime.signal(Signal::TERM);
    until("the first signal to be seen", || {
        runtime.log().contains("given its time")
    });
    runtime.signal(Signal::TERM);
}

#[test]
fn a_hang_up_ends_the_runtime_unless_it_was_started_to_ignore_it() {
    let mut runtime = Runtime::start();
    runtime.signal(Signal::HUP);
    assert!(runtime.wait().success());
    let mut runtime = Runtime::with(&Plan {
        before: Some("trap '' HUP"),
        ..Plan::default()
    });
    runtime.signal(Signal::HUP);
    Plain::socket(&runtime.socket()).ok("system.ping", json!({}));
    runtime.signal(Signal::TERM);
    assert!(runtime.wait().success());
}

#[test]
fn standard_input_that_ends_ends_the_runtime_after_every_answer() {
    let mut runtime = Runtime::with(&Plan {
        stdin: true,
        ..Plan::default()
    });
    let mut client = Plain::stdin(&mut runtime);
    let session = client.session();
    let params = json!({"session_id": session, "command": "sleep 0.3; echo late"});
    client.send(&request("late", "exec.run", &params));
    client.finish_sending();
    assert_eq!(client.receive().unwrap()["data"]["stdout"], "late\n");
    assert_eq!(client.receive(), None);
    assert!(runtime.wait().success());
    assert!(!runtime.path("state").exists());
}

#[test]
fn whoever_leaves_standard_input_and_output_takes_everything_along() {
    let mut runtime = Runtime::with(&Plan {
        stdin: true,
        ..Plan::default()
    });
    let mut client = Plain::stdin(&mut runtime);
    let session = client.session();
    let sleep = unique_sleep();
    let params =
        json!({"session_id": session, "command": format!("sleep {sleep}"), "timeout_s": 0});
    client.send(&request("1", "exec.run", &params));
    until("the start of the sleep", || {
        !processes_with(&sleep).is_empty()
    });
    // As when the program that started it has died.
    drop(client);
    assert!(runtime.wait().success(), "{}", runtime.log());
    assert_eq!(processes_with(&sleep), Vec::<i32>::new());
    assert!(!runtime.path("state").exists());
}

#[test]
fn the_seeds_line_for_curl_works_as_written() {
    let runtime = Runtime::start();
    let line = r#"curl -X POST http://127.0.0.1:9100 \
  -H "Authorization: Bearer $TRL_AUTH_TOKEN" \
  -d '{"id":"1","method":"system.ping","params":{}}'"#;
    let line = line.replace("127.0.0.1:9100", &runtime.http().to_string());
    let output = std::process::Command::new("sh")
        .args(["-c", &line])
        .env("TRL_AUTH_TOKEN", crate::runtime::TOKEN)
        .output()
        .unwrap();
    if output.status.code() == Some(127) {
        println!("skipped: needs curl");
        return;
    }
    let reply: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&reply["id"], &reply["ok"]), (&json!("1"), &json!(true)));
}

#[test]
fn any_program_that_takes_a_command_can_be_the_shell_of_a_fresh_one() {
    use std::os::unix::fs::PermissionsExt as _;
    let runtime = Runtime::start();
    let shell = runtime.path("odd-shell");
    std::fs::write(&shell, "#!/bin/sh\necho \"odd: $# $1 $2\"\nexit 6\n").unwrap();
    std::fs::set_permissions(&shell, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut client = Plain::socket(&runtime.socket());
    let session = client.ok("session.create", json!({"shell": shell}))["session_id"].clone();
    let fresh = json!({"session_id": session, "command": "say 'this'", "fresh": true});
    let result = client.ok("exec.run", fresh);
    assert_eq!(
        (&result["stdout"], &result["exit_code"]),
        (&json!("odd: 2 -c say 'this'\n"), &json!(6))
    );
    // It is no shell that could be kept; the answer says which one, and what
    // it is good for.
    let reply = client.call(
        "exec.run",
        json!({"session_id": session, "command": "say this"}),
    );
    assert_eq!(reply["error"]["code"], "COMMAND_FAILED", "{reply}");
    let message = reply["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("odd-shell`")
            && message.contains("POSIX shell")
            && message.contains("`fresh: true`"),
        "{message}"
    );
}

#[test]
fn a_program_that_reads_lines_and_does_nothing_is_named_with_the_way_out() {
    use std::os::unix::fs::PermissionsExt as _;
    let runtime = Runtime::start();
    let shell = runtime.path("mute-shell");
    std::fs::write(&shell, "#!/bin/sh\nexec cat >/dev/null\n").unwrap();
    std::fs::set_permissions(&shell, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut client = Plain::socket(&runtime.socket());
    let session = client.ok("session.create", json!({"shell": shell}))["session_id"].clone();
    let run = json!({"session_id": session, "command": "say this"});
    let reply = client.call("exec.run", run);
    assert_eq!(reply["error"]["code"], "COMMAND_FAILED", "{reply}");
    let message = reply["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("mute-shell`")
            && message.contains("does nothing")
            && message.contains("`fresh: true`"),
        "{message}"
    );
}

#[test]
fn a_directory_that_is_deleted_under_a_session_is_named() {
    let runtime = Runtime::start();
    let mut client = Plain::socket(&runtime.socket());
    let place = runtime.path("place");
    std::fs::create_dir(&place).unwrap();
    let create = json!({"shell": "/bin/bash", "working_dir": place});
    let session = client.ok("session.create", create)["session_id"].clone();
    let session = session.as_str().unwrap();
    client.run(session, "true");
    std::fs::remove_dir(&place).unwrap();
    // The shell is still there, as any shell would be.
    assert_eq!(client.run(session, "echo here")["stdout"], "here\n");
    for more in [
        json!({"argv": ["true"]}),
        json!({"command": "true", "fresh": true}),
    ] {
        let mut params = more;
        params["session_id"] = json!(session);
        let reply = client.call("exec.run", params);
        assert_eq!(
            reply["error"]["reason"], "working_directory_gone",
            "{reply}"
        );
    }
    assert_eq!(client.run(session, "cd /; pwd")["stdout"], "/\n");
}

#[test]
fn root_is_refused_where_that_is_asked_for() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: needs root");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let output = crate::runtime::command(directory.path())
        .args(["--socket", "trl.sock"])
        .env("TRL_ALLOW_ROOT", "0")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("TRL_ALLOW_ROOT=0"), "{said}");
}
