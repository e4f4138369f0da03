//! Servers of the Model Context Protocol, and their tools as tools of a session.
//!
//! This crate owns connections to servers, their supervision and the way from
//! a call of a model to a call of a server. Processes of servers are started by
//! `halter-exec` and die with their connection. It never reads the environment
//! or a file that nobody named, never decides what may run, and never lets a
//! server wait for, flood or end a session.
//!
//! | module | holds |
//! |---|---|
//! | [`names`] | the names that models call the tools of servers by |
//! | [`error`] | what can go wrong with a server |
//! | [`limits`] | every bound |
//! | [`server`] | the other direction: an agent, served to hosts |

pub mod error;
pub mod limits;
pub mod names;
pub mod server;

pub use error::McpError;
pub use names::{ServerName, tool_name};
