#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs
)]

mod anthropic;
mod cassette;
mod chat;
mod compaction;
mod conformance;
mod damage;
mod fake;
mod fuzz_bodies;
mod gemini;
mod http;
mod layers;
mod local;
mod media;
mod offline;
mod pairing;
mod reasoning;
mod responses;
mod schemas;
mod structured;
mod support;
mod wire_kit;
