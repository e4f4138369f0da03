//! Model services over HTTP: a [`Wire`](crate::wire::Wire) carried by a
//! [`Transport`].
//!
//! ```text
//! HttpProvider   conversation cache, settings a model refuses, errors
//!   Wire         requests to bytes, bytes to events
//!   Transport    Recorder or Player (cassettes), Deadlines, NetworkTransport
//! ```

mod call_tool;
mod client;
mod conversations;
mod deadlines;
mod provider;
mod response_stream;
mod tls;
mod transport;
mod window;

pub use client::{ClientSettings, NetworkTransport, ProxySettings, network_client};
pub use deadlines::Deadlines;
pub use provider::{Endpoint, HttpProvider};
pub use tls::with_roots as tls_with_roots;
pub use transport::{
    BodyStream, HttpMethod, HttpRequest, HttpResponse, ResponseHeaders, Transport, TransportError,
};
