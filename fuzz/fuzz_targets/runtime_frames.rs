//! Any bytes as what a terminal runtime sends.

#![no_main]

#[allow(dead_code)]
#[path = "../../crates/terminal-runtime/tests/integration/fuzz_bodies.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::frames(data));
