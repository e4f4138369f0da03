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
//! | find the runtimes of this user | [`discovery::discover`] |
//! | run a runtime within a program | [`daemon::Daemon`] |
//! | every shape and error code | [`protocol`] |
//! | the methods without a transport | [`service::Service`] |
//! | commands and their output without a wire | [`exec::Core`] |

pub mod client;
mod clock;
pub mod daemon;
pub mod discovery;
pub mod exec;
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
