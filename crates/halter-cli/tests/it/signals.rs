//! Signals end turns and leave nothing behind.

use crate::place::{Place, Ran, eventually, finish, processes_with};
use rustix::process::{Pid, Signal, kill_process};
use std::process::Child;

const SLEEPY: &str = "version = 1\n[models.default]\nprovider = \"offline\"\nmodel = \"offline\"\n\
                      [policy.shell]\nallow = [\"sleep\"]\ntimeout_secs = 600\n";

struct Sleeper {
    place: Place,
    child: Child,
    command: String,
}

/// A turn in whose midst a command sleeps, told apart by how long.
fn sleeper(seconds: u32) -> Sleeper {
    let place = Place::new();
    place.write("sleepy.toml", SLEEPY);
    let command = format!("sleep {seconds}.{}", std::process::id());
    let task = format!("run {command}");
    let mut started = place.command(["--config", "sleepy.toml", "run", "--streaming-json"]);
    let child = started.arg(task).spawn().unwrap();
    eventually("the command", || {
        (!processes_with(&command).is_empty()).then_some(())
    });
    Sleeper {
        place,
        child,
        command,
    }
}

fn send(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

fn kinds(ran: &Ran) -> Vec<String> {
    let kind = |line: serde_json::Value| line["payload"]["kind"].as_str().unwrap().to_owned();
    ran.lines().into_iter().map(kind).collect()
}

#[test]
fn ctrl_c_cancels_the_turn_and_leaves_no_process() {
    let sleeper = sleeper(3601);
    send(&sleeper.child, Signal::INT);
    let ran = finish(sleeper.child);
    ran.expect(130);
    assert_eq!(processes_with(&sleeper.command), Vec::<i32>::new());
    let kinds = kinds(&ran);
    assert!(kinds.contains(&"turn_interrupted".to_owned()), "{kinds:?}");
    assert_eq!(kinds.last().unwrap(), "session_shutdown_complete");
    let left = std::fs::read_dir(sleeper.place.root()).unwrap().flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert_eq!(left.len(), 2, "scratch directories remain: {left:?}");
}

#[test]
fn a_second_ctrl_c_leaves_at_once() {
    let sleeper = sleeper(3602);
    send(&sleeper.child, Signal::INT);
    send(&sleeper.child, Signal::INT);
    let ran = finish(sleeper.child);
    ran.expect(130);
    assert_eq!(processes_with(&sleeper.command), Vec::<i32>::new());
}

#[test]
fn sigterm_drains_and_a_second_one_does_not_wait() {
    let sleeper = sleeper(3603);
    send(&sleeper.child, Signal::TERM);
    // The first one lets the turn go on, so the command is still there.
    assert!(!processes_with(&sleeper.command).is_empty());
    eventually("the end", || {
        send(&sleeper.child, Signal::TERM);
        processes_with(&sleeper.command).is_empty().then_some(())
    });
    let ran = finish(sleeper.child);
    ran.expect(143);
}

#[test]
fn a_hangup_drains_too() {
    let sleeper = sleeper(3605);
    send(&sleeper.child, Signal::HUP);
    eventually("the end", || {
        send(&sleeper.child, Signal::HUP);
        processes_with(&sleeper.command).is_empty().then_some(())
    });
    finish(sleeper.child).expect(129);
}

#[test]
fn an_interrupted_session_goes_on() {
    let sleeper = sleeper(3604);
    send(&sleeper.child, Signal::INT);
    let ran = finish(sleeper.child);
    let id = ran.lines()[0]["session_id"].as_str().unwrap().to_owned();
    let again = sleeper
        .place
        .halter(["run", "--text", "--session", &id, "hello"]);
    again.expect(0);
}

#[test]
fn a_hangup_that_is_ignored_stays_ignored() {
    let place = Place::new();
    place.write("sleepy.toml", SLEEPY);
    let command = format!("sleep 0.7{}", std::process::id());
    let plain = place.command(["--config", "sleepy.toml", "run", "--text"]);
    let mut started = std::process::Command::new("nohup");
    started.arg(plain.get_program()).args(plain.get_args());
    started.arg(format!("run {command}")).env_clear();
    started.envs(
        plain
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    started.current_dir(place.work());
    started.stdin(std::process::Stdio::null());
    started.stdout(std::process::Stdio::piped());
    started.stderr(std::process::Stdio::piped());
    let child = started.spawn().unwrap();
    eventually("the command", || {
        (!processes_with(&command).is_empty()).then_some(())
    });
    send(&child, Signal::HUP);
    finish(child).expect(0);
}
