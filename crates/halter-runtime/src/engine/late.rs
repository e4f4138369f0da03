//! Tools that join a session while it runs: what is recorded of them, and when
//! the model is told.

use super::{Engine, SystemNote};
use halter_protocol::{Revision, SessionEventPayload, ToldTool, ToolName, ToolSpec};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A tool that joined a session after it had started. It is deferred.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LateTool {
    /// The tool.
    pub spec: Arc<ToolSpec>,
    /// What it does, in one line.
    pub summary: String,
    /// Names its definition.
    pub revision: Revision,
}

impl Engine {
    /// The late tools are these from now on.
    pub(super) fn late_tools_changed(&mut self, tools: Arc<[LateTool]>) {
        let before = std::mem::replace(&mut self.facts.late_tools, tools);
        let now = &self.facts.late_tools;
        let find = |all: &[LateTool], name: &ToolName| {
            let found = all.iter().find(|tool| tool.spec.name == *name);
            found.map(|tool| tool.revision.clone())
        };
        let mut added = Vec::new();
        let mut changed = Vec::new();
        for tool in now.iter() {
            let name = &tool.spec.name;
            match find(&before, name) {
                None => added.push(name.clone()),
                Some(revision) if revision != tool.revision => changed.push(name.clone()),
                Some(_) => {}
            }
        }
        let names = before.iter().map(|tool| &tool.spec.name);
        let gone = names.filter(|name| find(now, name).is_none());
        let removed: Vec<ToolName> = gone.cloned().collect();
        if !(added.is_empty() && changed.is_empty() && removed.is_empty()) {
            self.record(SessionEventPayload::ToolsChanged {
                added,
                changed,
                removed,
            });
        }
    }

    /// Tells the model of late tools as far as it knows otherwise. Returns
    /// whether there was anything to tell.
    pub(super) fn tell_of_late_tools(&mut self) -> bool {
        let mut told = Vec::new();
        let mut lines = Vec::new();
        for tool in self.facts.late_tools.iter() {
            let name = &tool.spec.name;
            let known = self.told_tools.get(name);
            if known == Some(&tool.revision) {
                continue;
            }
            let loaded = self.state.memory.loaded_tool(name);
            let other = loaded.filter(|it| it.changed.as_ref().unwrap_or(&it.spec) != &tool.spec);
            let verb = if known.is_some() { "changed" } else { "new" };
            lines.push(format!("- {verb}: {name}: {}", tool.summary));
            if other.is_some() {
                lines.push(format!(
                    "  It is loaded; its input is now: {}",
                    tool.spec.input_schema
                ));
            }
            told.push(ToldTool {
                name: name.clone(),
                summary: Some(tool.summary.clone()),
                revision: tool.revision.clone(),
                changed: other.map(|_| tool.spec.clone()),
            });
        }
        for (name, revision) in &self.told_tools {
            let is_there = |tool: &LateTool| tool.spec.name == *name;
            if !self.facts.late_tools.iter().any(is_there) {
                lines.push(format!("- gone: {name}"));
                told.push(ToldTool {
                    name: name.clone(),
                    summary: None,
                    revision: revision.clone(),
                    changed: None,
                });
            }
        }
        if told.is_empty() {
            return false;
        }
        for tool in &told {
            match tool.summary {
                Some(_) => {
                    let revision = tool.revision.clone();
                    self.told_tools.insert(tool.name.clone(), revision);
                }
                None => drop(self.told_tools.shift_remove(&tool.name)),
            }
        }
        let text = format!(
            "The tools that `tool_search` can load have changed:\n{}",
            lines.join("\n")
        );
        self.record_system(SystemNote {
            text,
            instructions: Vec::new(),
            tools: told,
        });
        true
    }
}
