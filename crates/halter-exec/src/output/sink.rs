//! Live subscribers. They see chunks as they are read and can never slow the
//! command down.

use bytes::Bytes;
use tokio::sync::mpsc;

/// Which of the two streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A piece of one stream, as it came out of the pipe.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutputChunk {
    /// Which stream.
    pub stream: OutputStream,
    /// Where in that stream the first byte stands. A subscriber that finds
    /// this beyond what it has seen has missed the bytes in between.
    pub offset: u64,
    /// The bytes.
    pub bytes: Bytes,
}

/// Receives output while the command runs. Called on the task that reads the
/// pipes: it must return at once and never block.
pub trait OutputSink: Send + Sync {
    /// The next piece.
    fn chunk(&self, chunk: OutputChunk);

    /// Whether anybody wants the pieces; if not, they are not even read.
    fn is_listening(&self) -> bool {
        true
    }
}

/// Nobody is listening.
impl OutputSink for () {
    fn chunk(&self, _: OutputChunk) {}

    fn is_listening(&self) -> bool {
        false
    }
}

impl<Listener: Fn(OutputChunk) + Send + Sync> OutputSink for Listener {
    fn chunk(&self, chunk: OutputChunk) {
        self(chunk);
    }
}

/// Feeds a bounded channel. A receiver that falls further behind than the
/// channel holds misses whole chunks and sees the gap in the offsets.
#[derive(Debug, Clone)]
pub struct ChannelSink {
    sender: mpsc::Sender<OutputChunk>,
}

impl OutputSink for ChannelSink {
    fn chunk(&self, chunk: OutputChunk) {
        // Full or closed: the receiver's loss, by contract.
        let _ = self.sender.try_send(chunk);
    }
}

/// A sink and the receiver it feeds, holding at most `chunks` pieces (at
/// least one) in between.
#[must_use]
pub fn channel(chunks: usize) -> (ChannelSink, mpsc::Receiver<OutputChunk>) {
    let (sender, receiver) = mpsc::channel(chunks.max(1));
    (ChannelSink { sender }, receiver)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(offset: u64) -> OutputChunk {
        OutputChunk {
            stream: OutputStream::Stdout,
            offset,
            bytes: Bytes::from_static(b"x"),
        }
    }

    #[test]
    fn a_full_channel_drops_and_the_offsets_tell() {
        let (sink, mut receiver) = channel(2);
        for offset in 0..5 {
            sink.chunk(piece(offset));
        }
        let seen: Vec<u64> = std::iter::from_fn(|| receiver.try_recv().ok())
            .map(|chunk| chunk.offset)
            .collect();
        assert_eq!(seen, [0, 1]);
        sink.chunk(piece(5));
        assert_eq!(receiver.try_recv().unwrap().offset, 5);
    }
}
