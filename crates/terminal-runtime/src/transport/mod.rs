//! How clients reach the runtime: a Unix socket, HTTP, standard input.
//!
//! Owns: who may connect, how much one connection may cost, and the bytes on
//! the way. Never: knows what a method does.

mod connection;
mod guard;
mod hangup;
mod http;
mod http_connections;
mod in_flight;
mod lines;
mod stdio;
mod tls;
mod unix;

pub use guard::{HttpGuard, HttpVerdict, may_connect};
pub use http::HttpTransport;
pub use stdio::serve_stdio;
pub use tls::TlsFiles;
pub use unix::{SocketError, UnixTransport};
