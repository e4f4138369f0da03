//! A whole runtime: its service, its transports, its end.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use halter_exec::Environment;
use rustix::fs::{FlockOperation, flock};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::discovery::Registration;
use crate::exec::CoreError;
use crate::inherited::when_free;
use crate::private_dir::{PrivateDirError, private_dir};
use crate::protocol::DescribedTransport;
use crate::service::{Service, core_settings};
use crate::session::SystemClock;
use crate::settings::Settings;
use crate::transport::{HttpTransport, SocketError, TlsFiles, UnixTransport, serve_stdio};

/// How long connections get to send their last answers.
const CONNECTION_CLOSE_WAIT: Duration = Duration::from_secs(2);

/// Why a runtime does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DaemonError {
    /// It would run as root, and must not.
    #[error("this would run as root, which TRL_ALLOW_ROOT=0 forbids; start it as another user")]
    RootRefused,
    /// Its socket cannot be used.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// Its address cannot be used.
    #[error("cannot listen for HTTP on {address}: {source}; choose another address with --http")]
    Http {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// Its state directory cannot be used.
    #[error("{0}; choose another with --state-dir")]
    StateDir(#[from] PrivateDirError),
    /// Another runtime has its state directory.
    #[error(
        "another runtime uses the state directory `{path}`; stop it, or choose another with --state-dir"
    )]
    StateInUse {
        /// The directory.
        path: PathBuf,
    },
    /// What runs commands does not start.
    #[error(transparent)]
    Core(#[from] CoreError),
}

impl DaemonError {
    /// The stable name of this error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::RootRefused => "root_refused",
            Self::Socket(error) => error.code(),
            Self::Http { .. } => "http_address",
            Self::StateDir(error) => error.code(),
            Self::StateInUse { .. } => "state_in_use",
            Self::Core(error) => error.code(),
        }
    }
}

/// How a runtime is told to end.
#[derive(Debug, Clone, Default)]
pub struct ShutdownRequest {
    /// Once what runs has had its time.
    pub graceful: CancellationToken,
    /// At once.
    pub immediate: CancellationToken,
}

/// A runtime that can be reached and waits to be served.
pub struct Daemon {
    service: Service,
    unix: Option<UnixTransport>,
    http: Option<HttpTransport>,
    state: StateDir,
    registration: Option<Registration>,
}

impl Daemon {
    /// Starts a runtime. `environment` is what its commands start from,
    /// `program` the binary of this crate, which is also the holder.
    ///
    /// # Errors
    /// If it may not, or something it needs cannot be used.
    pub async fn start(
        settings: Settings,
        environment: Environment,
        program: PathBuf,
    ) -> Result<Self, DaemonError> {
        if rustix::process::geteuid().is_root() {
            if !settings.allow_root {
                return Err(DaemonError::RootRefused);
            }
            tracing::warn!(
                "running as root: commands of clients have all rights; set TRL_ALLOW_ROOT=0 to refuse"
            );
        }
        let unix = match settings.socket.as_deref() {
            Some(path) => {
                let in_use = |error: &SocketError| matches!(error, SocketError::InUse { .. });
                Some(when_free(async || UnixTransport::bind(path), in_use).await?)
            }
            None => None,
        };
        let http = match settings.http {
            Some(address) => Some(bind_http(address, settings.tls()).await?),
            None => None,
        };
        let claim = async || StateDir::claim(&settings, http.as_ref());
        let in_use = |error: &DaemonError| matches!(error, DaemonError::StateInUse { .. });
        let state = when_free(claim, in_use).await?;
        let core = core_settings(&settings, environment, state.path.clone(), program);
        let service = Service::start(settings, core, Arc::new(SystemClock)).await?;
        let mut daemon = Self {
            service,
            unix,
            http,
            state,
            registration: None,
        };
        daemon.announce();
        Ok(daemon)
    }

    /// The runtime's methods, without a transport.
    #[must_use]
    pub fn service(&self) -> &Service {
        &self.service
    }

    /// Tells clients how the runtime can be reached.
    fn announce(&mut self) {
        if let Some(unix) = &self.unix {
            // Whoever reads this may be in another directory.
            let path = std::path::absolute(unix.path()).unwrap_or(unix.path().to_owned());
            let path = path.to_string_lossy().into_owned();
            tracing::info!(socket = path, "listening");
            self.service.reachable_by(DescribedTransport::Unix { path });
        }
        if let Some(http) = &self.http {
            let address = http.address().to_string();
            tracing::info!(http = address, "listening");
            self.service
                .reachable_by(DescribedTransport::Http { address });
        }
        let runtime = self.service.found();
        if self.service.settings().stdin {
            self.service.reachable_by(DescribedTransport::Stdin {});
        }
        let Some(directory) = self.service.settings().discovery_place() else {
            return;
        };
        if runtime.transports.is_empty() {
            return;
        }
        match Registration::announce(&directory, &runtime) {
            Ok(registration) => self.registration = Some(registration),
            Err(error) => tracing::warn!(%error, "clients cannot find this runtime by themselves"),
        }
    }

    /// Serves until it is told to end, or its standard input ends if that is
    /// a transport; then ends everything it started.
    pub async fn serve(self, stop: ShutdownRequest) {
        let Self {
            service,
            unix,
            http,
            state,
            registration,
        } = self;
        let accepting = CancellationToken::new();
        let mut transports = JoinSet::new();
        if let Some(unix) = unix {
            transports.spawn(unix.serve(service.clone(), accepting.clone()));
        }
        if let Some(http) = http {
            transports.spawn(http.serve(service.clone(), accepting.clone()));
        }
        let stdin_over = CancellationToken::new();
        if service.settings().stdin {
            let (service, over) = (service.clone(), stdin_over.clone().drop_guard());
            transports.spawn(async move {
                serve_stdio(service).await;
                drop(over);
            });
        }
        let upkeep = tokio::spawn({
            let service = service.clone();
            async move { service.keep_up().await }
        });
        tokio::select! {
            () = stop.graceful.cancelled() => tracing::info!("ending: what runs is given its time"),
            () = stop.immediate.cancelled() => {}
            () = stdin_over.cancelled() => tracing::info!("ending: standard input has ended"),
        }
        accepting.cancel();
        drop(registration);
        tokio::select! {
            () = service.drain() => {}
            () = stop.immediate.cancelled() => tracing::info!("ending now"),
        }
        service.shut_down().await;
        let answered = async { while transports.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(CONNECTION_CLOSE_WAIT, answered).await;
        service.end().await;
        transports.shutdown().await;
        upkeep.abort();
        drop(state);
        tracing::info!("ended");
    }
}

async fn bind_http(
    address: SocketAddr,
    tls: Option<TlsFiles>,
) -> Result<HttpTransport, DaemonError> {
    let failed = |source| DaemonError::Http { address, source };
    let in_use = |error: &io::Error| error.kind() == io::ErrorKind::AddrInUse;
    let bound = when_free(async || HttpTransport::bind(address).await, in_use).await;
    let bound = bound.map_err(failed)?;
    match tls {
        Some(files) => Ok(bound.with_tls(files.read().map_err(failed)?)),
        None => Ok(bound),
    }
}

/// The directory where a runtime keeps what survives its crash, locked for as
/// long as it runs.
#[derive(Debug)]
struct StateDir {
    path: PathBuf,
    lock: PathBuf,
    _file: File,
}

impl StateDir {
    fn claim(settings: &Settings, http: Option<&HttpTransport>) -> Result<Self, DaemonError> {
        let path = match &settings.state_dir {
            Some(path) => path.clone(),
            None => {
                let base = state_base();
                // Whoever owned it could put another directory in our place.
                private_dir(&base)?;
                base.join(state_name(settings, http.map(HttpTransport::address)))
            }
        };
        private_dir(&path)?;
        let lock = path.join("lock");
        let io = |source| PrivateDirError::Io {
            path: lock.clone(),
            source,
        };
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&lock)
            .map_err(io)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self {
                path,
                lock,
                _file: file,
            }),
            Err(_) => Err(DaemonError::StateInUse { path }),
        }
    }
}

impl Drop for StateDir {
    fn drop(&mut self) {
        // Only if everything in it is gone: else the next runtime wants it.
        let others = fs::read_dir(&self.path).map_or(0, |entries| {
            entries
                .flatten()
                .filter(|entry| entry.path() != self.lock)
                .count()
        });
        if others == 0 {
            let _ = fs::remove_file(&self.lock);
            let _ = fs::remove_dir(&self.path);
        }
    }
}

/// Where the state of all runtimes of this user is. On disk, since output may
/// be larger than memory.
fn state_base() -> PathBuf {
    let user = rustix::process::geteuid().as_raw();
    PathBuf::from(format!("/var/tmp/terminal-runtime-{user}"))
}

/// A name for every place a runtime can be reached at, the same after a
/// restart.
fn state_name(settings: &Settings, http: Option<SocketAddr>) -> String {
    let place = match (&settings.socket, http) {
        (Some(path), _) => format!("unix:{}", absolute(path).display()),
        (None, Some(address)) => format!("http:{address}"),
        (None, None) => format!("stdin:{}", std::process::id()),
    };
    format!("{:016x}", fingerprint(place.as_bytes()))
}

fn absolute(path: &Path) -> PathBuf {
    // The directory exists by now; the socket itself may be new.
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let parent = fs::canonicalize(parent.unwrap_or(Path::new("."))).unwrap_or_default();
    parent.join(path.file_name().unwrap_or_default())
}

/// FNV-1a: the same on every machine and in every version.
fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fingerprint_of_a_place_never_changes() {
        assert_eq!(fingerprint(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fingerprint(b"a"), 0xaf63_dc4c_8601_ec8c);
    }
}
