//! The first messages between a daemon and its holder, and what is handed over.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use halter_exec::host::watch_descriptor;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::exit::{ExitWatch, ProcessEnd};
use super::link::{HolderLink, HolderNumbers, next};
use super::message::{HolderReply, HolderRequest, Key, ProcessState, VERSION};
use super::prepared::GivenUnit;
use super::socket::{Arriving, Outbox};
use super::start::HolderError;

/// A slot as an earlier daemon has left it.
#[derive(Debug)]
pub struct FoundSlot {
    /// Its name.
    pub key: Key,
    /// Its record.
    pub record: Vec<u8>,
    /// Its units with all parts that are open.
    pub units: Vec<GivenUnit>,
    /// Its process.
    pub process: ProcessState,
    /// The end of its process, if it has or had one.
    pub end: Option<ExitWatch>,
}

impl HolderLink {
    /// Introduces us and takes over what is there.
    pub(super) async fn handshake(
        socket: OwnedFd,
        state_dir: &Path,
    ) -> Result<(Self, Vec<FoundSlot>), HolderError> {
        let io = failed(state_dir);
        let hello = HolderRequest::encode_all([&HolderRequest::Hello { version: VERSION }]);
        let hello = hello.map_err(|error| io(io::Error::other(error)))?;
        let mut outbox = Outbox::default();
        outbox.post(&socket, hello, &[]).map_err(&io)?;
        let socket = watch_descriptor(socket, Interest::READABLE).map_err(&io)?;
        let (holder, mut slots) = receive_all(&socket, state_dir).await?;
        let next_name = slots.iter().map(|slot| slot.key + 1).max().unwrap_or(0);
        let link = Self::new(socket, holder, next_name);
        // Before anything more is heard, so that no end is missed.
        for slot in &mut slots {
            slot.end = match &slot.process {
                ProcessState::Absent => None,
                ProcessState::Running { .. } => Some(link.exit_of(slot.key)),
                ProcessState::Exited { exit, .. } => {
                    Some(ExitWatch::ended(ProcessEnd::Exited(*exit)))
                }
                ProcessState::Failed(failure) => {
                    Some(ExitWatch::ended(ProcessEnd::Failed(*failure)))
                }
            };
        }
        link.begin();
        Ok((link, slots))
    }
}

fn failed(state_dir: &Path) -> impl Fn(io::Error) -> HolderError {
    let path = state_dir.to_owned();
    move |source| match source.kind() {
        // It was ending when it was called, and will not answer any more.
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            HolderError::Silent { path: path.clone() }
        }
        _ => HolderError::Io {
            action: "talking to the holder",
            path: path.clone(),
            source,
        },
    }
}

/// Who the holder is, and all it has.
async fn receive_all(
    socket: &AsyncFd<OwnedFd>,
    state_dir: &Path,
) -> Result<(HolderNumbers, Vec<FoundSlot>), HolderError> {
    let io = failed(state_dir);
    let silent = || HolderError::Silent {
        path: state_dir.to_owned(),
    };
    let mut arriving = Arriving::default();
    let mut own = 0;
    let mut slots = Vec::new();
    loop {
        let received = next(socket, &mut arriving).await.map_err(&io)?;
        let received = received.ok_or_else(silent)?;
        match HolderReply::decode(&received.message).map_err(|_| silent())? {
            HolderReply::Welcome { pid, .. } => own = pid,
            HolderReply::Refused { version: VERSION } => {
                return Err(HolderError::InUse {
                    path: state_dir.to_owned(),
                });
            }
            HolderReply::Refused { version } => {
                return Err(HolderError::OtherVersion {
                    path: state_dir.to_owned(),
                    found: version,
                    ours: VERSION,
                });
            }
            HolderReply::Slot {
                key,
                record,
                units,
                process,
            } => slots.push(FoundSlot {
                key,
                record,
                units: GivenUnit::with_all_parts(units, received.fds),
                process,
                end: None,
            }),
            HolderReply::Ready { descriptor_owner } => {
                let numbers = HolderNumbers {
                    own,
                    descriptor_owner,
                };
                return Ok((numbers, slots));
            }
            // The end of something whose slot comes with its end.
            _ => {}
        }
    }
}
