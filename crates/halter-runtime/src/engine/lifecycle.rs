//! What happens outside of turns: a session starts, is notified, shuts down.

use super::recording::Then;
use super::{Effect, EffectId, Engine, SystemNote};
use halter_hooks::{HookEventName, HookPoint, HookVerdict};
use halter_protocol::{
    ForkedContext, NotificationItem, ReplayMeta, SessionEventPayload, Turn, TurnError,
};
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Shutdown {
    reason: String,
    hooks: Option<EffectId>,
    finishing: bool,
}

impl Engine {
    pub(super) fn start(&mut self, warnings: Vec<String>, forked: Option<Arc<ForkedContext>>) {
        let blueprint = &self.facts.blueprint;
        self.record(SessionEventPayload::SessionStarted {
            parent_session_id: blueprint.parent_session_id.clone(),
            working_dir: blueprint.working_dir.clone(),
            model: blueprint.default_model.clone(),
        });
        if let Some(forked) = forked {
            self.record(SessionEventPayload::ContextForked(forked));
        }
        for message in warnings {
            self.record(SessionEventPayload::Warning { message });
        }
    }

    pub(super) fn notify(&mut self, notification: NotificationItem) {
        self.record(SessionEventPayload::Notification {
            notification: notification.clone(),
        });
        if self.shutdown.is_none() && self.has_hooks(HookEventName::Notification) {
            let id = self.run_hooks(HookPoint::Notification(notification));
            self.notification_hooks.insert(id);
        }
    }

    pub(super) fn begin_shutdown(&mut self, reason: String) {
        if self.shutdown.is_some() {
            return;
        }
        self.repair_if_needed();
        for queued in &mut self.queue {
            queued.cancelled.get_or_insert_with(|| {
                "the session was shut down before the turn started".to_owned()
            });
        }
        self.cancel(None, &format!("the session is shutting down: {reason}"));
        self.abandon_compaction(&TurnError::new(
            "session_closing",
            "the session is being shut down",
        ));
        for id in &self.notification_hooks {
            self.effects.push(Effect::CancelHooks { id: *id });
        }
        self.shutdown = Some(Shutdown {
            reason,
            hooks: None,
            finishing: false,
        });
    }

    pub(super) fn end_unstarted_turn(&mut self, turn: Turn, message: &str) {
        let turn_id = turn.id;
        self.record(SessionEventPayload::TurnStarted {
            turn_id: turn_id.clone(),
            response_schema: turn.response_schema,
        });
        self.record(SessionEventPayload::TurnFailed {
            turn_id: turn_id.clone(),
            error: TurnError::new("cancelled", message),
            cancelled: true,
            retryable: true,
            usage: Default::default(),
            answered_by: ReplayMeta::default(),
        });
        self.after_commit(Then::TurnOver(turn_id));
    }

    pub(super) fn advance_shutdown(&mut self) {
        let Some(shutdown) = &mut self.shutdown else {
            return;
        };
        if shutdown.finishing || shutdown.hooks.is_some() || !self.notification_hooks.is_empty() {
            return;
        }
        // They are being closed, and what they report belongs to the log.
        if self.has_running_subagents() {
            return;
        }
        let Some(shutdown) = &self.shutdown else {
            return;
        };
        let reason = shutdown.reason.clone();
        if self.has_hooks(HookEventName::SessionEnd) {
            let id = self.run_hooks(HookPoint::SessionEnd { reason });
            if let Some(shutdown) = &mut self.shutdown {
                shutdown.hooks = Some(id);
            }
        } else {
            self.finish_shutdown();
        }
    }

    pub(super) fn finish_shutdown(&mut self) {
        let Some(shutdown) = &mut self.shutdown else {
            return;
        };
        shutdown.finishing = true;
        let reason = shutdown.reason.clone();
        self.record(SessionEventPayload::SessionShutdownComplete { reason });
        self.after_commit(Then::Closed);
    }

    pub(super) fn hooks_finished(&mut self, id: EffectId, verdict: HookVerdict) {
        if self.notification_hooks.remove(&id) {
            self.words.extend(verdict.words().map(SystemNote::from));
        } else if self.shutdown.as_ref().and_then(|s| s.hooks) == Some(id) {
            self.finish_shutdown();
        } else if !self.compaction_hooks_finished(id, &verdict) {
            self.turn_hooks_finished(id, verdict);
        }
    }
}
