//! Where answers come from: the [`Provider`] trait every model service
//! implements, the [`ModelRegistry`] that maps model ids to providers, model
//! services over HTTP, and two providers that need no network.
//!
//! This crate turns a request into a stream of
//! [`StreamEvent`](halter_protocol::StreamEvent)s and nothing else. It does
//! not assemble the events into messages, run tools, know sessions or policy,
//! and reads no configuration, environment or home directory.
//!
//! | module | holds |
//! |---|---|
//! | [`provider`] | the trait, its request and its capabilities |
//! | [`registry`] | model ids to models to providers |
//! | [`fake`] | a scripted provider for tests |
//! | [`offline`] | the built-in model that needs no network and no key |
//! | [`wire`] | model wires as pure functions |
//! | [`sse`] | bytes to server-sent events |
//! | [`decode`] | bytes to normalized events |
//! | [`http`] | a wire carried to a server: client, deadlines, conversation cache |
//! | [`layers`] | retry, rate limit, classification and tracing around any provider |
//! | [`resilience`] | deadlines, attempts and the meaning of errors, as settings |
//! | [`services`] | the services people use, ready made |
//! | [`cassette`] | model traffic recorded and played back |
//! | [`catalog`] | what is known of models |
//! | [`local`] | whether a server on this computer listens |
//! | [`secrets`] | values that must not be seen |
//! | [`tokens`] | how many tokens something is likely to be |
//! | [`pairing`] | the check that tool calls and results pair |
//! | [`limits`] | every bound, named |

mod answer_writer;
pub mod cassette;
pub mod catalog;
pub mod decode;
pub mod fake;
mod final_tool;
pub mod http;
pub mod layers;
pub mod limits;
pub mod local;
pub mod offline;
pub mod pairing;
mod playback;
pub mod provider;
pub mod registry;
pub mod resilience;
pub mod secrets;
pub mod services;
pub mod sse;
#[cfg(test)]
mod test_model;
pub mod tokens;
pub mod wire;

pub use fake::{FakeProvider, Gate, Reply};
pub use final_tool::final_tool;
pub use offline::OfflineProvider;
pub use pairing::{PairingError, check_pairing};
pub use provider::{
    AttemptBudget, EventStream, Provider, ProviderCapabilities, ProviderRequest, RequestPurpose,
};
pub use registry::{ModelRegistry, ModelResolver, RegistryError, ServedModel};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
