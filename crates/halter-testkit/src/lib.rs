//! Helpers for tests of Halter and of programs built on it.
//!
//! A dev-dependency only: everything here fails by panicking with a message
//! that says what was expected, which is right in a test and wrong anywhere
//! else. It waits by gates, flags and watched deadlines, never by sleeping to
//! get an order, and leaves nothing behind.
//!
//! | module | holds |
//! |---|---|
//! | [`harness`] | a runtime of scripted answers and tools in three lines |
//! | [`tool`] | tools that do what a test tells them |
//! | [`workspace`] | a temporary directory to work in |
//! | [`store`] | a store that fails, waits and recovers on command |
//! | [`events`] | collecting, checking and rendering event streams |
//! | [`media`] | pictures and documents |
//! | [`clock`] | a clock that stands until it is told to move |
//! | [`deadline`] | waiting with an end, whatever tokio's clock does |
//! | [`leaks`] | processes, descriptors and files left behind |
//!
//! The scripted model itself ([`FakeProvider`], [`Reply`], [`Gate`]) belongs to
//! `halter-providers` and is re-exported.

// A test helper says what is wrong by panicking.
#![allow(clippy::expect_used)]

pub mod clock;
pub mod deadline;
pub mod events;
pub mod harness;
pub mod leaks;
pub mod media;
pub mod policy;
pub mod store;
pub mod tool;
pub mod workspace;

pub use clock::TestClock;
pub use deadline::{eventually, within};
pub use events::{EventsExt, collect, collect_until_error, render};
pub use halter_providers::{FakeProvider, Gate, Reply, check_pairing};
pub use harness::{Harness, HarnessBuilder};
pub use leaks::LeakCheck;
pub use media::{pdf, png};
pub use policy::JudgedBy;
pub use store::{FaultyStore, StoreFault};
pub use tool::ScriptedTool;
pub use workspace::TempWorkspace;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
