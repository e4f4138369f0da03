//! What the benches share: a loopback model server, a provider that posts to
//! it, a session with one turn, a terminal runtime to talk to, and ways to
//! measure.
//!
//! Every figure is a ratio against a floor, or a size, measured in the same
//! run: interleaved, in processes of their own, the median of several.

pub mod cost;
pub mod measure;
pub mod one_core;
pub mod provider;
pub mod report;
pub mod runtime;
pub mod server;
pub mod turn;
