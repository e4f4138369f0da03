//! Messages with descriptors over a SEQPACKET socket: one datagram each,
//! whole or not at all, and still delivered when the sender has died.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::cmsg_space;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::limits::{MAX_HOLDER_MESSAGE_BYTES, MAX_INLINE_MESSAGE_BYTES};

/// The most descriptors that travel with one message; the kernel takes 253.
pub const MAX_MESSAGE_DESCRIPTORS: usize = 250;

/// The message follows.
const INLINE: u8 = 0;
/// The message is in the file that is the last descriptor.
const IN_FILE: u8 = 1;

/// Sends a message without waiting; `WouldBlock` if there is no room for it.
///
/// # Errors
/// What the system says. Nothing has been sent then.
pub fn send(socket: impl AsFd, message: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    if message.len() <= MAX_INLINE_MESSAGE_BYTES {
        return send_datagram(socket.as_fd(), &[&[INLINE], message], fds);
    }
    let mut file = File::from(memfd_create("trl-message", MemfdFlags::CLOEXEC)?);
    file.write_all(message)?;
    let mut fds = fds.to_vec();
    fds.push(file.as_fd());
    send_datagram(socket.as_fd(), &[&[IN_FILE]], &fds)
}

fn send_datagram(
    socket: BorrowedFd<'_>,
    parts: &[&[u8]],
    fds: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let parts: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MAX_MESSAGE_DESCRIPTORS + 1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "too many descriptors for one message",
        ));
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    rustix::io::retry_on_intr(|| sendmsg(socket, &parts, &mut control, flags))?;
    Ok(())
}

/// What has arrived.
#[derive(Debug)]
pub struct Received {
    /// The message.
    pub message: Vec<u8>,
    /// What came with it.
    pub fds: Vec<OwnedFd>,
}

/// Takes the next message without waiting; `None` at the end, `WouldBlock` if
/// there is none yet. `buffer` is scratch space kept by the caller.
///
/// # Errors
/// What the system says, or `InvalidData` for what [`send`] never sends.
pub fn receive(socket: impl AsFd, buffer: &mut Vec<u8>) -> io::Result<Option<Received>> {
    buffer.resize(MAX_INLINE_MESSAGE_BYTES + 1, 0);
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MAX_MESSAGE_DESCRIPTORS + 1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let got = rustix::io::retry_on_intr(|| {
        recvmsg(
            socket.as_fd(),
            &mut [IoSliceMut::new(buffer)],
            &mut control,
            flags,
        )
    })?;
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            fds.extend(received);
        }
    }
    let mut found = buffer.get(..got.bytes).unwrap_or_default();
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
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    fn pair() -> (OwnedFd, OwnedFd) {
        let kind = SocketType::SEQPACKET;
        socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap()
    }

    #[test]
    fn a_message_of_any_size_arrives_whole_with_its_descriptors() {
        let (ours, theirs) = pair();
        let mut buffer = Vec::new();
        for size in [0, 1, MAX_INLINE_MESSAGE_BYTES, MAX_INLINE_MESSAGE_BYTES + 1] {
            let message = vec![42_u8; size];
            send(&ours, &message, &[ours.as_fd(), theirs.as_fd()]).unwrap();
            let received = receive(&theirs, &mut buffer).unwrap().unwrap();
            assert_eq!(received.message, message);
            assert_eq!(received.fds.len(), 2);
        }
    }

    #[test]
    fn the_end_and_an_empty_queue_are_told_apart() {
        let (ours, theirs) = pair();
        let mut buffer = Vec::new();
        let empty = receive(&theirs, &mut buffer).unwrap_err();
        assert_eq!(empty.kind(), io::ErrorKind::WouldBlock);
        send(&ours, b"last", &[]).unwrap();
        drop(ours);
        let last = receive(&theirs, &mut buffer).unwrap().unwrap();
        assert_eq!(last.message, b"last");
        assert!(receive(&theirs, &mut buffer).unwrap().is_none());
    }

    #[test]
    fn the_largest_number_of_descriptors_fits_and_a_larger_one_is_refused() {
        let (ours, theirs) = pair();
        let mut buffer = Vec::new();
        let many = vec![ours.as_fd(); MAX_MESSAGE_DESCRIPTORS];
        send(&ours, b"", &many).unwrap();
        let received = receive(&theirs, &mut buffer).unwrap().unwrap();
        assert_eq!(received.fds.len(), MAX_MESSAGE_DESCRIPTORS);
        let too_many = vec![ours.as_fd(); 254];
        assert!(send(&ours, b"", &too_many).is_err());
    }

    #[test]
    fn a_message_beyond_the_limit_is_not_read() {
        let (ours, theirs) = pair();
        let file = File::from(memfd_create("large", MemfdFlags::CLOEXEC).unwrap());
        let mut buffer = Vec::new();
        for (size, fine) in [
            (MAX_HOLDER_MESSAGE_BYTES, true),
            (MAX_HOLDER_MESSAGE_BYTES + 1, false),
        ] {
            file.set_len(size).unwrap();
            send_datagram(ours.as_fd(), &[&[IN_FILE]], &[file.as_fd()]).unwrap();
            assert_eq!(receive(&theirs, &mut buffer).is_ok(), fine);
        }
    }
}
