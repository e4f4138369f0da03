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
//! | [`settings`] | how a server is started |
//! | [`servers`] | all servers of a harness |
//! | [`managed`] | one server that is kept running |
//! | [`tool`] | a tool of a server as a tool of a session |
//! | [`host`] | what a server may ask of whoever uses it |
//! | [`supervise`] | programs that serve over their standard streams |
//! | [`names`] | the names that models call the tools of servers by |
//! | [`error`] | what can go wrong with a server |
//! | [`limits`] | every bound |
//! | [`server`] | the other direction: an agent, served to hosts |

mod client;
pub mod error;
pub mod host;
pub mod limits;
pub mod managed;
pub mod names;
mod result;
pub mod server;
pub mod servers;
pub mod settings;
pub mod supervise;
mod text;
pub mod tool;
mod transport;

pub use error::McpError;
pub use host::{Host, WorkingDirectories};
pub use managed::{ServerState, ServerStatus};
pub use names::{ServerName, tool_name};
pub use servers::{McpServers, ServerEvents};
pub use settings::{ServerSettings, ToolFilter};
pub use supervise::ProgramSettings;
pub use tool::OfferedTool;
