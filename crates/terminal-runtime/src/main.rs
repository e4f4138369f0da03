//! The `terminal-runtime` program.

fn main() {}
