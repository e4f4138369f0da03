//! What was refused to a command, as results say it.

use crate::context::ToolContext;
use crate::exec::RunningCommand;
use halter_policy::HostRefusal;
use serde_json::{Map, Value};
use std::sync::{Mutex, PoisonError};

/// The hosts a command in the background did not reach that were reported.
#[derive(Default)]
pub(super) struct ReportedHosts(Mutex<Vec<HostRefusal>>);

impl ReportedHosts {
    /// Adds to an answer what was refused to a command so far, and reports hosts
    /// that are new.
    pub(super) fn tell(
        &self,
        context: &ToolContext,
        command: &dyn RunningCommand,
        answer: &mut Map<String, Value>,
    ) {
        let refused = command.refused_hosts();
        let mut reported = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for refusal in refused.iter().filter(|it| !reported.contains(it)) {
            context.report_refusal(refusal);
        }
        reported.clone_from(&refused);
        drop(reported);
        add_hosts(answer, &refused);
        add_sandbox_note(answer, command.refusal_note());
    }
}

/// Adds which hosts were refused, by which rules, if any were.
pub(super) fn add_hosts(answer: &mut Map<String, Value>, refused: &[HostRefusal]) {
    if refused.is_empty() {
        return;
    }
    let said = |it: &HostRefusal| format!("{} (rule {})", it.message(), it.rule);
    let refused: Vec<String> = refused.iter().map(said).collect();
    answer.insert("network_refused".into(), refused.into());
}

/// Adds what there is to say about a sandbox to what was said already.
pub(super) fn add_sandbox_note(answer: &mut Map<String, Value>, note: Option<String>) {
    let said = answer.get("sandbox_note").and_then(Value::as_str);
    let notes: Vec<String> = said.map(str::to_owned).into_iter().chain(note).collect();
    if !notes.is_empty() {
        answer.insert("sandbox_note".into(), notes.join("; ").into());
    }
}
