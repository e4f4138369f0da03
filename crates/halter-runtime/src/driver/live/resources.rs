//! Resources that a session takes up, and what of them is new to it.

use super::final_tools::FinalTools;
use super::{Owner, assemble};
use crate::engine::Preparation;
use crate::instructions::skill_file;
use crate::scoped_hooks::SessionScopes;
use crate::subagents::AgentTypes;
use halter_protocol::{
    CacheBreakReason, ResourceChange, ResourceChangeKind, ResourceKind, ResourceSnapshot,
    ResourcesLoaded,
};
use std::sync::Arc;

/// Why nobody can say what is new.
const NOT_KEPT: &str = "the resources are others than when this session last worked; \
                        what it had then was not kept, so the changes cannot be named";

impl Owner {
    /// Takes up resources that were replaced since the last turn.
    pub(super) fn take_up_resources(&mut self, preparation: &mut Preparation) {
        let current = self.services.resources.get();
        if Arc::ptr_eq(&current, &self.resources) {
            return;
        }
        preparation.warnings = current.warnings.clone();
        let inherited = self.scopes.inherited().to_vec();
        let scopes = SessionScopes::new(&current.snapshot, &self.blueprint);
        self.scopes = scopes.below(inherited);
        preparation.hooked = Some(self.scopes.events(&current.hooks));
        self.resources = current;
        self.take_up_agent_types();
        let prompt = assemble(
            &self.services,
            &self.blueprint,
            &self.resources,
            &self.tools,
        );
        if prompt != self.prompt {
            self.prompt = prompt;
            preparation.cache_break = Some(CacheBreakReason::ResourcesReplaced);
        }
    }

    /// Has the tools say which types of subagents there are now.
    fn take_up_agent_types(&mut self) {
        let types = AgentTypes::of(&self.resources.snapshot).lines();
        let tools = self.tools.with_agent_types(&types);
        if tools.revision != self.tools.revision {
            self.other_tools = true;
            self.late_revision = 0;
            self.tools = tools;
            self.final_tools = FinalTools::default();
        }
    }

    /// Has the log say what the session works with, unless it says so already.
    pub(super) fn note_resources(&self, preparation: &mut Preparation) {
        let now = &self.resources.snapshot;
        let last = self.engine.state().resources.as_ref();
        let is_known = match last {
            Some(last) => last.revision == now.revision,
            None => now.is_empty() && self.blueprint.snapshot_revision == now.revision,
        };
        let instructions = self.instruction_changes(preparation);
        if is_known && instructions.is_empty() {
            return;
        }
        let mut changes = match self.resources_before() {
            _ if is_known => Vec::new(),
            Some(before) => now.changes_since(&before),
            None => {
                preparation.warnings.push(NOT_KEPT.to_owned());
                Vec::new()
            }
        };
        changes.extend(instructions);
        preparation.resources = Some(Arc::new(ResourcesLoaded {
            revision: now.revision.clone(),
            snapshot: self.services.kept_text(now),
            changes,
        }));
    }

    /// What the session worked with last, if that is known: sessions of earlier
    /// versions have only noted its revision.
    fn resources_before(&self) -> Option<ResourceSnapshot> {
        let state = self.engine.state();
        if let Some(last) = &state.resources {
            return last.kept();
        }
        let revision = state.snapshot_revision.as_ref();
        let revision = revision.unwrap_or(&self.blueprint.snapshot_revision);
        let now = &self.resources.snapshot;
        let empty = ResourceSnapshot::empty();
        match revision {
            revision if *revision == now.revision => Some(now.as_ref().clone()),
            revision if *revision == empty.revision => Some(empty),
            _ => None,
        }
    }

    /// What the model is about to be told of instruction files.
    fn instruction_changes(&self, preparation: &Preparation) -> Vec<ResourceChange> {
        let files = preparation.instructions.iter();
        let files = files.flat_map(|note| &note.instructions);
        let started_with = &self.blueprint.instructions;
        let told_since = &self.engine.state().instructions;
        let changes = files.map(|file| {
            let is_known = match told_since.get(&file.path) {
                Some(told) => told.sha256.is_some(),
                None => started_with.iter().any(|it| it.path == file.path),
            };
            let change = match (&file.sha256, is_known) {
                (None, _) => ResourceChangeKind::Removed,
                (Some(_), true) => ResourceChangeKind::Changed,
                (Some(_), false) => ResourceChangeKind::Added,
            };
            let (kind, name) = match skill_file(&file.path) {
                Some(path) => (ResourceKind::Skill, path),
                None => (ResourceKind::Instructions, file.path.as_str()),
            };
            ResourceChange {
                kind,
                name: name.to_owned(),
                change,
            }
        });
        changes.collect()
    }
}
