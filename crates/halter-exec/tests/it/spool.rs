//! Streams that are kept: by offset, within a quota, across a crash.

use std::fs::File;
use std::io::{PipeReader, PipeWriter, Write};
use std::path::{Path, PathBuf};

use halter_exec::host::{Moved, Spool, SpoolChunk, SpoolReader};
use halter_exec::limits::{SPLICE_BYTES, SPOOL_HEAD_BYTES};
use proptest::prelude::*;

use crate::support::eventually;

/// A pipe, the two places of a stream, and the stream.
struct Stream {
    directory: tempfile::TempDir,
    memory: File,
    quota: u64,
    read: PipeReader,
    write: Option<PipeWriter>,
    spool: Spool,
    written: Vec<u8>,
}

impl Stream {
    fn new(quota: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let memory = Spool::memory_file().unwrap();
        let (read, write) = std::io::pipe().unwrap();
        let path = directory.path().join("overflow");
        let spool = Spool::new(memory.try_clone().unwrap(), path, quota).unwrap();
        Self {
            directory,
            memory,
            quota,
            read,
            write: Some(write),
            spool,
            written: Vec::new(),
        }
    }

    fn overflow(&self) -> PathBuf {
        self.directory.path().join("overflow")
    }

    /// What the next program opens after this one was killed.
    fn reopen(&mut self) {
        let memory = self.memory.try_clone().unwrap();
        self.spool = Spool::new(memory, self.overflow(), self.quota).unwrap();
    }

    /// Writes bytes that differ from place to place, and moves them.
    fn feed(&mut self, count: usize) {
        for _ in 0..count {
            let place = self.written.len();
            self.written.push((place * 31 + place / 251) as u8);
        }
        let mut from = self.written.len() - count;
        while from < self.written.len() {
            let to = self.written.len().min(from + 4096);
            self.write
                .as_mut()
                .unwrap()
                .write_all(&self.written[from..to])
                .unwrap();
            from = to;
            self.drain();
        }
    }

    fn drain(&self) {
        while let Moved::Bytes(_) = self.spool.splice_from(&self.read).unwrap() {}
    }

    fn end(&mut self) {
        self.write = None;
        // A child that another test is about to start may hold a copy of it.
        assert!(eventually(|| {
            self.spool.splice_from(&self.read).unwrap() == Moved::End
        }));
        self.spool.finish();
    }
}

/// Reads to the end: bytes, and the gap if there is one.
fn all(reader: &mut SpoolReader, limit: usize) -> (Vec<u8>, Option<(u64, u64)>) {
    let mut bytes = Vec::new();
    let mut gap = None;
    loop {
        match reader.try_next(limit).unwrap() {
            Some(SpoolChunk::Data {
                offset,
                bytes: more,
            }) => {
                assert_eq!(offset + more.len() as u64, reader.offset());
                assert!(more.len() <= limit && gap.is_none());
                bytes.extend(more);
            }
            Some(SpoolChunk::Gap { from, to }) => {
                let start = gap.map_or(from, |(start, end)| {
                    assert_eq!(end, from);
                    start
                });
                gap = Some((start, to));
            }
            Some(_) | None => return (bytes, gap),
        }
    }
}

#[test]
fn what_fits_the_memory_makes_no_file_and_one_byte_more_does() {
    let head = usize::try_from(SPOOL_HEAD_BYTES).unwrap();
    let mut stream = Stream::new(1 << 30);
    stream.feed(head);
    assert!(!stream.overflow().exists());
    stream.feed(1);
    assert!(stream.overflow().exists());
    stream.feed(100_000);
    stream.end();
    let (bytes, gap) = all(&mut stream.spool.reader(0), 10_000);
    assert!(bytes == stream.written && gap.is_none());
    // The part in memory is not on the disk twice.
    use std::os::unix::fs::MetadataExt;
    let found = std::fs::metadata(stream.overflow()).unwrap();
    assert_eq!(found.len(), stream.written.len() as u64);
    assert!(found.blocks() * 512 <= 104 * 1024, "{}", found.blocks());
}

#[test]
fn readers_are_offsets() {
    let mut stream = Stream::new(1 << 30);
    let mut early = stream.spool.reader(0);
    assert_eq!(early.try_next(10).unwrap(), None);
    stream.feed(150_000);
    let (bytes, _) = all(&mut early, 7777);
    assert!(bytes == stream.written);
    // Again from the start, from the middle, from across the border.
    for offset in [0, 65_535, 65_536, 70_000, 149_999, 150_000] {
        let (bytes, _) = all(&mut stream.spool.reader(offset), 1 << 20);
        assert!(bytes == stream.written[usize::try_from(offset).unwrap()..]);
    }
    stream.feed(5);
    stream.end();
    let (bytes, _) = all(&mut early, 100);
    assert_eq!(bytes, stream.written[150_000..]);
    assert_eq!(early.try_next(1).unwrap(), Some(SpoolChunk::End));
}

/// Bytes, gap and all, from nothing but a file; also for the next program,
/// whether or not this one got to say that the stream is closed.
#[test]
fn a_closed_stream_is_read_as_before() {
    for (count, quota) in [
        (0, 100),
        (1, 100),
        (70_000, 1 << 30),
        (80_000, 75_000),
        (5, 0),
    ] {
        let mut stream = Stream::new(quota);
        stream.feed(count);
        stream.end();
        let before = all(&mut stream.spool.reader(0), 10_000);
        let progress = stream.spool.progress();
        stream.spool.close().unwrap();
        stream.spool.close().unwrap();
        assert_eq!(stream.spool.progress(), progress);
        assert!(all(&mut stream.spool.reader(0), 10_000) == before);
        let next = Spool::closed(stream.overflow(), progress.stored, progress.total);
        assert!(all(&mut next.reader(0), 10_000) == before);
        stream.reopen();
        assert!(all(&mut stream.spool.reader(0), 10_000) == before);
        // Whoever reads goes on when the file is removed.
        let mut reader = next.reader(0);
        let first = reader.try_next(1).unwrap();
        next.remove().unwrap();
        assert!(!stream.overflow().exists());
        if let Some(SpoolChunk::Data { bytes, .. }) = first {
            let rest = all(&mut reader, 10_000);
            assert!(([&*bytes, &*rest.0].concat(), rest.1) == before);
        }
    }
}

#[test]
fn nothing_but_a_file_is_read_for_a_closed_stream() {
    let mut stream = Stream::new(100);
    stream.feed(10);
    stream.end();
    stream.spool.close().unwrap();
    let secret = stream.directory.path().join("secret");
    std::fs::rename(stream.overflow(), &secret).unwrap();
    std::os::unix::fs::symlink(&secret, stream.overflow()).unwrap();
    assert!(stream.spool.reader(0).try_next(10).is_err());
}

#[tokio::test]
async fn a_reader_waits_for_bytes_and_for_the_end() {
    let mut stream = Stream::new(1 << 30);
    let mut reader = stream.spool.reader(0);
    let mut other = reader.clone();
    let (first, ()) = tokio::join!(reader.next(100), async {
        tokio::task::yield_now().await;
        stream.feed(3);
    });
    let bytes = stream.written.clone().into();
    assert_eq!(first.unwrap(), SpoolChunk::Data { offset: 0, bytes });
    let (end, ()) = tokio::join!(reader.next(100), async {
        tokio::task::yield_now().await;
        stream.end();
    });
    assert_eq!(end.unwrap(), SpoolChunk::End);
    assert!(matches!(
        other.next(2).await.unwrap(),
        SpoolChunk::Data { offset: 0, .. }
    ));
}

#[test]
fn the_quota_holds_to_the_byte_and_the_gap_is_exact() {
    for quota in [10, SPOOL_HEAD_BYTES, 100_000] {
        let mut stream = Stream::new(quota);
        stream.feed(usize::try_from(quota).unwrap());
        assert_eq!(stream.spool.total(), quota);
        let (bytes, gap) = all(&mut stream.spool.reader(0), 1 << 20);
        assert!(bytes == stream.written && gap.is_none());
        stream.feed(1);
        let (bytes, gap) = all(&mut stream.spool.reader(0), 1 << 20);
        assert_eq!((bytes.len() as u64, gap), (quota, Some((quota, quota + 1))));
        stream.feed(300_000);
        // A reader inside the gap is told of the rest of it.
        let (bytes, gap) = all(&mut stream.spool.reader(quota + 7), 100);
        assert_eq!((bytes.len(), gap), (0, Some((quota + 7, quota + 300_001))));
        assert_eq!(stream.spool.problem(), None);
        if let Ok(found) = std::fs::metadata(stream.overflow())
            && cfg!(all(target_os = "linux", not(halter_portable)))
        {
            use std::os::unix::fs::MetadataExt;
            assert!(found.blocks() * 512 <= quota.next_multiple_of(4096) + 4096);
        }
    }
}

#[test]
fn trouble_with_the_file_is_a_gap_and_not_the_writers_problem() {
    let memory = Spool::memory_file().unwrap();
    let path = Path::new("/no/such/place/overflow").to_owned();
    let spool = Spool::new(memory, path, 1 << 30).unwrap();
    let (read, mut write) = std::io::pipe().unwrap();
    for _ in 0..30 {
        write.write_all(&[b'x'; 4096]).unwrap();
        while let Moved::Bytes(_) = spool.splice_from(&read).unwrap() {}
    }
    let total = 30 * 4096;
    assert_eq!(spool.total(), total);
    assert!(spool.problem().unwrap().contains("/no/such/place"));
    let (bytes, gap) = all(&mut spool.reader(0), 1 << 20);
    assert_eq!(bytes.len() as u64, SPOOL_HEAD_BYTES);
    assert_eq!(gap, Some((SPOOL_HEAD_BYTES, total)));
}

#[test]
fn without_a_file_only_the_memory_is_kept() {
    let spool = Spool::new(Spool::memory_file().unwrap(), None, u64::MAX).unwrap();
    let (read, mut write) = std::io::pipe().unwrap();
    for _ in 0..20 {
        write.write_all(&[b'x'; 4096]).unwrap();
        while let Moved::Bytes(_) = spool.splice_from(&read).unwrap() {}
    }
    let progress = spool.progress();
    assert_eq!(
        (progress.stored, progress.total),
        (SPOOL_HEAD_BYTES, 81_920)
    );
    assert_eq!(spool.problem(), None);
    assert!(spool.complete_file(u64::MAX).unwrap().is_none());
    spool.remove().unwrap();
}

#[test]
fn the_file_can_be_completed_and_is_removed_on_request() {
    for (count, quota) in [(100, 1 << 30), (100_000, 1 << 30), (100_000, 70_000)] {
        let mut stream = Stream::new(quota);
        stream.feed(count);
        let path = stream
            .spool
            .complete_file(u64::MAX)
            .unwrap()
            .unwrap()
            .to_owned();
        let kept = count.min(usize::try_from(quota).unwrap());
        assert!(std::fs::read(&path).unwrap() == stream.written[..kept]);
        stream.spool.remove().unwrap();
        assert!(!path.exists());
        stream.spool.remove().unwrap();
    }
}

#[test]
fn a_link_in_the_files_place_is_not_followed() {
    let mut stream = Stream::new(1 << 30);
    let elsewhere = stream.directory.path().join("elsewhere");
    std::os::unix::fs::symlink(&elsewhere, stream.overflow()).unwrap();
    stream.feed(70_000);
    assert!(!elsewhere.exists());
    assert!(stream.spool.problem().is_some());
}

#[test]
fn one_move_takes_at_most_its_bound() {
    let mut stream = Stream::new(1 << 30);
    stream.feed(usize::try_from(SPOOL_HEAD_BYTES).unwrap());
    let size = usize::try_from(SPLICE_BYTES).unwrap();
    // A pipe can hold this much only with the right to; the bound is kept
    // either way.
    halter_exec::host::system::widen_pipe(&stream.read, SPLICE_BYTES);
    let write = stream.write.as_mut().unwrap();
    rustix::io::ioctl_fionbio(&*write, true).unwrap();
    assert!(write.write(&vec![1; size]).unwrap() > 0);
    let Moved::Bytes(moved) = stream.spool.splice_from(&stream.read).unwrap() else {
        panic!("nothing moved");
    };
    assert!(moved <= SPLICE_BYTES);
}

#[derive(Debug, Clone)]
enum Step {
    Feed(usize),
    Reopen,
    Read(prop::sample::Index),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..40_000_usize).prop_map(Step::Feed),
        1 => Just(Step::Reopen),
        1 => any::<prop::sample::Index>().prop_map(Step::Read),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    /// Whatever is fed, and however often the program is replaced by another,
    /// a reader gets what was written, and then the gap.
    #[test]
    fn a_spool_is_its_stream(
        quota in prop_oneof![1..200_000_u64, Just(1 << 30)],
        steps in prop::collection::vec(step(), 1..12),
    ) {
        let mut stream = Stream::new(quota);
        for step in steps {
            match step {
                Step::Feed(count) => stream.feed(count),
                Step::Reopen => stream.reopen(),
                Step::Read(index) => {
                    let total = stream.written.len();
                    let from = index.index(total + 1);
                    let kept = total.min(usize::try_from(quota).unwrap());
                    let (bytes, gap) = all(&mut stream.spool.reader(from as u64), 9000);
                    prop_assert!(bytes == stream.written[from.min(kept)..kept]);
                    let missing = (from.max(kept) < total)
                        .then_some((from.max(kept) as u64, total as u64));
                    prop_assert_eq!(gap, missing);
                }
            }
            prop_assert_eq!(stream.spool.total(), stream.written.len() as u64);
        }
    }
}

const PIPE_FD: i32 = 3;
const MEMORY_FD: i32 = 4;
const OVERFLOW: &str = "SPOOL_TEST_OVERFLOW";

/// Not a test by itself: what a program does that fills a spool until it is
/// killed. Its descriptors and path are given by the test below.
#[test]
#[ignore = "run by another test as a program of its own"]
fn a_program_that_fills_a_spool() {
    let Some(path) = std::env::var_os(OVERFLOW) else {
        return;
    };
    let inherited = |fd: i32| {
        let path = format!("/proc/self/fd/{fd}");
        let file = File::options().read(true).write(fd == MEMORY_FD).open(path);
        file.unwrap()
    };
    let pipe = inherited(PIPE_FD);
    let spool = Spool::new(inherited(MEMORY_FD), PathBuf::from(path), QUOTA).unwrap();
    while spool.splice_from(&pipe).unwrap() != Moved::End {
        std::thread::yield_now();
    }
}

const QUOTA: u64 = 3_000_000;

/// Kills the program that fills a spool again and again, and follows it up by
/// another: every byte is there, and every byte that is not was counted.
#[test]
fn no_byte_is_lost_when_the_program_that_fills_a_spool_is_killed() {
    use halter_exec::Signal;
    use halter_exec::host::{DescriptorMapping, LaunchPlan, launch};
    use std::os::fd::AsFd;

    let mut stream = Stream::new(QUOTA);
    let mut plan = LaunchPlan::new(std::env::current_exe().unwrap(), "/").standard_streams();
    let filler = "spool::a_program_that_fills_a_spool";
    plan.arguments
        .extend(["--ignored", "--exact", filler].map(Into::into));
    plan.environment.set(OVERFLOW, stream.overflow());
    plan.descriptors.extend(
        [(3, PIPE_FD), (4, MEMORY_FD)].map(|(slot, target)| DescriptorMapping { slot, target }),
    );
    let null = File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .unwrap();
    let (pipe, memory) = (
        stream.read.try_clone().unwrap(),
        stream.memory.try_clone().unwrap(),
    );
    let null = null.as_fd();
    let slots = [null, null, null, pipe.as_fd(), memory.as_fd()];

    // More than is kept, so that the kills fall into the gap too.
    let bytes: Vec<u8> = (0..4_000_000_usize)
        .map(|place| (place * 31 + place / 251) as u8)
        .collect();
    stream.written = bytes.clone();
    let mut write = stream.write.take().unwrap();
    let writer = std::thread::spawn(move || write.write_all(&bytes));
    let mut pause = 1;
    while !writer.is_finished() {
        let child = launch(&plan, &slots).unwrap();
        // Some die before they have begun, some in the middle.
        pause = pause * 7 % 61;
        let _ = child
            .pidfd
            .has_ended(std::time::Duration::from_millis(pause));
        let _ = child.pidfd.send(Signal::KILL);
        crate::launch::end_of(&child);
    }
    writer.join().unwrap().unwrap();
    stream.reopen();
    stream.drain();
    let total = stream.written.len() as u64;
    assert_eq!(stream.spool.total(), total);
    let (kept, gap) = all(&mut stream.spool.reader(0), 1 << 20);
    assert!(kept == stream.written[..usize::try_from(QUOTA).unwrap()]);
    assert_eq!(gap, Some((QUOTA, total)));
}

#[test]
fn a_stream_that_has_just_begun_leaves_alone_what_it_has_not_made() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("stdout");
    std::fs::write(&path, "of somebody else").unwrap();
    let spool = Spool::begin(Spool::memory_file().unwrap(), path.clone(), 1 << 30);
    assert_eq!(spool.total(), 0);
    spool.remove().unwrap();
    assert!(path.exists());
    // The same stream taken up has the file in its hands.
    let spool = Spool::new(Spool::memory_file().unwrap(), path.clone(), 1 << 30).unwrap();
    assert_eq!(spool.total(), 16);
    spool.remove().unwrap();
    assert!(!path.exists());
}

#[test]
fn a_stream_that_has_outgrown_the_memory_removes_its_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("stdout");
    let spool = Spool::begin(Spool::memory_file().unwrap(), path.clone(), 1 << 30);
    let (read, mut write) = std::io::pipe().unwrap();
    let piece = vec![7; 4096];
    while !path.exists() {
        write.write_all(&piece).unwrap();
        assert_eq!(spool.splice_from(&read).unwrap(), Moved::Bytes(4096));
    }
    assert_eq!(spool.total(), halter_exec::limits::SPOOL_HEAD_BYTES + 4096);
    spool.remove().unwrap();
    assert!(!path.exists());
}
