//! Running hooks, and waiting for those that run beside a turn.

use super::uses::skills_in_use;
use super::{Owner, Running};
use crate::engine::{EffectId, Input, hook_name};
use crate::limits::BESIDE_GRACE;
use halter_hooks::{HookDispatch, HookObserver, HookPayload, HookPoint, Hooks};
use halter_protocol::encoding::escape_path;
use halter_protocol::{HookRunSummary, ModelId, PermissionMode, TurnId};
use halter_resources::project_top;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Where in a session's life hooks run.
pub(super) struct HookedAt {
    pub(super) point: HookPoint,
    pub(super) turn_id: Option<TurnId>,
    pub(super) model: ModelId,
}

impl Owner {
    pub(super) fn run_hooks(&mut self, id: EffectId, at: HookedAt, running: &mut Running) {
        let cancel = CancellationToken::new();
        running.cancels.insert(id, cancel.clone());
        running.hooks.insert(id);
        let blueprint = self.blueprint.clone();
        let hooks = self.hooks_in_force();
        let session = self.hooks.clone();
        let transcript = hooks.runs_files(at.point.event()).then(|| {
            let state = self.engine.state();
            self.transcript.missing(state, &self.blueprint)
        });
        let fired = self.engine.state().fired_hook_ids.clone();
        let services = self.services.clone();
        let sender = running.outcome_sender.clone();
        let permission_mode = self.permission_mode();
        let token = cancel.clone();
        let agent_type = self.blueprint.subagent.as_ref().map(hook_name);
        let task = running.tasks.spawn(async move {
            let payload = HookPayload {
                session_id: &blueprint.session_id,
                turn_id: at.turn_id.as_ref(),
                cwd: &blueprint.working_dir,
                model: &at.model,
                permission_mode,
                agent_type: agent_type.as_deref(),
            };
            let mut payload = payload.of(&at.point);
            if let Some(missing) = transcript
                && let Ok(Ok(path)) = tokio::task::spawn_blocking(|| missing.write()).await
                && let Some(fields) = payload.as_object_mut()
            {
                let path = escape_path(&path).into();
                fields.insert("transcript_path".to_owned(), path);
            }
            let observer = Progress(sender.clone());
            let clock = || services.clock.now();
            let context = HookDispatch {
                session: &session,
                fired: &fired,
                ids: services.ids.as_ref(),
                clock: &clock,
                cancel: &cancel,
                observer: &observer,
                cwd: &blueprint.working_dir,
                project_dir: project_top(&blueprint.working_dir),
                outside: &services.hook_outside,
            };
            let decided = |verdict| {
                let _ = sender.send(Input::HooksFinished { id, verdict });
            };
            hooks
                .dispatch_and_stay(at.point.event(), payload, None, context, decided)
                .await;
        });
        running.hook_tasks.insert(task.id(), token);
    }

    /// The hooks of the harness, and those of the skills in use and of the
    /// agent that works here.
    pub(super) fn hooks_in_force(&mut self) -> Arc<Hooks> {
        let skills = skills_in_use(self.engine.state());
        self.scopes.hooks(&self.resources.hooks, skills)
    }

    fn permission_mode(&self) -> PermissionMode {
        let mode = self.services.policy.permissions.mode;
        let asked = self.blueprint.bounds.permission_mode;
        asked.map_or(mode, |asked| asked.min(mode))
    }

    /// Gives hooks that run beside the turn a moment to end before the session
    /// does, unless a turn has to be ended as well.
    pub(super) async fn end_runs_beside(&mut self, running: &mut Running) {
        if !self.engine.is_idle() {
            return running.cancel_hooks();
        }
        let deadline = tokio::time::sleep(BESIDE_GRACE);
        tokio::pin!(deadline);
        let mut is_late = false;
        while !running.hook_tasks.is_empty() {
            tokio::select! {
                biased;
                Some(input) = running.outcomes.recv() => {
                    self.feed(input, running).await;
                }
                Some(joined) = running.tasks.join_next_with_id() => running.joined(joined),
                () = &mut deadline, if !is_late => {
                    is_late = true;
                    running.cancel_hooks();
                }
            }
        }
    }
}

/// Tells the engine of hooks as they start and end.
struct Progress(mpsc::UnboundedSender<Input>);

impl HookObserver for Progress {
    fn started(&self, run: &HookRunSummary) {
        self.tell(run, false);
    }

    fn completed(&self, run: &HookRunSummary) {
        self.tell(run, true);
    }
}

impl Progress {
    fn tell(&self, run: &HookRunSummary, ended: bool) {
        let run = run.clone();
        let _ = self.0.send(Input::HookProgress { run, ended });
    }
}
