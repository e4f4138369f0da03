//! Listing and killing trees by number.

use halter_exec::{Process, Signal, SignalResult, kill_tree, list_descendants};

use crate::support::{alive, eventually, sh};

#[tokio::test]
async fn descendants_are_listed_with_their_command_lines() {
    let (process, mut streams) =
        Process::spawn(&sh("sh -c 'sleep 300; :' & sleep 301 & echo ready; wait")).unwrap();
    streams.stdout.read().await.unwrap().unwrap();
    let mut commands = Vec::new();
    assert!(eventually(|| {
        commands = list_descendants(process.pid())
            .unwrap()
            .into_iter()
            .map(|found| found.command)
            .collect();
        commands.sort();
        commands == ["sh -c sleep 300; :", "sleep 300", "sleep 301"]
    }));
    let below = list_descendants(process.pid()).unwrap();
    assert!(below.iter().all(|found| found.start_time > 0));
    assert!(below.iter().any(|found| found.ppid == process.pid()));
}

#[tokio::test]
async fn a_killed_tree_is_reported_process_by_process() {
    let (mut process, mut streams) =
        Process::spawn(&sh("setsid sleep 300 & sleep 301 & echo ready; wait")).unwrap();
    streams.stdout.read().await.unwrap().unwrap();
    assert!(eventually(|| list_descendants(process.pid())
        .unwrap()
        .len()
        == 2));
    let mut expected: Vec<i32> = list_descendants(process.pid())
        .unwrap()
        .iter()
        .map(|found| found.pid)
        .chain([process.pid()])
        .collect();
    let outcomes = kill_tree(process.pid(), Signal::KILL).unwrap();
    let mut killed: Vec<i32> = outcomes.iter().map(|outcome| outcome.pid).collect();
    expected.sort_unstable();
    killed.sort_unstable();
    assert_eq!(killed, expected);
    assert!(
        outcomes
            .iter()
            .all(|outcome| outcome.result == SignalResult::Signalled)
    );
    let (status, _) = process.wait().await.unwrap();
    assert_eq!(status.signal, Some(9));
    assert!(killed.into_iter().all(|pid| !alive(pid)));
}

#[tokio::test]
async fn an_ended_process_cannot_be_signalled() {
    let (mut process, _streams) = Process::spawn(&sh("exit 0")).unwrap();
    let pid = process.pid();
    process.wait().await.unwrap();
    assert_eq!(
        kill_tree(pid, Signal::TERM).unwrap_err().code(),
        "no_such_process"
    );
    assert_eq!(list_descendants(pid).unwrap_err().code(), "no_such_process");
}
