//! Lifecycle hooks: handlers, dispatch and merge semantics.
