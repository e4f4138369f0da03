//! Which runtime a subcommand talks to.

use terminal_runtime::client::{Client, Target};
use terminal_runtime::discovery::{FoundRuntime, discover};
use terminal_runtime::protocol::DescribedTransport;
use terminal_runtime::settings::{DEFAULT_SOCKET, Settings};

use super::failure::Failure;

/// A client of the runtime that was chosen, or of the only one there is.
pub fn client(settings: &Settings) -> Result<Client, Failure> {
    if let Some(path) = &settings.socket {
        return Ok(Client::socket(path));
    }
    if let Some(address) = settings.http {
        let token = settings.token()?.ok_or_else(|| {
            Failure::usage(
                "HTTP needs the runtime's token: set TRL_AUTH_TOKEN or --auth-token-file",
            )
        })?;
        return Ok(Client::new(Target::Http { address, token }));
    }
    let found = match settings.discovery_place() {
        Some(directory) => discover(&directory)?,
        None => Vec::new(),
    };
    let mut sockets = found.iter().filter_map(socket_of);
    match (sockets.next(), sockets.next()) {
        (Some(only), None) => Ok(Client::socket(only)),
        (None, _) => Ok(Client::socket(DEFAULT_SOCKET)),
        (Some(first), Some(second)) => {
            let rest: Vec<&str> = sockets.collect();
            let all = [&[first, second], rest.as_slice()].concat();
            Err(Failure::usage(format!(
                "several runtimes run; choose one with --socket: {}",
                all.join(", ")
            )))
        }
    }
}

fn socket_of(runtime: &FoundRuntime) -> Option<&str> {
    runtime
        .transports
        .iter()
        .find_map(|transport| match transport {
            DescribedTransport::Unix { path } => Some(path.as_str()),
            _ => None,
        })
}
