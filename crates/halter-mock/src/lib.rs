//! A model service on loopback that speaks four wires: Anthropic Messages,
//! OpenAI Responses, Chat Completions and Gemini.
//!
//! [`serve`] starts it. What it answers is scripted: a [`Scenario`] is data, a
//! prompt chooses one with the word `mock:NAME`, and the step that is due
//! follows from the request, so sessions may run in any order and at once.
//! Requests are captured, and checked as a strict server would check them: a
//! wrong one gets the wire's own error.
//!
//! This crate depends on no other crate of the harness and shares no code with
//! its providers, so that a misreading of a wire cannot agree with itself. It
//! listens on loopback only, and never calls out.
//!
//! | module | holds |
//! |---|---|
//! | [`scenario`] | scripts: what the model says and which faults the server has |
//! | [`service`] | the listener, its options, and a running service |
//! | [`capture`] | requests as they arrived |
//! | [`models`] | what the model lists show |
//! | [`wire`] | the names of the wires |
//! | [`limits`] | the bounds of all of it |

mod anthropic;
mod attempts;
pub mod capture;
mod chat;
mod codec;
mod conversation;
pub mod error;
mod fields;
mod gates;
mod gemini;
mod handler;
pub mod limits;
mod media;
mod model_answer;
pub mod models;
mod openai;
mod playback;
mod refusal;
mod responses;
mod route;
pub mod scenario;
pub mod service;
mod signing;
mod stored;
pub mod wire;

pub use capture::{CapturedRequest, RequestOutcome};
pub use codec::check_body;
pub use error::MockError;
pub use models::ModelEntry;
pub use scenario::{Scenario, ScenarioLibrary, Script, Step, Usage, script_schema};
pub use service::{MockService, ServeOptions, serve};
pub use wire::MockWire;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
