//! A runtime that is killed and started again, as its clients see it.

use rustix::process::Signal;
use serde_json::json;
use terminal_runtime::client::{Client, OutputEvent};
use terminal_runtime::protocol::{CreateParams, ExecParams};

use crate::gate::Gate;
use crate::plain::{Plain, request};
use crate::runtime::{Plan, Runtime, processes_with, unique_sleep, until};
use crate::support::{holder_of, holders, holding};

/// Kills a runtime and starts it again where it was.
pub fn crash(mut runtime: Runtime) -> Runtime {
    runtime.signal(Signal::KILL);
    runtime.wait();
    restarted(runtime)
}

/// Starts a runtime that has ended again where it was.
pub fn restarted(runtime: Runtime) -> Runtime {
    restarted_with(runtime, &Plan::default())
}

/// The same, started in another way.
pub fn restarted_with(mut runtime: Runtime, plan: &Plan<'_>) -> Runtime {
    let directory = std::mem::replace(&mut runtime.directory, tempfile::tempdir().unwrap());
    Runtime::within(directory, plan)
}

#[test]
fn sessions_and_commands_are_found_again() {
    let runtime = Runtime::start();
    let mut client = Plain::socket(&runtime.socket());
    let create =
        json!({"shell": "/bin/bash", "name": "kept", "env": {"KEY": "v"}, "timeout_s": 77});
    let session = client.ok("session.create", create)["session_id"]
        .as_str()
        .unwrap()
        .to_owned();
    client.run(&session, "cd /usr; export MORE=yes");
    let before = client.ok("session.info", json!({"session_id": session}));
    let gate = Gate::at(runtime.path("gate"));
    let command = format!("echo one; {gate}; echo two; exit 5");
    // Without a name: the daemon's death is no disconnect.
    client.send(&request(
        "lost",
        "exec.run",
        &json!({"session_id": session, "command": command, "timeout_s": 0}),
    ));
    let mut other = Plain::socket(&runtime.socket());
    let mut exec_id = String::new();
    until("the first output", || {
        let listed = other.ok("exec.list", json!({}));
        let Some(found) = listed["execs"][0]["exec_id"].as_str() else {
            return false;
        };
        exec_id = found.to_owned();
        other.ok("exec.read", json!({"exec_id": exec_id}))["data"] == "one\n"
    });
    let runtime = crash(runtime);
    let mut client = Plain::socket(&runtime.socket());
    let listed = client.ok("exec.list", json!({}));
    assert_eq!(
        (&listed["execs"][0]["exec_id"], &listed["execs"][0]["state"]),
        (&json!(exec_id), &json!("running")),
        "{listed}"
    );
    assert_eq!(listed["execs"][0]["command"], command.as_str());
    let info = client.ok("session.info", json!({"session_id": session}));
    for key in ["name", "shell", "env_keys", "created_at", "timeout_s"] {
        assert_eq!(info[key], before[key], "{key}");
    }
    assert_eq!(
        (&info["state"], &info["command_count"]),
        (&json!("running"), &json!(2))
    );
    let busy = json!({"session_id": session, "command": "true"});
    assert_eq!(client.refused("exec.run", busy), "SESSION_BUSY");
    gate.open();
    let waited = client.ok("exec.wait", json!({"exec_id": exec_id, "timeout_s": 60}));
    let result = &waited["result"];
    assert_eq!(
        (&result["stdout"], &result["exit_code"]),
        (&json!("one\ntwo\n"), &json!(5)),
        "{waited}"
    );
    let result = client.run(&session, "pwd; echo $MORE $KEY");
    assert_eq!(result["stdout"], "/usr\nyes v\n");
}

#[test]
fn what_ended_while_nobody_was_there_is_kept() {
    let runtime = Runtime::start();
    let mut client = Plain::socket(&runtime.socket());
    let session = client.session();
    let gate = Gate::at(runtime.path("gate"));
    let command = format!("{gate}; echo alone; exit 3");
    client.ok(
        "exec.stream",
        json!({"session_id": session, "command": command, "exec_id": "alone", "timeout_s": 0}),
    );
    let mut runtime = runtime;
    runtime.signal(Signal::KILL);
    runtime.wait();
    gate.open();
    let directory = std::mem::replace(&mut runtime.directory, tempfile::tempdir().unwrap());
    let runtime = Runtime::within(directory, &Plan::default());
    let mut client = Plain::socket(&runtime.socket());
    let waited = client.ok("exec.wait", json!({"exec_id": "alone", "timeout_s": 60}));
    assert_eq!(
        (&waited["result"]["stdout"], &waited["result"]["exit_code"]),
        (&json!("alone\n"), &json!(3)),
        "{waited}"
    );
    // The same request is still the same command.
    let again =
        json!({"session_id": session, "command": command, "exec_id": "alone", "timeout_s": 0});
    assert_eq!(client.ok("exec.run", again)["stdout"], "alone\n");
}

#[tokio::test]
async fn a_follower_gets_every_byte_over_a_crash() {
    let runtime = Runtime::start();
    let client = Client::socket(runtime.socket());
    let session_id = client
        .create_session(&CreateParams::default())
        .await
        .unwrap()
        .session_id;
    let command = "for n in $(seq 1 300); do echo line $n; sleep 0.005; done; exit 8";
    let order = ExecParams {
        session_id,
        command: Some(command.to_owned()),
        timeout_s: Some(0.0),
        ..ExecParams::default()
    };
    let mut follower = client.follow_new(order).await.unwrap();
    let mut text = String::new();
    let mut runtime = Some(runtime);
    let mut killed = 0;
    let code = loop {
        match follower.next().await.unwrap() {
            OutputEvent::Data { bytes, .. } => text.push_str(std::str::from_utf8(&bytes).unwrap()),
            OutputEvent::Exit(ending) => break ending.exit_code,
            other => panic!("{other:?}"),
        }
        if killed < 2 && text.len() > 300 * (killed + 1) {
            killed += 1;
            let old = runtime.take().unwrap();
            runtime = Some(
                tokio::task::spawn_blocking(move || crash(old))
                    .await
                    .unwrap(),
            );
        }
    };
    let expected: String = (1..=300).map(|n| format!("line {n}\n")).collect();
    assert_eq!((text, code, killed), (expected, 8, 2));
}

/// The control groups, of either version, that a session has.
fn groups_of(session: &str) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    let mut places = vec![std::path::PathBuf::from("/sys/fs/cgroup")];
    while let Some(place) = places.pop() {
        for entry in std::fs::read_dir(&place).into_iter().flatten().flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            if entry.file_name().to_string_lossy().ends_with(session) {
                found.push(entry.path());
            }
            places.push(entry.path());
        }
    }
    found
}

#[test]
#[cfg_attr(halter_portable, ignore = "what lost its parent is out of sight")]
fn a_session_that_is_found_again_goes_with_all_it_ever_started() {
    // Something may have been started in it since, or nothing.
    for lines_after in [0, 3] {
        let runtime = Runtime::start();
        let mut client = Plain::socket(&runtime.socket());
        let session = client.session();
        let mut sleeps = Vec::new();
        let mut leave = |client: &mut Plain| {
            let sleep = unique_sleep();
            let line = format!("setsid sleep {sleep} >/dev/null 2>&1 &");
            let params = json!({"session_id": session, "command": line, "fresh": true});
            client.ok("exec.run", params);
            sleeps.push(sleep);
        };
        for _ in 0..3 {
            leave(&mut client);
        }
        let runtime = crash(runtime);
        let mut client = Plain::socket(&runtime.socket());
        for _ in 0..lines_after {
            leave(&mut client);
        }
        for sleep in &sleeps {
            until("the start of a sleep", || processes_with(sleep).len() == 1);
        }
        let destroy = json!({"session_id": session, "force": true});
        client.ok("session.destroy", destroy);
        for sleep in &sleeps {
            assert_eq!(processes_with(sleep), [0; 0]);
        }
        assert_eq!(groups_of(&session), Vec::<std::path::PathBuf>::new());
    }
}

/// Whoever asks for the session learns that and why it is gone.
fn assert_lost(client: &mut Plain, session: &str) {
    for (method, params) in [
        ("session.info", json!({"session_id": session})),
        (
            "exec.run",
            json!({"session_id": session, "command": "true"}),
        ),
    ] {
        let refused = client.call(method, params);
        assert_eq!(refused["error"]["code"], "SESSION_NOT_FOUND", "{refused}");
        assert_eq!(refused["error"]["reason"], "holder_lost", "{refused}");
    }
}

/// A session's command kills the parent of its shell, which is its holder.
/// Where there are PID namespaces it cannot.
#[test]
fn a_command_that_kills_its_holder_ends_its_own_session_and_no_other() {
    let runtime = Runtime::with(&Plan {
        flags: &["--pid-namespace=0"],
        ..Plan::default()
    });
    let mut client = Plain::socket(&runtime.socket());
    let (session, other) = (client.session(), client.session());
    let seconds = unique_sleep();
    client.run(&session, &format!("sleep {seconds} & true"));
    let gate = Gate::at(runtime.path("gate"));
    client.ok(
        "exec.stream",
        json!({"session_id": other, "command": format!("echo one; {gate}; echo two; exit 3"),
               "exec_id": "other", "timeout_s": 0}),
    );
    let mut client = Plain::socket(&runtime.socket());
    let kill = json!({
        "session_id": session, "command": "echo before; kill -9 $PPID; sleep 300",
        "exec_id": "kill", "timeout_s": 0
    });
    let refused = client.call("exec.run", kill);
    assert_eq!(refused["error"]["code"], "INTERNAL_ERROR", "{refused}");
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("holder") && message.contains("new session"),
        "{message}"
    );
    until("only the other session is left", || {
        let sessions = client.ok("session.list", json!({}))["sessions"].clone();
        sessions.as_array().unwrap().len() == 1
    });
    until("nothing of the first runs", || {
        processes_with(&seconds).is_empty()
    });
    assert_lost(&mut client, &session);
    gate.open();
    let waited = client.ok("exec.wait", json!({"exec_id": "other", "timeout_s": 60}));
    let result = &waited["result"];
    assert_eq!(
        (&result["stdout"], &result["exit_code"]),
        (&json!("one\ntwo\n"), &json!(3)),
        "{waited}"
    );
    assert_eq!(client.run(&other, "echo on")["stdout"], "on\n");
    let next = client.session();
    assert_eq!(client.run(&next, "echo anew")["stdout"], "anew\n");
    assert_eq!(holders(&runtime.state()).len(), 2);
}

/// Each session comes back in its own way: with its holder, from a file if it
/// has none yet, and not at all if its holder has died as well.
#[test]
fn a_restarted_runtime_finds_every_session_that_is_left() {
    let mut runtime = Runtime::start();
    let mut client = Plain::socket(&runtime.socket());
    let sessions: Vec<String> = (0..4).map(|_| client.session()).collect();
    let unused = client.session();
    let with_variables =
        client.ok("session.create", json!({"env": {"KEY": "v"}}))["session_id"].clone();
    let with_variables = with_variables.as_str().unwrap();
    for session in &sessions {
        client.run(session, &format!("mark={session}"));
    }
    assert_eq!(holders(&runtime.state()).len(), sessions.len() + 1);
    let lost = holder_of(&runtime.state(), &sessions[0]);
    runtime.signal(Signal::KILL);
    runtime.wait();
    let lost = rustix::process::Pid::from_raw(lost).unwrap();
    rustix::process::kill_process(lost, Signal::KILL).unwrap();
    let mut runtime = restarted(runtime);
    let mut client = Plain::socket(&runtime.socket());
    assert_lost(&mut client, &sessions[0]);
    for session in &sessions[1..] {
        assert_eq!(
            client.run(session, "echo $mark")["stdout"],
            format!("{session}\n")
        );
    }
    assert_eq!(client.run(&unused, "echo on")["stdout"], "on\n");
    assert_eq!(client.run(with_variables, "echo $KEY")["stdout"], "v\n");
    let state = runtime.state();
    runtime.signal(Signal::TERM);
    runtime.wait();
    assert!(!state.exists(), "the state directory stays");
    // They are no children of the second runtime, which collects none of them.
    until("no holder is left", || holding(&state).is_empty());
}

/// What was adopted ends when its time is up, and says so.
#[test]
fn an_adopted_command_of_a_shell_that_times_out_is_no_success() {
    for shell in ["/bin/sh", "/bin/bash"] {
        let runtime = Runtime::start();
        let mut client = Plain::socket(&runtime.socket());
        let create = json!({"shell": shell});
        let session = client.ok("session.create", create)["session_id"].clone();
        let params = json!({
            "session_id": session, "command": "echo begun; sleep 300; echo late",
            "exec_id": "slow", "timeout_s": 6
        });
        client.ok("exec.stream", params);
        assert_eq!(client.receive().unwrap()["data"], "begun\n");
        let runtime = crash(runtime);
        let mut client = Plain::socket(&runtime.socket());
        let waited = client.ok("exec.wait", json!({"exec_id": "slow", "timeout_s": 60}));
        let result = &waited["result"];
        assert_eq!(result["timed_out"], true, "{waited}");
        assert_ne!(result["exit_code"], 0, "{waited}");
        assert_eq!(result["stdout"], "begun\n", "{waited}");
        assert_eq!(
            client.run(session.as_str().unwrap(), "echo on")["stdout"],
            "on\n"
        );
    }
}

/// A service manager starts a runtime again in another control group.
#[test]
#[cfg_attr(
    any(not(target_os = "linux"), halter_portable),
    ignore = "no control groups"
)]
fn a_runtime_in_another_control_group_goes_on_with_what_runs() {
    let Ok(own) = halter_exec::host::Cgroup::own() else {
        return println!("skipped: needs control groups");
    };
    let name = format!("trl-test-moved-{}", std::process::id());
    let Ok(elsewhere) = halter_exec::host::Cgroup::create(&own, &name) else {
        return println!("skipped: needs control groups");
    };
    let mut runtime = Runtime::start();
    let mut client = Plain::socket(&runtime.socket());
    let session = client.session();
    client.run(&session, "cd /usr");
    let seconds = unique_sleep();
    let sleeping = format!("sleep {seconds}");
    for (name, what) in [
        (
            "shell",
            json!({"command": format!("echo begun; {sleeping}")}),
        ),
        (
            "program",
            json!({"command": format!("echo begun; {sleeping}"), "fresh": true}),
        ),
    ] {
        let session = match name {
            "shell" => session.clone(),
            _ => client.session(),
        };
        let mut params = json!({"session_id": session, "exec_id": name, "timeout_s": 0});
        for (key, value) in what.as_object().unwrap() {
            params[key] = value.clone();
        }
        client.ok("exec.stream", params);
        assert_eq!(client.receive().unwrap()["data"], "begun\n");
    }
    runtime.signal(Signal::KILL);
    runtime.wait();
    let directory = std::mem::replace(&mut runtime.directory, tempfile::tempdir().unwrap());
    let enter = format!("echo $$ > {}/cgroup.procs", elsewhere.path().display());
    let plan = Plan {
        before: Some(&enter),
        ..Plan::default()
    };
    let mut runtime = Runtime::within(directory, &plan);
    let mut client = Plain::socket(&runtime.socket());
    assert!(!processes_with(&seconds).is_empty());
    for name in ["shell", "program"] {
        let cancelled = client.ok("exec.cancel", json!({"exec_id": name, "signal": "SIGTERM"}));
        assert_eq!(cancelled["cancelled"], true);
    }
    until("they are gone", || processes_with(&seconds).is_empty());
    assert_eq!(client.run(&session, "pwd")["stdout"], "/usr\n");
    client.run(&session, &format!("{sleeping} & true"));
    client.ok(
        "session.destroy",
        json!({"session_id": session, "force": true}),
    );
    assert!(processes_with(&seconds).is_empty());
    runtime.signal(Signal::TERM);
    runtime.wait();
    drop(runtime);
    until("its groups are gone", || elsewhere.remove().is_ok());
}

/// The same for somebody who owns neither group, so that nothing but signals
/// reaches what runs.
#[test]
#[cfg_attr(
    any(not(target_os = "linux"), halter_portable),
    ignore = "no control groups"
)]
fn a_runtime_of_a_user_in_another_control_group_finds_and_ends_its_shells() {
    let Some(groups) = groups_of_root() else {
        return println!("skipped: needs root, control groups, and a build that others may read");
    };
    let directory = tempfile::tempdir().unwrap();
    let id = |flag: &str| {
        let output = std::process::Command::new("id")
            .args([flag, "nobody"])
            .output();
        let text = String::from_utf8(output.unwrap().stdout).unwrap();
        Some(text.trim().parse().unwrap())
    };
    std::os::unix::fs::chown(directory.path(), id("-u"), id("-g")).unwrap();
    let [first, second] = groups.each_ref().map(|group| {
        let procs = group.path().join("cgroup.procs");
        format!(
            "echo $$ >{}; exec setpriv {} \"$0\" \"$@\"",
            procs.display(),
            AS_NOBODY.join(" ")
        )
    });
    let started_in = |directory, before: &str| {
        let plan = Plan {
            before: Some(before),
            ..Plan::default()
        };
        Runtime::within(directory, &plan)
    };
    let mut runtime = started_in(directory, &first);
    let mut client = Plain::socket(&runtime.socket());
    let (session, seconds) = (client.session(), unique_sleep());
    client.run(&session, &format!("cd /usr; sleep {seconds} & true"));
    let waiting = format!("echo begun; setsid sleep {seconds} & sleep {seconds}");
    client.ok(
        "exec.stream",
        json!({"session_id": session, "exec_id": "waiting", "timeout_s": 0, "command": waiting}),
    );
    assert_eq!(client.receive().unwrap()["data"], "begun\n");
    runtime.signal(Signal::KILL);
    runtime.wait();
    let directory = std::mem::replace(&mut runtime.directory, tempfile::tempdir().unwrap());
    let mut runtime = started_in(directory, &second);
    let mut client = Plain::socket(&runtime.socket());
    until("all three sleep", || processes_with(&seconds).len() == 3);
    let cancelled = client.ok(
        "exec.cancel",
        json!({"exec_id": "waiting", "signal": "SIGTERM"}),
    );
    assert_eq!(cancelled["cancelled"], true);
    until("what ran in the background is left", || {
        processes_with(&seconds).len() == 1
    });
    assert_eq!(client.run(&session, "pwd")["stdout"], "/usr\n");
    client.ok(
        "session.destroy",
        json!({"session_id": session, "force": true}),
    );
    assert!(processes_with(&seconds).is_empty());
    runtime.signal(Signal::TERM);
    assert!(runtime.wait().success());
    until("its groups are gone", || {
        let gone =
            |group: &halter_exec::host::Cgroup| group.remove().is_ok() || !group.path().exists();
        groups.iter().all(gone)
    });
}

const AS_NOBODY: [&str; 5] = ["--reuid", "nobody", "--regid", "nogroup", "--clear-groups"];

/// Two control groups that belong to root, who may act as nobody.
fn groups_of_root() -> Option<[halter_exec::host::Cgroup; 2]> {
    let trial = std::process::Command::new("setpriv")
        .args(AS_NOBODY)
        .args([crate::support::PROGRAM, "--version"])
        .output();
    if !trial.is_ok_and(|output| output.status.success()) {
        return None;
    }
    let own = halter_exec::host::Cgroup::own().ok()?;
    let make = |name: &str| {
        let name = format!("trl-test-{name}-{}", std::process::id());
        halter_exec::host::Cgroup::create(&own, &name).ok()
    };
    Some([make("before")?, make("after")?])
}
