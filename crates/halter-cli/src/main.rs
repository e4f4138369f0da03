//! The `halter` binary.

fn main() {}
