//! Commands in a terminal.

use std::fs::File;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use halter_exec::host::{Moved, Spool, launch};
use halter_exec::limits::TERMINAL_DRAIN_WAIT;
use halter_exec::{Command, CommandOutcome, OutputPipe, Process, Terminal, TerminalSize, run};
use tokio_util::sync::CancellationToken;

use crate::launch::{end_of, sh_plan};
use crate::support::{eventually, sh};

const SIZE: TerminalSize = TerminalSize {
    columns: 132,
    rows: 50,
};

async fn run_to_end(spec: Command) -> CommandOutcome {
    let spec = spec.deadline(Duration::from_secs(60));
    run(spec, &CancellationToken::new(), &()).await.unwrap()
}

/// Reads until this text has come.
async fn read_until(pipe: &mut OutputPipe, text: &str) {
    let mut seen = String::new();
    while !seen.contains(text) {
        let chunk = pipe.read().await.unwrap().expect(text);
        seen += &String::from_utf8_lossy(&chunk);
    }
}

#[tokio::test]
async fn a_command_in_a_terminal_controls_it_and_knows_its_size() {
    let text = "for fd in 0 1 2; do test -t $fd && echo $fd; done; stty size; \
                echo direct > /dev/tty; echo error >&2; exit 3";
    let outcome = run_to_end(sh(text).terminal(SIZE)).await;
    assert_eq!(
        outcome.stdout.to_text(),
        "0\r\n1\r\n2\r\n50 132\r\ndirect\r\nerror\r\n"
    );
    assert_eq!(outcome.stderr.to_text(), "");
    assert_eq!(outcome.status.code, Some(3));
}

#[tokio::test]
async fn all_that_was_printed_before_the_end_comes_through() {
    for _ in 0..10 {
        let outcome = run_to_end(sh("seq 1 5000").terminal(SIZE)).await;
        let expected: String = (1..=5000).map(|number| format!("{number}\r\n")).collect();
        assert!(outcome.stdout.to_text() == expected);
    }
}

#[tokio::test]
async fn the_end_of_input_is_typed_where_a_line_begins_and_within_one() {
    for (input, output) in [
        (&b""[..], ""),
        (b"hello\n", "hello\r\nhello\r\n"),
        (b"hello", "hellohello"),
    ] {
        let outcome = run_to_end(sh("cat").terminal(SIZE).stdin(input)).await;
        assert_eq!(outcome.stdout.to_text(), output);
        assert!(outcome.status.success());
    }
    let outcome = run_to_end(sh("cat").terminal(SIZE)).await;
    assert!(outcome.status.success());
}

#[tokio::test]
async fn a_terminal_is_resized_while_a_program_runs_in_it() {
    let text = "trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.02; done";
    let spec = sh(text).terminal(SIZE).streamed_stdin();
    let (mut process, mut streams) = Process::spawn(&spec).unwrap();
    assert!(streams.stderr.is_none());
    read_until(&mut streams.stdout, "ready").await;
    process
        .resize(TerminalSize {
            columns: 99,
            rows: 11,
        })
        .unwrap();
    read_until(&mut streams.stdout, "11 99").await;
    process.wait().await.unwrap();
}

#[tokio::test]
async fn without_a_terminal_there_is_nothing_to_resize() {
    let (mut process, _streams) = Process::spawn(&sh(":")).unwrap();
    let error = process.resize(SIZE).unwrap_err();
    assert_eq!(error.code(), "invalid_input");
    process.wait().await.unwrap();
}

#[tokio::test]
async fn typing_is_answered_while_the_program_runs() {
    let spec = sh("stty -echo; echo ready; read line; echo \"got $line\"; sleep 300")
        .terminal(SIZE)
        .streamed_stdin();
    let (process, mut streams) = Process::spawn(&spec).unwrap();
    let stdin = streams.stdin.unwrap();
    let conversation = async {
        read_until(&mut streams.stdout, "ready").await;
        stdin.write(None, b"hello\n").await.unwrap();
        read_until(&mut streams.stdout, "got hello").await;
        // Ctrl-C, as a person would.
        stdin.write(None, b"\x03").await.unwrap();
        process.exited().await;
    };
    tokio::select! {
        () = conversation => {}
        _ = stdin.pump() => panic!("input ended"),
    }
}

#[tokio::test]
async fn whoever_keeps_the_terminal_open_does_not_hold_up_the_end() {
    let begun = Instant::now();
    let text = "trap '' HUP; sleep 300 & echo hi";
    let outcome = run_to_end(sh(text).terminal(SIZE)).await;
    assert_eq!(outcome.stdout.to_text(), "hi\r\n");
    assert!(begun.elapsed() >= TERMINAL_DRAIN_WAIT);
    assert!(begun.elapsed() < Duration::from_secs(30));
}

#[test]
fn the_output_of_a_terminal_goes_through_a_pipe_into_a_spool() {
    let (terminal, theirs) = Terminal::open(SIZE).unwrap();
    assert_eq!(terminal.size().unwrap(), SIZE);
    assert_eq!(terminal.end_of_input(), 4);
    let mut plan = sh_plan("stty -opost; seq 1 30000");
    plan.terminal = Some(0);
    let slots = [theirs.as_fd(), theirs.as_fd(), theirs.as_fd()];
    let child = launch(&plan, &slots).unwrap();
    drop(theirs);

    let directory = tempfile::tempdir().unwrap();
    let overflow = directory.path().join("overflow");
    let spool = Spool::new(Spool::memory_file().unwrap(), overflow, 1 << 30).unwrap();
    let (read, write) = std::io::pipe().unwrap();
    assert!(eventually(|| {
        loop {
            match terminal.splice_into(&write).unwrap() {
                Moved::Bytes(_) => while let Moved::Bytes(_) = spool.splice_from(&read).unwrap() {},
                Moved::WouldBlock => return false,
                Moved::End => return true,
            }
        }
    }));
    assert!(end_of(&child).status.success());
    let expected: String = (1..=30_000).map(|number| format!("{number}\n")).collect();
    assert_eq!(spool.total(), expected.len() as u64);
    let path = spool.complete_file(u64::MAX).unwrap().unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut File::open(path).unwrap(), &mut text).unwrap();
    assert!(text == expected);
}
