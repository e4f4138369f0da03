//! Finding the holder that is there, or starting one.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use halter_exec::host::{LaunchPlan, PidFd, launch};
use rustix::net::{SocketAddrUnix, bind, connect, listen};
use thiserror::Error;

use super::handshake::FoundSlot;
use super::link::HolderLink;
use crate::limits::HOLDER_START_DEADLINE;
use crate::sys;

/// The name of the holder's socket in the state directory.
const SOCKET_NAME: &str = "holder.sock";

/// The hidden mode of the program that is the holder.
pub const HOLDER_MODE: &str = "holder";

/// Why there is no holder.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HolderError {
    /// A system call failed.
    #[error("{action} failed: {source}; check that `{path}` is a private directory of this user")]
    Io {
        /// What was being done.
        action: &'static str,
        /// The state directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The program could not be started in its other mode.
    #[error("the holder could not be started: {reason}")]
    Start {
        /// Why.
        reason: String,
    },
    /// There is one of another version of this program.
    #[error(
        "the holder below `{path}` belongs to another version of this program (its protocol is \
         {found}, ours {ours}); stop it with that version, or end it and lose its commands, \
         or choose another --state-dir"
    )]
    OtherVersion {
        /// The state directory.
        path: PathBuf,
        /// Its version.
        found: u64,
        /// Ours.
        ours: u64,
    },
    /// There is one that serves another daemon.
    #[error("the holder below `{path}` serves another daemon; stop that one first")]
    InUse {
        /// The state directory.
        path: PathBuf,
    },
    /// It does not answer.
    #[error("the holder below `{path}` does not answer; end it, then start again")]
    Silent {
        /// The state directory.
        path: PathBuf,
    },
}

impl HolderError {
    /// The stable name of the error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Io { .. } => "holder_io",
            Self::Start { .. } => "holder_start",
            Self::OtherVersion { .. } => "holder_version",
            Self::InUse { .. } => "holder_in_use",
            Self::Silent { .. } => "holder_silent",
        }
    }
}

/// A holder and what it has for us.
#[derive(Debug)]
pub struct FoundHolder {
    /// The connection.
    pub link: HolderLink,
    /// What an earlier daemon has left with it.
    pub slots: Vec<FoundSlot>,
    /// The process, if it was started here.
    pub process: Option<PidFd>,
}

/// Connects to the holder of this state directory, or starts `program` as
/// one. Only one daemon at a time may do this.
///
/// # Errors
/// If there is neither.
pub async fn connect_or_start(
    state_dir: &Path,
    program: &Path,
) -> Result<FoundHolder, HolderError> {
    let io = |action| {
        move |source| HolderError::Io {
            action,
            path: state_dir.to_owned(),
            source,
        }
    };
    let place = sys::place_in(state_dir, SOCKET_NAME);
    let (address, _way) = place.map_err(io("naming the holder's socket"))?;
    let (socket, process) = match dial(&address) {
        Ok(socket) => (socket, None),
        // Only where nobody listens: any other error says nothing about a
        // holder that may be there, and whose socket must stay.
        Err(error) if nobody_listens(&error) => {
            let path = state_dir.join(SOCKET_NAME);
            let listener =
                bind_listener(&path, &address).map_err(io("making the holder's socket"))?;
            let process = start(&path, &listener, program)?;
            let socket = dial(&address).map_err(io("connecting to the holder"))?;
            (socket, Some(process))
        }
        Err(error) => return Err(io("connecting to the holder")(error)),
    };
    let handshake = HolderLink::handshake(socket, state_dir);
    let (link, slots) = tokio::time::timeout(HOLDER_START_DEADLINE, handshake)
        .await
        .map_err(|_| HolderError::Silent {
            path: state_dir.to_owned(),
        })??;
    Ok(FoundHolder {
        link,
        slots,
        process,
    })
}

fn dial(address: &SocketAddrUnix) -> io::Result<OwnedFd> {
    let socket = sys::channel()?;
    connect(&socket, address)?;
    Ok(socket)
}

/// Whether a dial failed because no holder is there.
fn nobody_listens(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
    )
}

fn bind_listener(path: &Path, address: &SocketAddrUnix) -> io::Result<OwnedFd> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = sys::channel()?;
    bind(&listener, address)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    listen(&listener, 4)?;
    Ok(listener)
}

/// Starts the holder with the listener as its standard input and an empty
/// environment.
fn start(path: &Path, listener: &OwnedFd, program: &Path) -> Result<PidFd, HolderError> {
    let failed = |reason: String| HolderError::Start { reason };
    let null = File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .map_err(|error| failed(error.to_string()))?;
    let mut plan = LaunchPlan::new(program, "/").standard_streams();
    plan.arguments = vec![
        OsString::from("terminal-runtime"),
        OsString::from(HOLDER_MODE),
        path.as_os_str().to_owned(),
    ];
    let slots = [listener.as_fd(), null.as_fd(), null.as_fd()];
    let launched = launch(&plan, &slots).map_err(|failure| failed(failure.to_string()))?;
    Ok(launched.pidfd)
}
