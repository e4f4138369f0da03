//! The terminal runtime: a daemon that runs commands for agents, and the
//! client library that talks to it.
//!
//! Owns: the wire protocol, its transports and their guards, the session
//! pool, the commands that run in it with their output, discovery.
//!
//! Never: creates a process except through `halter-exec`; loses a byte of
//! output that a client has not seen; lets one client's trouble reach another.
//!
//! | want | use |
//! |---|---|
//! | talk to a runtime | [`client::Client`] |
//! | run the commands of `halter-tools` by a runtime | `backend::RuntimeExec`, with the feature `tools` |
//! | find the runtimes of this user | [`discovery::discover`] |
//! | run a runtime within a program | [`daemon::Daemon`] |
//! | every shape and error code | [`protocol`] |
//! | the methods without a transport | [`service::Service`] |
//! | commands and their output without a wire | [`exec::Core`] |
//!
//! The way of an `exec.run`, from the socket to the child and back:
//!
//! 1. `transport/connection.rs` reads a line and sends the reply;
//! 2. `protocol/call.rs` makes a [`protocol::Call`] of it;
//! 3. `service/run.rs` finds the session, queues the command and runs it in a task;
//! 4. `exec/core.rs` takes it as an [`exec::ExecOrder`];
//! 5. `exec/session/mod.rs` has the session's shell, groups and holder;
//! 6. `exec/command/start.rs` makes streams, plan and record, and one message;
//! 7. `holder/link.rs` sends the message;
//! 8. `holder/server.rs` and `holder/table.rs` apply it in the holder: a process is
//!    launched, or lines are written to the shell;
//! 9. `halter-exec`'s `launch` and `sys/linux/clone.rs` make the child;
//! 10. `exec/command/flow.rs` moves its output to spools;
//! 11. `exec/command/run.rs` takes its end and makes it known;
//! 12. `service/result.rs` puts the reply together.

#[cfg(feature = "tools")]
pub mod backend;
pub mod client;
mod clock;
pub mod daemon;
pub mod discovery;
pub mod exec;
mod fs;
pub mod holder;
mod inherited;
pub mod limits;
mod lock;
pub mod private_dir;
pub mod protocol;
pub mod service;
pub mod session;
pub mod settings;
mod sys;
pub mod transport;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
