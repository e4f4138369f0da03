//! What a session's tools keep and may do, made when the first tool runs.

use crate::bounds::narrowed;
use crate::context::reference::LoggedMessages;
use crate::engine::Input;
use crate::hub::SessionEvents;
use crate::limits::TOOL_OUTPUT_CHUNK_BYTES;
use crate::scoped_hooks::frontmatter_hooks;
use crate::services::{Resources, RuntimeServices};
use crate::toolset::{SessionDirectory, Toolset};
use halter_hooks::Hooks;
use halter_protocol::{
    ResourceSnapshot, Revision, SessionBlueprint, SessionEventPayload, SessionMemory, Timestamp,
    ToolCall, ToolCallId, ToolError, ToolErrorCode,
};
use halter_resources::project_top;
use halter_tools::policy::{PolicyError, SessionScope, ToolPolicy};
use halter_tools::{
    ExecSession, MemoryChanges, NobodyToAsk, ScratchDir, ToolContext, ToolEventSink,
    ToolRuntimeEvent, ToolSessionStore,
};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;

/// The tools' side of a session.
pub(crate) struct Toolbox {
    services: Arc<RuntimeServices>,
    sessions: Option<Arc<ToolSessionStore>>,
    /// With what it was bound for.
    policy: Option<(Revision, Arc<Hooks>, Arc<dyn ToolPolicy>)>,
}

/// What a call depends on besides the toolbox.
pub(crate) struct Surroundings<'a> {
    pub blueprint: &'a SessionBlueprint,
    pub resources: &'a Resources,
    pub memory: Arc<SessionMemory>,
    pub tools: &'a Arc<Toolset>,
}

impl Toolbox {
    pub fn new(services: &Arc<RuntimeServices>) -> Self {
        Self {
            services: services.clone(),
            sessions: None,
            policy: None,
        }
    }

    /// What one call is given.
    pub async fn context(
        &mut self,
        call: &ToolCall,
        surroundings: Surroundings<'_>,
        hub: &Arc<SessionEvents>,
        cancel: CancellationToken,
    ) -> Result<ToolContext, ToolError> {
        let Surroundings {
            blueprint,
            resources,
            memory,
            tools,
        } = surroundings;
        let policy = self.policy(blueprint, resources).await?;
        let tool_sessions = self.sessions(blueprint);
        Ok(ToolContext {
            memory,
            remembered: MemoryChanges::default(),
            earlier: Arc::new(LoggedMessages {
                store: self.services.store.clone(),
                session_id: blueprint.session_id.clone(),
                head: hub.head(),
            }),
            session_id: blueprint.session_id.clone(),
            call_id: call.id.clone(),
            working_dir: blueprint.working_dir.clone(),
            path_locks: self.services.path_locks.clone(),
            tool_sessions,
            asker: Arc::new(NobodyToAsk),
            hosts: None,
            tools: Arc::new(SessionDirectory {
                tools: tools.clone(),
                late: self.services.late_tools.clone(),
                bounds: blueprint.bounds.clone(),
            }),
            snapshot: resources.snapshot.clone(),
            cancel,
            emit: Arc::new(OutputSink {
                hub: hub.clone(),
                call_id: call.id.clone(),
            }),
            subagents: None,
            models: None,
            shell_timeout_secs: policy.shell_timeout_secs(),
            policy,
        })
    }

    /// Where the session's shell is, if it has left the session's directory.
    pub fn shell_directory(&self) -> Option<PathBuf> {
        self.sessions.as_ref()?.shell_directory()
    }

    /// Where the session's commands run, if any has run.
    pub fn open_exec(&self) -> Option<Arc<dyn ExecSession>> {
        self.sessions.as_ref()?.open_exec()
    }

    /// Ends whatever the tools keep alive.
    pub async fn close(&mut self) {
        if let Some(sessions) = self.sessions.take() {
            sessions.close().await;
        }
    }

    fn sessions(&mut self, blueprint: &SessionBlueprint) -> Arc<ToolSessionStore> {
        self.sessions
            .get_or_insert_with(|| {
                let age = Timestamp::now().duration_since(blueprint.created_at);
                let scratch = ScratchDir::new(self.services.scratch_root.clone());
                let environment = self.services.base_environment.clone();
                let store = ToolSessionStore::new(scratch)
                    .with_base_environment(environment)
                    .with_age(age.try_into().unwrap_or_default())
                    .with_exec(self.services.exec.clone());
                Arc::new(store)
            })
            .clone()
    }

    /// The policy, bound anew when the skills it may read or the hooks whose
    /// files it may not change are others.
    pub async fn policy(
        &mut self,
        blueprint: &SessionBlueprint,
        resources: &Resources,
    ) -> Result<Arc<dyn ToolPolicy>, ToolError> {
        let snapshot = &resources.snapshot;
        if let Some((revision, hooks, policy)) = &self.policy
            && *revision == snapshot.revision
            && Arc::ptr_eq(hooks, &resources.hooks)
        {
            return Ok(policy.clone());
        }
        let files = self.services.exec.files(&blueprint.working_dir).await;
        let files =
            files.map_err(|error| ToolError::new(ToolErrorCode::Failed, format!("{error:#}")))?;
        let scope = SessionScope {
            files,
            working_dir: blueprint.working_dir.clone(),
            scratch_dir: Some(self.sessions(blueprint).scratch().path().to_owned()),
            extra_read_roots: skill_roots(snapshot),
            protected: self.services.protected_with(resources),
            ..SessionScope::default()
        };
        let (services, bounds) = (self.services.clone(), blueprint.bounds.clone());
        let (hooks, kept) = (resources.hooks.clone(), snapshot.clone());
        let bound = tokio::task::spawn_blocking(move || {
            let read_only = run_by_hooks(&hooks, &kept, &scope.working_dir);
            let scope = SessionScope { read_only, ..scope };
            let settings = narrowed(&services.policy, &bounds, &scope.working_dir);
            services.policies.bind(settings, scope)
        });
        let policy = match bound.await {
            Ok(Ok(policy)) => policy,
            Ok(Err(error)) => {
                let code = match &error {
                    PolicyError::OutOfDescriptors { .. } => ToolErrorCode::OutOfDescriptors,
                    error if error.is_denial() => ToolErrorCode::PolicyDenied,
                    _ => ToolErrorCode::Failed,
                };
                return Err(ToolError::new(code, error.to_string()));
            }
            Err(error) => return Err(ToolError::new(ToolErrorCode::Failed, error.to_string())),
        };
        let (revision, hooks) = (snapshot.revision.clone(), resources.hooks.clone());
        self.policy = Some((revision, hooks, policy.clone()));
        Ok(policy)
    }
}

/// What hooks run and where they are written. They are not held to what the
/// session may do, so it may not change them.
fn run_by_hooks(hooks: &Hooks, resources: &ResourceSnapshot, directory: &Path) -> Vec<PathBuf> {
    let project = project_top(directory);
    let (scoped, _) = frontmatter_hooks(resources);
    let mut files = BTreeSet::new();
    for hooks in [hooks, &scoped] {
        files.extend(hooks.named_files(directory, project));
        files.extend(hooks.written_in());
    }
    files.into_iter().collect()
}

fn skill_roots(snapshot: &ResourceSnapshot) -> Vec<PathBuf> {
    snapshot
        .skills
        .values()
        .filter_map(|skill| skill.root())
        .map(PathBuf::from)
        .collect()
}

/// Sends a running tool's output to subscribers at once.
struct OutputSink {
    hub: Arc<SessionEvents>,
    call_id: ToolCallId,
}

impl ToolEventSink for OutputSink {
    fn emit(&self, event: ToolRuntimeEvent) {
        let ToolRuntimeEvent::ToolOutput { tool_name, chunk } = event else {
            return;
        };
        for piece in pieces(&chunk, TOOL_OUTPUT_CHUNK_BYTES) {
            self.hub
                .publish_best_effort(SessionEventPayload::ToolOutput {
                    call_id: self.call_id.clone(),
                    tool_name: tool_name.clone(),
                    chunk: piece.to_owned(),
                });
        }
    }
}

/// Sends what the network policy refused to the log, all else to subscribers.
pub(super) struct RefusalSink {
    pub(super) call_id: ToolCallId,
    pub(super) sender: UnboundedSender<Input>,
    pub(super) output: Arc<dyn ToolEventSink>,
}

impl ToolEventSink for RefusalSink {
    fn emit(&self, event: ToolRuntimeEvent) {
        let ToolRuntimeEvent::NetworkRefused {
            host,
            rule,
            message,
        } = event
        else {
            return self.output.emit(event);
        };
        // Nobody listens any more once the session is put away.
        let _ = self.sender.send(Input::NetworkRefused {
            call_id: self.call_id.clone(),
            host,
            rule,
            message,
        });
    }
}

/// Cuts a text into pieces of at most `limit` bytes, between characters.
fn pieces(text: &str, limit: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let cut = rest.floor_char_boundary(limit.min(rest.len())).max(1);
        let cut = rest.ceil_char_boundary(cut);
        let (piece, tail) = rest.split_at(cut);
        rest = tail;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_cut_between_characters_and_lose_nothing() {
        let text = "aé漢字🦀".repeat(7);
        for limit in 1..12 {
            let cut: Vec<&str> = pieces(&text, limit).collect();
            assert_eq!(cut.concat(), text);
            assert!(cut.iter().all(|piece| piece.len() <= limit.max(4)));
        }
    }
}
