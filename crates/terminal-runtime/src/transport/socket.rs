//! The two halves of a connection.
//!
//! Nobody is told that there is room to write unless there was none: a client
//! that reads its answer would wake us for nothing.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use halter_exec::{Moved, SpoolSegment, watch_descriptor};
use rustix::net::{Shutdown, shutdown};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::UnixStream;

use super::sink::Sink;

/// How much is read at a time: little, and more while there is more.
const READ_BYTES: (usize, usize) = (1024, 64 * 1024);

/// Writes in a row that found room before it is no longer watched for.
const CALM_WRITES: u32 = 16;

/// Both halves of a connected socket.
pub(super) fn split(stream: UnixStream) -> io::Result<(ReadHalf, WriteHalf)> {
    let socket = OwnedFd::from(stream.into_std()?);
    let writing = WriteHalf {
        socket: socket.try_clone()?,
        room: None,
        calm: 0,
    };
    let reading = ReadHalf {
        socket: watch_descriptor(socket, Interest::READABLE)?,
        most: READ_BYTES.0,
    };
    Ok((reading, writing))
}

/// What comes from the client.
#[derive(Debug)]
pub(super) struct ReadHalf {
    socket: AsyncFd<OwnedFd>,
    /// How much is read next.
    most: usize,
}

impl AsFd for ReadHalf {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.get_ref().as_fd()
    }
}

impl AsyncRead for ReadHalf {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        target: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { socket, most } = self.get_mut();
        let room = target.remaining().min(*most);
        loop {
            let mut ready = ready!(socket.poll_read_ready(context))?;
            let place = target.initialize_unfilled_to(room);
            match rustix::io::retry_on_intr(|| rustix::io::read(socket.get_ref(), &mut *place)) {
                Ok(count) => {
                    if (1..room).contains(&count) {
                        // That was all: whatever comes next is new.
                        ready.clear_ready();
                        *most = READ_BYTES.0;
                    } else {
                        *most = READ_BYTES.1;
                    }
                    target.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Err(rustix::io::Errno::AGAIN) => ready.clear_ready(),
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }
}

/// What goes to the client.
#[derive(Debug)]
pub(super) struct WriteHalf {
    socket: OwnedFd,
    /// Tells when there is room, while that is in question.
    room: Option<AsyncFd<OwnedFd>>,
    calm: u32,
}

impl WriteHalf {
    /// Sends something, as soon as there is room.
    fn poll_with(
        &mut self,
        context: &mut Context<'_>,
        send: impl Fn(&OwnedFd) -> io::Result<Moved>,
    ) -> Poll<io::Result<u64>> {
        loop {
            let sent = match send(&self.socket)? {
                Moved::Bytes(count) => Some(count),
                Moved::End => Some(0),
                Moved::WouldBlock => None,
            };
            if let Some(count) = sent {
                self.calm += 1;
                if self.calm >= CALM_WRITES {
                    self.room = None;
                }
                return Poll::Ready(Ok(count));
            }
            self.calm = 0;
            let room = match &self.room {
                Some(room) => room,
                None => {
                    let copy = self.socket.try_clone()?;
                    self.room
                        .insert(watch_descriptor(copy, Interest::WRITABLE)?)
                }
            };
            let mut ready = ready!(room.poll_write_ready(context))?;
            // It may have been full again since: then the next time counts.
            ready.clear_ready();
        }
    }
}

impl Sink for WriteHalf {
    fn poll_send(
        &mut self,
        context: &mut Context<'_>,
        segment: &SpoolSegment,
        sent: u64,
    ) -> Poll<io::Result<u64>> {
        self.poll_with(context, |socket| segment.send_to(socket, sent))
    }
}

impl AsyncWrite for WriteHalf {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = self.get_mut().poll_with(context, |socket| {
            match rustix::io::retry_on_intr(|| rustix::io::write(socket, bytes)) {
                Ok(count) => Ok(Moved::Bytes(count as u64)),
                Err(rustix::io::Errno::AGAIN) => Ok(Moved::WouldBlock),
                Err(error) => Err(error.into()),
            }
        });
        written.map_ok(|count| usize::try_from(count).unwrap_or(usize::MAX))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(shutdown(&self.socket, Shutdown::Write).map_err(Into::into))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn bytes_come_and_go_whole_however_slow_the_client() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut reading, mut writing) = split(ours).unwrap();
        let (mut their_reading, mut their_writing) = theirs.into_split();
        let sent: Vec<u8> = (0..3_000_000_u32).map(|number| number as u8).collect();
        let expected = sent.clone();
        let there = tokio::spawn(async move {
            writing.write_all(&sent).await.unwrap();
            assert!(writing.room.is_some(), "it must have been full");
            for _ in 0..CALM_WRITES {
                writing.write_all(b"x").await.unwrap();
            }
            assert!(writing.room.is_none());
            writing.shutdown().await.unwrap();
            writing
        });
        let mut found = Vec::new();
        their_reading.read_to_end(&mut found).await.unwrap();
        let (many, few) = found.split_at(expected.len());
        assert!(many == expected && few == [b'x'; CALM_WRITES as usize]);
        let back = expected.clone();
        let answer = tokio::spawn(async move {
            their_writing.write_all(&back).await.unwrap();
        });
        let mut found = Vec::new();
        reading.read_to_end(&mut found).await.unwrap();
        assert!(found == expected);
        answer.await.unwrap();
        drop(there.await.unwrap());
    }

    #[tokio::test]
    async fn a_client_that_is_gone_is_an_error_and_no_signal() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut reading, mut writing) = split(ours).unwrap();
        drop(theirs);
        assert_eq!(reading.read(&mut [0; 8]).await.unwrap(), 0);
        let error = writing.write_all(b"x").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
