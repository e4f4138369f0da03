//! Messages with descriptors over a stream.
//!
//! A message is a head of fixed size, which its descriptors travel with, and
//! its bytes. Whoever receives never reads beyond one of the two, so that
//! descriptors come with their own message; and returns a message only when
//! all of it has come, so that one whose sender died on the way has not
//! happened.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{RecvFlags, SendFlags};

use super::super::rights;
use super::closed_on_exec;

/// The number of bytes that follow.
const HEAD_BYTES: usize = 4;

/// No signal where nobody reads any more. Other systems know it as a property
/// of the socket.
#[cfg(not(target_vendor = "apple"))]
const SEND_FLAGS: SendFlags = SendFlags::NOSIGNAL;
#[cfg(target_vendor = "apple")]
const SEND_FLAGS: SendFlags = SendFlags::empty();

/// What is left of a message that went in part.
#[derive(Debug, Default)]
pub(crate) struct Unsent {
    bytes: Vec<u8>,
}

impl Unsent {
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// Sends a message without waiting; nothing of it has gone if that fails.
/// What has not gone of one that could be begun is left in `unsent`.
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    parts: &[&[u8]],
    fds: &[BorrowedFd<'_>],
    unsent: &mut Unsent,
) -> io::Result<()> {
    finish(socket, unsent)?;
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let head = u32::try_from(length).map_err(|_| io::ErrorKind::InvalidInput)?;
    let head = head.to_le_bytes();
    let mut all: Vec<&[u8]> = vec![&head];
    all.extend(parts);
    let sent = rights::send(socket, &all, fds, SEND_FLAGS | SendFlags::DONTWAIT)?;
    if sent == HEAD_BYTES + length {
        return Ok(());
    }
    unsent.bytes = all.concat().split_off(sent);
    match finish(socket, unsent) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        other => other,
    }
}

/// Sends the rest of a message.
pub(crate) fn finish(socket: BorrowedFd<'_>, unsent: &mut Unsent) -> io::Result<()> {
    while !unsent.is_empty() {
        let flags = SEND_FLAGS | SendFlags::DONTWAIT;
        match rights::send(socket, &[&unsent.bytes], &[], flags) {
            Ok(sent) => drop(unsent.bytes.drain(..sent)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(error),
            Err(error) => {
                // Nobody will ever take it.
                unsent.bytes.clear();
                return Err(error);
            }
        }
    }
    Ok(())
}

/// The next message, as far as it has come.
#[derive(Debug, Default)]
pub(crate) struct Arriving {
    head: [u8; HEAD_BYTES],
    /// Bytes of the head and of the message that have come.
    filled: usize,
    message: Vec<u8>,
    fds: Vec<OwnedFd>,
    /// Whether the message was returned and room is needed for the next.
    returned: bool,
}

impl Arriving {
    fn next(&mut self) {
        *self = Self {
            message: std::mem::take(&mut self.message),
            ..Self::default()
        };
    }

    /// The part that is filled next; empty when all of it is there.
    fn room(&mut self, most: usize) -> io::Result<&mut [u8]> {
        if self.filled < HEAD_BYTES {
            return Ok(self.head.get_mut(self.filled..).unwrap_or_default());
        }
        let length = usize::try_from(u32::from_le_bytes(self.head)).unwrap_or(usize::MAX);
        if length > most {
            // Where the next message would begin is not to be known.
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        self.message.resize(length, 0);
        let filled = self.filled - HEAD_BYTES;
        Ok(self.message.get_mut(filled..).unwrap_or_default())
    }
}

/// Takes the next message of at most so many bytes, without waiting; an empty
/// one is the end.
pub(crate) fn receive<'a>(
    socket: BorrowedFd<'_>,
    arriving: &'a mut Arriving,
    most: usize,
) -> io::Result<(&'a [u8], Vec<OwnedFd>)> {
    if arriving.returned {
        arriving.next();
    }
    loop {
        let mut came = Vec::new();
        let room = arriving.room(most)?;
        if room.is_empty() {
            break;
        }
        let count = rights::receive(socket, room, &mut came, RecvFlags::DONTWAIT)?;
        for fd in &came {
            closed_on_exec(fd.as_fd())?;
        }
        arriving.fds.extend(came);
        if count == 0 {
            // Whatever has come of a message has not happened.
            arriving.next();
            return Ok((&[], Vec::new()));
        }
        arriving.filled += count;
    }
    let fds = std::mem::take(&mut arriving.fds);
    arriving.returned = true;
    Ok((&arriving.message, fds))
}

#[cfg(test)]
mod tests {
    use super::super::channel_pair;
    use super::*;

    const MOST: usize = 4 << 20;

    fn next(socket: &OwnedFd, arriving: &mut Arriving) -> io::Result<(Vec<u8>, usize)> {
        let (message, fds) = receive(socket.as_fd(), arriving, MOST)?;
        Ok((message.to_vec(), fds.len()))
    }

    #[test]
    fn descriptors_come_with_their_own_message() {
        let (ours, theirs) = channel_pair().unwrap();
        let mut unsent = Unsent::default();
        let mut arriving = Arriving::default();
        for count in [0_u8, 2, 1, 0, 3] {
            let fds = vec![ours.as_fd(); count.into()];
            send(ours.as_fd(), &[b"with ", &[count]], &fds, &mut unsent).unwrap();
        }
        for count in [0_u8, 2, 1, 0, 3] {
            let expected = ([b"with ".as_slice(), &[count]].concat(), count.into());
            assert_eq!(next(&theirs, &mut arriving).unwrap(), expected);
        }
        let empty = next(&theirs, &mut arriving).unwrap_err();
        assert_eq!(empty.kind(), io::ErrorKind::WouldBlock);
    }

    /// More than the socket holds: the sender must come back for the rest.
    #[test]
    fn a_message_sent_in_parts_comes_whole_and_half_a_message_never() {
        let (ours, theirs) = channel_pair().unwrap();
        let mut unsent = Unsent::default();
        let mut arriving = Arriving::default();
        let large = vec![7_u8; MOST];
        send(ours.as_fd(), &[&large], &[ours.as_fd()], &mut unsent).unwrap();
        let second = send(ours.as_fd(), &[b"second"], &[], &mut unsent).unwrap_err();
        assert_eq!(second.kind(), io::ErrorKind::WouldBlock);
        let whole = loop {
            match next(&theirs, &mut arriving) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    assert!(!unsent.is_empty());
                    let _ = finish(ours.as_fd(), &mut unsent);
                }
                other => break other.unwrap(),
            }
        };
        assert!(unsent.is_empty() && whole == (large.clone(), 1));
        // One whose sender is gone before all of it went has not happened.
        send(ours.as_fd(), &[&large], &[], &mut unsent).unwrap();
        assert!(!unsent.is_empty());
        drop(ours);
        assert!(loop {
            match next(&theirs, &mut arriving) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => break other.unwrap().0.is_empty(),
            }
        });
    }

    #[test]
    fn a_length_nobody_sends_ends_the_connection() {
        let (ours, theirs) = channel_pair().unwrap();
        let mut arriving = Arriving::default();
        rustix::io::write(&ours, &[0xff; HEAD_BYTES]).unwrap();
        let error = next(&theirs, &mut arriving).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
    }
}
