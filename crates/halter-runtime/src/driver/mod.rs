//! What runs the engine's effects: `live` for real, [`simulation`] in virtual
//! time.

pub(crate) mod live;
pub mod simulation;
