//! The bounded memory of one stream: its head, its tail, and the exact count
//! of what lies between.

use std::collections::VecDeque;
use std::io;

use bytes::Bytes;
use tokio::task::JoinHandle;

use super::spool_file::{SpoolFile, SpoolSettings};
use super::{Drained, OutputPipe};
use crate::limits::{DEFAULT_OUTPUT_MEMORY_BYTES, SPOOL_HEAD_BYTES};
use crate::spool::{Spool, SpoolProgress};
use crate::sys::Moved;

/// How much of each output stream is kept, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputLimits {
    /// Bytes of one stream kept in memory, half from its start and half from
    /// its end.
    pub memory_bytes: usize,
    /// Where a stream that outgrows the memory is written in full; `None`
    /// drops its middle for good.
    pub spool: Option<SpoolSettings>,
}

impl Default for OutputLimits {
    fn default() -> Self {
        Self {
            memory_bytes: DEFAULT_OUTPUT_MEMORY_BYTES,
            spool: None,
        }
    }
}

/// One stream as far as it was kept.
#[derive(Debug)]
#[non_exhaustive]
pub struct CapturedOutput {
    /// The first bytes.
    pub head: Bytes,
    /// The last bytes; they follow the head directly unless bytes were
    /// dropped.
    pub tail: Bytes,
    /// How many bytes the stream had.
    pub total: u64,
    /// The whole stream on disk, if it outgrew the memory and a spool was
    /// asked for.
    pub spool: Option<SpoolFile>,
    /// Why there is no spool file although one was asked for and needed.
    pub spool_problem: Option<String>,
}

impl CapturedOutput {
    /// What is left of a stream whose collector failed.
    fn lost() -> Self {
        Self {
            head: Bytes::new(),
            tail: Bytes::new(),
            total: 0,
            spool: None,
            spool_problem: Some("the output could not be put together".to_owned()),
        }
    }

    /// A stream of `total` bytes of which these were kept in memory, and
    /// nothing on disk.
    #[must_use]
    pub fn in_memory(head: Bytes, tail: Bytes, total: u64) -> Self {
        Self {
            total: total.max((head.len() + tail.len()) as u64),
            head,
            tail,
            spool: None,
            spool_problem: None,
        }
    }

    /// How many bytes between head and tail are not in memory.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.total - (self.head.len() + self.tail.len()) as u64
    }

    /// Whether head and tail are all there was.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.dropped() == 0
    }

    /// Head and tail put together; has a hole unless
    /// [complete](Self::is_complete).
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        [self.head.as_ref(), self.tail.as_ref()].concat()
    }

    /// The output as text for people: a hole is said in words, what is no
    /// UTF-8 becomes U+FFFD.
    #[must_use]
    pub fn to_text(&self) -> String {
        if self.is_complete() {
            return String::from_utf8_lossy(&self.to_bytes()).into_owned();
        }
        let head = trim_cut_end(&self.head);
        let tail = trim_cut_start(&self.tail);
        let omitted = self.total - (head.len() + tail.len()) as u64;
        let mut text = String::from_utf8_lossy(head).into_owned();
        text += &format!("\n[... {omitted} bytes omitted ...]\n");
        text += &String::from_utf8_lossy(tail);
        text
    }
}

/// Without the beginning of a character at the end.
fn trim_cut_end(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => {
            bytes.get(..error.valid_up_to()).unwrap_or_default()
        }
        _ => bytes,
    }
}

/// Without the end of a character at the start.
fn trim_cut_start(bytes: &[u8]) -> &[u8] {
    let continuation = bytes
        .iter()
        .take(3)
        .take_while(|byte| **byte & 0xC0 == 0x80)
        .count();
    bytes.get(continuation..).unwrap_or_default()
}

/// Collects one stream: in a spool as far as it keeps bytes, and the last of
/// those it does not.
#[derive(Debug)]
pub(crate) struct Capture {
    head_limit: usize,
    tail_limit: usize,
    settings: Option<SpoolSettings>,
    kept: Option<Kept>,
    /// A move into the file that is under way.
    moving: Option<JoinHandle<io::Result<Moved>>>,
    /// The end of what came after the spool was full.
    tail: VecDeque<u8>,
    problem: Option<String>,
}

/// The spool of a stream that has begun. Its file goes when this is dropped,
/// unless it is handed out.
#[derive(Debug)]
struct Kept {
    spool: Spool,
    file: Option<SpoolFile>,
}

impl Capture {
    pub(crate) fn new(limits: &OutputLimits) -> Self {
        let tail_limit = limits.memory_bytes / 2;
        Self {
            head_limit: limits.memory_bytes - tail_limit,
            tail_limit,
            settings: limits.spool.clone(),
            kept: None,
            moving: None,
            tail: VecDeque::new(),
            problem: None,
        }
    }

    /// How far the stream has come.
    pub(crate) fn progress(&self) -> SpoolProgress {
        let kept = self.kept.as_ref();
        kept.map_or_else(SpoolProgress::default, |kept| kept.spool.progress())
    }

    /// Bytes that are kept.
    pub(crate) fn read_range(&self, from: u64, to: u64) -> io::Result<Bytes> {
        match &self.kept {
            Some(kept) => kept.spool.read_range(from, to),
            None => Ok(Bytes::new()),
        }
    }

    /// Waits for bytes and takes them. Returns those that are in no spool.
    /// Nothing is lost if the future is dropped.
    pub(crate) async fn fill(&mut self, pipe: &mut OutputPipe) -> io::Result<Filled> {
        loop {
            if let Some(filled) = self.moved().await? {
                return Ok(filled);
            }
            pipe.readable().await?;
            let filled = self.fill_now(pipe).await?;
            if !matches!(filled, Filled::Nothing) {
                return Ok(filled);
            }
        }
    }

    /// Takes what is there without waiting for more.
    pub(crate) async fn fill_now(&mut self, pipe: &mut OutputPipe) -> io::Result<Filled> {
        if let Some(filled) = self.moved().await? {
            return Ok(filled);
        }
        let spool = self.spool()?.clone();
        if spool.is_full() {
            return self.fill_tail(pipe, &spool);
        }
        if !spool.is_in_file() {
            return Ok(pipe.move_into(&spool)?.into());
        }
        // The disk may make us wait, so not on this thread.
        if pipe.is_empty()? {
            return Ok(Filled::Nothing);
        }
        if spool.prepare_file() {
            let mover = pipe.mover()?;
            let job = move || mover.move_into(&spool);
            self.moving = Some(tokio::task::spawn_blocking(job));
            return Ok(self.moved().await?.unwrap_or(Filled::Nothing));
        }
        self.fill_tail(pipe, &spool)
    }

    /// The end of a move that was under way.
    pub(crate) async fn moved(&mut self) -> io::Result<Option<Filled>> {
        let Some(moving) = &mut self.moving else {
            return Ok(None);
        };
        let moved = moving.await;
        self.moving = None;
        let moved = moved.map_err(io::Error::other)??;
        Ok(Some(moved.into()).filter(|filled| !matches!(filled, Filled::Nothing)))
    }

    fn fill_tail(&mut self, pipe: &mut OutputPipe, spool: &Spool) -> io::Result<Filled> {
        let bytes = match pipe.read_now()? {
            Drained::Chunk(bytes) => bytes,
            Drained::Empty => return Ok(Filled::Nothing),
            Drained::End => return Ok(Filled::End),
        };
        spool.skip(bytes.len() as u64);
        let kept = bytes
            .get(bytes.len().saturating_sub(self.tail_limit)..)
            .unwrap_or_default();
        let excess = (self.tail.len() + kept.len()).saturating_sub(self.tail_limit);
        self.tail.drain(..excess);
        self.tail.extend(kept);
        Ok(Filled::Unkept(bytes))
    }

    /// The spool, made with the first bytes. What memory is to hold of the
    /// head is never on the disk only.
    fn spool(&mut self) -> io::Result<&Spool> {
        let head_limit = self.head_limit as u64;
        let kept = match &mut self.kept {
            Some(kept) => kept,
            none => {
                let memory = Spool::memory_file()?;
                none.insert(match &self.settings {
                    None => Kept {
                        spool: Spool::begin_with_head(memory, head_limit, None, head_limit),
                        file: None,
                    },
                    Some(settings) => {
                        let file = SpoolFile::name_in(&settings.directory)?;
                        let path = Some(file.path().to_owned());
                        let head = head_limit.max(SPOOL_HEAD_BYTES);
                        let quota = settings.quota_bytes.max(head_limit);
                        Kept {
                            spool: Spool::begin_with_head(memory, head, path, quota),
                            file: Some(file),
                        }
                    }
                })
            }
        };
        Ok(&kept.spool)
    }

    /// The stream as far as it was kept.
    pub(crate) async fn finish(mut self) -> CapturedOutput {
        let _ = self.moved().await;
        let on_disk = self.settings.is_some()
            && self.progress().total > (self.head_limit + self.tail_limit) as u64;
        if !on_disk {
            return self.assemble(false);
        }
        let assembling = tokio::task::spawn_blocking(move || self.assemble(true));
        assembling.await.unwrap_or_else(|_| CapturedOutput::lost())
    }

    fn assemble(mut self, with_file: bool) -> CapturedOutput {
        let SpoolProgress { stored, total, .. } = self.progress();
        let head_end = stored.min(self.head_limit as u64);
        let tail_start = total.saturating_sub(self.tail_limit as u64).max(head_end);
        let mut read = |from, to| {
            let bytes = self.read_range(from, to);
            bytes.unwrap_or_else(|error| {
                self.problem = Some(format!("kept output could not be read: {error}"));
                Bytes::new()
            })
        };
        let head = read(0, head_end);
        let before = read(tail_start.min(stored), stored);
        let after = total - tail_start.max(stored);
        let excess = self.tail.len() as u64 - after.min(self.tail.len() as u64);
        self.tail.drain(..usize::try_from(excess).unwrap_or(0));
        let tail = if self.tail.is_empty() {
            before
        } else {
            [before.as_ref(), self.tail.make_contiguous()]
                .concat()
                .into()
        };
        let (spool, spool_problem) = match self.kept.take() {
            Some(kept) if with_file => self.whole_file(kept),
            _ => (None, self.problem.take()),
        };
        CapturedOutput {
            head,
            tail,
            total,
            spool,
            spool_problem,
        }
    }

    /// The file with everything that was kept.
    fn whole_file(&mut self, kept: Kept) -> (Option<SpoolFile>, Option<String>) {
        let quota = self.settings.as_ref().map_or(0, |own| own.quota_bytes);
        let Some(mut file) = kept.file else {
            return (None, self.problem.take());
        };
        let bytes = kept.spool.progress().stored.min(quota);
        let completed = kept.spool.complete_file(bytes);
        match completed {
            Ok(_) => {
                file.set(bytes, kept.spool.problem());
                (Some(file), self.problem.take())
            }
            Err(error) => {
                let place = file.path().display();
                let problem = format!("a spool file {place} could not be made: {error}");
                (None, Some(problem))
            }
        }
    }
}

/// What came of looking for bytes.
#[derive(Debug)]
pub(crate) enum Filled {
    /// Bytes that went into the spool.
    Kept,
    /// Bytes that did not.
    Unkept(Bytes),
    Nothing,
    End,
}

impl From<Moved> for Filled {
    fn from(moved: Moved) -> Self {
        match moved {
            Moved::Bytes(_) => Self::Kept,
            Moved::WouldBlock => Self::Nothing,
            Moved::End => Self::End,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    async fn captured(memory_bytes: usize, chunks: &[&str]) -> CapturedOutput {
        let mut capture = Capture::new(&OutputLimits {
            memory_bytes,
            spool: None,
        });
        let (read, mut write) = std::io::pipe().unwrap();
        let mut pipe = OutputPipe::new(read.into()).unwrap();
        for chunk in chunks {
            write.write_all(chunk.as_bytes()).unwrap();
            while let Filled::Kept | Filled::Unkept(_) = capture.fill_now(&mut pipe).await.unwrap()
            {
            }
        }
        capture.finish().await
    }

    #[tokio::test]
    async fn what_fits_is_complete_and_one_byte_more_is_counted() {
        let fits = captured(8, &["abcd", "efgh"]).await;
        assert!(fits.is_complete());
        assert_eq!(fits.to_bytes(), b"abcdefgh");

        let over = captured(8, &["abcd", "efgh", "i"]).await;
        assert_eq!(over.dropped(), 1);
        assert_eq!(over.total, 9);
        assert_eq!(over.head.as_ref(), b"abcd");
        assert_eq!(over.tail.as_ref(), b"fghi");
    }

    #[tokio::test]
    async fn chunk_borders_do_not_matter() {
        let text = "0123456789abcdefghijklmnopqrstuvwxyz";
        let whole = captured(10, &[text]).await;
        for split in 0..text.len() {
            let (left, right) = text.split_at(split);
            let pieces = captured(10, &[left, right]).await;
            assert_eq!(pieces.head, whole.head, "split at {split}");
            assert_eq!(pieces.tail, whole.tail, "split at {split}");
            assert_eq!(pieces.dropped(), 26);
        }
    }

    #[tokio::test]
    async fn the_text_says_how_much_is_missing_and_cuts_between_characters() {
        let output = captured(6, &["ab€xxxxxx€yz"]).await;
        assert_eq!(output.to_text(), "ab\n[... 12 bytes omitted ...]\nyz");
    }

    #[tokio::test]
    async fn no_memory_at_all_still_counts() {
        let output = captured(0, &["abc"]).await;
        assert_eq!((output.total, output.dropped()), (3, 3));
    }
}
