//! Lifecycle hooks: what they are, when they run, and how their answers add up
//! to one verdict.
//!
//! A [`Hook`] is a closure bound to one [`HookEventName`]. [`Hooks`] keeps them
//! in order, and [`Hooks::dispatch`] runs those of an event and merges their
//! answers into a [`HookVerdict`], which the runtime carries out.
//!
//! This crate never implements a tool, never decides what a verdict does to a
//! turn, and never lets a hook that errs, panics or runs out of time pass as
//! consent: on [blocking](HookEventName::is_blocking) events it denies.
//!
//! | module | holds |
//! |---|---|
//! | [`event`] | the names of the lifecycle events |
//! | [`mod@file`] | hook files in the public format, and how their handlers run |
//! | [`hook`] | a hook and its settings |
//! | [`input`] | what a hook is told |
//! | [`response`] | what a hook answers |
//! | [`point`] | what happens when hooks run |
//! | [`payload`] | the payload of each event |
//! | [`registry`] | hooks in order, with stable ids |
//! | [`dispatch`] | running the hooks of an event |
//! | [`verdict`] | what their answers add up to |
//! | [`limits`] | the bounds of all of it |

mod condition;
pub mod dispatch;
pub mod error;
pub mod event;
pub mod file;
pub mod hook;
pub mod input;
pub mod limits;
mod merge;
pub mod payload;
pub mod point;
pub mod registry;
pub mod response;
mod session;
pub mod verdict;
mod warning;

pub use dispatch::{HookDispatch, HookObserver, NoopHookObserver};
pub use error::HookError;
pub use event::HookEventName;
pub use hook::Hook;
pub use input::HookInput;
pub use payload::HookPayload;
pub use point::{HookPoint, SessionStartSource};
pub use registry::{HookListing, Hooks, RegisteredHookPriority};
pub use response::{HookOutput, HookResponse, IntoHookResponse, PermissionDecision};
pub use session::SessionHooks;
pub use verdict::{HookVerdict, RewriteConflict, RewriteTarget};
pub use warning::HookWarning;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
