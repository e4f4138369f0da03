//! Running the hooks of an event.
//!
//! Hooks run one after another, by priority and then in the order they were
//! registered. All of them run, so that one block does not hide another, until
//! one stops the turn or the token is cancelled. Each handler runs in a task of
//! its own: a panic is a failure of that hook, and a timeout aborts it.
//!
//! Hooks of equal priority see the same payload, whatever the others answered.
//! Hooks of a later priority see what the earlier ones rewrote, so a guard that
//! must judge what will really run belongs behind the hooks that rewrite.

use crate::event::HookEventName;
use crate::hook::Handler;
use crate::input::HookInput;
use crate::merge::{HandlerEnd, Merger};
use crate::registry::{Hooks, RegisteredHook};
use crate::session::SessionHooks;
use crate::verdict::HookVerdict;
use halter_protocol::{HookRunId, HookRunStatus, HookRunSummary, IdSource, Timestamp};
use serde_json::Value;
use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// Told when a hook starts and when it has ended. Must not block.
pub trait HookObserver: Send + Sync {
    /// A hook starts.
    fn started(&self, run: &HookRunSummary);
    /// The same run has ended: completed, failed, blocked, stopped or
    /// cancelled.
    fn completed(&self, run: &HookRunSummary);
}

/// An observer that looks away.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoopHookObserver;

impl HookObserver for NoopHookObserver {
    fn started(&self, _run: &HookRunSummary) {}
    fn completed(&self, _run: &HookRunSummary) {}
}

/// What a dispatch needs from the session it happens in.
#[derive(Clone, Copy)]
pub struct HookDispatch<'a> {
    /// What the live session keeps for its hooks.
    pub session: &'a SessionHooks,
    /// The hooks that have run before, from the session's state.
    pub fired: &'a BTreeSet<String>,
    /// Where run ids come from.
    pub ids: &'a dyn IdSource,
    /// What time it is.
    pub clock: &'a (dyn Fn() -> Timestamp + Send + Sync),
    /// Ends the dispatch. Cancel by this token rather than by dropping the
    /// future, so that every run that was reported as started is reported as
    /// ended.
    pub cancel: &'a CancellationToken,
    /// Who is told about runs.
    pub observer: &'a dyn HookObserver,
}

impl fmt::Debug for HookDispatch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HookDispatch")
            .field("fired", self.fired)
            .finish_non_exhaustive()
    }
}

impl Hooks {
    /// Runs the hooks of an event and merges their answers.
    ///
    /// `matcher_value` is what matchers look at; without one, the event's own
    /// [field](HookEventName::matcher_field) of the payload is used. A hook
    /// that errs, panics or times out denies on a
    /// [blocking](HookEventName::is_blocking) event, and is reported as failed
    /// and otherwise ignored on the others.
    ///
    /// Must be called within a Tokio runtime that has timers.
    pub async fn dispatch(
        &self,
        event: HookEventName,
        mut payload: Value,
        matcher_value: Option<&str>,
        context: HookDispatch<'_>,
    ) -> HookVerdict {
        let mut merger = Merger::new(event);
        let matcher_value = matcher_value
            .or_else(|| payload.get(event.matcher_field()?)?.as_str())
            .map(str::to_owned);
        let mut priority = None;
        for hook in self.matching(event, matcher_value.as_deref()) {
            if merger.is_over() {
                break;
            }
            if context.cancel.is_cancelled() {
                merger.cancel(&hook.id);
                break;
            }
            if priority.replace(hook.priority) != Some(hook.priority) {
                merger.show_rewrites(&mut payload);
            }
            if !hook.is_for(&payload) || (hook.hook.once && !claim(hook, &context)) {
                continue;
            }
            let input = HookInput::new(event, matcher_value.clone(), payload_for(hook, &payload));
            run(hook, input, &mut merger, &context).await;
        }
        merger.finish()
    }
}

fn claim(hook: &RegisteredHook, context: &HookDispatch<'_>) -> bool {
    !context.fired.contains(&hook.id) && context.session.begin_once(&hook.id)
}

fn payload_for(hook: &RegisteredHook, payload: &Value) -> Value {
    let mut payload = payload.clone();
    if let Some(fields) = payload.as_object_mut() {
        fields.insert(
            "plugin_id".to_owned(),
            Value::String(hook.plugin_id.to_string()),
        );
    }
    payload
}

async fn run(
    hook: &RegisteredHook,
    input: HookInput,
    merger: &mut Merger,
    context: &HookDispatch<'_>,
) {
    let started_at = (context.clock)();
    let mut summary = HookRunSummary {
        run_id: HookRunId::mint(context.ids, started_at),
        hook_id: hook.id.clone(),
        event_name: hook.hook.event.to_string(),
        handler_type: hook.hook.handler_type(),
        plugin_id: hook.plugin_id.clone(),
        status: HookRunStatus::Running,
        status_message: hook.hook.status_message.clone(),
        started_at,
        completed_at: None,
        duration_ms: None,
        entries: Vec::new(),
    };
    context.observer.started(&summary);
    let outcome = answer(hook, input, context).await;
    let report = merger.absorb(hook, outcome);
    let unanswered = [HookRunStatus::Failed, HookRunStatus::Cancelled].contains(&report.status);
    if hook.hook.once && unanswered {
        context.session.forget_once(&hook.id);
    }
    let completed_at = (context.clock)();
    let elapsed = completed_at.duration_since(started_at).as_millis();
    summary.status = report.status;
    summary.entries = report.entries;
    summary.completed_at = Some(completed_at);
    summary.duration_ms = Some(u64::try_from(elapsed).unwrap_or(0));
    context.observer.completed(&summary);
}

async fn answer(hook: &RegisteredHook, input: HookInput, context: &HookDispatch<'_>) -> HandlerEnd {
    let handler = match catch_unwind(AssertUnwindSafe(|| context.session.handler(hook))) {
        Ok(handler) => handler,
        Err(panic) => {
            let words = panic_words(panic.as_ref());
            return HandlerEnd::Failed(format!("panicked while its handler was made: {words}"));
        }
    };
    let timeout = hook.hook.timeout;
    let task = spawn(handler, input);
    let joined = tokio::select! {
        biased;
        () = context.cancel.cancelled() => return HandlerEnd::Cancelled,
        joined = tokio::time::timeout(timeout, task) => joined,
    };
    match joined {
        Ok(Ok(Ok(response))) => HandlerEnd::Answered(Box::new(response.into_output())),
        Ok(Ok(Err(error))) => HandlerEnd::Failed(format!("failed: {error:#}")),
        Ok(Err(error)) => match error.try_into_panic() {
            Ok(panic) => HandlerEnd::Failed(format!("panicked: {}", panic_words(panic.as_ref()))),
            Err(_) => HandlerEnd::Failed("was ended by the runtime's shutdown".to_owned()),
        },
        Err(_) => HandlerEnd::Failed(format!("gave no answer within {timeout:?}")),
    }
}

/// The handler's closure is called inside the task too, so that a panic before
/// its first await is caught like any other.
fn spawn(
    handler: Handler,
    input: HookInput,
) -> AbortOnDropHandle<anyhow::Result<crate::response::HookResponse>> {
    AbortOnDropHandle::new(tokio::spawn(async move { handler(input).await }))
}

fn panic_words(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message")
}
