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
