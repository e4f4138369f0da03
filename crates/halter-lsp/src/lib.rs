//! Language servers, and what they know as tools of a session.
//!
//! Owns: the settings of servers as plugins write them, their processes
//! (through `halter-exec`), the part of the Language Server Protocol that the
//! tools need, and what models are told. Never: sends a file that the session
//! may not read, starts a server before a file of its kind is looked at, or
//! waits for one longer than its limits say.
//!
//! | module | holds |
//! |---|---|
//! | [`settings`] | a server as a plugin describes it |
//! | [`limits`] | every bound |
//! | `framing`, `connection` | messages, requests and what servers ask |
//! | `published` | what a server says of a file, as far as a model is shown it |
//! | `server` | one server: its process, its documents, its diagnostics |
//! | `servers` | the servers of a session, started when they are needed |
//! | `tools`, `observer` | what models call, and what edits bring back |

mod connection;
mod error;
mod framing;
pub mod limits;
mod observer;
mod place;
mod published;
mod server;
mod servers;
pub mod settings;
#[cfg(test)]
mod tests;
mod tools;

pub use error::LspError;
pub use observer::DiagnosticsAfterChanges;
pub use settings::ServerSettings;
pub use tools::language_tools;
