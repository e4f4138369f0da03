//! Any bytes as an image or document.

#![no_main]

#[path = "../../crates/halter-protocol/tests/it/fuzz_bodies.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::media(data));
