//! Connections to other hosts: checked, looked up once, and made to a checked
//! address only.
//!
//! [`Connector`] is the way out for every tool. A tool that follows redirects
//! connects anew for each, so each is checked. [`FilteringProxy`] is the same
//! way for the commands of a session, which reach nothing else: it serves a
//! socket that listens inside of their network namespace.
//!
//! What the model services are asked goes another way and is not meant here.

mod asking;
mod connect;
mod proxy;
mod resolver;

pub use asking::HostQuestions;
pub use connect::{ConnectError, Connector};
pub use proxy::{FilteringProxy, ProxyClient, ProxyRefusals, proxy_environment};
pub use resolver::{HostResolver, SystemResolver};
