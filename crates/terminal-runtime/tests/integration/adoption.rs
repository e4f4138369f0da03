//! What a restarted daemon finds and goes on with.

use std::time::Duration;

use bytes::Bytes;
use halter_exec::{Environment, Signal};
use terminal_runtime::exec::{Exec, ExecState, ExecStdin, Stream, TerminalSize};

use crate::gate::Gate;
use crate::support::{Runtime, argv, at_least, command, finished, fresh, order, until};

fn found(runtime: &Runtime, exec: &Exec) -> Exec {
    runtime.core.find(exec.id()).expect("it must be adopted")
}

#[tokio::test]
async fn running_commands_go_on_and_are_listed() {
    let runtime = Runtime::start().await;
    let first = runtime.session().await;
    let second = runtime
        .session_with(|spec| {
            spec.environment = Environment::new().with("SECRET", "s3cret");
            spec.note = Bytes::from_static(b"mine");
        })
        .await;
    runtime.run(second, "cd /; B=2").await;
    let text = "echo early; until [ -e \"$F\" ]; do sleep 0.01; done; echo late $SECRET; exit 6";
    let gate = runtime.path().join("gate");
    let set_gate = |environment: &mut Environment| {
        environment.set("F", &gate);
    };
    let mut in_shell = order(command(text));
    set_gate(&mut in_shell.environment);
    in_shell.note = Bytes::from_static(b"note");
    let mut alone = order(fresh(text));
    set_gate(&mut alone.environment);
    let in_shell = runtime.exec_order(second, in_shell).await.unwrap();
    let alone = runtime.exec_order(first, alone).await.unwrap();
    at_least(&in_shell, Stream::Stdout, 6).await;

    let (runtime, adopted) = runtime.crash().await;
    assert_eq!(adopted.len(), 2);
    let session = adopted.iter().find(|session| session.id == second).unwrap();
    assert_eq!(&session.spec.note[..], b"mine");
    assert_eq!(session.commands, 2);
    let running = runtime.core.list();
    assert_eq!(running.len(), 3);
    let info = found(&runtime, &in_shell).info();
    assert_eq!(
        (info.state, &info.note[..]),
        (ExecState::Running, &b"note"[..])
    );

    std::fs::write(&gate, "").unwrap();
    let done = finished(&found(&runtime, &in_shell)).await;
    assert_eq!(
        (done.code(), done.stdout.as_str()),
        (Some(6), "early\nlate s3cret\n")
    );
    let done = finished(&found(&runtime, &alone)).await;
    assert_eq!(
        (done.code(), done.stdout.as_str()),
        (Some(6), "early\nlate\n")
    );
    assert_eq!(runtime.run(second, "echo $PWD $B").await.stdout, "/ 2\n");
    std::fs::remove_file(gate).unwrap();
    runtime.shutdown().await;
}

#[tokio::test]
async fn commands_that_end_while_no_daemon_is_there_have_ended_when_one_is() {
    let runtime = Runtime::start().await;
    let session = runtime.session().await;
    let other = runtime.session().await;
    let directory = tempfile::tempdir().unwrap();
    let gate = Gate::at(directory.path().join("gate"));
    let marks = ["alone", "in_shell", "killed"].map(|name| directory.path().join(name));
    let [a, b, c] = marks.each_ref().map(|mark| mark.display().to_string());
    let alone = fresh(&format!("{gate}; echo x; : >{a}; exit 3"));
    let alone = runtime.exec(session, alone).await;
    let in_shell = command(&format!("A=1; {gate}; echo y; : >{b}; exit 4"));
    let in_shell = runtime.exec(session, in_shell).await;
    let killed = command(&format!("{gate}; : >{c}; kill -9 $$"));
    let killed = runtime.exec(other, killed).await;
    let ended = runtime.exec(session, fresh("echo before; exit 5")).await;
    finished(&ended).await;
    let core = runtime.core.clone();
    core.abandon();
    gate.open();
    until("all are about to end", || {
        marks.iter().all(|mark| mark.exists())
    })
    .await;
    let (runtime, _) = runtime.crash().await;
    for (exec, code, output) in [
        (&alone, Some(3), "x\n"),
        (&in_shell, Some(4), "y\n"),
        (&ended, Some(5), "before\n"),
        (&killed, None, ""),
    ] {
        let done = finished(&found(&runtime, exec)).await;
        assert_eq!((done.code(), done.stdout.as_str()), (code, output));
    }
    assert_eq!(runtime.run(session, "echo $A").await.stdout, "1\n");
    assert_eq!(runtime.run(other, "echo ok").await.stdout, "ok\n");
    runtime.shutdown().await;
}

/// What ended before the crash was in the same group, one after the other.
#[tokio::test]
async fn commands_after_a_crash_are_still_held_apart() {
    let runtime = Runtime::start().await;
    let session = runtime.session().await;
    let before = [
        runtime
            .exec(session, argv(&["/bin/sh", "-c", "exit 3"]))
            .await,
        runtime.exec(session, argv(&["/bin/echo", "x"])).await,
        runtime.exec(session, argv(&["/no/such/program"])).await,
    ];
    for exec in &before {
        let _ = exec.ended().await;
    }
    let (runtime, _) = runtime.crash().await;
    let [failed, printed, missing] = before.map(|exec| found(&runtime, &exec));
    assert_eq!(finished(&failed).await.code(), Some(3));
    let printed = finished(&printed).await;
    assert_eq!((printed.code(), printed.stdout.as_str()), (Some(0), "x\n"));
    assert!(missing.ended().await.is_err());
    let one = runtime.exec(session, fresh("read line; echo $line")).await;
    let gate = runtime.path().join("gate");
    let text = "until [ -e \"$F\" ]; do sleep 0.01; done; exit 4";
    let mut waits = order(fresh(text));
    waits.environment.set("F", &gate);
    let waits = runtime.exec_order(session, waits).await.unwrap();
    let other = runtime.exec(session, fresh("sleep 300")).await;
    finished(&one).await;
    other.cancel(Some(Signal::KILL)).await;
    assert_eq!(finished(&other).await.end.signal, Some(9));
    std::fs::write(&gate, "").unwrap();
    assert_eq!(finished(&waits).await.code(), Some(4));
    std::fs::remove_file(gate).unwrap();
    runtime.shutdown().await;
}

#[tokio::test]
async fn time_goes_on_while_no_daemon_is_there() {
    let runtime = Runtime::start().await;
    let session = runtime.session().await;
    let other = runtime.session().await;
    let limited = |what| {
        let mut order = order(what);
        order.timeout = Some(Duration::from_millis(300));
        order
    };
    let alone = runtime
        .exec_order(session, limited(fresh("sleep 1000")))
        .await
        .unwrap();
    let in_shell = runtime
        .exec_order(other, limited(command("sleep 1000")))
        .await
        .unwrap();
    let (runtime, _) = runtime.crash().await;
    for exec in [&alone, &in_shell] {
        let done = finished(&found(&runtime, exec)).await;
        assert!(done.end.timed_out);
        assert!(done.end.duration >= Duration::from_millis(300));
    }
    assert_eq!(runtime.run(other, "echo alive").await.stdout, "alive\n");
    runtime.shutdown().await;
}

#[tokio::test]
async fn adopted_commands_can_be_cancelled_and_their_sessions_closed() {
    let runtime = Runtime::start().await;
    let session = runtime.session().await;
    let other = runtime.session().await;
    let tree = "setsid sleep 1000 & sleep 1000";
    let alone = runtime.exec(session, fresh(tree)).await;
    let in_shell = runtime.exec(other, command(tree)).await;
    let (runtime, _) = runtime.crash().await;
    for exec in [&alone, &in_shell] {
        let exec = found(&runtime, exec);
        exec.cancel(None).await;
        assert!(finished(&exec).await.end.cancelled);
    }
    assert_eq!(runtime.run(other, "echo alive").await.stdout, "alive\n");
    runtime.close(session).await;
    runtime.close(other).await;
    runtime.shutdown().await;
}

#[tokio::test]
async fn input_goes_on_where_it_was() {
    let runtime = Runtime::start().await;
    let session = runtime.session().await;
    let mut open = order(argv(&["/bin/cat"]));
    open.stdin = ExecStdin::Open;
    let pipe = runtime.exec_order(session, open).await.unwrap();
    let mut typed = order(argv(&["/bin/cat"]));
    typed.pty = Some(TerminalSize { cols: 80, rows: 24 });
    let terminal = runtime.exec_order(session, typed).await.unwrap();
    // A terminal shows the line twice: as it is typed, and as it is answered.
    for (exec, shown) in [(&pipe, 4), (&terminal, 10)] {
        let line = b"one\n";
        runtime.write(exec, Some(0), line, false).await.unwrap();
        at_least(exec, Stream::Stdout, shown).await;
    }
    // Together with what the dead daemon had open.
    let names = [pipe, terminal].map(|exec| exec.id().clone());
    let (runtime, _) = runtime.crash().await;
    let expected = ["one\ntwo\n", "one\r\none\r\ntwo\r\ntwo\r\n"];
    for (name, expected) in names.iter().zip(expected) {
        let exec = runtime.core.find(name).unwrap();
        // A client that does not know what arrived says it again.
        let line = b"one\ntwo\n";
        let accepted = runtime.write(&exec, Some(0), line, true).await.unwrap();
        assert!(accepted >= 8);
        let done = finished(&exec).await;
        assert_eq!((done.code(), done.stdout.as_str()), (Some(0), expected));
    }
    runtime.shutdown().await;
}

#[tokio::test]
async fn background_processes_keep_their_reader_and_forgotten_commands_stay_forgotten() {
    let runtime = Runtime::start().await;
    let session = runtime.session().await;
    let text = "(trap '' PIPE; until [ -e \"$F\" ]; do sleep 0.01; done; \
                echo still there; echo $? >\"$F.done\") & echo started";
    let gate = runtime.path().join("gate");
    let mut left = order(command(text));
    left.environment.set("F", &gate);
    let left = runtime.exec_order(session, left).await.unwrap();
    assert_eq!(finished(&left).await.stdout, "started\n");
    left.forget();
    let (runtime, _) = runtime.crash().await;
    assert!(runtime.core.find(left.id()).is_none());
    std::fs::write(&gate, "").unwrap();
    let done = runtime.path().join("gate.done");
    crate::support::until("the process has written", || {
        std::fs::read_to_string(&done).is_ok_and(|text| text == "0\n")
    })
    .await;
    std::fs::remove_file(gate).unwrap();
    std::fs::remove_file(done).unwrap();
    runtime.shutdown().await;
}

#[tokio::test]
async fn large_output_is_whole_across_restarts() {
    let runtime = Runtime::start().await;
    let session = runtime.session().await;
    let text = "for i in $(seq 40); do seq $((i * 10000)) $((i * 10000 + 9999)); sleep 0.01; done";
    let exec = runtime.exec(session, command(text)).await;
    at_least(&exec, Stream::Stdout, 70_000).await;
    let (runtime, _) = runtime.crash().await;
    at_least(&found(&runtime, &exec), Stream::Stdout, 900_000).await;
    let (runtime, _) = runtime.crash().await;
    let done = finished(&found(&runtime, &exec)).await;
    let expected: String = (10_000..410_000).map(|n| format!("{n}\n")).collect();
    assert!(done.stdout == expected, "{} bytes", done.stdout.len());
    runtime.shutdown().await;
}
