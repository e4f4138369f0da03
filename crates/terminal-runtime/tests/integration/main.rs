//! Behaviour of the runtime as its users see it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs
)]

mod adoption;
mod bad_input;
mod beside;
mod confinement;
mod core;
mod defects;
mod descriptors;
mod fuzz;
mod fuzz_bodies;
mod gate;
mod groups;
mod holder;
mod interactive;
mod isolation;
mod keeping;
mod library;
mod people;
mod places;
mod plain;
mod privileges;
mod reach;
mod restart;
mod runtime;
mod schema;
mod secrets;
mod seed;
mod smoke;
mod streams;
mod support;
mod warm;
