//! Bounds, spool files and live subscribers.

use std::path::Path;

use halter_exec::{
    Command, CommandOutcome, OutputLimits, OutputStream, SpoolSettings, channel, run,
};
use tokio_util::sync::CancellationToken;

use crate::support::sh;

fn spooled(text: &str, directory: &Path, quota_bytes: u64) -> Command {
    sh(text).output_limits(OutputLimits {
        memory_bytes: 1000,
        spool: Some(SpoolSettings {
            directory: directory.to_owned(),
            quota_bytes,
        }),
    })
}

async fn run_to_end(spec: Command) -> CommandOutcome {
    run(spec, &CancellationToken::new(), &()).await.unwrap()
}

fn files_in(directory: &Path) -> usize {
    std::fs::read_dir(directory).unwrap().count()
}

#[tokio::test]
async fn the_memory_bound_holds_and_the_count_is_exact() {
    let spec = sh("head -c 200000 /dev/zero").output_limits(OutputLimits {
        memory_bytes: 1000,
        spool: None,
    });
    let outcome = run_to_end(spec).await;
    assert_eq!(outcome.stdout.total, 200_000);
    assert_eq!(outcome.stdout.head.len() + outcome.stdout.tail.len(), 1000);
    assert_eq!(outcome.stdout.dropped(), 199_000);
}

#[tokio::test]
async fn an_output_that_fits_makes_no_file_and_a_larger_one_is_spooled_whole() {
    let directory = tempfile::tempdir().unwrap();
    let fits = run_to_end(spooled("head -c 1000 /dev/zero", directory.path(), 1 << 20)).await;
    assert!(fits.stdout.spool.is_none() && fits.stdout.is_complete());
    assert_eq!(files_in(directory.path()), 0);

    let spec = spooled("seq 1 20000; echo err >&2", directory.path(), 1 << 20);
    let outcome = run_to_end(spec).await;
    assert!(outcome.stderr.spool.is_none());
    let expected: String = (1..=20_000).map(|number| format!("{number}\n")).collect();
    let spool = outcome.stdout.spool.unwrap();
    assert_eq!(spool.bytes(), expected.len() as u64);
    assert!(std::fs::read_to_string(spool.path()).unwrap() == expected);

    drop(spool);
    assert_eq!(files_in(directory.path()), 0);
}

#[tokio::test]
async fn a_kept_spool_file_stays() {
    let directory = tempfile::tempdir().unwrap();
    let outcome = run_to_end(spooled("seq 1 2000", directory.path(), 1 << 20)).await;
    let path = outcome.stdout.spool.unwrap().keep();
    assert!(path.exists());
}

#[tokio::test]
async fn the_quota_holds_to_the_byte() {
    let directory = tempfile::tempdir().unwrap();
    let outcome = run_to_end(spooled("head -c 300000 /dev/zero", directory.path(), 5000)).await;
    assert_eq!(outcome.stdout.total, 300_000);
    let spool = outcome.stdout.spool.unwrap();
    assert_eq!(spool.bytes(), 5000);
    assert_eq!(spool.problem(), None);
    assert_eq!(std::fs::metadata(spool.path()).unwrap().len(), 5000);
}

#[tokio::test]
async fn a_missing_spool_directory_is_reported_and_not_fatal() {
    let outcome = run_to_end(spooled("seq 1 2000", Path::new("/no/such/place"), 5000)).await;
    assert!(outcome.status.success());
    assert!(outcome.stdout.spool.is_none());
    assert!(
        outcome
            .stdout
            .spool_problem
            .unwrap()
            .contains("/no/such/place")
    );
}

#[tokio::test]
async fn chunks_arrive_while_the_command_runs() {
    let directory = tempfile::tempdir().unwrap();
    let gate = directory.path().join("gate");
    let text = format!("echo first; until [ -e {gate:?} ]; do sleep 0.01; done; echo second >&2");
    let (sink, mut receiver) = channel(16);
    let cancel = CancellationToken::new();
    let running = run(sh(&text), &cancel, &sink);
    let watching = async {
        let first = receiver.recv().await.unwrap();
        assert_eq!(first.bytes.as_ref(), b"first\n");
        assert_eq!((first.stream, first.offset), (OutputStream::Stdout, 0));
        std::fs::write(&gate, "").unwrap();
        receiver.recv().await.unwrap()
    };
    let (outcome, second) = tokio::join!(running, watching);
    assert_eq!(second.stream, OutputStream::Stderr);
    assert_eq!(second.bytes.as_ref(), b"second\n");
    assert!(outcome.unwrap().status.success());
}

#[tokio::test]
async fn a_subscriber_that_never_reads_does_not_stall_the_command() {
    let (sink, receiver) = channel(1);
    let outcome = run(
        sh("head -c 5000000 /dev/zero"),
        &CancellationToken::new(),
        &sink,
    )
    .await
    .unwrap();
    assert_eq!(outcome.stdout.total, 5_000_000);
    drop(receiver);
}

/// What has to come out, computed the plain way.
async fn holds_for(total: usize, memory_bytes: usize, quota_bytes: Option<u64>) {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("source");
    let bytes: Vec<u8> = (0..total)
        .map(|place| (place * 31 + place / 251) as u8)
        .collect();
    std::fs::write(&source, &bytes).unwrap();
    let spools = directory.path().join("spools");
    std::fs::create_dir(&spools).unwrap();
    let spec = Command::new("/bin/cat", "/")
        .args([&source])
        .output_limits(OutputLimits {
            memory_bytes,
            spool: quota_bytes.map(|quota_bytes| SpoolSettings {
                directory: spools.clone(),
                quota_bytes,
            }),
        });
    let output = run_to_end(spec).await.stdout;

    let case = format!("{total} bytes, {memory_bytes} in memory, quota {quota_bytes:?}");
    assert_eq!(output.total, total as u64, "{case}");
    let tail_limit = memory_bytes / 2;
    let head_end = total.min(memory_bytes - tail_limit);
    let tail_start = head_end.max(total.saturating_sub(tail_limit));
    assert!(output.head == bytes[..head_end], "{case}");
    assert!(output.tail == bytes[tail_start..], "{case}");
    let file = output.spool.map(|file| std::fs::read(file.path()).unwrap());
    let expected = quota_bytes
        .filter(|_| total > memory_bytes)
        .map(|quota| bytes[..total.min(usize::try_from(quota).unwrap())].to_vec());
    assert!(file == expected, "{case}");
    assert_eq!(files_in(&spools), 0, "{case}");
}

#[tokio::test]
async fn head_tail_and_file_are_exact_around_every_border() {
    for memory_bytes in [0, 11, 1000, 200_000] {
        for quota in [None, Some(5), Some(65_536), Some(70_000), Some(1 << 30)] {
            for total in [0, 1, 11, 12, 1001, 65_536, 65_537, 70_001, 300_000] {
                holds_for(total, memory_bytes, quota).await;
            }
        }
    }
}
