//! The server side: an agent, served to hosts that speak the protocol.
//!
//! [`AgentServer`] makes tools of a [`ServedAgent`], which a face implements:
//! this module knows neither models nor sessions. It owns what lies between a
//! host and the agent: transports with their guards, progress, questions,
//! cancelling, and that nothing goes on for a host that has gone. It never
//! approves anything: who cannot be asked has said no.
//!
//! | module | holds |
//! |---|---|
//! | `agent` | the trait, and what is said through it |
//! | `handler` | the tools, and where a request goes |
//! | `work` | a task that runs for a host, also while the host answers |
//! | `question` | approvals as forms |
//! | `lines`, `stdio` | messages over two streams |
//! | `http`, `presence` | messages over HTTP, and hosts that vanish |

mod agent;
mod handler;
mod http;
mod lines;
mod oversized;
mod presence;
mod question;
mod stdio;
mod tools;
mod work;

pub use agent::{
    HostLink, ListedSession, ServeError, ServedAgent, SessionsPage, SessionsRequest, TaskReport,
    TaskRequest,
};
pub use handler::AgentServer;
pub use http::{HTTP_PATH, HttpGuard, serve_handler_over_http, serve_http};
pub use stdio::serve_streams;
