//! Any bytes as a request to the terminal runtime.

#![no_main]

#[allow(dead_code)]
#[path = "../../crates/terminal-runtime/tests/integration/fuzz_bodies.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::request(data));
