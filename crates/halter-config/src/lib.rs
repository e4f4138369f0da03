//! The halter.toml schema, its layers, the origin of each value, and credential lookup.
