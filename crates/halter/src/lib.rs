//! The agent harness for Rust: facade, builder and prelude.
