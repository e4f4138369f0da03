//! Model servers that people run on their own computer. They are found so
//! that they can be named to the user, and used only when the user chooses
//! one.

use halter_config::{
    ConfiguredProvider, Environment, local_services, resolve_provider_runtime_config,
};
use halter_providers::local;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};

/// A model server on this computer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalServer {
    /// The name of the provider: `ollama` in `ollama/qwen3`.
    pub provider: String,
    /// What people call it.
    pub title: String,
    /// Where it listens.
    pub address: SocketAddr,
}

impl LocalServer {
    /// The known servers at the addresses where they usually listen, or where
    /// the environment says. Ones on other computers are not among them.
    pub fn usual(environment: &Environment) -> Vec<Self> {
        let lookup = |variable: &str| environment.text(variable).map(str::to_owned);
        local_services()
            .filter_map(|service| {
                let provider = ConfiguredProvider::from_name(service.name);
                let reached = resolve_provider_runtime_config(&provider, None, lookup);
                Some(Self {
                    provider: service.name.to_owned(),
                    title: service.title.to_owned(),
                    address: loopback(&reached.ok()??.base_url)?,
                })
            })
            .collect()
    }

    /// Those of the servers that listen. A connection is opened to each and
    /// closed again; nothing is sent.
    ///
    /// ```
    /// # async fn example() {
    /// use halter::LocalServer;
    /// use halter_config::Environment;
    ///
    /// let servers = LocalServer::usual(&Environment::empty());
    /// for server in LocalServer::listening(servers).await {
    ///     println!("{server}");
    /// }
    /// # }
    /// ```
    pub async fn listening(servers: Vec<Self>) -> Vec<Self> {
        let addresses: Vec<SocketAddr> = servers.iter().map(|server| server.address).collect();
        let open = local::listening(&addresses).await;
        let mut servers = servers;
        servers.retain(|server| open.contains(&server.address));
        servers
    }
}

impl fmt::Display for LocalServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.title, self.address)
    }
}

/// The address on this computer that a web address means.
fn loopback(base_url: &str) -> Option<SocketAddr> {
    let rest = base_url.strip_prefix("http://")?;
    let authority = rest.split('/').next()?;
    let address = match authority.strip_prefix("localhost:") {
        Some(port) => SocketAddr::from((Ipv4Addr::LOCALHOST, port.parse().ok()?)),
        None => authority.parse().ok()?,
    };
    address.ip().is_loopback().then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_addresses_are_known_and_the_variable_wins() {
        let ports = |environment: &Environment| -> Vec<(String, u16)> {
            let servers = LocalServer::usual(environment);
            let ports = servers.into_iter();
            ports
                .map(|server| (server.provider, server.address.port()))
                .collect()
        };
        let usual = [
            ("ollama", 11434),
            ("lmstudio", 1234),
            ("llamacpp", 8080),
            ("vllm", 8000),
        ]
        .map(|(name, port)| (name.to_owned(), port));
        assert_eq!(ports(&Environment::empty()), usual);
        let moved = Environment::from_iter([("OLLAMA_HOST", "localhost:5000")]);
        assert_eq!(ports(&moved)[0].1, 5000);
        let elsewhere = Environment::from_iter([("OLLAMA_HOST", "models.lan:5000")]);
        assert_eq!(ports(&elsewhere), usual[1..]);
    }
}
