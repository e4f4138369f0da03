//! Lines from a client, at a bounded cost.

use std::io;
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::time::Instant;

use crate::limits::MAX_REQUEST_BYTES;

/// How much is read at a time.
const READ_BYTES: usize = 16 * 1024;

/// What came from a client.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Incoming {
    /// A line; [`LineReader::line`] has it until the next is asked for.
    Line,
    /// The beginning of a line that is too long; the rest is skipped.
    Oversized,
    /// The client took too long for a line.
    Late,
    /// The client sends nothing more.
    End,
}

/// Cuts what a client sends into lines.
#[derive(Debug)]
pub(super) struct LineReader<Source> {
    source: Source,
    buffer: BytesMut,
    /// How many bytes of the buffer are known to hold no newline.
    searched: usize,
    /// The length of the line that was handed out, with its newline.
    handed_out: usize,
    line: usize,
    skipping: bool,
    deadline: Duration,
    /// When the client began the line that is not complete yet.
    begun: Option<Instant>,
}

impl<Source: AsyncRead + Unpin> LineReader<Source> {
    pub(super) fn new(source: Source, deadline: Duration) -> Self {
        Self {
            source,
            buffer: BytesMut::new(),
            searched: 0,
            handed_out: 0,
            line: 0,
            skipping: false,
            deadline,
            begun: None,
        }
    }

    /// The line that was found last.
    pub(super) fn line(&self) -> &[u8] {
        self.buffer.get(..self.line).unwrap_or_default()
    }

    /// The stream, once nothing more is read from it.
    pub(super) fn source(&self) -> &Source {
        &self.source
    }

    /// Finds the next line. May be dropped and called again.
    pub(super) async fn next(&mut self) -> io::Result<Incoming> {
        self.buffer.advance(self.handed_out);
        (self.handed_out, self.line) = (0, 0);
        loop {
            if let Some(found) = self.take_line() {
                return Ok(found);
            }
            if self.buffer.is_empty() && !self.skipping {
                self.begun = None;
                // A single long line must not be paid for forever.
                if self.buffer.capacity() > 4 * READ_BYTES {
                    self.buffer = BytesMut::new();
                }
            }
            if self.buffer.capacity() - self.buffer.len() < READ_BYTES {
                self.buffer.reserve(READ_BYTES);
            }
            let read = match self.begun {
                None => self.source.read_buf(&mut self.buffer).await?,
                Some(begun) => {
                    let reading = self.source.read_buf(&mut self.buffer);
                    match tokio::time::timeout_at(begun + self.deadline, reading).await {
                        Ok(read) => read?,
                        Err(_) => return Ok(Incoming::Late),
                    }
                }
            };
            if read == 0 {
                return Ok(self.last_line());
            }
            if self.begun.is_none() {
                self.begun = Some(Instant::now());
            }
        }
    }

    /// A whole line in the buffer, or one that is too long.
    fn take_line(&mut self) -> Option<Incoming> {
        loop {
            let fresh = self.buffer.get(self.searched..).unwrap_or_default();
            let Some(found) = fresh.iter().position(|&byte| byte == b'\n') else {
                self.searched = self.buffer.len();
                return self.give_up_if_long();
            };
            let end = self.searched + found;
            self.searched = 0;
            self.begun = (self.buffer.len() > end + 1).then(Instant::now);
            if std::mem::take(&mut self.skipping) {
                self.buffer.advance(end + 1);
                continue;
            }
            self.handed_out = end + 1;
            self.line = end;
            if self.line().trim_ascii().is_empty() {
                self.buffer.advance(self.handed_out);
                (self.handed_out, self.line) = (0, 0);
                continue;
            }
            return Some(if end > MAX_REQUEST_BYTES {
                Incoming::Oversized
            } else {
                Incoming::Line
            });
        }
    }

    fn give_up_if_long(&mut self) -> Option<Incoming> {
        if self.skipping {
            self.buffer.clear();
            self.searched = 0;
            return None;
        }
        if self.buffer.len() <= MAX_REQUEST_BYTES {
            return None;
        }
        self.skipping = true;
        self.line = self.buffer.len();
        self.handed_out = self.line;
        self.searched = 0;
        Some(Incoming::Oversized)
    }

    /// What stands before the end without a newline is a line, too.
    fn last_line(&mut self) -> Incoming {
        if self.skipping || self.buffer.trim_ascii().is_empty() {
            return Incoming::End;
        }
        self.line = self.buffer.len();
        self.handed_out = self.line;
        self.searched = 0;
        Incoming::Line
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt as _;

    const SECOND: Duration = Duration::from_secs(1);

    async fn all(input: &[u8]) -> Vec<String> {
        let mut reader = LineReader::new(input, SECOND);
        let mut found = Vec::new();
        loop {
            match reader.next().await.unwrap() {
                Incoming::Line => found.push(String::from_utf8_lossy(reader.line()).into_owned()),
                Incoming::Oversized => found.push(format!("oversized {}", reader.line().len())),
                Incoming::Late => found.push("late".to_owned()),
                Incoming::End => return found,
            }
        }
    }

    #[tokio::test]
    async fn lines_are_found_with_and_without_a_last_newline() {
        assert_eq!(all(b"a\n\n \r\nb\nc").await, ["a", "b", "c"]);
        assert_eq!(all(b"").await, [""; 0]);
    }

    #[tokio::test]
    async fn a_line_is_read_to_its_limit_and_a_longer_one_is_skipped() {
        let mut input = vec![b'x'; 1024 * 1024];
        input.extend(b"\nnext\n");
        assert_eq!(all(&input).await[1], "next");
        let mut input = vec![b'x'; 1024 * 1024 + 1];
        input.extend(b"\nnext\n");
        assert_eq!(all(&input).await, ["oversized 1048577", "next"]);
    }

    #[tokio::test]
    async fn a_huge_line_is_never_held() {
        let (mut client, server) = tokio::io::duplex(64 * 1024);
        let sending = tokio::spawn(async move {
            let piece = vec![b'x'; 64 * 1024];
            for _ in 0..1600 {
                client.write_all(&piece).await.unwrap();
            }
            client.write_all(b"\nnext\n").await.unwrap();
        });
        let mut reader = LineReader::new(server, 60 * SECOND);
        assert_eq!(reader.next().await.unwrap(), Incoming::Oversized);
        assert_eq!(reader.next().await.unwrap(), Incoming::Line);
        assert_eq!(reader.line(), b"next");
        assert!(
            reader.buffer.capacity() <= 4 * 1024 * 1024,
            "{}",
            reader.buffer.capacity()
        );
        sending.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_line_that_takes_too_long_is_given_up_and_silence_is_not() {
        let (mut client, server) = tokio::io::duplex(64);
        let mut reader = LineReader::new(server, SECOND);
        let silent = tokio::time::timeout(100 * SECOND, reader.next()).await;
        assert!(silent.is_err());
        client.write_all(b"{").await.unwrap();
        let trickle = tokio::spawn(async move {
            while client.write_all(b" ").await.is_ok() {
                tokio::time::sleep(SECOND / 3).await;
            }
        });
        assert_eq!(reader.next().await.unwrap(), Incoming::Late);
        drop(reader);
        trickle.await.unwrap();
    }
}
