//! The Unix socket.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _,
    PermissionsExt as _,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FlockOperation, flock};
use tokio::net::unix::OwnedReadHalf;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::connection;
use super::guard::may_connect;
use super::hangup::Hangup;
use crate::limits::MAX_CONNECTIONS;
use crate::protocol::{ErrorCode, RequestId, WireError, failure};
use crate::service::Service;

/// Why a socket cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SocketError {
    /// A runtime listens there already.
    #[error(
        "a runtime listens on `{path}` already; use it, stop it, or choose another path with --socket"
    )]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// There is something else of that name.
    #[error("`{path}` exists and is no socket; remove it or choose another path with --socket")]
    NotASocket {
        /// The file.
        path: PathBuf,
    },
    /// It belongs to another user, or its directory does.
    #[error(
        "this user may not listen on `{path}`; choose another path with --socket, \
             or have its owner remove it"
    )]
    Forbidden {
        /// The socket.
        path: PathBuf,
    },
    /// The system refused.
    #[error("cannot listen on `{path}`: {action}: {source}; choose another path with --socket")]
    Io {
        /// The socket.
        path: PathBuf,
        /// What was being done.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl SocketError {
    fn io(path: &Path, action: &'static str, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::PermissionDenied => Self::Forbidden { path },
            _ => Self::Io {
                path,
                action,
                source,
            },
        }
    }

    /// The stable name of this error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::InUse { .. } => "socket_in_use",
            Self::NotASocket { .. } => "not_a_socket",
            Self::Forbidden { .. } => "socket_forbidden",
            Self::Io { .. } => "socket_io",
        }
    }
}

/// A socket that is listened on; removed when this is dropped.
#[derive(Debug)]
pub struct UnixTransport {
    listener: UnixListener,
    path: PathBuf,
    inode: u64,
    // Held for life: whoever has the lock owns the path.
    _lock: File,
}

impl UnixTransport {
    /// Listens on a path. A socket nobody listens on is replaced, one in use
    /// left alone.
    ///
    /// # Errors
    /// If the path is in use or the system refuses.
    pub fn bind(path: &Path) -> Result<Self, SocketError> {
        let failed = |action| move |source| SocketError::io(path, action, source);
        if let Some(parent) = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
        {
            let mut builder = fs::DirBuilder::new();
            let made = builder.recursive(true).mode(0o700).create(parent);
            made.map_err(failed("creating its directory"))?;
        }
        let lock = lock_path(path).map_err(failed("locking it"))?;
        let Some(lock) = lock else {
            return Err(SocketError::InUse {
                path: path.to_owned(),
            });
        };
        clear_stale(path)?;
        let hidden = with_suffix(path, ".new");
        // Left by a start that was interrupted; ours since we have the lock.
        let _ = fs::remove_file(&hidden);
        let listener = UnixListener::bind(&hidden).map_err(failed("binding"))?;
        // Nobody connects before the mode is right: the name is not known yet.
        let placed = fs::set_permissions(&hidden, fs::Permissions::from_mode(0o600))
            .and_then(|()| fs::rename(&hidden, path))
            .and_then(|()| fs::symlink_metadata(path));
        match placed {
            Ok(metadata) => Ok(Self {
                listener,
                path: path.to_owned(),
                inode: metadata.ino(),
                _lock: lock,
            }),
            Err(error) => {
                let _ = fs::remove_file(&hidden);
                Err(failed("setting its mode")(error))
            }
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes connections until `closing` ends, and serves them to their end.
    pub async fn serve(self, service: Service, closing: tokio_util::sync::CancellationToken) {
        let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let mut serving = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = closing.cancelled() => break,
            };
            while serving.try_join_next().is_some() {}
            match accepted {
                Ok((stream, _)) => {
                    serving.spawn(serve_one(service.clone(), stream, Arc::clone(&connections)));
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be taken");
                    // Out of descriptors: others must end first.
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                }
            }
        }
        drop(self);
        while serving.join_next().await.is_some() {}
    }
}

impl Drop for UnixTransport {
    fn drop(&mut self) {
        let ours = |metadata: fs::Metadata| metadata.ino() == self.inode;
        if fs::symlink_metadata(&self.path).is_ok_and(ours) {
            let _ = fs::remove_file(&self.path);
        }
        // Still locked: whoever opened it meanwhile finds that it is gone.
        let _ = fs::remove_file(with_suffix(&self.path, ".lock"));
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// The lock of a path; `None` if someone has it.
fn lock_path(path: &Path) -> io::Result<Option<File>> {
    let lock = with_suffix(path, ".lock");
    loop {
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0))
            .open(&lock)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        // Its last owner may have removed it between our two calls.
        let ours = file.metadata()?.ino();
        if fs::symlink_metadata(&lock).is_ok_and(|found| found.ino() == ours) {
            return Ok(Some(file));
        }
    }
}

/// Removes a socket nobody listens on. The lock is ours, but a program that
/// knows nothing of it may listen.
fn clear_stale(path: &Path) -> Result<(), SocketError> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(_) => return Ok(()),
    };
    if !metadata.file_type().is_socket() {
        return Err(SocketError::NotASocket {
            path: path.to_owned(),
        });
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            tracing::info!(path = %path.display(), "removing a socket nobody listens on");
            fs::remove_file(path)
                .map_err(|source| SocketError::io(path, "removing the stale socket", source))
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err(SocketError::Forbidden {
                path: path.to_owned(),
            })
        }
        Ok(_) | Err(_) => Err(SocketError::InUse {
            path: path.to_owned(),
        }),
    }
}

async fn serve_one(service: Service, stream: UnixStream, connections: Arc<Semaphore>) {
    let refusal = match stream.peer_cred() {
        Ok(peer) if may_connect(peer.uid(), rustix::process::geteuid().as_raw()) => {
            match Arc::clone(&connections).try_acquire_owned() {
                Ok(permit) => {
                    let (source, sink) = stream.into_split();
                    connection::serve(service, source, sink, watch).await;
                    drop(permit);
                    return;
                }
                Err(_) => WireError::new(
                    ErrorCode::ResourcePressure,
                    "the runtime has as many connections as it may; try again later",
                ),
            }
        }
        Ok(_) | Err(_) => {
            tracing::warn!("a process of another user was refused");
            WireError::new(ErrorCode::AuthFailed, "this socket belongs to another user")
        }
    };
    // Small enough for the socket's own buffer; if not, the peer loses.
    let _ = stream.try_write(&failure(&RequestId::unknown(), &refusal));
}

/// Ends when the peer of a connection is gone.
async fn watch_socket(hangup: io::Result<Hangup>) {
    match hangup {
        Ok(hangup) => hangup.wait().await,
        Err(error) => tracing::warn!(%error, "a connection cannot be watched"),
    }
}

fn watch(source: &OwnedReadHalf) -> impl Future<Output = ()> + use<> {
    watch_socket(Hangup::of(source.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_is_private_and_goes_with_its_owner() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new/trl.sock");
        let transport = UnixTransport::bind(&path).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        drop(transport);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn a_stale_socket_is_replaced_and_a_live_one_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trl.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let transport = UnixTransport::bind(&path).unwrap();
        let second = UnixTransport::bind(&path).unwrap_err();
        assert_eq!(second.code(), "socket_in_use");
        assert!(UnixStream::connect(transport.path()).await.is_ok());
    }

    #[test]
    fn a_listener_without_a_lock_is_left_alone_too() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trl.sock");
        let _other = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert_eq!(
            UnixTransport::bind(&path).unwrap_err().code(),
            "socket_in_use"
        );
    }

    #[test]
    fn a_file_that_is_no_socket_is_never_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("precious");
        fs::write(&path, "data").unwrap();
        assert_eq!(
            UnixTransport::bind(&path).unwrap_err().code(),
            "not_a_socket"
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), "data");
    }
}
