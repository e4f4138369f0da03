//! Running hooks, and waiting for those that run beside a turn.

use super::{Owner, Running};
use crate::engine::{EffectId, Input};
use crate::limits::BESIDE_GRACE;
use halter_hooks::{HookDispatch, HookEventName, HookObserver, HookPayload, HookPoint, Hooks};
use halter_protocol::{HookRunSummary, ModelId, PermissionMode, TurnId};
use std::collections::BTreeSet;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Where in a session's life hooks run.
pub(super) struct HookedAt {
    pub(super) point: HookPoint,
    pub(super) turn_id: Option<TurnId>,
    pub(super) model: ModelId,
}

/// The events that any of the hooks listens to.
pub(super) fn hooked_events(hooks: &Hooks) -> BTreeSet<HookEventName> {
    let events = HookEventName::ALL.into_iter();
    events.filter(|event| hooks.listens_to(*event)).collect()
}

impl Owner {
    pub(super) fn run_hooks(&mut self, id: EffectId, at: HookedAt, running: &mut Running) {
        let cancel = CancellationToken::new();
        running.cancels.insert(id, cancel.clone());
        running.hooks.insert(id);
        let blueprint = self.blueprint.clone();
        let hooks = self.resources.hooks.clone();
        let session = self.hooks.clone();
        let fired = self.engine.state().fired_hook_ids.clone();
        let services = self.services.clone();
        let sender = running.outcome_sender.clone();
        let permission_mode = self.permission_mode();
        let token = cancel.clone();
        let task = running.tasks.spawn(async move {
            let payload = HookPayload {
                session_id: &blueprint.session_id,
                turn_id: at.turn_id.as_ref(),
                cwd: &blueprint.working_dir,
                model: &at.model,
                permission_mode,
            };
            let payload = payload.of(&at.point);
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
