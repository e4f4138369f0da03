//! Running the hooks of an event.
//!
//! Hooks run by priority: those that a program registered before plugins, those
//! of files by layer, those registered after plugins. A program's hooks of one
//! priority run one after another in the order they were registered; handlers
//! of one layer of files run side by side. All of them run, so that one block
//! does not hide another, until one stops the turn or the token is cancelled.
//! Each handler runs in a task of its own: a panic is a failure of that hook,
//! and a timeout aborts it.
//!
//! Hooks of equal priority see the same payload, whatever the others answered.
//! Hooks of a later priority see what the earlier ones rewrote, so a guard that
//! must judge what will really run belongs behind the hooks that rewrite.

use crate::event::HookEventName;
use crate::file::{self, HookOutside, RunPlace};
use crate::input::HookInput;
use crate::limits::{SIDE_BY_SIDE, TIMEOUT_SLACK};
use crate::merge::{HandlerEnd, Merger, Report};
use crate::registry::{Hooks, RegisteredHook, RunOrder};
use crate::response::HookOutput;
use crate::session::SessionHooks;
use crate::verdict::HookVerdict;
use futures::StreamExt;
use futures::stream::{self, FuturesUnordered};
use halter_protocol::{
    HookHandlerType, HookRunEntry, HookRunId, HookRunStatus, HookRunSummary, IdSource, Timestamp,
};
use serde_json::Value;
use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
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
    /// The session's directory, in which handlers of files run.
    pub cwd: &'a Path,
    /// The top of the project it lies in: `CLAUDE_PROJECT_DIR` of commands.
    pub project_dir: &'a Path,
    /// What handlers of files reach the outside by.
    pub outside: &'a Arc<dyn HookOutside>,
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
        payload: Value,
        matcher_value: Option<&str>,
        context: HookDispatch<'_>,
    ) -> HookVerdict {
        let mut verdict = None;
        let decided = |it: HookVerdict| verdict = Some(it);
        self.dispatch_and_stay(event, payload, matcher_value, context, decided)
            .await;
        verdict.unwrap_or_default()
    }

    /// The same, with the verdict as soon as there is one. Handlers that run
    /// beside the turn may run on; the future ends with the last of them, and
    /// the token cancels them.
    pub async fn dispatch_and_stay(
        &self,
        event: HookEventName,
        mut payload: Value,
        matcher_value: Option<&str>,
        context: HookDispatch<'_>,
        decided: impl FnOnce(HookVerdict) + Send,
    ) {
        let mut merger = Merger::new(event);
        let matcher_value = matcher_value
            .or_else(|| payload.get(event.matcher_field()?)?.as_str())
            .map(str::to_owned);
        let matching: Vec<_> = self.matching(event, matcher_value.as_deref()).collect();
        let mut beside = FuturesUnordered::new();
        for group in matching.chunk_by(|one, next| one.order == next.order) {
            if merger.is_over() {
                break;
            }
            merger.show_rewrites(&mut payload);
            let round = Round {
                event,
                matcher_value: matcher_value.as_deref(),
                payload: &payload,
                context: &context,
            };
            match group.first().map(|hook| hook.order) {
                Some(RunOrder::File(_)) => {
                    let sides = round.side_by_side(group);
                    beside.extend(sides.beside.into_iter().map(|run| run.finish(context)));
                    let more = round.decide_side_by_side(sides.deciding, &mut merger);
                    beside.extend(more.await.into_iter().map(|run| run.finish(context)));
                }
                _ => round.one_after_another(group, &mut merger).await,
            }
        }
        decided(merger.finish());
        // What runs beside decides nothing; a merger of its own says how it
        // is reported.
        while let Some((hook, summary, end)) = beside.next().await {
            let report = Merger::beside(event).absorb(&hook, end);
            close(&hook, summary, report, &context);
        }
    }
}

/// The hooks of one priority of an event.
struct Round<'a> {
    event: HookEventName,
    matcher_value: Option<&'a str>,
    /// As rewritten by earlier priorities.
    payload: &'a Value,
    context: &'a HookDispatch<'a>,
}

#[derive(Default)]
struct SideBySide {
    beside: Vec<OpenRun>,
    deciding: Vec<Arc<RegisteredHook>>,
}

/// A run that has ended, with its times.
type Ended = (Arc<RegisteredHook>, HookRunSummary, HandlerEnd);

impl Round<'_> {
    async fn one_after_another(&self, group: &[&Arc<RegisteredHook>], merger: &mut Merger) {
        for hook in group {
            if merger.is_over() {
                break;
            }
            if self.context.cancel.is_cancelled() {
                merger.cancel(&hook.id);
                break;
            }
            if self.takes(hook) {
                let (hook, summary, end) = self.start_and_finish(hook).await;
                let report = merger.absorb(&hook, end);
                close(&hook, summary, report, self.context);
            }
        }
    }

    /// The handlers of one layer of files: those that run beside the turn, which
    /// have started, and those that decide.
    fn side_by_side(&self, group: &[&Arc<RegisteredHook>]) -> SideBySide {
        let mut sides = SideBySide::default();
        let mut taken: Vec<&RegisteredHook> = Vec::new();
        for hook in group {
            let same = |other: &&RegisteredHook| match (other.hook.file(), hook.hook.file()) {
                (Some(one), Some(other)) => one.does_the_same(other),
                _ => false,
            };
            if taken.iter().any(same) || !self.takes(hook) {
                continue;
            }
            taken.push(hook);
            match hook.hook.file().is_some_and(|file| file.runs_beside) {
                true => sides.beside.push(self.start(hook)),
                false => sides.deciding.push(Arc::clone(hook)),
            }
        }
        sides
    }

    /// Returns those that went on beside the turn.
    async fn decide_side_by_side(
        &self,
        hooks: Vec<Arc<RegisteredHook>>,
        merger: &mut Merger,
    ) -> Vec<OpenRun> {
        if let Some(hook) = hooks.first()
            && self.context.cancel.is_cancelled()
        {
            merger.cancel(&hook.id);
            for hook in hooks.iter().filter(|it| it.hook.once) {
                self.context.session.forget_once(&hook.id);
            }
            return Vec::new();
        }
        // In the order of the file, so that the verdict does not depend on
        // which of them is quickest.
        let ends: Vec<Result<Ended, OpenRun>> = stream::iter(hooks)
            .map(|hook| async move { self.start(&hook).decide(*self.context).await })
            .buffered(SIDE_BY_SIDE)
            .collect()
            .await;
        let mut beside = Vec::new();
        for end in ends {
            match end {
                Ok((hook, summary, end)) => {
                    let report = merger.absorb(&hook, end);
                    close(&hook, summary, report, self.context);
                }
                Err(run) => beside.push(run),
            }
        }
        beside
    }

    async fn start_and_finish(&self, hook: &Arc<RegisteredHook>) -> Ended {
        self.start(hook).finish(*self.context).await
    }

    /// Whether the hook is for the call, and has a run left.
    fn takes(&self, hook: &RegisteredHook) -> bool {
        let context = self.context;
        let claim = || !context.fired.contains(&hook.id) && context.session.begin_once(&hook.id);
        hook.is_for(self.payload, context.cwd) && (!hook.hook.once || claim())
    }

    fn start(&self, hook: &Arc<RegisteredHook>) -> OpenRun {
        let context = self.context;
        let started_at = (context.clock)();
        let summary = HookRunSummary {
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
        let payload = payload_for(hook, self.payload);
        let mut detached = None;
        let task = match hook.hook.file() {
            Some(file) => {
                let place = RunPlace {
                    cwd: context.cwd.to_owned(),
                    project_dir: context.project_dir.to_owned(),
                    outside: context.outside.clone(),
                };
                let timeout = hook.hook.timeout;
                let (detach, goes_beside) = oneshot::channel();
                detached = Some(goes_beside);
                let run = file::run(file.clone(), self.event, payload, place, timeout, detach);
                Ok(spawn(async move {
                    run.await.map(|answer| (answer.output, answer.notes))
                }))
            }
            None => {
                let value = self.matcher_value.map(str::to_owned);
                self.closure(hook, HookInput::new(self.event, value, payload))
            }
        };
        OpenRun {
            hook: hook.clone(),
            summary,
            task,
            detached,
        }
    }

    fn closure(&self, hook: &RegisteredHook, input: HookInput) -> Result<HandlerTask, String> {
        let made = catch_unwind(AssertUnwindSafe(|| self.context.session.handler(hook)));
        match made {
            // The closure is called inside the task too, so that a panic before
            // its first await is caught like any other.
            Ok(Some(handler)) => Ok(spawn(async move {
                let answer = handler(input).await;
                let answer = answer.map_err(|error| format!("failed: {error:#}"))?;
                Ok((answer.into_output(), Vec::new()))
            })),
            Ok(None) => Err("has no handler".to_owned()),
            Err(panic) => {
                let words = panic_words(panic.as_ref());
                Err(format!("panicked while its handler was made: {words}"))
            }
        }
    }
}

type HandlerTask = AbortOnDropHandle<Result<(HookOutput, Vec<HookRunEntry>), String>>;

fn spawn(
    run: impl Future<Output = Result<(HookOutput, Vec<HookRunEntry>), String>> + Send + 'static,
) -> HandlerTask {
    AbortOnDropHandle::new(tokio::spawn(run))
}

/// A run that was reported as started.
struct OpenRun {
    hook: Arc<RegisteredHook>,
    summary: HookRunSummary,
    /// An error if there is nothing to wait for.
    task: Result<HandlerTask, String>,
    /// Told when its command says that it goes on beside the turn.
    detached: Option<oneshot::Receiver<()>>,
}

impl OpenRun {
    /// Its end, or itself if it goes on beside the turn.
    async fn decide(mut self, context: HookDispatch<'_>) -> Result<Ended, Self> {
        let Some(detached) = self.detached.take() else {
            return Ok(self.finish(context).await);
        };
        let end = tokio::select! {
            biased;
            Ok(()) = detached => None,
            end = self.end(context) => Some(end),
        };
        match end {
            Some(end) => Ok(self.ended(end, context)),
            None => Err(self),
        }
    }

    async fn finish(mut self, context: HookDispatch<'_>) -> Ended {
        let end = self.end(context).await;
        self.ended(end, context)
    }

    async fn end(&mut self, context: HookDispatch<'_>) -> HandlerEnd {
        let timeout = self.hook.hook.timeout;
        match &mut self.task {
            Err(why) => HandlerEnd::Failed(std::mem::take(why)),
            Ok(task) => {
                // A command keeps its own time, so that its processes get a
                // moment to end.
                let patience = match self.hook.hook.handler_type() {
                    HookHandlerType::Command => timeout + TIMEOUT_SLACK,
                    _ => timeout,
                };
                end_of(task, timeout, patience, context.cancel).await
            }
        }
    }

    fn ended(mut self, end: HandlerEnd, context: HookDispatch<'_>) -> Ended {
        let completed_at = (context.clock)();
        let elapsed = completed_at.duration_since(self.summary.started_at);
        self.summary.completed_at = Some(completed_at);
        self.summary.duration_ms = Some(u64::try_from(elapsed.as_millis()).unwrap_or(0));
        (self.hook, self.summary, end)
    }
}

async fn end_of(
    task: &mut HandlerTask,
    timeout: Duration,
    patience: Duration,
    cancel: &CancellationToken,
) -> HandlerEnd {
    let joined = tokio::select! {
        biased;
        () = cancel.cancelled() => return HandlerEnd::Cancelled,
        joined = tokio::time::timeout(patience, task) => joined,
    };
    match joined {
        Ok(Ok(Ok((output, notes)))) => HandlerEnd::Answered(Box::new(output), notes),
        Ok(Ok(Err(why))) => HandlerEnd::Failed(why),
        Ok(Err(error)) => match error.try_into_panic() {
            Ok(panic) => HandlerEnd::Failed(format!("panicked: {}", panic_words(panic.as_ref()))),
            Err(_) => HandlerEnd::Failed("was ended by the runtime's shutdown".to_owned()),
        },
        Err(_) => HandlerEnd::Failed(file::no_answer(timeout)),
    }
}

/// Reports a run as ended.
fn close(
    hook: &RegisteredHook,
    mut summary: HookRunSummary,
    report: Report,
    context: &HookDispatch<'_>,
) {
    let unanswered = [HookRunStatus::Failed, HookRunStatus::Cancelled].contains(&report.status);
    if hook.hook.once && unanswered {
        context.session.forget_once(&hook.id);
    }
    summary.status = report.status;
    summary.entries = report.entries;
    context.observer.completed(&summary);
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

fn panic_words(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message")
}
