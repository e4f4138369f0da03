//! A client of a runtime, over its socket or over HTTP.
//!
//! Owns: typed calls, streams, and coming back to a stream after the
//! connection was lost. Never: starts a runtime or prints.

mod calls;
mod demux;
mod error;
mod follow;
mod http;
mod output;
mod socket;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use demux::{Demux, DemuxError, Item};
pub use error::ClientError;
pub use follow::Follower;
pub use output::{Ending, OutputEvent, OutputStream};

use crate::limits::{RECONNECT_TIME, STREAM_SILENCE};
use crate::protocol::ReplyLine;
use crate::settings::Token;

/// Where a runtime is.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Target {
    /// Behind a Unix socket.
    Socket(PathBuf),
    /// Behind HTTP.
    Http {
        /// Its address.
        address: SocketAddr,
        /// Its token.
        token: Token,
    },
    /// On another machine, or by a name, behind HTTP.
    Remote(Box<RemoteTarget>),
}

/// A runtime by the name of its host.
#[derive(Debug, Clone)]
pub struct RemoteTarget {
    /// The host.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Its token.
    pub token: Token,
    /// Whom to trust to say that it is this host; `None` for no encryption.
    pub tls: Option<Arc<rustls::ClientConfig>>,
}

impl std::fmt::Display for Target {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Socket(path) => write!(formatter, "{}", path.display()),
            Self::Http { address, .. } => write!(formatter, "http://{address}"),
            Self::Remote(remote) => {
                let scheme = if remote.tls.is_some() {
                    "https"
                } else {
                    "http"
                };
                write!(formatter, "{scheme}://{}:{}", remote.host, remote.port)
            }
        }
    }
}

/// A client. Cheap to clone; connects when it is first used, and again after
/// its connection was lost.
#[derive(Debug, Clone)]
pub struct Client {
    target: Target,
    /// How long a stream over a network may be silent.
    silence: Duration,
    /// How long a runtime that was lost is tried to be reached.
    reconnect: Duration,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    last_id: AtomicU64,
    line: tokio::sync::Mutex<Option<socket::CallLine>>,
}

#[derive(Serialize)]
struct Outgoing<'request, Params> {
    id: &'request str,
    method: &'request str,
    params: &'request Params,
}

impl Client {
    /// A client of the runtime there.
    #[must_use]
    pub fn new(target: Target) -> Self {
        Self {
            target,
            silence: STREAM_SILENCE,
            reconnect: RECONNECT_TIME,
            shared: Arc::default(),
        }
    }

    /// The same, which looks for streams over a network again after a silence of
    /// this length.
    #[must_use]
    pub fn with_silence(mut self, silence: Duration) -> Self {
        self.silence = silence;
        self
    }

    /// The same, which tries for so long to reach a runtime that it has lost.
    #[must_use]
    pub fn with_reconnect(mut self, reconnect: Duration) -> Self {
        self.reconnect = reconnect;
        self
    }

    /// How long a stream may be silent; a socket of this machine for ever, since
    /// nothing lies between that could be lost without a word.
    fn silence(&self) -> Option<Duration> {
        match self.target {
            Target::Socket(_) => None,
            _ => Some(self.silence),
        }
    }

    /// A client of the runtime behind a socket.
    #[must_use]
    pub fn socket(path: impl AsRef<Path>) -> Self {
        Self::new(Target::Socket(path.as_ref().to_owned()))
    }

    /// A client of the runtime behind HTTP.
    #[must_use]
    pub fn http(address: SocketAddr, token: Token) -> Self {
        Self::new(Target::Http { address, token })
    }

    /// Where its runtime is.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// A request as one line, and its id.
    fn request<Params: Serialize>(
        &self,
        method: &str,
        params: &Params,
    ) -> Result<(String, Vec<u8>), ClientError> {
        let id = self
            .shared
            .last_id
            .fetch_add(1, Ordering::Relaxed)
            .to_string();
        let outgoing = Outgoing {
            id: &id,
            method,
            params,
        };
        let line = crate::protocol::line(&outgoing)
            .ok_or_else(|| ClientError::Unreadable("the request has no JSON form".to_owned()))?;
        Ok((id, line))
    }

    /// Calls a method and waits for its answer. Calls of one client may be
    /// made at the same time.
    ///
    /// # Errors
    /// If the runtime cannot be reached or refuses.
    pub async fn call<Params: Serialize, Data: DeserializeOwned>(
        &self,
        method: &str,
        params: &Params,
    ) -> Result<Data, ClientError> {
        let (id, line) = self.request(method, params)?;
        let answer = match &self.target {
            Target::Socket(path) => {
                let call_line = self.call_line(path).await?;
                call_line.call(&self.target, id, line).await?
            }
            Target::Http { .. } | Target::Remote(_) => http::post(&self.target, line).await?,
        };
        read_reply(&answer)
    }

    async fn call_line(&self, path: &Path) -> Result<socket::CallLine, ClientError> {
        let mut line = self.shared.line.lock().await;
        match line.as_ref().filter(|line| line.is_alive()) {
            Some(line) => Ok(line.clone()),
            None => Ok(line
                .insert(socket::CallLine::connect(&self.target, path).await?)
                .clone()),
        }
    }
}

fn read_reply<Data: DeserializeOwned>(line: &[u8]) -> Result<Data, ClientError> {
    let reply: ReplyLine<Data> = serde_json::from_slice(line).map_err(|error| {
        ClientError::Unreadable(format!("the reply is not what was expected: {error}"))
    })?;
    match (reply.data, reply.error) {
        (Some(data), None) if reply.ok => Ok(data),
        (_, Some(error)) => Err(ClientError::Refused(error)),
        _ => Err(ClientError::Unreadable(
            "the reply has neither data nor error".to_owned(),
        )),
    }
}
