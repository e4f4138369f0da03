//! The holder by itself: what it keeps, and when it ends.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use halter_exec::Signal;
use halter_exec::host::{LaunchPlan, PidFd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use terminal_runtime::exec::Core;
use terminal_runtime::holder::{
    FoundSlot, HolderLink, HolderRequest, Key, NewCommand, NewProcess, ProcessEnd, ProcessState,
    Role, Source, UnitKind, collect, connect,
};
use terminal_runtime::limits::{HOLDER_END_WAIT, HOLDER_START_DEADLINE};
use terminal_runtime::session::SessionId;

use crate::support::{argv, holders, order, settings, spec};

const PROGRAM: &str = env!("CARGO_BIN_EXE_terminal-runtime");
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

const NAME: &str = "a.sock";

async fn holder(state: &Path) -> HolderLink {
    holder_with(state, &["/proc".into()]).await
}

/// One whose processes get a PID namespace if there are places for a `proc`.
async fn holder_with(state: &Path, procs: &[PathBuf]) -> HolderLink {
    let started = terminal_runtime::holder::start(state, NAME, Path::new(PROGRAM), procs);
    started.await.unwrap()
}

fn private_directory() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn shell_plan(script: &str) -> LaunchPlan {
    let mut plan = LaunchPlan::new("/bin/sh", "/").standard_streams();
    plan.arguments = ["sh", "-c", script].map(Into::into).to_vec();
    plan
}

/// Starts a script whose output goes to a unit; its key and that pipe.
async fn start(link: &HolderLink, script: &str, record: &[u8]) -> (Key, OwnedFd) {
    let key = link.new_key();
    let mut output = link.unit(UnitKind::Output).await.unwrap();
    let written = Source::Part { unit: 0, part: 1 };
    link.send(&[HolderRequest::Spawn(Box::new(NewProcess {
        key,
        record: record.to_vec(),
        units: vec![output.unit.id],
        role: Role::Command,
        slots: vec![Source::Null, written, written],
        plan: shell_plan(script),
    }))]);
    (key, output.take(0).unwrap())
}

async fn gone(holder: i32) {
    collect(holder, TEST_TIMEOUT).await;
    let path = format!("/proc/{holder}");
    assert!(!Path::new(&path).exists(), "the holder must end");
}

fn read_all(pipe: OwnedFd) -> String {
    let mut text = String::new();
    let mut file = File::from(pipe);
    let mut buffer = [0; 1024];
    while let Ok(count @ 1..) = file.read(&mut buffer) {
        text.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
    }
    text
}

#[tokio::test]
async fn a_process_is_started_its_end_and_its_output_are_reported() {
    let state = private_directory();
    let link = holder(state.path()).await;
    let key = link.new_key();
    let end = link.exit_of(key);
    let (started, pipe) = start(&link, "echo hello; exit 7", b"").await;
    assert_eq!(started, key + 1);
    let exit_of_it = link.exit_of(started);
    let ProcessEnd::Exited(exit) = exit_of_it.wait().await else {
        panic!("it has exited");
    };
    assert_eq!((exit.code, exit.signal), (Some(7), None));
    assert_eq!(read_all(pipe), "hello\n");
    link.send(&[HolderRequest::End]);
    assert_eq!(end.wait().await, ProcessEnd::Lost);
    gone(link.holder()).await;
}

#[tokio::test]
async fn what_cannot_be_started_is_named() {
    let state = private_directory();
    let link = holder(state.path()).await;
    let key = link.new_key();
    let end = link.exit_of(key);
    let plan = LaunchPlan::new("/no/such/program", "/").standard_streams();
    link.send(&[HolderRequest::Spawn(Box::new(NewProcess {
        key,
        record: vec![],
        units: vec![],
        role: Role::Command,
        slots: vec![Source::Null; 3],
        plan,
    }))]);
    let ProcessEnd::Failed(failure) = end.wait().await else {
        panic!("there is no such program");
    };
    assert_eq!(failure.step, halter_exec::host::LaunchStep::Exec);
    link.send(&[HolderRequest::End]);
}

fn slot(slots: &[FoundSlot], key: Key) -> &FoundSlot {
    slots.iter().find(|slot| slot.key == key).unwrap()
}

#[tokio::test]
async fn the_next_daemon_is_given_everything() {
    let state = private_directory();
    let first = holder(state.path()).await;
    let large = vec![7_u8; 3 * 1024 * 1024];
    let (running, pipe) = start(&first, "echo early; read x; echo late", &large).await;
    let (ended, _) = start(&first, "exit 3", b"ended").await;
    let end = first.exit_of(ended);
    end.wait().await;
    drop(pipe);
    // Messages of a daemon that died right after sending them count.
    let told = first.new_key();
    first.send(&[
        HolderRequest::Store {
            key: told,
            record: b"old".to_vec(),
            units: vec![],
        },
        HolderRequest::Store {
            key: told,
            record: b"new".to_vec(),
            units: vec![],
        },
    ]);
    first.disconnect();

    let second = connect(state.path(), NAME).await.unwrap().unwrap();
    assert_eq!(second.link.holder(), first.holder());
    assert_eq!(second.slots.len(), 3);
    assert_eq!(slot(&second.slots, told).record, b"new");
    let found = slot(&second.slots, ended);
    assert_eq!(found.record, b"ended");
    let ProcessState::Exited { exit, .. } = &found.process else {
        panic!("it has ended");
    };
    assert_eq!(exit.code, Some(3));
    let found = slot(&second.slots, running);
    assert_eq!(found.record, large);
    assert_eq!(second.link.new_key(), told + 1);
    second.link.send(&[HolderRequest::End]);
    gone(second.link.holder()).await;
}

#[cfg_attr(
    any(not(target_os = "linux"), halter_portable),
    ignore = "descriptors have no names here"
)]
#[tokio::test]
async fn lines_reach_a_process_together_with_the_command_they_start() {
    let state = private_directory();
    let link = holder(state.path()).await;
    let shell = link.new_key();
    let lines = link.unit(UnitKind::Input).await.unwrap();
    let mut output = link.unit(UnitKind::Output).await.unwrap();
    let end = link.exit_of(shell);
    let mut plan = LaunchPlan::new("/bin/sh", "/").standard_streams();
    plan.arguments = ["sh", "-s"].map(Into::into).to_vec();
    let written = Source::Part { unit: 1, part: 1 };
    link.send(&[HolderRequest::Spawn(Box::new(NewProcess {
        key: shell,
        record: vec![],
        units: vec![lines.unit.id, output.unit.id],
        role: Role::Shell,
        slots: vec![Source::Part { unit: 0, part: 1 }, written, written],
        plan,
    }))]);
    let command = link.new_key();
    let script = link.unit(UnitKind::File).await.unwrap();
    let path = script.path(link.descriptor_owner(), 0);
    File::options()
        .write(true)
        .open(script.path(link.holder(), 0))
        .and_then(|mut file| std::io::Write::write_all(&mut file, b"echo from the file; exit 4"))
        .unwrap();
    link.send(&[HolderRequest::WriteLines {
        key: shell,
        lines: format!(". {}\n", path.display()).into_bytes(),
        command: Some(NewCommand {
            key: command,
            record: b"command".to_vec(),
            units: vec![script.unit.id],
        }),
    }]);
    let ProcessEnd::Exited(exit) = end.wait().await else {
        panic!("the shell has exited");
    };
    assert_eq!(exit.code, Some(4));
    assert_eq!(read_all(output.take(0).unwrap()), "from the file\n");
    link.send(&[HolderRequest::End]);
}

#[tokio::test]
async fn a_holder_kills_what_is_left_when_it_is_told_to_end() {
    for procs in [vec!["/proc".into()], Vec::new()] {
        kills_what_is_left(&procs).await;
    }
}

async fn kills_what_is_left(procs: &[PathBuf]) {
    let state = private_directory();
    let link = holder_with(state.path(), procs).await;
    // What has left its session and its parent is found on Linux only.
    let script = match cfg!(all(target_os = "linux", not(halter_portable))) {
        true => {
            "setsid sleep 1000 & (setsid sh -c 'sleep 1000 & sleep 1000' &) ; echo started; sleep 1000"
        }
        false => {
            "setsid sleep 1000 & (sh -c 'sleep 1000 & sleep 1000' &) ; echo started; sleep 1000"
        }
    };
    let (key, pipe) = start(&link, script, b"").await;
    let end = link.exit_of(key);
    let pid = link.pid_of(key).await.unwrap();
    assert!(Path::new(&format!("/proc/{pid}")).exists());
    // Before that, nothing may have left its session yet.
    let (pipe, started) = polled(pipe, PollFlags::IN).await;
    assert!(started.contains(PollFlags::IN));
    link.send(&[HolderRequest::End]);
    assert_eq!(end.wait().await, ProcessEnd::Lost);
    gone(link.holder()).await;
    // Everybody who held the pipe's other end is gone.
    let (_pipe, ended) = polled(pipe, PollFlags::empty()).await;
    assert!(ended.contains(PollFlags::HUP));
}

/// What happens to a pipe within a minute.
async fn polled(pipe: OwnedFd, events: PollFlags) -> (OwnedFd, PollFlags) {
    let polled = tokio::task::spawn_blocking(move || {
        let mut set = [PollFd::new(&pipe, events)];
        let limit = Timespec {
            tv_sec: 60,
            tv_nsec: 0,
        };
        poll(&mut set, Some(&limit)).unwrap();
        let happened = set[0].revents();
        (pipe, happened)
    });
    polled.await.unwrap()
}

#[tokio::test]
async fn a_holder_that_nobody_can_find_ends() {
    let state = private_directory();
    let link = holder(state.path()).await;
    let (_, _pipe) = start(&link, "sleep 1000", b"").await;
    link.disconnect();
    drop(state);
    gone(link.holder()).await;
}

/// A socket where a holder's would be.
fn listener_in(state: &Path) -> OwnedFd {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};
    let kind = match cfg!(all(target_os = "linux", not(halter_portable))) {
        true => SocketType::SEQPACKET,
        false => SocketType::STREAM,
    };
    let listener = socket(AddressFamily::UNIX, kind, None).unwrap();
    let address = SocketAddrUnix::new(state.join(NAME)).unwrap();
    bind(&listener, &address).unwrap();
    listen(&listener, 1).unwrap();
    listener
}

/// Only the clock of the test runs, so that this takes no time.
#[tokio::test(start_paused = true)]
async fn a_holder_that_does_not_answer_is_given_up() {
    let state = private_directory();
    let _mute = listener_in(state.path());
    let begun = tokio::time::Instant::now();
    let error = connect(state.path(), NAME).await;
    assert_eq!(error.unwrap_err().code(), "holder_silent");
    assert!(begun.elapsed() >= HOLDER_START_DEADLINE);
    assert!(begun.elapsed() < HOLDER_START_DEADLINE + Duration::from_secs(1));
}

/// A listener with a call in its queue that is closed without being accepted,
/// as by the end of a process that was killed.
#[tokio::test]
async fn a_holder_that_ends_when_it_is_called_does_not_answer() {
    let state = private_directory();
    let listener = listener_in(state.path());
    let closes = std::thread::spawn(move || {
        poll(&mut [PollFd::new(&listener, PollFlags::IN)], None).unwrap();
    });
    let error = connect(state.path(), NAME).await;
    assert_eq!(error.unwrap_err().code(), "holder_silent");
    closes.join().unwrap();
}

#[tokio::test]
async fn the_end_of_a_session_waits_for_the_end_of_its_holder_so_long() {
    let state = private_directory();
    let (core, _) = Core::start(settings(state.path())).await.unwrap();
    let id = SessionId::random();
    core.open(&id, spec()).await.unwrap();
    let exec = core.exec(&id, order(argv(&["true"]))).await;
    exec.unwrap().ended().await.unwrap();
    let holder = holders(state.path())[0];
    let process = PidFd::open(holder).unwrap();
    process.send(Signal::STOP).unwrap();
    tokio::time::pause();
    let begun = tokio::time::Instant::now();
    core.close(&id).await.unwrap();
    let elapsed = begun.elapsed();
    assert!(elapsed >= HOLDER_END_WAIT, "{elapsed:?}");
    assert!(elapsed < HOLDER_END_WAIT + Duration::from_secs(1));
    tokio::time::resume();
    // It was told, and does so as soon as it can.
    process.send(Signal::CONT).unwrap();
    gone(holder).await;
}

/// A holder of the version before, as far as its first answer goes.
#[tokio::test]
async fn a_holder_of_another_version_is_recognised_and_left_alone() {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, accept, bind, listen, socket};
    let state = private_directory();
    let (kind, head): (_, &[u8]) = match cfg!(all(target_os = "linux", not(halter_portable))) {
        true => (SocketType::SEQPACKET, &[]),
        false => (SocketType::STREAM, &[3, 0, 0, 0]),
    };
    let old = socket(AddressFamily::UNIX, kind, None).unwrap();
    // Where the holder of all sessions had its socket.
    let path = state.path().join("holder.sock");
    bind(&old, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    listen(&old, 1).unwrap();
    let answering = std::thread::spawn(move || {
        let daemon = accept(&old).unwrap();
        let mut hello = [0; 16];
        let count = rustix::io::read(&daemon, &mut hello).unwrap();
        // Inline, "hello", our version: what version 3 reads.
        assert!(hello[..count].ends_with(&[0, 1, 11]), "{hello:?}");
        let refusal = [head, &[0, 2, 3]].concat();
        rustix::io::write(&daemon, &refusal).unwrap();
    });
    let started = Core::start(settings(state.path())).await;
    let error = started.err().unwrap();
    assert!(error.to_string().contains("another version"), "{error}");
    assert!(path.exists());
    answering.join().unwrap();
}

#[tokio::test]
async fn an_error_of_a_dial_does_not_take_the_socket_of_a_live_holder() {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};
    let state = private_directory();
    let path = state.path().join(NAME);
    // Another kind of socket: the dial fails, and somebody listens.
    let kind = match cfg!(all(target_os = "linux", not(halter_portable))) {
        true => SocketType::STREAM,
        false => SocketType::DGRAM,
    };
    let live = socket(AddressFamily::UNIX, kind, None).unwrap();
    bind(&live, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    if kind == SocketType::STREAM {
        listen(&live, 1).unwrap();
    }
    let error = connect(state.path(), NAME).await;
    assert_eq!(error.unwrap_err().code(), "holder_io");
    assert!(path.exists(), "the socket must stay");
}
