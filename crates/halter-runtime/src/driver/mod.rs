//! What runs the engine's effects.

pub mod simulation;
