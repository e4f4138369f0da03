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
//! | [`http`] | servers that are reached over HTTP |
//! | [`auth`] | logging in to them |
//! | [`instances`] | servers that run once more, for sessions in other directories |
//! | [`managed`] | one server that is kept running |
//! | `learning` | what it has, and when it is asked again |
//! | [`tool`] | a tool of a server as a tool of a session |
//! | `draft` | schemas of older drafts of JSON Schema |
//! | [`host`] | what a server may ask of whoever uses it |
//! | [`resources`] | resources of servers, and the tools that read them |
//! | [`prompts`] | prompts of servers |
//! | [`names`] | the names that models call the tools of servers by |
//! | [`error`] | what can go wrong with a server |
//! | [`limits`] | every bound |
//! | [`server`] | the other direction: an agent, served to hosts |

pub mod auth;
mod client;
mod draft;
pub mod error;
pub mod host;
pub mod http;
pub mod instances;
mod learning;
pub mod limits;
pub mod managed;
pub mod names;
pub mod prompts;
pub mod resources;
mod result;
pub mod server;
pub mod servers;
pub mod settings;
mod text;
pub mod tool;
mod transport;

pub use error::McpError;
pub use halter_exec::supervise;
pub use host::{Host, WorkingDirectories};
pub use http::{HttpSettings, HttpTransport};
pub use instances::{AnyDirectory, PlacedProgram};
pub use managed::{ServerState, ServerStatus};
pub use names::{ServerName, tool_name};
pub use prompts::{OfferedPrompt, PromptArgument};
pub use servers::{McpServers, Nobody, ServerEvents};
pub use settings::{Connection, ServerSettings, ToolFilter};
pub use supervise::ProgramSettings;
pub use tool::OfferedTool;
