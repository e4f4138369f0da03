//! The Tool trait, the tool registry and the built-in tools.
