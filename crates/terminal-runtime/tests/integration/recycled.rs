//! Output streams that pass from one program to the next of its session, and
//! no byte with them.

use std::collections::HashSet;
use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use serde_json::{Value, json};

use crate::gate::Gate;
use crate::plain::{Plain, request};
use crate::restart::crash;
use crate::runtime::{Runtime, processes_with, until};
use crate::support::{self, argv, finished, fresh, order};

/// Shows the pipes that are standard output and standard error.
const SHOW: [&str; 3] = ["readlink", "/proc/self/fd/1", "/proc/self/fd/2"];

/// The result of a program.
fn run(client: &mut Plain, session: &str, argv: &[&str]) -> Value {
    client.ok("exec.run", json!({"session_id": session, "argv": argv}))
}

/// The result of a line in a new shell.
fn run_fresh(client: &mut Plain, session: &str, line: &str) -> Value {
    let params = json!({"session_id": session, "command": line, "fresh": true});
    client.ok("exec.run", params)
}

/// The pipes of the next program of a session.
fn pipes(client: &mut Plain, session: &str) -> [String; 2] {
    let shown = run(client, session, &SHOW);
    let shown: Vec<&str> = shown["stdout"].as_str().unwrap().lines().collect();
    assert!(shown.iter().all(|name| name.starts_with("pipe:[")));
    let [out, err] = shown.try_into().unwrap();
    assert_ne!(out, err);
    [out.to_owned(), err.to_owned()]
}

fn holder(runtime: &Runtime) -> i32 {
    let socket = runtime.path("state").join("holder.sock");
    let found = processes_with(socket.to_str().unwrap());
    assert_eq!(found.len(), 1, "{found:?}");
    found[0]
}

/// How many descriptors of a process are such.
fn descriptors(pid: i32, is_such: impl Fn(&str) -> bool) -> usize {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let targets = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
    targets
        .filter(|target| is_such(&target.to_string_lossy()))
        .count()
}

fn copies_of(pid: i32, pipe: &str) -> usize {
    descriptors(pid, |target| target == pipe)
}

/// How many files of outputs have something in them.
fn written_files(holder: i32) -> usize {
    let entries = fs::read_dir(format!("/proc/{holder}/fd"))
        .unwrap()
        .flatten();
    entries
        .filter(|entry| {
            let target = fs::read_link(entry.path()).unwrap_or_default();
            target.to_string_lossy().contains("memfd:halter-spool")
        })
        .filter(|entry| fs::metadata(entry.path()).is_ok_and(|file| file.len() > 0))
        .count()
}

#[test]
#[cfg_attr(halter_portable, ignore = "a pipe cannot be opened by a name")]
fn programs_of_a_session_use_the_same_two_pipes() {
    let runtime = Runtime::start();
    let mut client = Plain::socket(&runtime.socket());
    let session = client.session();
    let first = pipes(&mut client, &session);
    let both = [runtime.pid(), holder(&runtime)];
    let held = |kind: &str| both.map(|pid| descriptors(pid, |target| target.contains(kind)));
    let (pipes_before, files_before) = (held("pipe:"), held("memfd:"));
    for number in 0..30 {
        assert_eq!(pipes(&mut client, &session), first);
        let line = format!("echo out {number}; echo err {number} >&2; exit {number}");
        let done = run_fresh(&mut client, &session, &line);
        assert_eq!(done["stdout"], format!("out {number}\n"));
        assert_eq!(done["stderr"], format!("err {number}\n"));
        assert_eq!(done["exit_code"], number);
        let fed = client.ok(
            "exec.run",
            json!({"session_id": session, "argv": ["cat"], "stdin": format!("in {number}")}),
        );
        assert_eq!(fed["stdout"], format!("in {number}"));
    }
    assert_eq!(pipes(&mut client, &session), first);
    assert_eq!(held("pipe:"), pipes_before);
    // Those for input are made ahead, some at a time.
    for (before, after) in files_before.iter().zip(held("memfd:")) {
        assert!(after < before + 20, "{before} became {after}");
    }
    // Nobody can write to them while nothing runs.
    for pipe in &first {
        assert_eq!(both.map(|pid| copies_of(pid, pipe)), [1, 1]);
    }
}

/// Every program copies the first descriptors of the holder, and closes again
/// what is not its own.
#[test]
#[cfg_attr(halter_portable, ignore = "a program copies all descriptors")]
fn the_holder_has_nothing_where_every_program_would_copy_it() {
    let runtime = Runtime::start();
    let mut client = Plain::socket(&runtime.socket());
    let session = client.session();
    let kinds = [
        json!({"argv": ["true"]}),
        json!({"command": "true", "fresh": true}),
        json!({"command": "true"}),
        json!({"argv": ["cat"], "stdin": "bytes"}),
        json!({"argv": ["true"], "pty": {"cols": 80, "rows": 24}}),
        json!({"argv": ["true"], "exec_id": "named"}),
    ];
    for mut order in kinds {
        order["session_id"] = session.as_str().into();
        assert_eq!(client.ok("exec.run", order)["exit_code"], 0);
    }
    let numbers = fs::read_dir(format!("/proc/{}/fd", holder(&runtime))).unwrap();
    let numbers = numbers.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let low: Vec<u32> = numbers
        .map(|name| name.parse().unwrap())
        .filter(|number| (3..64).contains(number))
        .collect();
    assert_eq!(low, [0; 0]);
}

#[test]
fn streams_that_somebody_still_writes_to_are_not_passed_on() {
    let runtime = Runtime::start();
    let mut client = Plain::socket(&runtime.socket());
    let session = client.session();
    let gate = Gate::at(runtime.path("gate"));
    let over = runtime.path("over");
    let late = format!(
        "{gate}; echo late; echo later >&2; exec >&- 2>&-; : >{}",
        over.display()
    );
    let line = format!("setsid sh -c '{late}' & {}", SHOW.join(" "));
    let taken = run_fresh(&mut client, &session, &line);
    let taken: HashSet<String> = taken["stdout"]
        .as_str()
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect();
    assert_eq!(taken.len(), 2);
    for number in 0..10 {
        let own = pipes(&mut client, &session);
        assert!(own.iter().all(|pipe| !taken.contains(pipe)));
        let done = run(&mut client, &session, &["echo", &number.to_string()]);
        assert_eq!(done["stdout"], format!("{number}\n"));
    }
    gate.open();
    until("the late bytes are written", || over.exists());
    for number in 0..30 {
        let done = run(&mut client, &session, &["echo", &number.to_string()]);
        assert_eq!(done["stdout"], format!("{number}\n"));
        assert_eq!(done["stderr"], "");
    }
}

#[test]
fn no_session_gets_the_streams_of_another() {
    let runtime = Runtime::start();
    let mut client = Plain::socket(&runtime.socket());
    let sessions: Vec<String> = (0..4).map(|_| client.session()).collect();
    let mut seen: Vec<HashSet<String>> = vec![HashSet::new(); sessions.len()];
    for _ in 0..6 {
        for (session, seen) in sessions.iter().zip(&mut seen) {
            seen.extend(pipes(&mut client, session));
        }
    }
    for (number, mine) in seen.iter().enumerate() {
        if cfg!(not(halter_portable)) {
            assert_eq!(mine.len(), 2, "{seen:?}");
        }
        for others in &seen[number + 1..] {
            assert!(mine.is_disjoint(others), "{seen:?}");
        }
    }
}

#[test]
fn nothing_of_a_large_or_binary_output_is_left_for_the_next() {
    let runtime = Runtime::start();
    let mut client = Plain::socket(&runtime.socket());
    let session = client.session();
    let first = pipes(&mut client, &session);
    let numbers =
        |last: u32| -> String { (1..=last).map(|number| format!("{number}\n")).collect() };
    // Within the memory, beyond it, and beyond the size of a pipe that is
    // worth to be kept.
    for (last, is_passed_on) in [(1000, true), (50_000, true), (300_000, false)] {
        let expected = numbers(last);
        let line = format!("seq 1 {last}; seq 1 {last} >&2");
        let before = pipes(&mut client, &session);
        let done = run_fresh(&mut client, &session, &line);
        assert!(done["stdout"] == expected && done["stderr"] == expected);
        let empty = run(&mut client, &session, &["true"]);
        assert_eq!(
            (&empty["stdout"], &empty["stderr"]),
            (&json!(""), &json!(""))
        );
        let after = pipes(&mut client, &session);
        if cfg!(not(halter_portable)) {
            assert_eq!(before == after, is_passed_on, "{last}");
        }
    }
    assert_ne!(pipes(&mut client, &session), first);
    let binary = run_fresh(
        &mut client,
        &session,
        r"printf '\377\000\376'; printf '\200' >&2",
    );
    assert_eq!(
        (&binary["stdout"], &binary["stderr"]),
        (&json!("/wD+"), &json!("gA=="))
    );
    let short = run(&mut client, &session, &["echo", "x"]);
    assert_eq!(
        (&short["stdout"], &short["stderr"]),
        (&json!("x\n"), &json!(""))
    );
    let spools = fs::read_dir(runtime.path("state").join("spool")).unwrap();
    assert_eq!(spools.count(), 0);
}

#[test]
fn a_result_that_is_kept_stays_as_it_is() {
    let runtime = Runtime::start();
    let mut client = Plain::socket(&runtime.socket());
    let session = client.session();
    let own = pipes(&mut client, &session);
    let named = |name: &str| json!({"session_id": session, "argv": SHOW, "exec_id": name});
    let kept: Vec<Value> = ["one", "two"]
        .iter()
        .map(|name| client.ok("exec.run", named(name))["stdout"].clone())
        .collect();
    assert_ne!(kept[0], kept[1]);
    for number in 0..10 {
        let done = run(&mut client, &session, &["echo", &number.to_string()]);
        assert_eq!(done["stdout"], format!("{number}\n"));
    }
    for (name, shown) in ["one", "two"].iter().zip(&kept) {
        let read = client.ok("exec.read", json!({"exec_id": name, "offset": 0}));
        assert_eq!((&read["data"], &read["eof"]), (shown, &json!(true)));
    }
    if cfg!(not(halter_portable)) {
        assert_eq!(pipes(&mut client, &session), own);
    }
}

#[test]
#[cfg_attr(halter_portable, ignore = "a pipe cannot be opened by a name")]
fn a_session_that_is_destroyed_leaves_no_stream() {
    let runtime = Runtime::start();
    let mut client = Plain::socket(&runtime.socket());
    let session = client.session();
    let [out, err] = pipes(&mut client, &session);
    let both = [runtime.pid(), holder(&runtime)];
    let copies = || both.map(|pid| copies_of(pid, &out) + copies_of(pid, &err));
    assert_eq!(copies(), [2, 2]);
    // Also when the session has been idle for a while.
    until("the holder has them back, empty", || {
        written_files(both[1]) == 0
    });
    assert_eq!(pipes(&mut client, &session), [out.clone(), err.clone()]);
    until("the holder has them back, empty", || {
        written_files(both[1]) == 0
    });
    assert_eq!(copies(), [2, 2]);
    client.ok("session.destroy", json!({"session_id": session}));
    until("the streams are gone", || copies() == [0, 0]);
}

/// Until the holder has given the next program an end to write to, nobody
/// has one: that is not the end of its output.
#[test]
#[cfg_attr(halter_portable, ignore = "a pipe cannot be opened by a name")]
fn a_pipe_that_nobody_has_opened_yet_is_not_at_its_end() {
    let runtime = Runtime::start();
    let mut client = Plain::socket(&runtime.socket());
    let session = client.session();
    let [out, err] = pipes(&mut client, &session);
    let holder = Pid::from_raw(holder(&runtime)).unwrap();
    kill_process(holder, Signal::STOP).unwrap();
    let line = format!("echo hello; {}; echo oops >&2", SHOW.join(" "));
    let params = json!({"session_id": session, "command": line, "fresh": true});
    client.send(&request("1", "exec.run", &params));
    // It looks after the output now, and makes sure that the pipes stay.
    until("the daemon waits for output", || {
        copies_of(runtime.pid(), &out) == 2 && copies_of(runtime.pid(), &err) == 2
    });
    kill_process(holder, Signal::CONT).unwrap();
    let done = client.receive().unwrap();
    let expected = format!("hello\n{out}\n{err}\n");
    assert_eq!(done["data"]["stdout"], expected, "{done}");
    assert_eq!(done["data"]["stderr"], "oops\n");
    assert_eq!(pipes(&mut client, &session), [out, err]);
}

#[test]
#[cfg_attr(halter_portable, ignore = "a pipe cannot be opened by a name")]
fn streams_that_cannot_be_opened_again_are_said_and_given_up() {
    let runtime = Runtime::start();
    let mut client = Plain::socket(&runtime.socket());
    let session = client.session();
    let first = pipes(&mut client, &session);
    assert_eq!(pipes(&mut client, &session), first);
    let holder = Pid::from_raw(holder(&runtime)).unwrap();
    let none = Rlimit {
        current: Some(3),
        maximum: rustix::process::getrlimit(Resource::Nofile).maximum,
    };
    let usual = prlimit(Some(holder), Resource::Nofile, none).unwrap();
    let params = json!({"session_id": session, "argv": ["true"]});
    let refused = client.call("exec.run", params);
    prlimit(Some(holder), Resource::Nofile, usual).unwrap();
    assert_eq!(refused["error"]["code"], "COMMAND_FAILED", "{refused}");
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(message.contains("arranging its descriptors"), "{message}");
    let mut seen = HashSet::from(first);
    for _ in 0..5 {
        assert!(seen.insert(pipes(&mut client, &session)[0].clone()));
    }
}

/// Nobody waits for whoever has a command and does not let it go.
#[tokio::test]
async fn a_command_that_somebody_holds_on_to_is_forgotten_all_the_same() {
    let runtime = support::Runtime::start().await;
    let session = runtime.session().await;
    let socket = runtime.path().join("holder.sock");
    let holder = processes_with(socket.to_str().unwrap())[0];
    let mut order = order(argv(&SHOW));
    order.kept = false;
    let held = runtime.exec_order(session, order).await.unwrap();
    let done = finished(&held).await;
    let pipe = done.stdout.lines().next().unwrap();
    assert_eq!(copies_of(holder, pipe), 1);
    held.forget();
    support::until("the holder has dropped it", || copies_of(holder, pipe) == 0).await;
    assert_eq!(finished(&held).await.stdout, done.stdout);
    held.forget();
    runtime.shutdown().await;
}

/// A command is found with what it said, and with nothing of the one whose
/// streams it has.
#[test]
fn a_command_with_used_streams_is_adopted_with_its_own_output() {
    let runtime = Runtime::start();
    let mut client = Plain::socket(&runtime.socket());
    let session = client.session();
    run_fresh(&mut client, &session, "seq 1 300; seq 1 300 >&2");
    let gate = Gate::at(runtime.path("gate"));
    let line = format!("echo early; {gate}; echo late; exit 5");
    let params = json!({"session_id": session, "command": line, "fresh": true, "timeout_s": 0});
    let started = client.ok("exec.stream", params);
    assert_eq!(client.receive().unwrap()["data"], "early\n");
    let runtime = crash(runtime);
    let mut client = Plain::socket(&runtime.socket());
    gate.open();
    let waited = client.ok(
        "exec.wait",
        json!({"exec_id": started["exec_id"], "timeout_s": 60}),
    );
    let result = &waited["result"];
    assert_eq!(
        (&result["stdout"], &result["stderr"], &result["exit_code"]),
        (&json!("early\nlate\n"), &json!(""), &json!(5)),
        "{waited}"
    );
}

/// Crashes between short programs: what was taken is gone, the rest is whole.
#[tokio::test]
async fn no_crash_mixes_or_loses_what_programs_say() {
    let mut runtime = support::Runtime::start().await;
    let session = runtime.session().await;
    for round in 0..12_u32 {
        let mut running = Vec::new();
        for number in 0..4 {
            let name = format!("{round}-{number}");
            let text = match (round + number) % 4 {
                0 => format!("echo {name}"),
                1 => format!("echo {name}; (sleep 0.02; echo {name} late) & sleep 0.001"),
                2 => format!("echo {name}; seq 1 20000 >&2"),
                _ => format!("echo {name}; sleep 0.01"),
            };
            let mut order = order(fresh(&text));
            order.kept = false;
            let exec = runtime.exec_order(session, order).await.unwrap();
            if number < 3 {
                let done = finished(&exec).await;
                assert!(done.stdout.starts_with(&format!("{name}\n")), "{done:?}");
            }
            if (round + number) % 3 == 0 && number < 3 {
                exec.forget();
            } else {
                running.push((exec.id().clone(), name));
            }
            drop(exec);
            tokio::time::sleep(Duration::from_millis(u64::from(round % 3) * 10)).await;
        }
        let (next, _) = runtime.crash().await;
        runtime = next;
        for (id, name) in running {
            let found = runtime.core.find(&id).expect("it must be adopted");
            let done = finished(&found).await;
            let lines: Vec<&str> = done.stdout.lines().collect();
            assert_eq!(lines[0], name);
            let late = format!("{name} late");
            assert!(lines[1..].iter().all(|line| *line == late), "{done:?}");
            found.forget();
        }
    }
    runtime.shutdown().await;
}
