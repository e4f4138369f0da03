//! Servers that are reached over HTTP.
//!
//! | module | holds |
//! |---|---|
//! | `settings` | where a server is and what it is sent |
//! | `request` | one request: its headers, its token, what its answer means |
//! | `events` | an event stream within bounds |
//! | `streamable` | the transport of current revisions, as the library wants it |
//! | `legacy` | the older transport: one event stream, and an address to post to |
//! | `failure` | what can go wrong |

mod events;
mod failure;
mod legacy;
mod request;
mod settings;
mod streamable;

pub(crate) use failure::{HttpFailure, http_failure};
pub(crate) use legacy::LegacySse;
pub(crate) use request::{HttpClient, challenge_of, load_client};
pub use settings::{HttpClientLoader, HttpSettings, HttpTransport};
pub(crate) use settings::{is_loopback, shown_host};
pub(crate) use streamable::streamable;
