//! Bytes with descriptors through a Unix socket.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::cmsg_space;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// The most descriptors that travel at a time; kernels take a few more.
pub(crate) const MAX_DESCRIPTORS: usize = 251;

/// Sends these parts and descriptors in one call; says how many bytes went.
pub(super) fn send(
    socket: BorrowedFd<'_>,
    parts: &[&[u8]],
    fds: &[BorrowedFd<'_>],
    flags: SendFlags,
) -> io::Result<usize> {
    let parts: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "too many descriptors for one message",
        ));
    }
    let sent = rustix::io::retry_on_intr(|| sendmsg(socket, &parts, &mut control, flags))?;
    Ok(sent)
}

/// Receives in one call; says how many bytes came, and adds the descriptors.
pub(super) fn receive(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    fds: &mut Vec<OwnedFd>,
    flags: RecvFlags,
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut buffers = [IoSliceMut::new(buffer)];
    let got = rustix::io::retry_on_intr(|| recvmsg(socket, &mut buffers, &mut control, flags))?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            fds.extend(received);
        }
    }
    // What was cut off is lost, and what is left would be taken for the whole.
    let cut = ReturnFlags::CTRUNC | ReturnFlags::TRUNC;
    if got.flags.intersects(cut) {
        fds.clear();
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "a message came without a part of its bytes or descriptors",
        ));
    }
    Ok(got.bytes)
}

// Streams of other systems have no message that could be cut.
#[cfg(all(test, target_os = "linux", not(halter_portable)))]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::sys::channel_pair;

    fn received(socket: BorrowedFd<'_>, room: usize) -> (io::Result<usize>, usize) {
        let mut fds = Vec::new();
        let mut buffer = vec![0; room];
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let got = receive(socket, &mut buffer, &mut fds, flags);
        (got, fds.len())
    }

    #[test]
    fn a_message_that_came_without_a_part_of_it_is_an_error() {
        let (ours, theirs) = channel_pair().unwrap();
        let flags = SendFlags::DONTWAIT;
        send(ours.as_fd(), &[b"too long"], &[ours.as_fd()], flags).unwrap();
        let (got, fds) = received(theirs.as_fd(), 4);
        assert_eq!(got.unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(fds, 0);
        // The next one is whole.
        send(ours.as_fd(), &[b"fits"], &[ours.as_fd()], flags).unwrap();
        let (got, fds) = received(theirs.as_fd(), 16);
        assert_eq!((got.unwrap(), fds), (4, 1));
    }
}
