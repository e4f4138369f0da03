//! The proxy through which the commands of a session reach allowed hosts.
//!
//! One port speaks HTTP (`CONNECT` for anything, absolute addresses for plain
//! HTTP) and SOCKS5 (`CONNECT`, with names). Every connection is checked by
//! itself. Where a person may let one through, it is held while they are asked on
//! behalf of the call that runs. A refusal is answered with what was refused, by
//! which rule and what to set, and kept for the result of the command.

mod http;
mod peer;
mod socks;
mod tunnel;

use super::asking::HostQuestions;
use super::connect::{ConnectError, Connector};
use crate::limits::{PROXY_CONNECTIONS, PROXY_HEAD_TIME, PROXY_REFUSALS};
use halter_policy::{Destination, HostRefusal, NetworkPolicy};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

/// How long nothing is accepted after accepting failed, as it does without
/// descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Who makes the connections of a proxy.
type SharedConnector = Arc<Mutex<Connector>>;

/// The call that a proxy asks for; none while no call runs.
type SharedQuestions = Arc<Mutex<Option<HostQuestions>>>;

/// A proxy that runs until it is dropped, with all its connections.
#[derive(Debug)]
pub struct FilteringProxy {
    refusals: ProxyRefusals,
    connector: SharedConnector,
    questions: SharedQuestions,
    _task: AbortOnDropHandle<()>,
}

/// Has a proxy ask on behalf of a call, until it is dropped.
#[derive(Debug)]
pub(crate) struct AskingProxy(SharedQuestions);

impl Drop for AskingProxy {
    fn drop(&mut self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl FilteringProxy {
    /// Serves a listening socket. Takes a tokio runtime.
    ///
    /// # Errors
    /// If the socket cannot be used.
    pub fn start(listener: std::net::TcpListener, connector: Connector) -> io::Result<Self> {
        Self::serve(listener, connector, Clients::All)
    }

    /// The same for a socket on the host's loopback interface, which every user
    /// of the machine reaches: only connections of this one are served.
    ///
    /// # Errors
    /// If the socket cannot be used.
    pub fn start_for_own_user(
        listener: std::net::TcpListener,
        connector: Connector,
    ) -> io::Result<Self> {
        Self::serve(listener, connector, Clients::OwnUser)
    }

    fn serve(
        listener: std::net::TcpListener,
        connector: Connector,
        clients: Clients,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let refusals = ProxyRefusals::default();
        let connector = SharedConnector::new(Mutex::new(connector));
        let questions = SharedQuestions::default();
        let way = Way {
            connector: Arc::clone(&connector),
            questions: Arc::clone(&questions),
            refusals: refusals.clone(),
        };
        let task = tokio::spawn(accept(listener, way, clients));
        Ok(Self {
            refusals,
            connector,
            questions,
            _task: AbortOnDropHandle::new(task),
        })
    }

    /// Has connections that follow made by another connector: one that may
    /// reach more, or less.
    pub fn connect_by(&self, connector: Connector) {
        *self
            .connector
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = connector;
    }

    /// Has the connections that are made while a call runs be those of its
    /// session, and be asked about on its behalf.
    pub(crate) fn ask_for(&self, questions: HostQuestions) -> AskingProxy {
        let network = questions.session_network();
        let mut connector = self
            .connector
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *connector = connector.with_policy(network);
        drop(connector);
        *self
            .questions
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(questions);
        AskingProxy(Arc::clone(&self.questions))
    }

    /// What was refused and not yet taken.
    #[must_use]
    pub fn refusals(&self) -> &ProxyRefusals {
        &self.refusals
    }
}

/// Who is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Clients {
    /// Whoever reaches the socket.
    All,
    /// Programs of the user that this one runs as.
    OwnUser,
}

/// Accepts connections, no more at once than the limit: others wait.
async fn accept(listener: TcpListener, way: Way, clients: Clients) {
    let places = Arc::new(Semaphore::new(PROXY_CONNECTIONS));
    let mut served = JoinSet::new();
    loop {
        while served.try_join_next().is_some() {}
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, peer)) => {
                let may = |local| clients == Clients::All || peer::is_own(peer, local);
                if !stream.local_addr().is_ok_and(may) {
                    continue;
                }
                served.spawn(serve(stream, way.clone(), place));
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// Serves one connection. Its failures concern its two ends only.
async fn serve(stream: TcpStream, way: Way, _place: OwnedSemaphorePermit) {
    let mut first = [0];
    let Ok(Ok(1)) = timeout(PROXY_HEAD_TIME, stream.peek(&mut first)).await else {
        return;
    };
    stream.set_nodelay(true).ok();
    match first {
        [socks::VERSION] => socks::serve(stream, &way).await.unwrap_or_default(),
        _ => http::serve(stream, way).await,
    }
}

/// The way out of the proxy.
#[derive(Debug, Clone)]
struct Way {
    connector: SharedConnector,
    questions: SharedQuestions,
    refusals: ProxyRefusals,
}

impl Way {
    async fn connect(&self, destination: &Destination) -> Result<TcpStream, ConnectError> {
        let connector = self
            .connector
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let questions = self
            .questions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let connected = connector
            .connect_asking(destination, questions.as_ref())
            .await;
        match &connected {
            Ok(stream) => stream.set_nodelay(true).unwrap_or_default(),
            Err(ConnectError::Refused(refusal)) => self.refusals.push(refusal.clone()),
            Err(_) => {}
        }
        connected
    }
}

/// What a proxy refused, each host and rule once, newest last. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct ProxyRefusals(Arc<Mutex<VecDeque<HostRefusal>>>);

impl ProxyRefusals {
    fn push(&self, refusal: HostRefusal) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.contains(&refusal) {
            return;
        }
        if kept.len() == PROXY_REFUSALS {
            kept.pop_front();
        }
        kept.push_back(refusal);
    }

    /// Takes all of them.
    #[must_use]
    pub fn take(&self) -> Vec<HostRefusal> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.drain(..).collect()
    }
}

/// The variables that have commands use a proxy on a port of their loopback
/// interface. Servers that commands start themselves are reached without it,
/// unless services outside may be: the two have the same names.
#[must_use]
pub fn proxy_environment(port: u16, policy: &NetworkPolicy) -> Vec<(String, String)> {
    let address = format!("http://127.0.0.1:{port}");
    let direct = match policy.reaches_loopback() {
        true => "",
        false => "localhost,127.0.0.1,::1",
    };
    // Also for `ALL_PROXY` the scheme that every client knows: some refuse to
    // start when they are told to speak SOCKS.
    let values = [
        ("HTTP_PROXY", address.as_str()),
        ("HTTPS_PROXY", &address),
        ("ALL_PROXY", &address),
        ("NO_PROXY", direct),
    ];
    let both = |(name, value): (&str, &str)| {
        [
            (name.to_owned(), value.to_owned()),
            (name.to_lowercase(), value.to_owned()),
        ]
    };
    values.into_iter().flat_map(both).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_refusals_are_kept_each_once() {
        let refusals = ProxyRefusals::default();
        let refusal = |number: usize| HostRefusal {
            host: format!("{number}.test"),
            rule: "network.host",
            reason: String::new(),
            remedy: None,
            may_ask: false,
        };
        for number in 0..=PROXY_REFUSALS {
            refusals.push(refusal(number));
            refusals.push(refusal(number));
        }
        let kept = refusals.take();
        assert_eq!(kept.len(), PROXY_REFUSALS);
        assert_eq!(kept.first(), Some(&refusal(1)));
        assert!(refusals.take().is_empty());
    }
}
