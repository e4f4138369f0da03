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
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
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

/// The commands that have an address of their own.
type SharedClients = Arc<Mutex<ClientTable>>;

#[derive(Debug, Default)]
struct ClientTable {
    last: u16,
    refusals: HashMap<Ipv4Addr, ProxyRefusals>,
}

/// One command among those that use a proxy, told from the others by the
/// address of loopback at which it reaches the proxy. What it is refused is kept
/// for itself, and nobody is asked on its behalf. A command that takes the
/// address of another is taken for that.
#[derive(Debug)]
pub struct ProxyClient {
    address: Ipv4Addr,
    refusals: ProxyRefusals,
    clients: SharedClients,
}

impl ProxyClient {
    /// Where it reaches the proxy.
    #[must_use]
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// What it was refused.
    #[must_use]
    pub fn refusals(&self) -> &ProxyRefusals {
        &self.refusals
    }
}

impl Drop for ProxyClient {
    fn drop(&mut self) {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.refusals.remove(&self.address);
    }
}

/// A proxy that runs until it is dropped, with all its connections.
#[derive(Debug)]
pub struct FilteringProxy {
    refusals: ProxyRefusals,
    connector: SharedConnector,
    questions: SharedQuestions,
    clients: SharedClients,
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
        let named = SharedClients::default();
        let way = Way {
            connector: Arc::clone(&connector),
            questions: Arc::clone(&questions),
            clients: Arc::clone(&named),
            refusals: refusals.clone(),
        };
        let task = tokio::spawn(accept(listener, way, clients));
        Ok(Self {
            refusals,
            connector,
            questions,
            clients: named,
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

    /// A command with an address of its own, until it is dropped. Takes a
    /// listening socket that is bound to all of loopback.
    #[must_use]
    pub fn client(&self) -> ProxyClient {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let address = loop {
            clients.last = clients.last.wrapping_add(1);
            let [high, low] = clients.last.to_be_bytes();
            let address = Ipv4Addr::new(127, 1, high, low);
            if !clients.refusals.contains_key(&address) {
                break address;
            }
        };
        let refusals = ProxyRefusals::default();
        clients.refusals.insert(address, refusals.clone());
        ProxyClient {
            address,
            refusals,
            clients: Arc::clone(&self.clients),
        }
    }

    /// What was refused and not yet taken.
    #[must_use]
    pub fn refusals(&self) -> &ProxyRefusals {
        &self.refusals
    }
}

/// How often a connection is looked for in the kernel's table.
const PEER_LOOKS: usize = 3;

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
                let way = way.of_client(&stream);
                served.spawn(async move {
                    if clients == Clients::All || is_own(&stream, peer).await {
                        serve(stream, way, place).await;
                    }
                });
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// Whether a connection comes from a program of this user. The kernel's table
/// is long where many connections just ended, and may lack a row while it
/// changes.
async fn is_own(stream: &TcpStream, peer: SocketAddr) -> bool {
    let Ok(local) = stream.local_addr() else {
        return false;
    };
    for _ in 0..PEER_LOOKS {
        let look = move || peer::owner(peer, local);
        if let Ok(Some(owner)) = tokio::task::spawn_blocking(look).await {
            return owner == rustix::process::geteuid().as_raw();
        }
    }
    false
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
    clients: SharedClients,
    refusals: ProxyRefusals,
}

impl Way {
    /// The way of whoever made this connection.
    fn of_client(&self, stream: &TcpStream) -> Self {
        let mut way = self.clone();
        let clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(SocketAddr::V4(reached)) = stream.local_addr()
            && let Some(refusals) = clients.refusals.get(reached.ip())
        {
            way.refusals = refusals.clone();
            way.questions = SharedQuestions::default();
        }
        way
    }

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

    /// All of them, which stay.
    #[must_use]
    pub fn all(&self) -> Vec<HostRefusal> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().cloned().collect()
    }

    /// Takes all of them.
    #[must_use]
    pub fn take(&self) -> Vec<HostRefusal> {
        self.take_where(|_| true)
    }

    /// Takes those that are wanted and keeps the others.
    #[must_use]
    pub fn take_where(&self, wanted: impl Fn(&HostRefusal) -> bool) -> Vec<HostRefusal> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (taken, others) = kept.drain(..).partition(wanted);
        *kept = others;
        Vec::from(taken)
    }
}

/// The variables that have commands use a proxy on their loopback interface.
/// Servers that commands start themselves are reached without it,
/// unless services outside may be: the two have the same names.
#[must_use]
pub fn proxy_environment(at: SocketAddrV4, policy: &NetworkPolicy) -> Vec<(String, String)> {
    let address = format!("http://{at}");
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

    #[test]
    fn what_is_not_wanted_yet_stays() {
        let refusals = ProxyRefusals::default();
        let refusal = |host: &str| HostRefusal {
            host: host.to_owned(),
            rule: "network.host",
            reason: String::new(),
            remedy: None,
            may_ask: false,
        };
        refusals.push(refusal("a.test"));
        refusals.push(refusal("b.test"));
        let wanted = refusals.take_where(|it| it.host == "b.test");
        assert_eq!(wanted, [refusal("b.test")]);
        assert_eq!(refusals.take(), [refusal("a.test")]);
    }
}
