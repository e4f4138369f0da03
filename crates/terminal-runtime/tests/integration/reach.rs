//! Whether a command can get at the holder of its session, and what its
//! session looks like where it cannot.
#![cfg(all(target_os = "linux", not(halter_portable)))]

use std::fs;
use std::path::Path;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::confinement::{add_null, small_root};
use crate::plain::Plain;
use crate::restart::crash;
use crate::runtime::{Plan, Runtime, processes_with, unique_sleep, until};
use crate::support::{holder_of, holding};

/// Whether this user may make PID namespaces, as another program finds, with
/// a `/proc` of which nothing is covered.
fn has_namespaces() -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let covers = |line: &str| line.contains(" /proc/") && !line.contains("/binfmt_misc ");
    if mounts.lines().any(covers) {
        return false;
    }
    let trial = Command::new("unshare")
        .args(["--mount", "--pid", "--fork", "--mount-proc", "true"])
        .output();
    trial.is_ok_and(|output| output.status.success())
}

fn level(client: &mut Plain) -> Value {
    let described = client.ok("runtime.describe", json!({}));
    let mut levels = described["isolation"].as_array().unwrap().iter();
    let found = levels.find(|level| level["name"] == "holder_out_of_reach");
    found.unwrap().clone()
}

/// A runtime whose sessions have namespaces; `None` where there are none.
fn protected() -> Option<(Runtime, Plain)> {
    let runtime = Runtime::start();
    let client = Plain::socket(&runtime.socket());
    if !has_namespaces() {
        println!("skipped: needs the right to make PID namespaces");
        return None;
    }
    Some((runtime, client))
}

fn text(client: &mut Plain, session: &str, command: &str) -> String {
    let result = client.run(session, command);
    assert_eq!(result["exit_code"], 0, "{result}");
    result["stdout"].as_str().unwrap().trim().to_owned()
}

fn kill(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

/// The processes whose parent this is, with their states.
fn children(parent: i32) -> Vec<(i32, char)> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let child = |pid: i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let mut fields = stat.rsplit_once(") ")?.1.split(' ');
        let state = fields.next()?.chars().next()?;
        (fields.next()?.parse() == Ok(parent)).then_some((pid, state))
    };
    entries
        .filter_map(|entry| child(entry.file_name().to_str()?.parse().ok()?))
        .collect()
}

/// The first process of the namespace of a session.
fn first_process(runtime: &Runtime, session: &str) -> i32 {
    let holder = holder_of(&runtime.state(), session);
    let first = holding(&runtime.state()).into_iter().find(|pid| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.contains(&format!("PPid:\t{holder}\n"))
    });
    first.expect("its namespace has a first process")
}

#[test]
fn a_runtime_says_whether_a_command_can_signal_its_holder() {
    let runtime = Runtime::start();
    let mut client = Plain::socket(&runtime.socket());
    let level = level(&mut client);
    if has_namespaces() {
        assert_eq!(level["state"], "enforced", "{level}");
        assert_eq!(level["by"], "PID namespace");
    } else {
        assert_eq!(level["state"], "unavailable", "{level}");
        let reason = level["reason"].as_str().unwrap();
        assert!(reason.contains("ends its own session"), "{reason}");
    }
    // What it says is so.
    let session = client.session();
    let parent = text(&mut client, &session, "echo $PPID");
    let holder = holder_of(&runtime.state(), &session).to_string();
    let seen = if has_namespaces() { "0" } else { &holder };
    assert_eq!(parent, seen);
}

#[test]
fn no_signal_of_a_command_reaches_its_holder_or_the_runtime() {
    let Some((runtime, mut client)) = protected() else {
        return;
    };
    let (session, other) = (client.session(), client.session());
    let seconds = unique_sleep();
    client.run(&other, &format!("sleep {seconds} & true"));
    client.run(&session, "export kept=yes; cd /usr");
    let holder = holder_of(&runtime.state(), &session);
    let first = first_process(&runtime, &session);
    let named = format!("{holder} {first} {}", runtime.pid());
    let hits = format!(
        "for number in $(seq 1 64); do for pid in {named}; do \
         kill -$number $pid 2>/dev/null && echo $number $pid; done; done; kill -9 1; kill -9 -1; echo tried"
    );
    assert_eq!(text(&mut client, &session, &hits), "tried");
    // Its parent is nobody it could name: this is its own process group.
    for more in [json!({}), json!({"fresh": true})] {
        let mut params = more;
        params["session_id"] = json!(session);
        params["command"] = json!("kill -9 $PPID; sleep 300");
        let killed = client.ok("exec.run", params);
        assert_eq!(killed["signal"], 9, "{killed}");
    }
    let left = text(&mut client, &session, "echo $kept $PWD");
    assert_eq!(left, "yes /usr");
    assert_eq!(holder_of(&runtime.state(), &session), holder);
    assert_eq!(first_process(&runtime, &session), first);
    assert_eq!(processes_with(&seconds).len(), 1);
    let sessions = client.ok("session.list", json!({}))["sessions"].clone();
    assert_eq!(sessions.as_array().unwrap().len(), 2);
}

#[test]
fn process_numbers_are_those_that_proc_has() {
    let Some((_runtime, mut client)) = protected() else {
        return;
    };
    let session = client.session();
    let terminal = json!({"cols": 80, "rows": 24});
    let command = "sh -c 'echo $$; exec readlink /proc/self'; \
                   read -r pid rest </proc/$$/stat; echo $pid $$; \
                   sleep 300 & set -- $(cat /proc/$!/stat); echo $4 $$; kill $!; \
                   cat /proc/1/comm; ls /proc | grep -c '^[0-9]'";
    for more in [json!({}), json!({"fresh": true}), json!({"pty": terminal})] {
        let mut params = more;
        params["session_id"] = json!(session);
        params["command"] = json!(command);
        let result = client.ok("exec.run", params);
        let lines: Vec<&str> = result["stdout"].as_str().unwrap().lines().collect();
        let [number, own, both, parent, first, count] = lines[..] else {
            panic!("{result}");
        };
        assert_eq!(number, own);
        for numbers in [both, parent] {
            let (of_proc, of_shell) = numbers.split_once(' ').unwrap();
            assert_eq!(of_proc, of_shell, "{result}");
        }
        assert_eq!(first, "session-init");
        // Nothing but what this session has started.
        assert!(count.parse::<u32>().unwrap() < 12, "{count}");
    }
}

#[test]
fn orphans_are_collected_and_found_by_their_session() {
    let Some((runtime, mut client)) = protected() else {
        return;
    };
    let session = client.session();
    let seconds = unique_sleep();
    // They have left their parents, their session and their environment.
    let leaving = format!(
        "for i in 1 2 3 4 5 6 7 8; do (setsid true &); done; (env -i setsid sleep {seconds} &)"
    );
    for more in [json!({}), json!({"fresh": true})] {
        let mut params = more;
        params["session_id"] = json!(session);
        params["command"] = json!(leaving);
        client.ok("exec.run", params);
    }
    until("both sleep", || processes_with(&seconds).len() == 2);
    let first = first_process(&runtime, &session);
    until("only those are left", || {
        let mut orphans = children(first);
        orphans.sort_unstable();
        let mut sleeping: Vec<_> = processes_with(&seconds);
        sleeping.sort_unstable();
        orphans
            == sleeping
                .into_iter()
                .map(|pid| (pid, 'S'))
                .collect::<Vec<_>>()
    });
    client.ok(
        "session.destroy",
        json!({"session_id": session, "force": true}),
    );
    assert!(processes_with(&seconds).is_empty());
    until("nothing is left", || holding(&runtime.state()).is_empty());
}

#[test]
fn a_namespace_outlives_the_runtime_and_ends_with_its_holder() {
    let Some((runtime, mut client)) = protected() else {
        return;
    };
    let (session, seconds) = (client.session(), unique_sleep());
    let namespace = "readlink /proc/self/ns/pid";
    let before = text(&mut client, &session, namespace);
    let leaving = format!("(setsid sleep {seconds} &) ; setsid sleep {seconds} & true");
    client.run(&session, &leaving);
    let runtime = crash(runtime);
    let mut client = Plain::socket(&runtime.socket());
    assert_eq!(text(&mut client, &session, namespace), before);
    let fresh = json!({"session_id": session, "command": namespace, "fresh": true});
    assert_eq!(
        client.ok("exec.run", fresh)["stdout"],
        format!("{before}\n")
    );
    assert_eq!(processes_with(&seconds).len(), 2);
    // Killed from outside, it takes all of its session with it, and no other.
    let other = client.session();
    client.run(&other, "kept=yes");
    kill(holder_of(&runtime.state(), &session));
    until("nothing of it is left", || {
        processes_with(&seconds).is_empty() && holding(&runtime.state()).len() == 2
    });
    // So does the namespace itself.
    assert_eq!(text(&mut client, &other, "echo $kept"), "yes");
    kill(first_process(&runtime, &other));
    until("its holder is gone", || {
        holding(&runtime.state()).is_empty()
    });
    let next = client.session();
    assert_eq!(text(&mut client, &next, "echo anew"), "anew");
}

/// A runtime in a mount namespace of its own, in which this is done first.
fn with_mounts(mounts: &str) -> Runtime {
    let inside =
        format!("exec unshare --mount sh -c '{mounts} && exec \"$0\" \"$@\"' \"$0\" \"$@\"");
    Runtime::with(&Plan {
        before: Some(&inside),
        ..Plan::default()
    })
}

#[test]
fn mounts_are_shared_as_before_but_for_that_of_proc() {
    if !has_namespaces() {
        println!("skipped: needs the right to make PID namespaces");
        return;
    }
    let runtime = with_mounts("mount --make-rshared /");
    let mut client = Plain::socket(&runtime.socket());
    let (session, earlier) = (client.session(), client.session());
    assert_eq!(text(&mut client, &earlier, "echo $PPID"), "0");
    let place = runtime.path("mounted");
    fs::create_dir(&place).unwrap();
    let place = place.display();
    let mount = format!("mount -t tmpfs none {place} && touch {place}/here");
    text(&mut client, &session, &mount);
    let later = client.session();
    for session in [&earlier, &later] {
        assert_eq!(text(&mut client, session, &format!("ls {place}")), "here");
    }
    let mounts = fs::read_to_string(format!("/proc/{}/mountinfo", runtime.pid())).unwrap();
    assert!(mounts.contains(&format!(" {place} ")), "{mounts}");
    let procs = mounts.lines().filter(|line| line.contains(" /proc "));
    assert_eq!(procs.count(), 1, "{mounts}");
}

#[test]
fn a_session_below_another_root_has_its_own_numbers_there() {
    let Some(root) = small_root() else { return };
    if !has_namespaces() {
        println!("skipped: needs the right to make PID namespaces");
        return;
    }
    add_null(root.path());
    let proc = root.path().join("proc");
    fs::create_dir(&proc).unwrap();
    let runtime = with_mounts(&format!("mount -t proc proc {}", proc.display()));
    let mut client = Plain::socket(&runtime.socket());
    let create = json!({"shell": "/bin/sh", "working_dir": "/etc", "chroot": root.path(),
                        "env": {"PATH": "/bin"}});
    let session = client.ok("session.create", create)["session_id"].clone();
    let session = session.as_str().unwrap();
    let command = "cat inside; read pid rest </proc/self/stat; echo $PPID $pid $$";
    for more in [json!({}), json!({"fresh": true})] {
        let mut params = more;
        params["session_id"] = json!(session);
        params["command"] = json!(command);
        let result = client.ok("exec.run", params);
        let lines: Vec<&str> = result["stdout"].as_str().unwrap().lines().collect();
        let [inside, numbers] = lines[..] else {
            panic!("{result}");
        };
        let numbers: Vec<&str> = numbers.split(' ').collect();
        assert_eq!((inside, numbers[0]), ("inside", "0"), "{result}");
        assert_eq!(numbers[1], numbers[2], "{result}");
    }
    // The state of its shell needs no files.
    client.run(session, "kept=yes");
    assert_eq!(text(&mut client, session, "echo $kept"), "yes");
    let names = fs::read_dir(root.path()).unwrap().flatten();
    assert!(names.count() == 5, "something was put into the root");
}

/// Without a namespace everything is as it was: the holder is a parent that
/// can be named.
fn assert_unprotected(runtime: &Runtime, reason: &str) {
    let mut client = Plain::socket(&runtime.socket());
    let level = level(&mut client);
    assert_eq!(level["state"], "unavailable", "{level}");
    let said = level["reason"].as_str().unwrap();
    assert!(said.contains(reason), "{said}");
    let session = client.session();
    client.run(&session, "kept=yes");
    let seen = text(&mut client, &session, "echo $kept $PPID");
    let holder = holder_of(&runtime.state(), &session);
    assert_eq!(seen, format!("yes {holder}"));
    assert_eq!(holding(&runtime.state()), [holder]);
}

#[test]
fn a_user_can_do_without_namespaces() {
    let runtime = Runtime::with(&Plan {
        variables: &[("TRL_PID_NAMESPACE", "0")],
        ..Plan::default()
    });
    assert_unprotected(&runtime, "--pid-namespace is off");
}

#[test]
fn a_proc_of_which_a_part_is_covered_is_not_uncovered() {
    if !has_namespaces() || !Path::new("/proc/sys").exists() {
        println!("skipped: needs the right to mount");
        return;
    }
    let runtime = with_mounts("mount --bind /proc/sys /proc/sys");
    assert_unprotected(&runtime, "`/proc/sys` covers a part");
}
