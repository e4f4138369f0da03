//! Standard input by offset.

use std::fs::File;
use std::io::{PipeReader, Read};

use halter_exec::Process;
use halter_exec::host::{Delivery, InputError, InputSpool, InputTarget, Spool};
use halter_exec::limits::MAX_STDIN_BYTES;
use proptest::prelude::*;

use crate::support::sh;

struct Input {
    memory: File,
    read: PipeReader,
    write: std::os::fd::OwnedFd,
    spool: InputSpool,
}

fn input() -> Input {
    let memory = Spool::memory_file().unwrap();
    let (read, write) = std::io::pipe().unwrap();
    let write = std::os::fd::OwnedFd::from(write);
    let target = InputTarget::Pipe(write.try_clone().unwrap());
    let spool = InputSpool::new(memory.try_clone().unwrap(), target).unwrap();
    Input {
        memory,
        read,
        write,
        spool,
    }
}

impl Input {
    /// What the next program makes of it after this one was killed.
    fn reopen(&mut self) {
        let target = InputTarget::Pipe(self.write.try_clone().unwrap());
        self.spool = InputSpool::new(self.memory.try_clone().unwrap(), target).unwrap();
    }

    /// Reads everything that is taken and not delivered yet.
    fn read_all(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while let Delivery::Bytes(count) = self.spool.deliver().unwrap() {
            let mut buffer = vec![0; usize::try_from(count).unwrap()];
            self.read.read_exact(&mut buffer).unwrap();
            bytes.extend(buffer);
        }
        bytes
    }
}

#[test]
fn repeated_bytes_are_passed_over_and_missing_ones_refused() {
    let mut input = input();
    assert_eq!(input.spool.accept(Some(0), b"hello").unwrap(), 5);
    assert_eq!(input.spool.accept(Some(0), b"hello").unwrap(), 5);
    assert_eq!(input.spool.accept(Some(3), b"lo wor").unwrap(), 9);
    assert_eq!(input.spool.accept(None, b"ld").unwrap(), 11);
    let error = input.spool.accept(Some(12), b"!").unwrap_err();
    assert_eq!(error.code(), "input_gap");
    assert!(matches!(
        error,
        InputError::Gap {
            expected: 11,
            found: 12
        }
    ));
    assert_eq!(input.read_all(), b"hello world");
    assert_eq!(input.spool.deliver().unwrap(), Delivery::Idle);
}

#[test]
fn after_the_end_only_what_was_sent_before_may_be_sent_again() {
    let mut input = input();
    input.spool.accept(None, b"abc").unwrap();
    input.spool.end();
    assert_eq!(input.spool.accept(Some(1), b"bc").unwrap(), 3);
    let error = input.spool.accept(Some(3), b"d").unwrap_err();
    assert_eq!(error.code(), "input_closed");
    assert_eq!(input.read_all(), b"abc");
    assert_eq!(input.spool.deliver().unwrap(), Delivery::Ended);
}

#[test]
fn a_process_that_closes_its_input_does_not_want_more() {
    let input = input();
    input.spool.accept(None, b"abc").unwrap();
    drop(input.read);
    assert_eq!(input.spool.deliver().unwrap(), Delivery::Closed);
    let error = input.spool.accept(None, b"d").unwrap_err();
    assert_eq!(error.code(), "input_closed");
    assert_eq!(input.spool.deliver().unwrap(), Delivery::Closed);
}

#[tokio::test]
async fn so_much_waits_and_no_more_until_some_is_read() {
    let mut input = input();
    let most = vec![b'x'; MAX_STDIN_BYTES];
    assert!(matches!(
        input.spool.accept(None, &[&most[..], b"x"].concat()),
        Err(InputError::Full)
    ));
    input.spool.accept(None, &most).unwrap();
    assert!(matches!(
        input.spool.accept(None, b"y"),
        Err(InputError::Full)
    ));
    let spool = &input.spool;
    let read = &mut input.read;
    let (written, ()) = tokio::join!(spool.write(None, b"y"), async {
        tokio::task::yield_now().await;
        let Delivery::Bytes(count) = spool.deliver().unwrap() else {
            panic!("nothing delivered");
        };
        let mut buffer = vec![0; usize::try_from(count).unwrap()];
        read.read_exact(&mut buffer).unwrap();
    });
    assert_eq!(written.unwrap(), MAX_STDIN_BYTES as u64 + 1);
}

#[cfg_attr(
    any(not(target_os = "linux"), halter_portable),
    ignore = "needs holes in files"
)]
#[test]
fn what_was_read_takes_no_memory_and_is_not_harmed() {
    use std::os::unix::fs::MetadataExt;
    let mut input = input();
    let bytes: Vec<u8> = (0..3_000_000_u32)
        .map(|number| (number / 3) as u8)
        .collect();
    input.spool.accept(None, &bytes).unwrap();
    assert!(input.read_all() == bytes);
    let room = input.memory.metadata().unwrap().blocks() * 512;
    assert!(room < 1_000_000, "{room}");
}

#[tokio::test]
async fn both_directions_at_once_do_not_stop_each_other() {
    let (mut process, mut streams) = Process::spawn(&sh("cat").streamed_stdin()).unwrap();
    let stdin = streams.stdin.unwrap();
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|number| number as u8).collect();
    let source = bytes.clone();
    let delivering = async move {
        let writing = async {
            for piece in source.chunks(100_000) {
                stdin.write(None, piece).await.unwrap();
            }
            stdin.end();
        };
        tokio::join!(stdin.pump(), writing).0.unwrap();
        // The end of input.
        drop(stdin);
    };
    let reading = async {
        let mut read = Vec::new();
        while let Some(chunk) = streams.stdout.read().await.unwrap() {
            read.extend_from_slice(&chunk);
        }
        read
    };
    let ((), read) = tokio::join!(delivering, reading);
    assert!(read == bytes);
    assert!(process.wait().await.unwrap().0.success());
}

#[tokio::test]
async fn a_command_run_by_one_call_cannot_have_streamed_input() {
    let spec = sh("cat").streamed_stdin();
    let cancel = tokio_util::sync::CancellationToken::new();
    let error = halter_exec::run(spec, &cancel, &()).await.unwrap_err();
    assert_eq!(error.code(), "invalid_input");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    /// Senders that repeat themselves, readers that lag, programs that are
    /// replaced: the process reads every byte once.
    #[test]
    fn every_byte_arrives_once(
        pieces in prop::collection::vec((0..200_usize, 1..3000_usize, any::<bool>(), any::<bool>()), 1..20),
    ) {
        let source: Vec<u8> = (0..100_000_u32).map(|number| (number * 7 + number / 256) as u8).collect();
        let mut input = input();
        let mut read = Vec::new();
        let mut sent = 0;
        for (back, length, reopen, deliver) in pieces {
            let from = sent - back.min(sent);
            let piece = &source[from..from + length];
            let end = input.spool.accept(Some(from as u64), piece).unwrap();
            sent = sent.max(from + length);
            prop_assert_eq!(end, sent as u64);
            if deliver {
                read.extend(input.read_all());
            }
            if reopen {
                input.reopen();
                prop_assert_eq!(input.spool.accepted(), sent as u64);
                prop_assert_eq!(input.spool.delivered(), read.len() as u64);
            }
        }
        read.extend(input.read_all());
        prop_assert!(read == source[..sent]);
    }
}
