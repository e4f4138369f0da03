//! The bounded memory of one stream: its head, its tail, and the exact count
//! of what lies between.

use std::collections::VecDeque;

use bytes::Bytes;

use super::spool::{SpoolFile, SpoolSettings, SpoolWriter};
use crate::limits::DEFAULT_OUTPUT_MEMORY_BYTES;

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

/// Collects one stream.
#[derive(Debug)]
pub(crate) struct Capture {
    head: Vec<u8>,
    head_limit: usize,
    tail: VecDeque<u8>,
    tail_limit: usize,
    total: u64,
    spool: Spooling,
}

#[derive(Debug)]
enum Spooling {
    Off,
    NotYet(SpoolSettings),
    On(SpoolWriter),
    Failed(String),
}

impl Capture {
    pub(crate) fn new(limits: &OutputLimits) -> Self {
        let tail_limit = limits.memory_bytes / 2;
        Self {
            head: Vec::new(),
            head_limit: limits.memory_bytes - tail_limit,
            tail: VecDeque::new(),
            tail_limit,
            total: 0,
            spool: limits.spool.clone().map_or(Spooling::Off, Spooling::NotYet),
        }
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Waits until [`push`](Self::push) has room for one chunk.
    pub(crate) async fn ready(&self) {
        if let Spooling::On(writer) = &self.spool {
            writer.ready().await;
        }
    }

    /// Takes the next bytes of the stream.
    pub(crate) fn push(&mut self, chunk: &Bytes) {
        self.spool_before(chunk);
        self.total += chunk.len() as u64;
        let to_head = chunk.len().min(self.head_limit - self.head.len());
        let (first, rest) = chunk.split_at(to_head);
        self.head.extend_from_slice(first);
        let kept = rest
            .get(rest.len().saturating_sub(self.tail_limit)..)
            .unwrap_or_default();
        let excess = (self.tail.len() + kept.len()).saturating_sub(self.tail_limit);
        self.tail.drain(..excess);
        self.tail.extend(kept);
    }

    /// The spool starts with the chunk that would drop the first byte: until
    /// then memory holds everything.
    fn spool_before(&mut self, chunk: &Bytes) {
        let memory = (self.head_limit + self.tail_limit) as u64;
        if let Spooling::NotYet(settings) = &self.spool
            && self.total + chunk.len() as u64 > memory
        {
            self.spool = match SpoolWriter::start(settings) {
                Ok(writer) => {
                    let so_far = [self.head.as_slice(), self.tail.make_contiguous()].concat();
                    writer.push(so_far.into());
                    Spooling::On(writer)
                }
                Err(error) => Spooling::Failed(format!(
                    "a spool file in {} could not be made: {error}",
                    settings.directory.display()
                )),
            };
        }
        if let Spooling::On(writer) = &self.spool
            && !writer.push(chunk.clone())
        {
            self.spool = Spooling::Failed("the spool writer stopped".to_owned());
        }
    }

    pub(crate) async fn finish(self) -> CapturedOutput {
        let mut spool_problem = None;
        let spool = match self.spool {
            Spooling::On(writer) => {
                let file = writer.finish().await;
                if file.is_none() {
                    spool_problem = Some("the spool writer failed".to_owned());
                }
                file
            }
            Spooling::Failed(problem) => {
                spool_problem = Some(problem);
                None
            }
            Spooling::Off | Spooling::NotYet(_) => None,
        };
        CapturedOutput {
            head: self.head.into(),
            tail: Vec::from(self.tail).into(),
            total: self.total,
            spool,
            spool_problem,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn captured(memory_bytes: usize, chunks: &[&str]) -> CapturedOutput {
        let mut capture = Capture::new(&OutputLimits {
            memory_bytes,
            spool: None,
        });
        for chunk in chunks {
            capture.push(&Bytes::copy_from_slice(chunk.as_bytes()));
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
