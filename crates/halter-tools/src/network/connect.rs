//! A connection to a host that the policy lets through.

use super::asking::HostQuestions;
use super::resolver::{HostResolver, SystemResolver};
use crate::limits::{CONNECT_ADDRESSES, CONNECT_TIME, RESOLVE_TIME};
use halter_policy::{Destination, Host, HostRefusal, NetworkPolicy};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Makes connections that the policy allows, and no others.
#[derive(Debug, Clone)]
pub struct Connector {
    policy: Arc<NetworkPolicy>,
    resolver: Arc<dyn HostResolver>,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The policy refuses the host, or an address it leads to.
    #[error("{}", .0.message())]
    Refused(HostRefusal),
    /// Nobody said which port.
    #[error("cannot reach '{host}': no port is named; write it after the host, as in {host}:443")]
    NoPort {
        /// The host.
        host: String,
    },
    /// The name has no address.
    #[error("cannot reach '{host}': its name could not be looked up: {source}")]
    Unresolved {
        /// The host.
        host: String,
        /// What the system said.
        source: io::Error,
    },
    /// No address answers.
    #[error("cannot reach '{host}': {source}")]
    Unreachable {
        /// The host.
        host: String,
        /// What the system said about the last address.
        source: io::Error,
    },
    /// It took too long.
    #[error("cannot reach '{host}': {what} took longer than {} s", .limit.as_secs())]
    TimedOut {
        /// The host.
        host: String,
        /// What took so long.
        what: &'static str,
        /// How long it may take.
        limit: std::time::Duration,
    },
}

impl ConnectError {
    /// A stable name of the kind of error.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Refused(refusal) => refusal.rule,
            Self::NoPort { .. } => "no_port",
            Self::Unresolved { .. } => "host_not_found",
            Self::Unreachable { .. } => "host_unreachable",
            Self::TimedOut { .. } => "host_timed_out",
        }
    }
}

impl Connector {
    /// A connector that asks the system for addresses.
    #[must_use]
    pub fn new(policy: NetworkPolicy) -> Self {
        Self::with_resolver(policy, Arc::new(SystemResolver))
    }

    /// A connector that asks another resolver.
    #[must_use]
    pub fn with_resolver(policy: NetworkPolicy, resolver: Arc<dyn HostResolver>) -> Self {
        Self {
            policy: Arc::new(policy),
            resolver,
        }
    }

    /// A connector by another policy.
    #[must_use]
    pub(crate) fn with_policy(&self, policy: NetworkPolicy) -> Self {
        Self::with_resolver(policy, Arc::clone(&self.resolver))
    }

    /// As [`connect`](Self::connect). Where a person may let the connection
    /// through, they are asked first; the addresses of the host are checked all
    /// the same.
    pub(crate) async fn connect_asking(
        &self,
        destination: &Destination,
        questions: Option<&HostQuestions>,
    ) -> Result<TcpStream, ConnectError> {
        match (self.connect(destination).await, questions) {
            (Err(ConnectError::Refused(refusal)), Some(questions))
                if questions.let_through(destination, &refusal).await =>
            {
                let policy = NetworkPolicy::clone(&self.policy);
                let opened = policy.opened_for([destination.clone()]);
                self.with_policy(opened).connect(destination).await
            }
            (connected, _) => connected,
        }
    }

    /// Connects to a host: checks its name, looks it up once, checks every
    /// address found, and connects to one of these. One address that may not be
    /// reached refuses them all: a name that leads to both sides of the wall is
    /// there to be mistaken.
    ///
    /// # Errors
    /// [`ConnectError::Refused`] if the policy refuses; anything else if there
    /// is no connection to be had.
    pub async fn connect(&self, destination: &Destination) -> Result<TcpStream, ConnectError> {
        let host = || destination.to_string();
        let Some(port) = destination.port else {
            return Err(ConnectError::NoPort { host: host() });
        };
        self.policy
            .check(destination)
            .map_err(ConnectError::Refused)?;
        let addresses = self.addresses(destination).await?;
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in addresses {
            match timeout(CONNECT_TIME, TcpStream::connect((address, port))).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => last = error,
                Err(_) => {
                    return Err(ConnectError::TimedOut {
                        host: host(),
                        what: "connecting",
                        limit: CONNECT_TIME,
                    });
                }
            }
        }
        Err(ConnectError::Unreachable {
            host: host(),
            source: last,
        })
    }

    /// The addresses of a host, all of them checked.
    async fn addresses(&self, destination: &Destination) -> Result<Vec<IpAddr>, ConnectError> {
        let found = match &destination.host {
            Host::Address(address) => vec![*address],
            // Never asked for: an answer could lead anywhere.
            host if host.is_localhost() => return self.loopback(destination),
            Host::Name(name) => self.resolve(name, destination).await?,
        };
        for address in &found {
            self.policy
                .check_address(destination, *address)
                .map_err(ConnectError::Refused)?;
        }
        Ok(found)
    }

    async fn resolve(
        &self,
        name: &str,
        destination: &Destination,
    ) -> Result<Vec<IpAddr>, ConnectError> {
        let host = destination.to_string();
        let asked = timeout(RESOLVE_TIME, self.resolver.resolve(name)).await;
        let found = match asked {
            Ok(Ok(found)) if found.is_empty() => Err(io::ErrorKind::NotFound.into()),
            Ok(found) => found,
            Err(_) => {
                return Err(ConnectError::TimedOut {
                    host,
                    what: "looking up its name",
                    limit: RESOLVE_TIME,
                });
            }
        };
        let mut found = found.map_err(|source| ConnectError::Unresolved { host, source })?;
        found.truncate(CONNECT_ADDRESSES);
        Ok(found)
    }

    /// Of the addresses of `localhost`, those that may be reached.
    fn loopback(&self, destination: &Destination) -> Result<Vec<IpAddr>, ConnectError> {
        let all = [
            IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(Ipv6Addr::LOCALHOST),
        ];
        let (mut open, mut refusal) = (Vec::new(), None);
        for address in all {
            match self.policy.check_address(destination, address) {
                Ok(()) => open.push(address),
                Err(refused) => refusal = Some(refused),
            }
        }
        match refusal {
            Some(refusal) if open.is_empty() => Err(ConnectError::Refused(refusal)),
            _ => Ok(open),
        }
    }
}
