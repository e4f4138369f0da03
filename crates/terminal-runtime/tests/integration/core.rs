//! Commands through the core: started, read, written to, stopped, adopted.

use std::time::Duration;

use halter_exec::{Environment, Signal};
use terminal_runtime::exec::{CoreError, ExecState, ExecStdin, Scope, Stream, TerminalSize};

use crate::gate::Gate;
use crate::support::{
    Runtime, TEST_TIMEOUT, all, argv, at_least, command, finished, fresh, holders, number_here,
    order, until,
};

/// Waits until all of these are gone, and collected where that is ours to do.
async fn all_gone(pids: Vec<String>) {
    for pid in pids {
        let path = std::path::Path::new("/proc").join(pid.trim()).join("stat");
        let gone = || match std::fs::read_to_string(&path) {
            Ok(stat) => {
                cfg!(any(not(target_os = "linux"), halter_portable)) && stat.contains(") Z ")
            }
            Err(_) => true,
        };
        until("the process is gone", gone).await;
    }
}

#[tokio::test]
async fn a_program_runs_with_its_streams_apart() {
    let runtime = Runtime::start().await;
    let session = runtime.session().await;
    let words = argv(&["/bin/sh", "-c", "echo out; echo err >&2; exit 3"]);
    let exec = runtime.exec(session, words).await;
    let done = finished(&exec).await;
    assert_eq!(done.code(), Some(3));
    assert_eq!(
        (done.stdout.as_str(), done.stderr.as_str()),
        ("out\n", "err\n")
    );
    assert!(done.end.usage.unwrap().max_resident_bytes > 0);
    let killed = runtime.exec(session, fresh("kill -9 $$")).await;
    let killed = finished(&killed).await;
    assert_eq!((killed.code(), killed.end.signal), (None, Some(9)));
    runtime.shutdown().await;
}

#[tokio::test]
async fn the_shell_keeps_its_state() {
    let runtime = Runtime::start().await;
    let session = runtime.session().await;
    let done = runtime
        .run(session, "cd / && export A=1; f() { echo f; }")
        .await;
    assert_eq!(done.code(), Some(0));
    assert_eq!(done.end.cwd.as_deref(), Some("/".as_ref()));
    let done = runtime
        .run(session, "echo $PWD $A; f; echo e >&2; exit 5")
        .await;
    assert_eq!(
        (done.stdout.as_str(), done.stderr.as_str()),
        ("/ 1\nf\n", "e\n")
    );
    assert_eq!(done.code(), Some(5));
    assert_eq!(runtime.run(session, "echo $A").await.stdout, "1\n");
    runtime.shutdown().await;
}

#[tokio::test]
async fn what_cannot_be_started_is_said() {
    let runtime = Runtime::start().await;
    let session = runtime.session().await;
    let missing = runtime
        .exec_order(session, order(argv(&["no-such-program"])))
        .await
        .unwrap_err();
    assert_eq!(missing.code(), "program_not_found");
    let exec = runtime.exec(session, argv(&["/no/such/program"])).await;
    let error = exec.ended().await.unwrap_err();
    assert_eq!(error.code(), "program_not_found");
    assert!(error.to_string().contains("/no/such/program"), "{error}");
    let gone = runtime
        .session_with(|spec| spec.working_dir = "/no/such/directory".into())
        .await;
    let exec = runtime.exec(gone, argv(&["/bin/true"])).await;
    assert_eq!(
        exec.ended().await.unwrap_err().code(),
        "working_directory_gone"
    );
    let error = runtime.exec_order(gone, order(command("true"))).await;
    assert_eq!(error.unwrap_err().code(), "working_directory_gone");
    let shell = runtime
        .session_with(|spec| spec.shell = "/no/such/shell".into())
        .await;
    let error = runtime.exec_order(shell, order(command("true"))).await;
    let error = error.unwrap_err();
    assert_eq!(error.code(), "program_not_found");
    assert!(error.to_string().contains("/no/such/shell"), "{error}");
    runtime.shutdown().await;
}

#[tokio::test]
async fn a_background_process_does_not_hold_up_its_command_and_keeps_a_reader() {
    let runtime = Runtime::start().await;
    let session = runtime.session().await;
    let gate = Gate::at(runtime.path().join("gate"));
    let text = format!("({gate}; echo later; sleep 1000) & echo hi");
    for what in [fresh(&text), command(&text)] {
        let exec = runtime.exec(session, what).await;
        assert_eq!(finished(&exec).await.stdout, "hi\n");
        gate.open();
        let both = at_least_later(&exec).await;
        assert_eq!(both, b"hi\nlater\n");
        gate.close();
    }
    runtime.shutdown().await;
}

async fn at_least_later(exec: &terminal_runtime::exec::Exec) -> Vec<u8> {
    let deadline = tokio::time::Instant::now() + TEST_TIMEOUT;
    loop {
        let bytes = all(exec, Stream::Stdout).await;
        if bytes.len() >= 9 {
            return bytes;
        }
        assert!(tokio::time::Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A tree with members that left their session, and where the system can find
/// even those, their parent too.
#[cfg(all(target_os = "linux", not(halter_portable)))]
const TREE: &str = "setsid sh -c 'echo $$; trap \"\" INT TERM; while :; do sleep 1000; done' & \
                    (setsid sh -c 'echo $$; sleep 1000' &) ; sleep 1000";
#[cfg(not(all(target_os = "linux", not(halter_portable))))]
const TREE: &str = "setsid sh -c 'echo $$; trap \"\" INT TERM; while :; do sleep 1000; done' & \
                    (sh -c 'echo $$; sleep 1000' &) ; sleep 1000";

async fn tree_pids(runtime: &Runtime, exec: &terminal_runtime::exec::Exec) -> Vec<String> {
    let mut reader = exec.reader(Stream::Stdout, 0);
    let mut text = Vec::new();
    while text.iter().filter(|byte| **byte == b'\n').count() < 2 {
        match reader.next(1024).await.unwrap() {
            terminal_runtime::exec::Chunk::Data { bytes, .. } => text.extend_from_slice(&bytes),
            other => panic!("{other:?}"),
        }
    }
    let text = String::from_utf8(text).unwrap();
    let here = |inside| number_here(runtime.path(), inside);
    text.lines().map(here).collect()
}

#[tokio::test]
async fn a_deadline_ends_the_whole_tree_and_is_a_result_with_the_output_so_far() {
    let runtime = Runtime::start().await;
    let session = runtime.session().await;
    for what in [fresh(TREE), command(TREE)] {
        let mut order = order(what);
        order.timeout = Some(Duration::from_secs(5));
        let exec = runtime.exec_order(session, order).await.unwrap();
        let pids = tree_pids(&runtime, &exec).await;
        let done = finished(&exec).await;
        assert!(done.end.timed_out && !done.end.cancelled);
        assert_eq!(done.stdout.lines().count(), 2);
        all_gone(pids).await;
    }
    assert_eq!(runtime.run(session, "echo alive").await.stdout, "alive\n");
    runtime.shutdown().await;
}

#[tokio::test]
async fn cancelling_ends_the_tree_and_keeps_the_shell() {
    let runtime = Runtime::start().await;
    let session = runtime.session().await;
    runtime.run(session, "A=kept").await;
    for what in [fresh(TREE), command(TREE)] {
        let exec = runtime.exec(session, what).await;
        let pids = tree_pids(&runtime, &exec).await;
        exec.cancel(None).await;
        let done = finished(&exec).await;
        assert!(done.end.cancelled && !done.end.timed_out);
        all_gone(pids).await;
    }
    assert_eq!(runtime.run(session, "echo $A").await.stdout, "kept\n");
    runtime.shutdown().await;
}

#[tokio::test]
async fn signals_reach_whom_they_are_meant_for() {
    let runtime = Runtime::start().await;
    let session = runtime.session().await;
    for scope in [Scope::Leader, Scope::Group, Scope::Tree] {
        let text = "trap 'exit 7' USR1; echo ready; while :; do sleep 0.01; done";
        let exec = runtime.exec(session, fresh(text)).await;
        at_least(&exec, Stream::Stdout, 6).await;
        exec.signal(Signal::new(10).unwrap(), scope).unwrap();
        assert_eq!(finished(&exec).await.code(), Some(7), "{scope:?}");
        assert_eq!(exec.signal(Signal::TERM, scope), Err(CoreError::Ended));
    }
    // A child that the shell has not prepared yet would miss the signal.
    let text = "sh -c 'echo ready; exec sleep 1000' & wait $!";
    let exec = runtime.exec(session, command(text)).await;
    at_least(&exec, Stream::Stdout, 6).await;
    exec.signal(Signal::TERM, Scope::Tree).unwrap();
    assert_eq!(finished(&exec).await.code(), Some(128 + 15));
    runtime.shutdown().await;
}

#[tokio::test]
async fn closing_a_session_kills_everything_in_it() {
    let runtime = Runtime::start().await;
    let session = runtime.session().await;
    let left = runtime
        .run(session, "setsid sleep 1000 & echo $!")
        .await
        .stdout;
    let running = runtime.exec(session, command(TREE)).await;
    let beside = runtime.exec(session, fresh(TREE)).await;
    let mut pids = tree_pids(&runtime, &running).await;
    pids.extend(tree_pids(&runtime, &beside).await);
    pids.push(number_here(runtime.path(), &left));
    runtime.close(session).await;
    for exec in [running, beside] {
        assert!(finished(&exec).await.end.cancelled);
    }
    all_gone(pids).await;
    assert!(runtime.core.list().is_empty());
    let again = runtime.exec_order(session, order(fresh("true"))).await;
    assert_eq!(again.unwrap_err().code(), "session_unknown");
    runtime.shutdown().await;
}

#[tokio::test]
async fn input_is_taken_by_offset_and_never_twice() {
    let runtime = Runtime::start().await;
    let session = runtime.session().await;
    for what in [argv(&["/bin/cat"]), command("cat")] {
        let mut order = order(what);
        order.stdin = ExecStdin::Open;
        let exec = runtime.exec_order(session, order).await.unwrap();
        assert_eq!(runtime.write(&exec, Some(0), b"hello", false).await, Ok(5));
        assert_eq!(runtime.write(&exec, Some(3), b"lo wor", false).await, Ok(9));
        assert_eq!(
            runtime.write(&exec, Some(10), b"x", false).await,
            Err(CoreError::StdinGap {
                offset: 10,
                expected: 9
            })
        );
        assert_eq!(at_least(&exec, Stream::Stdout, 9).await, b"hello wor");
        assert_eq!(runtime.write(&exec, None, b"ld", true).await, Ok(11));
        let late = runtime.write(&exec, None, b"!", false).await;
        assert_eq!(late, Err(CoreError::StdinClosed));
        let done = finished(&exec).await;
        assert_eq!(
            (done.code(), done.stdout.as_str()),
            (Some(0), "hello world")
        );
    }
    runtime.shutdown().await;
}

#[tokio::test]
async fn much_input_and_output_at_once_do_not_block_each_other() {
    let runtime = Runtime::start().await;
    let session = runtime.session().await;
    let text: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    let mut given = order(argv(&["/bin/cat"]));
    given.stdin = ExecStdin::Bytes(text.clone().into());
    let whole = runtime.exec_order(session, given).await.unwrap();
    let mut open = order(command("cat"));
    open.stdin = ExecStdin::Open;
    let written = runtime.exec_order(session, open).await.unwrap();
    for part in text.chunks(100_000) {
        runtime.write(&written, None, part, false).await.unwrap();
    }
    runtime.write(&written, None, b"", true).await.unwrap();
    for exec in [whole, written] {
        exec.ended().await.unwrap();
        assert!(all(&exec, Stream::Stdout).await == text);
    }
    runtime.shutdown().await;
}

#[tokio::test]
async fn a_terminal_is_one_and_can_be_resized() {
    let runtime = Runtime::start().await;
    let session = runtime.session().await;
    let mut typed = order(command("stty size; read x; stty size; echo got $x; exit 4"));
    typed.pty = Some(TerminalSize { cols: 91, rows: 17 });
    let exec = runtime.exec_order(session, typed).await.unwrap();
    at_least(&exec, Stream::Stdout, 7).await;
    exec.resize(TerminalSize { cols: 40, rows: 5 }).unwrap();
    let line = b"abc\n";
    runtime.write(&exec, None, line, false).await.unwrap();
    let done = finished(&exec).await;
    assert_eq!(done.code(), Some(4));
    assert_eq!(done.stdout, "17 91\r\nabc\r\n5 40\r\ngot abc\r\n");
    let plain = runtime.exec(session, fresh("true")).await;
    let none = plain.resize(TerminalSize { cols: 1, rows: 1 });
    assert_eq!(none, Err(CoreError::NoTerminal));
    runtime.shutdown().await;
}

#[tokio::test]
async fn the_end_of_a_terminals_input_is_typed() {
    let runtime = Runtime::start().await;
    let session = runtime.session().await;
    let mut typed = order(argv(&["/bin/cat"]));
    typed.pty = Some(TerminalSize { cols: 80, rows: 24 });
    let exec = runtime.exec_order(session, typed).await.unwrap();
    runtime.write(&exec, None, b"x\n", true).await.unwrap();
    let done = finished(&exec).await;
    assert_eq!((done.code(), done.stdout.as_str()), (Some(0), "x\r\nx\r\n"));
    runtime.shutdown().await;
}

#[tokio::test]
async fn environments_lie_on_top_of_each_other() {
    let runtime = Runtime::start().await;
    let session = runtime
        .session_with(|spec| spec.environment = Environment::new().with("A", "1").with("B", "1"))
        .await;
    for what in [fresh("echo $A $B"), command("echo $A $B")] {
        let mut once = order(what);
        once.environment = Environment::new().with("B", "2");
        let exec = runtime.exec_order(session, once).await.unwrap();
        assert_eq!(finished(&exec).await.stdout, "1 2\n");
    }
    assert_eq!(runtime.run(session, "echo $A $B").await.stdout, "1 1\n");
    runtime.shutdown().await;
}

#[tokio::test]
async fn a_forgotten_command_is_gone_and_others_are_found_by_name() {
    let runtime = Runtime::start().await;
    let session = runtime.session().await;
    let exec = runtime.exec(session, fresh("echo x")).await;
    let name = exec.id().clone();
    finished(&exec).await;
    let mut again = order(fresh("true"));
    again.id = name.clone();
    let twice = runtime.exec_order(session, again).await;
    assert_eq!(twice.unwrap_err().code(), "exec_exists");
    let found = runtime.core.find(&name).unwrap();
    assert_eq!(found.info().state, ExecState::Ended);
    found.forget();
    assert!(runtime.core.find(&name).is_none());
    // One that still runs is forgotten when it ends.
    let exec = runtime.exec(session, fresh("sleep 0.05")).await;
    exec.forget();
    exec.ended().await.unwrap();
    let core = runtime.core.clone();
    until("it is forgotten", || core.find(exec.id()).is_none()).await;
    runtime.shutdown().await;
}

#[tokio::test]
async fn without_its_holder_the_runtime_says_so_and_leaves_nothing_running() {
    let runtime = Runtime::start().await;
    let session = runtime.session().await;
    let exec = runtime.exec(session, fresh(TREE)).await;
    let pids = tree_pids(&runtime, &exec).await;
    let holder = holders(runtime.path())[0];
    let holder = halter_exec::host::PidFd::open(holder).unwrap();
    holder.send(Signal::KILL).unwrap();
    let lost = exec.ended().await.unwrap_err();
    assert_eq!(lost.code(), "internal");
    assert!(lost.to_string().contains("holder"), "{lost}");
    let refused = runtime.exec_order(session, order(fresh("true"))).await;
    assert!(refused.is_err());
    all_gone(pids).await;
    // The next session has a holder of its own.
    let next = runtime.session().await;
    assert_eq!(runtime.run(next, "echo anew").await.stdout, "anew\n");
    runtime.shutdown().await;
}
