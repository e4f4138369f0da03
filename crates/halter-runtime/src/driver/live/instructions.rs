//! Instruction files around the turns of a session.

use super::Owner;
use crate::engine::{Input, Preparation, SystemNote};
use crate::instructions::{InstructionUpdate, SessionInstructions, told};
use halter_protocol::{Action, ToolCall};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Where a call has been, to look for instruction files there.
pub(super) struct Reached {
    instructions: Arc<SessionInstructions>,
    paths: Vec<PathBuf>,
}

impl Owner {
    /// Looks for changes since the model was last told.
    pub(super) async fn look_at_instructions(&self, preparation: &mut Preparation) {
        let Some(instructions) = self.instructions.clone() else {
            return;
        };
        let told = told(&self.blueprint, self.engine.state());
        let looked = tokio::task::spawn_blocking(move || instructions.begin_turn(told)).await;
        let InstructionUpdate { note, warnings } = looked.unwrap_or_default();
        preparation.instructions = note;
        preparation.warnings.extend(warnings);
    }

    /// The files and directories that a call is about.
    pub(super) fn reached_by(&self, call: &ToolCall) -> Option<Reached> {
        let instructions = self.instructions.clone()?;
        let actions = self.tools.tools.actions(call).ok()?;
        let paths = actions.into_iter().filter_map(|action| match action {
            Action::Read { path } | Action::Write { path } => Some(path),
            _ => None,
        });
        let paths: Vec<_> = paths.collect();
        (!paths.is_empty()).then_some(Reached {
            instructions,
            paths,
        })
    }
}

impl Reached {
    /// What the model shall be told, now that the call has been there.
    pub(super) async fn look(self, sender: &mpsc::UnboundedSender<Input>) -> Option<SystemNote> {
        let Self {
            instructions,
            paths,
        } = self;
        let looked = tokio::task::spawn_blocking(move || instructions.reached(&paths)).await;
        let InstructionUpdate { note, warnings } = looked.unwrap_or_default();
        for message in warnings {
            let _ = sender.send(Input::Warn { message });
        }
        note
    }
}
