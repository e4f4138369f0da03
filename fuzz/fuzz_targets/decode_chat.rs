//! Any bytes as an answer on this wire.

#![no_main]

#[allow(dead_code)]
#[path = "../../crates/halter-providers/tests/it/fuzz_bodies.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::chat(data));
