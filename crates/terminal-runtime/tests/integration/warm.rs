//! Commands in a warm shell: streams that pass from one to the next, and a
//! journal instead of messages.

use std::collections::HashSet;
use std::io::Read;
use std::time::Duration;

use terminal_runtime::exec::{Exec, ExecState, Stream};
use terminal_runtime::session::SessionId;

use crate::gate::Gate;
use crate::support::{Finished, Runtime, all, at_least, command, finished, order, until};

/// A command whose result nobody asks for twice.
async fn start(runtime: &Runtime, session: SessionId, text: &str) -> Exec {
    let mut order = order(command(text));
    order.kept = false;
    runtime.exec_order(session, order).await.unwrap()
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

/// What a command's output goes into.
async fn pipe_of(runtime: &Runtime, session: SessionId) -> String {
    let shown = run(runtime, session, "readlink /proc/self/fd/1").await;
    assert!(shown.stdout.starts_with("pipe:"), "{shown:?}");
    shown.stdout
}

fn holder_descriptors(runtime: &Runtime) -> usize {
    let find = |pid: &str| {
        let name = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let name = String::from_utf8_lossy(&name).into_owned();
        name.contains("holder") && name.contains(runtime.path().to_str().unwrap())
    };
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let names = processes.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let holder = names.into_iter().find(|name| find(name)).expect("a holder");
    std::fs::read_dir(format!("/proc/{holder}/fd"))
        .unwrap()
        .count()
}

#[tokio::test]
#[cfg_attr(halter_portable, ignore = "its streams have names, and are not reused")]
async fn streams_pass_from_command_to_command_and_no_byte_with_them() {
    let runtime = Runtime::start().await;
    let session = warm(&runtime).await;
    let mut pipes = HashSet::new();
    let mut reused = 0;
    for number in 0..60 {
        let text = format!("echo out {number}; echo err {number} >&2; cd /usr");
        let done = run(&runtime, session, &text).await;
        assert_eq!(done.stdout, format!("out {number}\n"));
        assert_eq!(done.stderr, format!("err {number}\n"));
        if !pipes.insert(pipe_of(&runtime, session).await) {
            reused += 1;
        }
    }
    assert!(reused > 0, "every command had new streams");
    let descriptors = holder_descriptors(&runtime);
    for _ in 0..60 {
        assert_eq!(run(&runtime, session, "echo x").await.stdout, "x\n");
    }
    let more = holder_descriptors(&runtime);
    // Those made ahead come and go in batches.
    assert!(more < descriptors + 100, "{descriptors} became {more}");
    runtime.shutdown().await;
}

#[tokio::test]
async fn streams_that_somebody_still_writes_to_are_left_to_their_command() {
    let runtime = Runtime::start().await;
    let session = warm(&runtime).await;
    let gate = Gate::at(runtime.path().join("gate"));
    let late = format!("({gate}; echo late; echo later >&2) & echo early");
    let mut kept = order(command(&late));
    kept.kept = true;
    let kept = runtime.exec_order(session, kept).await.unwrap();
    assert_eq!(finished(&kept).await.stdout, "early\n");
    let lost = start(&runtime, session, &late).await;
    finished(&lost).await;
    lost.forget();
    for number in 0..5 {
        let done = run(&runtime, session, &format!("echo {number}")).await;
        assert_eq!(done.stdout, format!("{number}\n"));
    }
    gate.open();
    until("the late bytes are there", || {
        let mut reader = kept.reader(Stream::Stdout, 6);
        matches!(reader.try_next(100), Ok(Some(terminal_runtime::exec::Chunk::Data { bytes, .. }))
            if &bytes[..] == b"late\n")
    })
    .await;
    for number in 0..20 {
        let done = run(&runtime, session, &format!("echo {number}; sleep 0.01")).await;
        assert_eq!(
            (done.stdout, done.stderr),
            (format!("{number}\n"), String::new())
        );
    }
    assert_eq!(all(&kept, Stream::Stderr).await, b"later\n");
    gate.close();
    runtime.shutdown().await;
}

#[tokio::test]
async fn streams_that_somebody_still_reads_are_left_to_the_reader() {
    let runtime = Runtime::start().await;
    let session = warm(&runtime).await;
    let first = start(&runtime, session, "seq 1 5000").await;
    first.ended().await.unwrap();
    let expected: String = (1..=5000).map(|number| format!("{number}\n")).collect();
    let mut reader = first.reader(Stream::Stdout, 0);
    first.forget();
    drop(first);
    for number in 0..5 {
        let done = run(&runtime, session, &format!("echo {number}")).await;
        assert_eq!(done.stdout, format!("{number}\n"));
    }
    let mut bytes = Vec::new();
    while let terminal_runtime::exec::Chunk::Data { bytes: more, .. } =
        reader.next(1000).await.unwrap()
    {
        bytes.extend_from_slice(&more);
    }
    assert!(String::from_utf8(bytes).unwrap() == expected);
    runtime.shutdown().await;
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
async fn a_command_of_the_journal_is_adopted() {
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
    // And again, now with a slot of its own.
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
#[cfg_attr(
    halter_portable,
    ignore = "without a journal, the holder hears of what was taken a moment later"
)]
async fn an_end_that_nobody_took_is_there_after_a_crash_and_one_that_was_taken_is_not() {
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
    let mut names: Vec<_> = runtime
        .core
        .list()
        .into_iter()
        .map(|info| info.id)
        .collect();
    names.sort();
    let mut expected = vec![not_taken.id().clone(), left.id().clone()];
    expected.sort();
    assert_eq!(names, expected);
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

/// The daemon died after it had written the journal and before it had given
/// the shell its lines.
#[tokio::test]
async fn a_command_that_never_reached_its_shell_is_given_again_and_runs_once() {
    let runtime = Runtime::start().await;
    let session = warm(&runtime).await;
    let shell: i32 = run(&runtime, session, "echo $$")
        .await
        .stdout
        .trim()
        .parse()
        .unwrap();
    let signal = |signal: &str| {
        let sent = std::process::Command::new("/bin/sh")
            .args(["-c", &format!("kill -{signal} {shell}")])
            .status();
        assert!(sent.unwrap().success());
    };
    // The shell reads nothing more, once it has noticed, and what it is told
    // is taken away.
    signal("STOP");
    let is_stopped = || {
        let stat = std::fs::read_to_string(format!("/proc/{shell}/stat")).unwrap();
        stat.rsplit_once(") ")
            .is_some_and(|(_, rest)| rest.starts_with('T'))
    };
    until("the shell has stopped", is_stopped).await;
    let journal = runtime.path().join("ran");
    let text = format!("echo once >>{}; echo output", journal.display());
    let exec = start(&runtime, session, &text).await;
    let mut lines = std::fs::File::open(format!("/proc/{shell}/fd/255")).unwrap();
    let mut taken = vec![0; 4096];
    let count = lines.read(&mut taken).unwrap();
    let taken = String::from_utf8_lossy(&taken[..count]).into_owned();
    assert!(taken.contains("__halter_end"), "{taken}");
    let (runtime, _) = runtime.crash().await;
    signal("CONT");
    let found = runtime.core.find(exec.id()).expect("it must be adopted");
    let done = finished(&found).await;
    assert_eq!((done.code(), done.stdout.as_str()), (Some(0), "output\n"));
    assert_eq!(std::fs::read_to_string(&journal).unwrap(), "once\n");
    found.forget();
    std::fs::remove_file(journal).unwrap();
    runtime.shutdown().await;
}

/// Crashes between short commands, in every state a shell's streams and
/// journal can be in.
#[tokio::test]
async fn no_crash_mixes_or_loses_what_commands_say() {
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
            let exec = start(&runtime, session, &text).await;
            if number < 3 {
                let done = finished(&exec).await;
                assert!(done.stdout.starts_with(&format!("{name}\n")), "{done:?}");
            }
            if (round + number) % 3 == 0 && number < 3 {
                exec.forget();
            } else {
                running.push((exec.id().clone(), name));
            }
            tokio::time::sleep(Duration::from_millis(u64::from(round % 3))).await;
        }
        let (next, _) = runtime.crash().await;
        runtime = next;
        for (id, name) in running {
            let found = runtime.core.find(&id).expect("it must be adopted");
            let done = finished(&found).await;
            let lines: Vec<&str> = done.stdout.lines().collect();
            assert_eq!(lines[0], name);
            assert!(
                lines[1..]
                    .iter()
                    .all(|line| *line == format!("{name} late")),
                "{done:?}"
            );
            found.forget();
        }
    }
    runtime.shutdown().await;
}
