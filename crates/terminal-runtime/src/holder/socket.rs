//! Messages with descriptors between daemon and holder: whole or not at all,
//! and still delivered when the sender has died.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use halter_exec::host::Spool;
use rustix::io::Errno;

use crate::limits::{MAX_HOLDER_MESSAGE_BYTES, MAX_INLINE_MESSAGE_BYTES};
use crate::sys::{self, Unsent};

/// What a receiver keeps from message to message.
pub(super) use sys::Arriving;

/// The message follows.
const INLINE: u8 = 0;
/// The message is in the file that is the last descriptor.
const IN_FILE: u8 = 1;

/// Messages in the order they are sent, and those there was no room for.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    waiting: VecDeque<(Vec<u8>, Vec<OwnedFd>)>,
    unsent: Unsent,
}

impl Outbox {
    /// Whether all has been sent.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.unsent.is_empty()
    }

    /// Sends a message without waiting, or keeps it if there is no room for
    /// it yet.
    ///
    /// # Errors
    /// If it cannot be sent at all.
    pub fn post(
        &mut self,
        socket: impl AsFd,
        message: Vec<u8>,
        fds: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        if self.waiting.is_empty() {
            match send(socket.as_fd(), &message, fds, &mut self.unsent) {
                Err(error) if must_wait(&error) => {}
                other => return other,
            }
        }
        let copies = fds.iter().map(|fd| fd.try_clone_to_owned());
        self.waiting
            .push_back((message, copies.collect::<io::Result<_>>()?));
        Ok(())
    }

    /// Sends what is there without waiting.
    ///
    /// # Errors
    /// One that [means to wait](must_wait) if there is no room for the rest;
    /// any other is about one message, which is dropped.
    pub fn flush(&mut self, socket: impl AsFd) -> io::Result<()> {
        let socket = socket.as_fd();
        while let Some((message, fds)) = self.waiting.front() {
            let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
            match send(socket, message, &fds, &mut self.unsent) {
                Err(error) if must_wait(&error) => return Err(error),
                other => {
                    self.waiting.pop_front();
                    other?;
                }
            }
        }
        sys::finish(socket, &mut self.unsent)
    }
}

/// No room in the socket, or too many descriptors on their way.
pub(super) fn must_wait(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
        || error.raw_os_error() == Some(Errno::TOOMANYREFS.raw_os_error())
}

fn send(
    socket: BorrowedFd<'_>,
    message: &[u8],
    fds: &[BorrowedFd<'_>],
    unsent: &mut Unsent,
) -> io::Result<()> {
    if message.len() <= MAX_INLINE_MESSAGE_BYTES {
        return sys::send(socket, &[&[INLINE], message], fds, unsent);
    }
    let mut file = Spool::memory_file()?;
    file.write_all(message)?;
    let mut fds = fds.to_vec();
    fds.push(file.as_fd());
    sys::send(socket, &[&[IN_FILE]], &fds, unsent)
}

/// What has arrived.
#[derive(Debug)]
pub(super) struct Received {
    /// The message.
    pub message: Vec<u8>,
    /// What came with it.
    pub fds: Vec<OwnedFd>,
}

/// Takes the next message without waiting; `None` at the end, `WouldBlock` if
/// there is none yet. `arriving` is kept by the caller from call to call.
///
/// # Errors
/// What the system says, or `InvalidData` for what is never sent.
pub(super) fn receive(socket: impl AsFd, arriving: &mut Arriving) -> io::Result<Option<Received>> {
    let most = MAX_INLINE_MESSAGE_BYTES + 1;
    let (mut found, mut fds) = sys::receive(socket.as_fd(), arriving, most)?;
    let Some(place) = take_first(&mut found) else {
        return Ok(None);
    };
    let message = match place {
        INLINE => found.to_vec(),
        IN_FILE => read_file(fds.pop())?,
        _ => return Err(io::ErrorKind::InvalidData.into()),
    };
    Ok(Some(Received { message, fds }))
}

fn take_first(bytes: &mut &[u8]) -> Option<u8> {
    let (first, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(*first)
}

fn read_file(file: Option<OwnedFd>) -> io::Result<Vec<u8>> {
    let mut file = File::from(file.ok_or(io::ErrorKind::InvalidData)?);
    let size = file.metadata()?.len();
    if size > MAX_HOLDER_MESSAGE_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    file.seek(SeekFrom::Start(0))?;
    let mut message = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    file.take(MAX_HOLDER_MESSAGE_BYTES)
        .read_to_end(&mut message)?;
    Ok(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One more may carry the message itself.
    const MAX_MESSAGE_DESCRIPTORS: usize = 250;

    fn pair() -> (OwnedFd, OwnedFd) {
        sys::channel_pair().unwrap()
    }

    fn send(socket: &OwnedFd, message: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut outbox = Outbox::default();
        outbox.post(socket, message.to_vec(), fds)?;
        assert!(outbox.is_empty());
        Ok(())
    }

    #[test]
    fn a_message_of_any_size_arrives_whole_with_its_descriptors() {
        let (ours, theirs) = pair();
        let mut arriving = Arriving::default();
        for size in [0, 1, MAX_INLINE_MESSAGE_BYTES, MAX_INLINE_MESSAGE_BYTES + 1] {
            let message = vec![42_u8; size];
            send(&ours, &message, &[ours.as_fd(), theirs.as_fd()]).unwrap();
            let received = receive(&theirs, &mut arriving).unwrap().unwrap();
            assert_eq!(received.message, message);
            assert_eq!(received.fds.len(), 2);
        }
    }

    #[test]
    fn the_end_and_an_empty_queue_are_told_apart() {
        let (ours, theirs) = pair();
        let mut arriving = Arriving::default();
        let empty = receive(&theirs, &mut arriving).unwrap_err();
        assert_eq!(empty.kind(), io::ErrorKind::WouldBlock);
        send(&ours, b"last", &[]).unwrap();
        drop(ours);
        let last = receive(&theirs, &mut arriving).unwrap().unwrap();
        assert_eq!(last.message, b"last");
        assert!(receive(&theirs, &mut arriving).unwrap().is_none());
    }

    #[test]
    fn the_largest_number_of_descriptors_fits_and_a_larger_one_is_refused() {
        let (ours, theirs) = pair();
        let mut arriving = Arriving::default();
        assert_eq!(sys::MAX_DESCRIPTORS, MAX_MESSAGE_DESCRIPTORS + 1);
        let many = vec![ours.as_fd(); MAX_MESSAGE_DESCRIPTORS];
        send(&ours, b"", &many).unwrap();
        let received = receive(&theirs, &mut arriving).unwrap().unwrap();
        assert_eq!(received.fds.len(), MAX_MESSAGE_DESCRIPTORS);
        let too_many = vec![ours.as_fd(); 254];
        assert!(send(&ours, b"", &too_many).is_err());
    }

    #[test]
    fn a_message_beyond_the_limit_is_not_read() {
        let (ours, theirs) = pair();
        let file = Spool::memory_file().unwrap();
        let mut arriving = Arriving::default();
        for (size, fine) in [
            (MAX_HOLDER_MESSAGE_BYTES, true),
            (MAX_HOLDER_MESSAGE_BYTES + 1, false),
        ] {
            file.set_len(size).unwrap();
            let mut unsent = Unsent::default();
            sys::send(ours.as_fd(), &[&[IN_FILE]], &[file.as_fd()], &mut unsent).unwrap();
            assert_eq!(receive(&theirs, &mut arriving).is_ok(), fine);
        }
    }
}
