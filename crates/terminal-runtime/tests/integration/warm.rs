//! Short commands one after the other, in a warm shell and without one, and
//! crashes between them.

use terminal_runtime::exec::{Exec, ExecState, ExecWhat, Stream};
use terminal_runtime::session::SessionId;

use crate::gate::Gate;
use crate::support::{Finished, Runtime, at_least, command, finished, fresh, order};

/// A command whose result nobody asks for twice.
async fn start(runtime: &Runtime, session: SessionId, text: &str) -> Exec {
    runtime
        .exec_order(session, order(command(text)))
        .await
        .unwrap()
}

async fn run(runtime: &Runtime, session: SessionId, text: &str) -> Finished {
    let exec = start(runtime, session, text).await;
    let done = finished(&exec).await;
    exec.forget();
    done
}

/// A session whose shell has run something.
async fn warm(runtime: &Runtime) -> SessionId {
    let session = runtime.session().await;
    assert_eq!(run(runtime, session, "true").await.code(), Some(0));
    session
}

#[tokio::test]
async fn much_output_and_slow_output_come_whole_in_a_warm_shell() {
    let runtime = Runtime::start().await;
    let session = warm(&runtime).await;
    for last in [20_000, 3, 200_000, 1] {
        let done = run(
            &runtime,
            session,
            &format!("seq 1 {last}; seq 1 {last} >&2"),
        )
        .await;
        let expected: String = (1..=last).map(|number| format!("{number}\n")).collect();
        assert!(done.stdout == expected && done.stderr == expected, "{last}");
    }
    let slow = start(&runtime, session, "echo a; sleep 0.05; echo b; sleep 1000").await;
    assert_eq!(at_least(&slow, Stream::Stdout, 4).await, b"a\nb\n");
    let stopped = slow.clone();
    runtime.on(async move { stopped.cancel(None).await }).await;
    let done = finished(&slow).await;
    assert!(done.end.cancelled && done.stdout == "a\nb\n");
    slow.forget();
    assert_eq!(run(&runtime, session, "echo c").await.stdout, "c\n");
    runtime.shutdown().await;
}

#[tokio::test]
async fn a_command_in_a_warm_shell_is_adopted_and_once_more() {
    let runtime = Runtime::start().await;
    let session = warm(&runtime).await;
    let gate = Gate::at(runtime.path().join("gate"));
    let text = format!("cd /usr; A=1; echo early; {gate}; echo late; (exit 6)");
    let exec = start(&runtime, session, &text).await;
    at_least(&exec, Stream::Stdout, 6).await;
    let (runtime, adopted) = runtime.crash().await;
    assert_eq!(adopted[0].commands, 2);
    let found = runtime.core.find(exec.id()).expect("it must be adopted");
    assert_eq!(found.info().state, ExecState::Running);
    let (runtime, _) = runtime.crash().await;
    let found = runtime.core.find(exec.id()).expect("it must be adopted");
    gate.open();
    let done = finished(&found).await;
    assert_eq!(
        (done.code(), done.stdout.as_str()),
        (Some(6), "early\nlate\n")
    );
    found.forget();
    assert_eq!(
        run(&runtime, session, "echo $PWD $A").await.stdout,
        "/usr 1\n"
    );
    gate.close();
    runtime.shutdown().await;
}

#[tokio::test]
async fn an_end_that_nobody_took_is_there_after_a_crash() {
    let runtime = Runtime::start().await;
    let first = warm(&runtime).await;
    let second = warm(&runtime).await;
    let third = warm(&runtime).await;
    let not_taken = start(&runtime, first, "cd /usr; echo mine; (exit 5)").await;
    finished(&not_taken).await;
    let left = start(&runtime, third, "B=2; exit 7").await;
    finished(&left).await;
    run(&runtime, second, "cd /var; A=3; (exit 4)").await;
    let (runtime, adopted) = runtime.crash().await;
    assert_eq!(adopted.len(), 3);
    for (exec, code, output) in [(&not_taken, 5, "mine\n"), (&left, 7, "")] {
        let found = runtime.core.find(exec.id()).unwrap();
        let done = finished(&found).await;
        assert_eq!((done.code(), done.stdout.as_str()), (Some(code), output));
    }
    let state = "echo $? $PWD $A $B";
    assert_eq!(run(&runtime, first, state).await.stdout, "5 /usr\n");
    assert_eq!(run(&runtime, second, state).await.stdout, "4 /var 3\n");
    assert_eq!(run(&runtime, third, state).await.stdout, "7 /tmp 2\n");
    runtime.shutdown().await;
}

/// Crashes between short commands: nothing of one shows in another.
#[tokio::test]
async fn no_crash_mixes_or_loses_what_commands_say() {
    crash_between(command).await;
}

#[tokio::test]
async fn no_crash_mixes_or_loses_what_programs_say() {
    crash_between(fresh).await;
}

async fn crash_between(what: fn(&str) -> ExecWhat) {
    let mut runtime = Runtime::start().await;
    let session = warm(&runtime).await;
    for round in 0..12_u32 {
        let mut running = Vec::new();
        for number in 0..4 {
            let name = format!("{round}-{number}");
            let text = match (round + number) % 4 {
                0 => format!("echo {name}"),
                1 => format!("echo {name}; (sleep 0.02; echo {name} late) & sleep 0.001"),
                2 => format!("echo {name}; seq 1 20000 >/dev/null; N={number}"),
                _ => format!("echo {name}; seq 1 20000 >&2"),
            };
            let exec = runtime.exec_order(session, order(what(&text))).await;
            let exec = exec.unwrap();
            if number < 3 {
                let done = finished(&exec).await;
                assert!(done.stdout.starts_with(&format!("{name}\n")), "{done:?}");
            }
            if (round + number) % 3 == 0 && number < 3 {
                exec.forget();
            } else {
                running.push((exec.id().clone(), name));
            }
        }
        let (next, _) = runtime.crash().await;
        runtime = next;
        for (id, name) in running {
            let found = runtime.core.find(&id).expect("it must be adopted");
            let done = finished(&found).await;
            let lines: Vec<&str> = done.stdout.lines().collect();
            let late = format!("{name} late");
            assert_eq!(lines[0], name);
            assert!(lines[1..].iter().all(|line| *line == late), "{done:?}");
            found.forget();
        }
    }
    runtime.shutdown().await;
}
