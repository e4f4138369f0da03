//! Finding the holder that is there, or starting one.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use halter_exec::host::{LaunchPlan, PidFd, launch};
use rustix::net::{self, SocketAddrUnix, bind, listen};
use thiserror::Error;
use tokio::time::Instant;

use super::handshake::FoundSlot;
use super::link::HolderLink;
use crate::limits::{HOLDER_START_DEADLINE, INHERITED_WAIT};
use crate::sys;

/// The hidden mode of the program that is the holder.
pub const HOLDER_MODE: &str = "holder";

/// How soon a holder that is in use is asked again.
const IN_USE_PAUSE: Duration = Duration::from_millis(5);

/// How often a holder that is about to exit is looked at.
const EXIT_POLL_PAUSE: Duration = Duration::from_millis(2);

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

/// A holder and what an earlier daemon has left with it.
#[derive(Debug)]
pub struct FoundHolder {
    /// The connection.
    pub link: HolderLink,
    /// What it has for us.
    pub slots: Vec<FoundSlot>,
}

fn io_error(state_dir: &Path, action: &'static str) -> impl Fn(io::Error) -> HolderError {
    move |source| HolderError::Io {
        action,
        path: state_dir.to_owned(),
        source,
    }
}

/// Connects to the holder with a socket of this name in the state directory;
/// `None` if there is none. Only one daemon at a time may do this.
///
/// # Errors
/// If there may be one and it cannot be used.
pub async fn connect(state_dir: &Path, name: &str) -> Result<Option<FoundHolder>, HolderError> {
    let until = Instant::now() + INHERITED_WAIT;
    loop {
        match attempt(state_dir, name).await {
            // It may not have noticed yet that its last daemon is gone.
            Err(HolderError::InUse { .. }) if Instant::now() < until => {
                tokio::time::sleep(IN_USE_PAUSE).await;
            }
            done => return done,
        }
    }
}

async fn attempt(state_dir: &Path, name: &str) -> Result<Option<FoundHolder>, HolderError> {
    let place = sys::place_in(state_dir, name);
    let (address, _way) = place.map_err(io_error(state_dir, "naming the holder's socket"))?;
    match dial(&address) {
        Ok(socket) => complete_handshake(socket, state_dir).await.map(Some),
        // Any other error says nothing about a holder that may be there.
        Err(error) if nobody_listens(&error) => Ok(None),
        Err(error) => Err(io_error(state_dir, "connecting to the holder")(error)),
    }
}

/// Starts `program` as a holder with a socket of this name, which nobody has.
/// It is a child of this process. Its processes get a PID namespace of their
/// own, with a `proc` of its own at these places, if there are any and the
/// system lets it.
///
/// # Errors
/// If that fails.
pub async fn start(
    state_dir: &Path,
    name: &str,
    program: &Path,
    procs: &[PathBuf],
) -> Result<HolderLink, HolderError> {
    let place = sys::place_in(state_dir, name);
    let (address, _way) = place.map_err(io_error(state_dir, "naming the holder's socket"))?;
    let path = state_dir.join(name);
    let listener = bind_listener(&path, &address)
        .map_err(io_error(state_dir, "making the holder's socket"))?;
    let pid = launch_holder(&path, &listener, program, procs)
        .inspect_err(|_| drop(fs::remove_file(&path)))?;
    let connected = async {
        let socket = dial(&address).map_err(io_error(state_dir, "connecting to the holder"))?;
        complete_handshake(socket, state_dir).await
    };
    match connected.await {
        Ok(found) => Ok(found.link),
        Err(error) => {
            // Without its socket it ends by itself.
            let _ = fs::remove_file(&path);
            collect(pid, HOLDER_START_DEADLINE).await;
            Err(error)
        }
    }
}

/// Waits for the end of a holder and collects it. One that is not a child of
/// this process, but of an earlier daemon, is collected by the system.
pub async fn collect(pid: i32, limit: Duration) {
    let Ok(holder) = PidFd::open(pid) else {
        return;
    };
    let until = Instant::now() + limit;
    // It exits as soon as it has closed its connection. A handle of a process
    // that was not started with one cannot be waited for everywhere.
    while let Ok(None) = holder.reap() {
        if Instant::now() >= until {
            return;
        }
        tokio::time::sleep(EXIT_POLL_PAUSE).await;
    }
}

async fn complete_handshake(socket: OwnedFd, state_dir: &Path) -> Result<FoundHolder, HolderError> {
    let handshake = HolderLink::handshake(socket, state_dir);
    let (link, slots) = tokio::time::timeout(HOLDER_START_DEADLINE, handshake)
        .await
        .map_err(|_| HolderError::Silent {
            path: state_dir.to_owned(),
        })??;
    Ok(FoundHolder { link, slots })
}

fn dial(address: &SocketAddrUnix) -> io::Result<OwnedFd> {
    let socket = sys::channel()?;
    net::connect(&socket, address)?;
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
    let listener = sys::channel()?;
    bind(&listener, address)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    listen(&listener, 4)?;
    Ok(listener)
}

/// Starts the holder with the listener as its standard input and an empty
/// environment.
fn launch_holder(
    path: &Path,
    listener: &OwnedFd,
    program: &Path,
    procs: &[PathBuf],
) -> Result<i32, HolderError> {
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
    plan.arguments.extend(procs.iter().map(OsString::from));
    let slots = [listener.as_fd(), null.as_fd(), null.as_fd()];
    let launched = launch(&plan, &slots).map_err(|failure| failed(failure.to_string()))?;
    Ok(launched.pid)
}
