//! What an engine was told in a schedule, to tell it to another.

use super::{Schedule, Simulation, Violation};
use crate::engine::{Effect, Engine, Input, SessionFacts};
use halter_protocol::{SessionState, Timestamp};
use serde::{Deserialize, Serialize};

/// Everything one process told its engine, in order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    /// What the engine knew at its start.
    pub facts: SessionFacts,
    /// What the log folded to then.
    pub state: SessionState,
    /// What happened.
    pub inputs: Vec<(Timestamp, Input)>,
}

impl Recording {
    pub(super) fn start(facts: &SessionFacts, state: &SessionState) -> Self {
        Self {
            facts: facts.clone(),
            state: state.clone(),
            inputs: Vec::new(),
        }
    }

    /// Tells it all to a fresh engine: what it wanted done, for each input.
    pub fn replay(&self) -> Vec<Vec<Effect>> {
        let mut engine = Engine::with_state(self.facts.clone(), self.state.clone());
        let inputs = self.inputs.iter().cloned();
        inputs.map(|(at, input)| engine.handle(at, input)).collect()
    }
}

/// What each process of a schedule was told, with what it wanted done.
pub type Recorded = Vec<(Recording, Vec<Vec<Effect>>)>;

/// Runs a schedule and keeps what was told.
///
/// # Errors
/// If the schedule breaks a promise.
pub fn record(schedule: &Schedule) -> Result<Recorded, Violation> {
    let mut simulation = Simulation::new(schedule);
    simulation.plan();
    simulation.run_agenda()?;
    Ok(simulation.recorded)
}
