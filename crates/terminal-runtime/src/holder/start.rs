//! Finding the holder that is there, or starting one.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use halter_exec::{LaunchPlan, PidFd, launch};
use rustix::net::{SocketAddrUnix, bind, connect, listen};
use thiserror::Error;

use super::link::HolderLink;
use super::meeting::FoundSlot;
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
    /// There is one that does not serve us.
    #[error(
        "the holder of version {found} below `{path}` does not serve this program \
         (version {ours}), or serves another daemon; stop that one first"
    )]
    Refused {
        /// The state directory.
        path: PathBuf,
        /// Its version.
        found: u64,
        /// Ours.
        ours: u64,
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
            Self::Refused { .. } => "holder_refused",
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
        Err(_) => {
            let path = state_dir.join(SOCKET_NAME);
            let listener =
                bind_listener(&path, &address).map_err(io("making the holder's socket"))?;
            let process = start(&path, &listener, program)?;
            let socket = dial(&address).map_err(io("connecting to the holder"))?;
            (socket, Some(process))
        }
    };
    let meeting = HolderLink::meet(socket, state_dir);
    let (link, slots) = tokio::time::timeout(HOLDER_START_DEADLINE, meeting)
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
